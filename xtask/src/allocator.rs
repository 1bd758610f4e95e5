//! The allocator of `manx-serve`: in CI it is compiled once.
//!
//! It is written in C, and its crate compiles it anew for each profile: some 200 s of CPU time. In
//! a run of all steps in CI the release build keeps what it has compiled, and all other builds link
//! that.
//!
//! 1. The path is the same during the whole run, because cargo compiles again what depends on a
//!    variable that has changed.
//! 2. Until the release build has ended, the file is there but empty. What runs beside that build
//!    only checks and links nothing; what links comes after it.
//! 3. The build of what is installed never sees the variable: it is the build that compiles.
//! 4. No other run shares the archive, neither one outside CI nor one of single steps: the archive
//!    may be older than the crate, or empty.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::outcome::Result;

/// The variable by which the crate is told to link this archive and to compile nothing.
pub const VARIABLE: &str = "JEMALLOC_OVERRIDE";
const ARCHIVE: &str = "libjemalloc_pic.a";

static SHARED: OnceLock<PathBuf> = OnceLock::new();

/// The archive that builds link, if one is shared.
pub fn shared() -> Option<&'static Path> {
    SHARED.get().map(PathBuf::as_path)
}

/// Makes the file that will be the archive of this target folder.
///
/// # Errors
/// If it cannot be made.
pub fn begin(target: &Path) -> Result {
    let archive = kept(target);
    fs::create_dir_all(target)
        .and_then(|()| fs::write(&archive, ""))
        .map_err(|error| format!("{}: {error}", archive.display()))
}

/// Shares the archive of this target folder from now on, if it has one.
pub fn share(target: &Path) {
    let archive = kept(target);
    if archive.is_file() {
        SHARED.get_or_init(|| archive);
    }
}

/// Keeps what the release build has compiled.
///
/// # Errors
/// If there is nothing, or it cannot be copied.
pub fn keep(target: &Path) -> Result {
    let (from, to) = (compiled(target)?, kept(target));
    fs::copy(&from, &to).map_err(|error| format!("{} to {}: {error}", from.display(), to.display()))?;
    Ok(())
}

fn kept(target: &Path) -> PathBuf {
    target.join(ARCHIVE)
}

/// The newest archive of the release build. There are several where the crate's version has
/// changed.
fn compiled(target: &Path) -> Result<PathBuf> {
    let folder = target.join("release/build");
    let entries = fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let archives = entries.flatten().map(|entry| entry.path().join("out/lib").join(ARCHIVE));
    let dated = archives.filter_map(|archive| Some((fs::metadata(&archive).ok()?.modified().ok()?, archive)));
    dated.max().map(|(_, archive)| archive).ok_or_else(|| {
        format!(
            "the release build left no {ARCHIVE} in {}: does its crate have another name?",
            folder.display()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_release_build_has_compiled_is_kept_and_the_newest_counts() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path();
        assert!(keep(target).unwrap_err().contains("release/build"));
        let archive = |name: &str| target.join("release/build").join(name).join("out/lib").join(ARCHIVE);
        for name in ["old", "new"] {
            fs::create_dir_all(archive(name).parent().unwrap()).unwrap();
        }
        fs::create_dir_all(target.join("release/build/other")).unwrap();
        assert!(keep(target).unwrap_err().contains(ARCHIVE));
        fs::write(archive("new"), "new").unwrap();
        fs::write(archive("old"), "old").unwrap();
        let old = std::time::SystemTime::UNIX_EPOCH;
        fs::File::options().write(true).open(archive("old")).unwrap().set_modified(old).unwrap();
        keep(target).unwrap();
        assert_eq!(fs::read_to_string(kept(target)).unwrap(), "new");
    }
}
