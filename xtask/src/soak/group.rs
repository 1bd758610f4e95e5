//! A group of processes whose CPU time has a quota, under cgroup v1 or v2.

use std::fs;
use std::path::{Path, PathBuf};
use std::process;

use crate::outcome::Result;

/// A group of our own; it is removed when this is dropped, which must be after its processes have
/// ended.
pub struct Group {
    folder: PathBuf,
    version: Version,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

impl Group {
    /// Makes the group. An error if no hierarchy is mounted or may be written.
    pub fn new() -> Result<Group> {
        let mounts = fs::read_to_string("/proc/mounts").map_err(|why| format!("/proc/mounts: {why}"))?;
        let (root, version) = hierarchy(&mounts).ok_or("no hierarchy of control groups is mounted")?;
        if version == Version::Two {
            let file = Path::new(root).join("cgroup.subtree_control");
            fs::write(&file, "+cpu").map_err(|why| format!("{}, +cpu: {why}", file.display()))?;
        }
        let folder = Path::new(root).join(format!("manx-soak-{}", process::id()));
        fs::create_dir(&folder).map_err(|why| format!("{}: {why}", folder.display()))?;
        Ok(Group { folder, version })
    }

    /// So many percent of a CPU in each period.
    pub fn limit(&self, period_us: u64, percent: u64) -> Result {
        let write = |name: &str, value: i64| {
            fs::write(self.folder.join(name), value.to_string()).map_err(|why| format!("{name}: {why}"))
        };
        if self.version == Version::Two {
            let text = format!("{} {period_us}", period_us * percent / 100);
            return fs::write(self.folder.join("cpu.max"), text).map_err(|why| format!("cpu.max: {why}"));
        }
        // Without a quota first, so that each step leaves a valid pair.
        write("cpu.cfs_quota_us", -1)?;
        write("cpu.cfs_period_us", period_us as i64)?;
        write("cpu.cfs_quota_us", (period_us * percent / 100) as i64)
    }

    /// What a process writes its number to.
    pub fn members(&self) -> PathBuf {
        self.folder.join("cgroup.procs")
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A process that could not be ended keeps it; the machine's owner sees its name.
        let _ = fs::remove_dir(&self.folder);
    }
}

/// Where the controller is mounted under v1; if it is not, where v2 is.
fn hierarchy(mounts: &str) -> Option<(&str, Version)> {
    let lines = || mounts.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let first = lines().find(|words| {
        words.len() > 3 && words[2] == "cgroup" && words[3].split(',').any(|option| option == "cpu")
    });
    let second = || lines().find(|words| words.len() > 3 && words[2] == "cgroup2");
    first.map(|words| (words[1], Version::One)).or_else(|| Some((second()?[1], Version::Two)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hierarchy_is_found_by_its_option() {
        let mounts = "tmpfs /a tmpfs rw 0 0\ncgroup /c/cpuset cgroup rw,cpuset 0 0\ncgroup /c/x cgroup rw,cpu,cpuacct 0 0\n";
        assert_eq!(hierarchy(mounts), Some(("/c/x", Version::One)));
        let both = format!("cgroup2 /c/unified cgroup2 rw 0 0\n{mounts}");
        assert_eq!(hierarchy(&both), Some(("/c/x", Version::One)));
        assert_eq!(hierarchy("cgroup2 /c cgroup2 rw 0 0\n"), Some(("/c", Version::Two)));
        assert_eq!(hierarchy("tmpfs /a tmpfs rw 0 0\n"), None);
    }

    #[test]
    fn a_quota_is_what_was_asked_for() {
        match Group::new() {
            Ok(group) => {
                group.limit(20_000, 150).unwrap();
                let read = |name| fs::read_to_string(group.folder.join(name)).unwrap();
                let quota = match group.version {
                    Version::One => [read("cpu.cfs_quota_us"), read("cpu.cfs_period_us")].join(""),
                    Version::Two => read("cpu.max"),
                };
                assert_eq!(quota.split_whitespace().collect::<Vec<_>>(), ["30000", "20000"]);
                let folder = group.folder.clone();
                drop(group);
                assert!(!folder.exists());
            }
            Err(why) => testing::skip(why),
        }
    }
}
