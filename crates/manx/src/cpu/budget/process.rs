//! The groups of another process, with what each level of them allows and how often it stopped the
//! process: for a command that explains why a program is slow.
//!
//! `/proc/PID/cgroup` names the groups, written from the reader's own namespace, as the reader's
//! mounts are. So the folders are found as for the own process.

use super::files::Files;
use super::groups::{Group, Place};
use super::layout::Layout;
use super::quota::{self, Quota, Throttled};
use super::{CpuBudget, sources};
use crate::cpu::CpuSet;
use std::path::Path;

/// One level of the groups of a process.
#[doc(hidden)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupLevel {
    /// The group.
    pub group: Group,
    /// Its quota, if it has one.
    pub quota: Option<Quota>,
    /// How often its quota was used up, if it says.
    pub throttled: Option<Throttled>,
}

/// The groups of a process that may have a quota, from its own upwards.
#[doc(hidden)]
#[derive(Debug)]
pub struct ProcessGroups {
    files: Files,
    layout: Layout,
}

impl ProcessGroups {
    /// Finds the groups of a process whose `/proc` and `/sys` are below `root`.
    pub fn find(root: &Path, process: u32) -> ProcessGroups {
        let files = Files::new(root);
        let memberships = files.read_piece(format!("/proc/{process}/cgroup").as_bytes());
        let layout = Layout::find(&files, &memberships, process);
        ProcessGroups { files, layout }
    }

    /// The budget of the process, if its affinity is this.
    pub fn budget(&self, affinity: Option<&CpuSet>) -> CpuBudget {
        CpuBudget::read(&self.files, &self.layout, affinity)
    }

    /// The levels that have a quota or tell of one, read now.
    pub fn levels(&self) -> Vec<GroupLevel> {
        let level = |place: &Place| {
            let quota = sources::quota(&self.files, place).ok().flatten();
            let throttled =
                self.files.read_piece(&place.file("cpu.stat")).ok().and_then(|text| quota::throttled(&text));
            let says = quota.is_some() || throttled.is_some_and(|it| it.throttled > 0);
            says.then(|| GroupLevel { group: place.group.clone(), quota, throttled })
        };
        self.layout.with_quotas().filter_map(level).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn each_level_of_another_process_is_read() {
        let root = tempfile::tempdir().expect("a folder");
        let put = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            std::fs::write(path, text).expect("written");
        };
        put("proc/77/cgroup", "0::/a/b\n");
        put("proc/self/mountinfo", "1 1 0:1 / /sys/fs/cgroup rw - cgroup2 cgroup rw\n");
        for group in ["a", "a/b"] {
            put(&format!("sys/fs/cgroup/{group}/cgroup.procs"), "");
        }
        put("sys/fs/cgroup/a/cpu.max", "50000 100000\n");
        put("sys/fs/cgroup/a/cpu.stat", "nr_periods 9\nnr_throttled 7\nthrottled_usec 5000\n");
        put("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
        let groups = ProcessGroups::find(root.path(), 77);
        let levels = groups.levels();
        assert_eq!(levels.len(), 1, "{levels:?}");
        assert_eq!((levels[0].group.path.as_str(), levels[0].group.levels_up), ("/a", 1));
        let throttled = Throttled { periods: 9, throttled: 7, throttled_time: Duration::from_millis(5) };
        assert_eq!(levels[0].throttled, Some(throttled));
        assert_eq!(groups.budget(Some(&"0-3".parse().expect("a list"))).cpus(), 0.5);
    }
}
