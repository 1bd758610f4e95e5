//! Removes live files that killed processes left behind.
//!
//! With `--stats=live` the library removes a process's live file when it exits. A process that is
//! killed leaves its file of 3 MB, and a service that is restarted often would fill the disk. So
//! the next `manx run` with live counts removes what no process has: for `KEPT`, the file stays
//! for `manx stats`.
//!
//! The folder must be the user's own, and only names of the form `PID.live` are looked at. A
//! process of another container that shares the folder loses no more than the name of its file.

use super::cache::is_own;
use crate::stats::source;
use host::live_file::LIVE;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// For how long the file of a killed process stays.
const KEPT: Duration = Duration::from_secs(60 * 60);

/// Removes them. What cannot be removed stays.
pub fn remove() {
    let folder = source::folder();
    if is_own(&folder) {
        remove_at(&folder, SystemTime::now());
    }
}

fn remove_at(folder: &Path, now: SystemTime) {
    for entry in folder.read_dir().into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_suffix(LIVE)?.parse::<u32>().ok());
        let Some(pid) = pid.filter(|pid| !Path::new(&format!("/proc/{pid}")).exists()) else { continue };
        let modified = entry.metadata().ok().filter(|it| it.is_file()).and_then(|it| it.modified().ok());
        let is_old = modified.is_some_and(|time| now.duration_since(time).is_ok_and(|age| age > KEPT));
        // It may have become a process again meanwhile: then the library makes the file anew.
        if is_old && pid != std::process::id() {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File, FileTimes};

    #[test]
    fn only_old_files_of_processes_that_are_gone_are_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let now = SystemTime::now();
        let put = |name: &str, age: Duration| {
            let file = File::create(folder.path().join(name)).expect("a file");
            file.set_times(FileTimes::new().set_modified(now - age)).expect("times");
        };
        // The kernel gives no such numbers.
        let own = format!("{}.live", std::process::id());
        put("4194305.live", KEPT * 2);
        put("4194306.live", KEPT / 2);
        put(&own, KEPT * 2);
        put("notes.live", KEPT * 2);
        put("4194305", KEPT * 2);
        remove_at(folder.path(), now);
        let mut left: Vec<String> = fs::read_dir(folder.path())
            .expect("a folder")
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        left.sort();
        let mut expected = ["4194305", "4194306.live", &own, "notes.live"].map(String::from);
        expected.sort();
        assert_eq!(left, expected);
    }
}
