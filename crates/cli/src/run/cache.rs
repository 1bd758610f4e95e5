//! Removes from the user's cache folder what no program has used for a month.
//!
//! The preload library keeps there what it found in a library or a program, under the build's own
//! name. A build that is gone leaves its entry behind, and a developer who builds a program all day
//! leaves many. `manx run` looks through the folder once a day; the programs that it starts never
//! do.
//!
//! A file's time of access says when it was last read; the kernel brings it up to date once a day
//! (`relatime`). Where it does not (`noatime`), an entry is removed a month after it was made,
//! and the next start makes it again.
//!
//! The folder is looked through only if it and the folder around it are the user's own: what runs
//! as root leaves the folder of another user alone.

use preload_abi::{CACHE_FOLDER, CACHE_PREFIXES};
use std::fs::{FileTimes, Metadata, OpenOptions};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const UNUSED: Duration = DAY.saturating_mul(30);
/// Its modification time says when the folder was last looked through.
const STAMP: &str = "looked-through";

/// Looks through the folder if that is due. Nothing here is worth an error: what cannot be removed
/// stays.
pub fn remove_unused() {
    if let Some(folder) = folder().filter(|folder| folder.ancestors().take(2).all(is_own)) {
        remove_unused_at(&folder, SystemTime::now());
    }
}

/// Whether a folder, which is no link to one, is this user's.
pub(super) fn is_own(folder: &Path) -> bool {
    // SAFETY: asks the kernel, and cannot fail.
    let user = unsafe { libc::geteuid() };
    folder.symlink_metadata().is_ok_and(|status| status.is_dir() && status.uid() == user)
}

/// Where the preload library keeps what it finds.
fn folder() -> Option<PathBuf> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")))?;
    Some(base.join(CACHE_FOLDER))
}

/// Removes files of `folder` that no program has used for a while, once a day.
fn remove_unused_at(folder: &Path, now: SystemTime) {
    let stamp = folder.join(STAMP);
    let age = |time: SystemTime| now.duration_since(time).unwrap_or_default();
    if stamp.symlink_metadata().and_then(|status| status.modified()).is_ok_and(|time| age(time) < DAY) {
        return;
    }
    // The stamp first: if it cannot be written, nothing is removed.
    let times = FileTimes::new().set_modified(now);
    let opened = OpenOptions::new().write(true).create(true).custom_flags(libc::O_NOFOLLOW).open(&stamp);
    if opened.and_then(|file| file.set_times(times)).is_err() {
        return;
    }
    let is_unused = |status: &Metadata| {
        let used = status.accessed().ok().max(status.modified().ok());
        status.is_file() && used.is_some_and(|time| age(time) > UNUSED)
    };
    for entry in folder.read_dir().into_iter().flatten().flatten() {
        let name = entry.file_name();
        let is_entry = CACHE_PREFIXES.iter().any(|prefix| name.as_bytes().starts_with(prefix.as_bytes()));
        if is_entry && entry.metadata().is_ok_and(|status| is_unused(&status)) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    /// Makes a folder with these files. The number is how many days ago a file was last used.
    fn folder(files: &[(&str, u32)], now: SystemTime) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, days) in files {
            let time = now - DAY * *days;
            let times = FileTimes::new().set_accessed(time).set_modified(time);
            File::create(folder.path().join(name)).and_then(|file| file.set_times(times)).expect("a file");
        }
        folder
    }

    fn names(folder: &tempfile::TempDir) -> Vec<String> {
        let names =
            folder.path().read_dir().expect("a folder").map(|entry| entry.expect("an entry").file_name());
        let mut names: Vec<String> = names.map(|name| name.to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn what_was_not_used_for_a_month_is_removed() {
        let now = SystemTime::now();
        let files = [("id-old-rows", 31), ("file-old", 31), ("id-new-rows", 29), ("another", 400)];
        let folder = folder(&files, now);
        std::fs::create_dir(folder.path().join("id-folder")).expect("a folder");
        remove_unused_at(folder.path(), now);
        assert_eq!(names(&folder), ["another", "id-folder", "id-new-rows", STAMP]);
    }

    #[test]
    fn an_old_file_that_was_read_since_stays() {
        let now = SystemTime::now();
        let folder = folder(&[("id-old-rows", 90)], now);
        let times = FileTimes::new().set_accessed(now - DAY).set_modified(now - DAY * 90);
        File::open(folder.path().join("id-old-rows")).and_then(|file| file.set_times(times)).expect("times");
        remove_unused_at(folder.path(), now);
        assert_eq!(names(&folder), ["id-old-rows", STAMP]);
    }

    #[test]
    fn it_is_looked_through_once_a_day() {
        let now = SystemTime::now();
        let folder = folder(&[(STAMP, 0), ("id-old-rows", 31)], now);
        remove_unused_at(folder.path(), now + DAY / 2);
        assert_eq!(names(&folder), ["id-old-rows", STAMP]);
        remove_unused_at(folder.path(), now + DAY);
        assert_eq!(names(&folder), [STAMP]);
    }

    #[test]
    fn a_stamp_that_is_a_link_is_not_followed() {
        let now = SystemTime::now();
        let folder = folder(&[("id-old-rows", 31), ("target", 5)], now);
        let target = folder.path().join("target");
        std::os::unix::fs::symlink(&target, folder.path().join(STAMP)).expect("a link");
        std::fs::write(&target, "kept").expect("written");
        let link = folder.path().join(STAMP);
        let was_new = link.symlink_metadata().and_then(|status| status.modified()).expect("a time");
        remove_unused_at(folder.path(), was_new + DAY * 2);
        assert_eq!(names(&folder), ["id-old-rows", STAMP, "target"]);
        assert_eq!(std::fs::read_to_string(&target).expect("text"), "kept");
    }

    #[test]
    fn without_a_folder_nothing_is_made() {
        let folder = tempfile::tempdir().expect("a folder");
        remove_unused_at(&folder.path().join("manx"), SystemTime::now());
        assert!(names(&folder).is_empty());
    }
}
