//! Control groups for measured processes: made, read and removed.
//!
//! | controller | quota | weight |
//! | --- | --- | --- |
//! | cgroup v1, `cpu` | `cpu.cfs_quota_us` of each `cpu.cfs_period_us` | `cpu.shares`, 1024 by default |
//! | cgroup v2, `cpu` | `cpu.max` | `cpu.weight`, 100 by default |
//!
//! Invariants:
//! 1. A group lies beside this process' own in the hierarchy (v1: below it; v2: below the mount's
//!    root, because a group with processes has no limited children there), and, where v1 counts CPU
//!    time in another hierarchy, there is one of its name there too, as containers have it.
//! 2. Its name begins with `manx-bench-group-` and the number of the process that made it. It is
//!    removed when it is dropped, which is after its processes have ended, also when they were
//!    interrupted; what a killed bench left behind is removed by the next.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const PREFIX: &str = "manx-bench-group-";
/// The kernel's default period.
const PERIOD_US: u64 = 100_000;
/// A group is busy until the last of its processes is quite gone.
const REMOVAL: Duration = Duration::from_secs(2);

/// What a group may use.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Limits {
    /// The time of this number of CPUs in each period
    pub quota_cpus: Option<f64>,
    /// Times the default weight
    pub weight: Option<f64>,
}

/// Where groups can be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hierarchy {
    /// The unified one
    unified: bool,
    /// The folders in which groups are made: that with the `cpu` controller first
    folders: Vec<PathBuf>,
}

/// A group, until it is dropped.
#[derive(Debug)]
pub struct Group {
    unified: bool,
    folders: Vec<PathBuf>,
}

impl Hierarchy {
    /// Returns the hierarchy of this process, if groups with a quota of `quota_cpus` CPUs can be
    /// made there.
    ///
    /// # Errors
    /// In words, why they cannot.
    pub fn find(quota_cpus: f64) -> Result<Hierarchy, String> {
        let read = |path: &str| fs::read_to_string(path).map_err(|error| format!("{path}: {error}"));
        let (mounts, own) = (read("/proc/mounts")?, read("/proc/self/cgroup")?);
        let found = Hierarchy::of(&mounts, &own)?;
        found.sweep();
        // Whether it may be done shows only when it is tried; a quota above that of a group around
        // it is refused by some kernels.
        found.make("trial", Limits { quota_cpus: Some(quota_cpus), weight: Some(1.0) })?;
        Ok(found)
    }

    fn of(mounts: &str, own: &str) -> Result<Hierarchy, String> {
        let mounts: Vec<Vec<&str>> = mounts.lines().map(|line| line.split(' ').collect()).collect();
        let path = |controller: &str| {
            let line = own.lines().map(|line| line.splitn(3, ':').collect::<Vec<_>>());
            let named =
                |line: &Vec<&str>| line.len() == 3 && line[1].split(',').any(|name| name == controller);
            line.into_iter().find(named).map(|line| line[2].trim_start_matches('/'))
        };
        let first_version = |controller: &str| -> Option<PathBuf> {
            let has = |mount: &&Vec<&str>| {
                mount.len() > 3
                    && mount[2] == "cgroup"
                    && mount[3].split(',').any(|option| option == controller)
            };
            let root = Path::new(mounts.iter().find(has)?[1]);
            // In a namespace, or below a bind mount, the path may lie outside of what is mounted.
            let own = root.join(path(controller).unwrap_or_default());
            Some(if own.is_dir() { own } else { root.to_owned() })
        };
        if let Some(cpu) = first_version("cpu") {
            let mut folders = vec![cpu];
            folders.extend(first_version("cpuacct").filter(|counting| *counting != folders[0]));
            return Ok(Hierarchy { unified: false, folders });
        }
        let unified = mounts.iter().find(|mount| mount.len() > 2 && mount[2] == "cgroup2");
        let root = unified.map(|mount| PathBuf::from(mount[1]));
        root.map(|root| Hierarchy { unified: true, folders: vec![root] })
            .ok_or_else(|| "no control groups are mounted".into())
    }

