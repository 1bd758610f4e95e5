//! A group of processes whose CPU time has a quota: cgroup v1, controller `cpu`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process;

use crate::outcome::Result;

/// A group of our own; it is removed when this is dropped, which must be after its processes have
/// ended.
pub struct Group {
    folder: PathBuf,
}

impl Group {
    /// Makes it, if there is such a hierarchy and we may.
    pub fn new() -> Result<Group> {
        let mounts = fs::read_to_string("/proc/mounts").map_err(|why| format!("/proc/mounts: {why}"))?;
        let root = hierarchy(&mounts).ok_or("there is no cgroup v1 hierarchy with the controller cpu")?;
        let folder = Path::new(root).join(format!("manx-soak-{}", process::id()));
        fs::create_dir(&folder).map_err(|why| format!("{}: {why}", folder.display()))?;
        Ok(Group { folder })
    }

    /// So many percent of a CPU in each period.
    pub fn limit(&self, period_us: u64, percent: u64) -> Result {
        let write = |name: &str, value: i64| {
            fs::write(self.folder.join(name), value.to_string()).map_err(|why| format!("{name}: {why}"))
        };
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

/// Where the controller is mounted.
fn hierarchy(mounts: &str) -> Option<&str> {
    let mut lines = mounts.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let line = lines.find(|words| {
        words.len() > 3 && words[2] == "cgroup" && words[3].split(',').any(|option| option == "cpu")
    })?;
    Some(line[1])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hierarchy_is_found_by_its_option() {
        let mounts = "tmpfs /a tmpfs rw 0 0\ncgroup /c/cpuset cgroup rw,cpuset 0 0\ncgroup /c/x cgroup rw,cpu,cpuacct 0 0\n";
        assert_eq!(hierarchy(mounts), Some("/c/x"));
        assert_eq!(hierarchy("cgroup2 /c cgroup2 rw 0 0\n"), None);
    }

    #[test]
    fn a_quota_is_what_was_asked_for() {
        match Group::new() {
            Ok(group) => {
                group.limit(20_000, 150).unwrap();
                let read = |name| fs::read_to_string(group.folder.join(name)).unwrap();
                assert_eq!(
                    (read("cpu.cfs_period_us").trim(), read("cpu.cfs_quota_us").trim()),
                    ("20000", "30000")
                );
                let folder = group.folder.clone();
                drop(group);
                assert!(!folder.exists());
            }
            Err(why) => println!("skipped: {why}"),
        }
    }
}
