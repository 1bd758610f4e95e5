//! Groups of the machine's own, in a hierarchy of cgroup v1, for processes that tests start.
//!
//! Only processes that may write there have them: the others skip, and say why. All groups of a
//! test are removed when it ends, however it ends; those of a test that was killed are removed by
//! the next one. The tests of the preload library use this file, too.

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
}

impl Group {
    /// A new group of the hierarchy that has this controller.
    ///
    /// # Errors
    /// Why this process cannot have one.
    pub fn new(controller: &str) -> Result<Group, String> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let point = mounted(controller)?;
        sweep(&point);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = point.join(format!("{NAME}-{}-{number}", std::process::id()));
        fs::create_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let group = Group { folder };
        if controller == "cpu" && !group.folder.join("cpu.cfs_quota_us").exists() {
            return Err("this kernel has no quotas".into());
        }
        Ok(group)
    }

    /// The same; where that cannot be the reason is printed.
    pub fn or_skip(controller: &str) -> Option<Group> {
        Group::new(controller)
            .inspect_err(|why| println!("skipped: no control group can be made: {why}"))
            .ok()
    }

    /// A group below this one.
    pub fn child(&self, name: &str) -> Group {
        let folder = self.folder.join(name);
        fs::create_dir(&folder).expect("a group below one that could be made");
        Group { folder }
    }

    /// Writes to one of its files.
    pub fn write(&self, file: &str, text: &str) {
        let path = self.folder.join(file);
        fs::write(&path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }

    /// Writes to one of its files what its parent's file says.
    pub fn inherit(&self, file: &str) {
        let parent = self.folder.parent().expect("a parent").join(file);
        self.write(file, fs::read_to_string(parent).expect("the parent's").trim());
    }

    /// Gives it this number of CPUs, in thousandths; `None`: as many as there are.
    pub fn set_quota(&self, thousandths: Option<u64>) {
        let quota = thousandths.map_or("-1".to_owned(), |cpus| (cpus * PERIOD_US / 1000).to_string());
        self.write("cpu.cfs_quota_us", &quota);
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
        let root = self.folder.ancestors().find(|it| !it.join("notify_on_release").exists());
        let root = root.and_then(|above| {
            self.folder.strip_prefix(above).ok().and_then(|it| Some(above.join(it.iter().next()?)))
        });
        fs::write(root.expect("a root").join("cgroup.procs"), process.to_string()).expect("moved out");
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

/// Where a hierarchy of version 1 is mounted whole.
fn mounted(controller: &str) -> Result<PathBuf, String> {
    let mounts = fs::read_to_string("/proc/self/mounts").map_err(|error| error.to_string())?;
    let found = mounts.lines().find_map(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        let is_it = words.get(2) == Some(&"cgroup") && words.get(3)?.split(',').any(|it| it == controller);
        is_it.then(|| PathBuf::from(words[1]))
    });
    found.ok_or_else(|| format!("no hierarchy of cgroup v1 with the controller {controller} is mounted"))
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
