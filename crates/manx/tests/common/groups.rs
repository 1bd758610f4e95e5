//! Groups of the machine's own, for processes that tests start. The controller is in a hierarchy of
//! cgroup v1 or in that of v2, which is found at run time.
//!
//! Only processes that may write there have them: the tests of others skip and say why. All groups
//! of a test are removed when it ends, however it ends; those of a test that was killed are removed
//! by the next one. The tests of the preload library use this file, too.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::fs::{self, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

const NAME: &str = "manx-budget-test";
/// The period of every quota, as the kernel has it unless told.
const PERIOD_US: u64 = 100_000;

/// A group and what is below it.
pub struct Group {
    folder: PathBuf,
    hierarchy: Hierarchy,
}

/// Where the groups of a controller are.
#[derive(Clone)]
struct Hierarchy {
    root: PathBuf,
    controller: String,
    version: Version,
}

#[derive(Clone, Copy, PartialEq)]
enum Version {
    One,
    Two,
}

impl Group {
    /// A new group of the hierarchy that has this controller.
    ///
    /// # Errors
    /// Why this process cannot have one.
    pub fn new(controller: &str) -> Result<Group, String> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let hierarchy = Hierarchy::mounted(controller)?;
        sweep(&hierarchy.root);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = hierarchy.root.join(format!("{NAME}-{}-{number}", std::process::id()));
        fs::create_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let group = Group { folder, hierarchy };
        if controller == "cpu" && !group.folder.join(group.hierarchy.quota_file()).exists() {
            return Err("this kernel has no quotas".into());
        }
        Ok(group)
    }

    /// The same; if there can be none, the test is skipped.
    pub fn or_skip(controller: &str) -> Option<Group> {
        Group::new(controller)
            .inspect_err(|why| testing::skip(format_args!("no control group can be made: {why}")))
            .ok()
    }

    /// A group below this one.
    pub fn child(&self, name: &str) -> Group {
        self.hierarchy.enable_below(&self.folder).expect("a group that could be made");
        let folder = self.folder.join(name);
        fs::create_dir(&folder).expect("a group below one that could be made");
        Group { folder, hierarchy: self.hierarchy.clone() }
    }

    /// Writes to one of its files.
    fn write(&self, file: &str, text: &str) {
        let path = self.folder.join(file);
        fs::write(&path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }

    /// Lets its processes run on these CPUs only.
    pub fn set_cpus(&self, cpus: &str) {
        if self.hierarchy.version == Version::One {
            // A new group has no memory yet.
            let parent = self.folder.parent().expect("a parent").join("cpuset.mems");
            self.write("cpuset.mems", fs::read_to_string(parent).expect("the parent's").trim());
        }
        self.write("cpuset.cpus", cpus);
    }

    /// Gives it this number of CPUs, in thousandths; `None`: as many as there are.
    pub fn set_quota(&self, thousandths: Option<u64>) {
        let quota_us = thousandths.map(|cpus| (cpus * PERIOD_US / 1000).to_string());
        let text = match self.hierarchy.version {
            Version::One => quota_us.unwrap_or("-1".into()),
            Version::Two => format!("{} {PERIOD_US}", quota_us.unwrap_or("max".into())),
        };
        self.write(self.hierarchy.quota_file(), &text);
    }

    /// Lets the command begin in it.
    pub fn hold(&self, command: &mut Command) {
        let procs =
            OpenOptions::new().write(true).open(self.folder.join("cgroup.procs")).expect("its processes");
        // SAFETY: between fork and exec there is one system call, `write`, on a file that is open.
        unsafe {
            command.pre_exec(move || {
                let written = libc::write(procs.as_raw_fd(), c"0".as_ptr().cast(), 1);
                if written == 1 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
            });
        }
    }

    /// Moves a process in.
    pub fn take(&self, process: u32) {
        self.write("cgroup.procs", &process.to_string());
    }

    /// Moves a process out, to the hierarchy's root.
    pub fn expel(&self, process: u32) {
        fs::write(self.hierarchy.root.join("cgroup.procs"), process.to_string()).expect("moved out");
    }

    /// The group as a process in it would write it.
    pub fn path(&self) -> String {
        let from = self.folder.to_str().expect("text");
        from[from.find(&format!("/{NAME}")).expect("a group of a test")..].into()
    }

    /// Removes it, once no process is in it.
    pub fn remove(self) {
        drop(self);
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A process that has just ended may be counted for a moment.
        let began = Instant::now();
        while let Err(error) = fs::remove_dir(&self.folder) {
            if began.elapsed() > Duration::from_secs(5) {
                println!("{} stays: {error}", self.folder.display());
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Hierarchy {
    /// The one of version 1 that has this controller, or that of version 2, if groups below its
    /// root have the controller or can get it.
    fn mounted(controller: &str) -> Result<Hierarchy, String> {
        let mounts = fs::read_to_string("/proc/self/mounts").map_err(|error| error.to_string())?;
        let mounts = || mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        let at =
            |root: &str, version| Hierarchy { root: root.into(), controller: controller.into(), version };
        let is_first = |words: &Vec<&str>| {
            words.get(2) == Some(&"cgroup") && words[3].split(',').any(|option| option == controller)
        };
        if let Some(words) = mounts().find(is_first) {
            return Ok(at(words[1], Version::One));
        }
        let second = mounts().find(|words| words.get(2) == Some(&"cgroup2"));
        let second = second.map(|words| at(words[1], Version::Two));
        let second =
            second.ok_or_else(|| format!("no hierarchy with the controller {controller} is mounted"))?;
        second.enable_below(&second.root)?;
        Ok(second)
    }

    /// Gives the controller to the groups below `folder`. Version 1 has no need of it.
    fn enable_below(&self, folder: &Path) -> Result<(), String> {
        if self.version == Version::One {
            return Ok(());
        }
        let file = folder.join("cgroup.subtree_control");
        let enabled = fs::write(&file, format!("+{}", self.controller));
        enabled.map_err(|error| format!("{}, controller {}: {error}", file.display(), self.controller))
    }

    fn quota_file(&self) -> &'static str {
        match self.version {
            Version::One => "cpu.cfs_quota_us",
            Version::Two => "cpu.max",
        }
    }
}

/// Removes the groups of tests that were killed.
fn sweep(point: &Path) {
    for entry in fs::read_dir(point).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let process = name.strip_prefix(NAME).and_then(|rest| rest.split('-').nth(1).map(str::to_owned));
        let ended = process.is_some_and(|process| !Path::new("/proc").join(process).exists());
        if ended {
            remove_all(&entry.path());
        }
    }
}

fn remove_all(folder: &Path) {
    let below = fs::read_dir(folder).into_iter().flatten().flatten();
    below.filter(|it| it.path().is_dir()).for_each(|it| remove_all(&it.path()));
    // If a process is still in it, it stays.
    let _ = fs::remove_dir(folder);
}