    /// Makes a group.
    ///
    /// # Errors
    /// In words, which file refused.
    pub fn make(&self, name: &str, limits: Limits) -> Result<Group, String> {
        let name = format!("{PREFIX}{}-{name}", std::process::id());
        if self.unified {
            write(&self.folders[0].join("cgroup.subtree_control"), "+cpu")?;
        }
        let mut group = Group { unified: self.unified, folders: Vec::new() };
        for folder in &self.folders {
            let folder = folder.join(&name);
            fs::create_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
            group.folders.push(folder);
        }
        group.limit(limits)?;
        Ok(group)
    }

    /// Removes what benches left behind that were killed (Invariant 2).
    fn sweep(&self) {
        for entry in self.folders.iter().flat_map(fs::read_dir).flatten().flatten() {
            let name = entry.file_name();
            let process = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split('-').next());
            if process.is_some_and(|process| !Path::new("/proc").join(process).exists()) {
                // A process that may not remove it may not make any either, and says so.
                let _ = fs::remove_dir(entry.path());
            }
        }
    }
}

impl Group {
    /// Returns its folders; a process has to be in each of them.
    pub fn folders(&self) -> Vec<PathBuf> {
        self.folders.clone()
    }

    /// Lets a command begin in the group.
    ///
    /// # Errors
    /// In words, which file refused.
    pub fn hold(&self, command: &mut Command) -> Result<(), String> {
        for folder in &self.folders {
            let path = folder.join("cgroup.procs");
            let file = File::options().write(true).open(&path);
            let file = file.map_err(|error| format!("{}: {error}", path.display()))?;
            // SAFETY: between fork and exec there is one system call, on a file that is open.
            unsafe { command.pre_exec(move || (&file).write_all(b"0")) };
        }
        Ok(())
    }

    /// Returns the files to which a thread writes its number to be in the group by itself; none
    /// where a group has whole processes only.
    pub fn threads_files(&self) -> Vec<PathBuf> {
        let files = self.folders.iter().map(|folder| folder.join("tasks"));
        files.filter(|_| !self.unified).collect()
    }

    fn limit(&self, limits: Limits) -> Result<(), String> {
        let cpu = &self.folders[0];
        let quota_us = limits.quota_cpus.map(|cpus| (cpus * PERIOD_US as f64).round() as u64);
        match (self.unified, quota_us) {
            (_, None) => {}
            (true, Some(quota_us)) => write(&cpu.join("cpu.max"), &format!("{quota_us} {PERIOD_US}"))?,
            (false, Some(quota_us)) => {
                write(&cpu.join("cpu.cfs_period_us"), &PERIOD_US.to_string())?;
                write(&cpu.join("cpu.cfs_quota_us"), &quota_us.to_string())?;
            }
        }
        match (self.unified, limits.weight) {
            (_, None) => Ok(()),
            (true, Some(weight)) => write(&cpu.join("cpu.weight"), &format!("{:.0}", 100.0 * weight)),
            (false, Some(weight)) => write(&cpu.join("cpu.shares"), &format!("{:.0}", 1024.0 * weight)),
        }
    }

    /// Of the periods in which it ran, how many ended early because the quota was used up; `None`
    /// before there was one.
    pub fn throttled(&self) -> Option<f64> {
        let text = fs::read_to_string(self.folders[0].join("cpu.stat")).ok()?;
        let field = |name: &str| -> Option<f64> {
            text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
        };
        let (periods, throttled) = (field("nr_periods ")?, field("nr_throttled ")?);
        (periods > 0.0).then(|| throttled / periods)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let limit = Instant::now() + REMOVAL;
        for folder in &self.folders {
            while fs::remove_dir(folder).is_err() && folder.exists() && Instant::now() < limit {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_layout_has_its_folders() {
        let hierarchy = |unified, folders: &[&str]| Hierarchy {
            unified,
            folders: folders.iter().map(PathBuf::from).collect(),
        };
        let split = "cgroup /c/cpu cgroup rw,cpu 0 0\ncgroup /c/acct cgroup rw,cpuacct 0 0\ncgroup2 /c/u cgroup2 rw 0 0\n";
        assert_eq!(Hierarchy::of(split, "1:cpu:/no/such\n"), Ok(hierarchy(false, &["/c/cpu", "/c/acct"])));
        let joined = "cgroup /c/both cgroup rw,cpu,cpuacct 0 0\n";
        assert_eq!(Hierarchy::of(joined, "1:cpu,cpuacct:/\n"), Ok(hierarchy(false, &["/c/both/"])));
        let unified = "cgroup2 /c cgroup2 rw 0 0\n";
        assert_eq!(Hierarchy::of(unified, "0::/a\n"), Ok(hierarchy(true, &["/c"])));
        assert!(Hierarchy::of("tmpfs / tmpfs rw 0 0\n", "").is_err());
    }

    #[test]
    fn limits_are_written_in_each_versions_own_words() {
        let folder = tempfile::tempdir().unwrap();
        let limits = Limits { quota_cpus: Some(1.5), weight: Some(2.0) };
        let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
        for unified in [false, true] {
            let group = Group { unified, folders: vec![folder.path().to_owned()] };
            group.limit(limits).unwrap();
            std::mem::forget(group);
        }
        assert_eq!((read("cpu.cfs_quota_us"), read("cpu.cfs_period_us")), ("150000".into(), "100000".into()));
        assert_eq!(
            (read("cpu.shares"), read("cpu.max"), read("cpu.weight")),
            ("2048".into(), "150000 100000".into(), "200".into())
        );
    }

    #[test]
    fn throttling_is_a_part_of_the_periods() {
        let folder = tempfile::tempdir().unwrap();
        let group = Group { unified: false, folders: vec![folder.path().to_owned()] };
        let stat = folder.path().join("cpu.stat");
        fs::write(&stat, "nr_periods 0\nnr_throttled 0\n").unwrap();
        assert_eq!(group.throttled(), None);
        fs::write(&stat, "nr_periods 40\nnr_throttled 10\nthrottled_time 5\n").unwrap();
        assert_eq!(group.throttled(), Some(0.25));
        std::mem::forget(group);
    }

    #[test]
    fn groups_are_removed_and_so_are_those_that_dead_benches_left() {
        let folder = tempfile::tempdir().unwrap();
        let hierarchy = Hierarchy { unified: false, folders: vec![folder.path().to_owned()] };
        let group = hierarchy.make("a", Limits::default()).unwrap();
        let own = group.folders()[0].clone();
        // No process has the largest number that there is.
        let left = folder.path().join(format!("{PREFIX}{}-b", u32::MAX));
        let foreign = folder.path().join("manx-bench");
        fs::create_dir(&left).unwrap();
        fs::create_dir(&foreign).unwrap();
        hierarchy.sweep();
        assert!(own.is_dir() && foreign.is_dir() && !left.exists());
        drop(group);
        assert!(!own.exists());
    }

    #[test]
    fn a_real_group_has_its_process_and_its_limits_or_there_is_a_reason() {
        let hierarchy = match Hierarchy::find(0.5) {
            Ok(hierarchy) => hierarchy,
            Err(why) => return assert!(!why.is_empty()),
        };
        let group = hierarchy.make("test", Limits { quota_cpus: Some(0.5), weight: None }).unwrap();
        let folders = group.folders();
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        for folder in &folders {
            fs::write(folder.join("cgroup.procs"), child.id().to_string()).unwrap();
            let inside = fs::read_to_string(folder.join("cgroup.procs")).unwrap();
            assert_eq!(inside.trim(), child.id().to_string());
        }
        child.kill().unwrap();
        child.wait().unwrap();
        drop(group);
        assert!(folders.iter().all(|folder| !folder.exists()));
    }
}
