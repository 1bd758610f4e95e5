//! Control groups with a quota, for tests that run programs in them: real ones, of cgroup v1.
//!
//! They need a `cpu` hierarchy that this process may make groups in, so root. Where there is none the test is left out, and
//! says why. Groups go away with the value.

use std::fs::{self, File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// The period of every quota, as the kernel has it unless told.
const PERIOD_US: u64 = 100_000;

/// A group, and what is below it.
pub struct Group {
    folder: PathBuf,
}

impl Group {
    /// A new one below the group of this process; `None`, with the reason printed, where that cannot be.
    pub fn new() -> Option<Group> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let made = own_folder().and_then(|own| {
            let folder = own.join(format!("manx-test-{}-{number}", std::process::id()));
            fs::create_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
            let group = Group { folder };
            // It can be made on a kernel without quotas.
            fs::write(group.folder.join("cpu.cfs_quota_us"), "-1")
                .map_err(|error| format!("quotas: {error}"))?;
            Ok(group)
        });
        match made {
            Ok(group) => Some(group),
            Err(why) => {
                println!("skipped: no control group can be made: {why}");
                None
            }
        }
    }

    /// A new one below this.
    pub fn child(&self, name: &str) -> Group {
        let folder = self.folder.join(name);
        fs::create_dir(&folder).expect("a group below ours");
        Group { folder }
    }

    /// Gives it so many CPUs, in thousandths; `None`: as many as there are.
    pub fn set_quota(&self, thousandths: Option<u64>) {
        let quota = thousandths.map_or("-1".to_owned(), |cpus| (cpus * PERIOD_US / 1000).to_string());
        fs::write(self.folder.join("cpu.cfs_quota_us"), quota).expect("a quota");
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
}

impl Drop for Group {
    fn drop(&mut self) {
        // A process that has ended is in it until its parent has waited for it.
        for _ in 0..500 {
            if fs::remove_dir(&self.folder).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        eprintln!("{}: left behind", self.folder.display());
    }
}

/// The folder of this process' group in the hierarchy of version 1 that has quotas.
fn own_folder() -> Result<PathBuf, String> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").map_err(|error| format!("/proc: {error}"))?;
    let (root, point) = mounts.lines().find_map(mount).ok_or("no cgroup v1 hierarchy has quotas")?;
    let groups = fs::read_to_string("/proc/self/cgroup").map_err(|error| format!("/proc: {error}"))?;
    let own = groups.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let has = parts.next()?.split(',').any(|controller| controller == "cpu");
        parts.next().filter(|_| has)
    });
    let below = own.and_then(|own| own.strip_prefix(root.trim_end_matches('/'))).unwrap_or("/");
    let folder = Path::new(&point).join(below.trim_start_matches('/'));
    // Only to say it in time: the quota of a new group is what matters.
    File::open(folder.join("cgroup.procs")).map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(folder)
}

/// The root and the point of the mount in this line, if it is the one.
fn mount(line: &str) -> Option<(String, String)> {
    let (before, after) = line.split_once(" - ")?;
    let mut words = before.split(' ').skip(3);
    let (root, point) = (words.next()?, words.next()?);
    let mut words = after.split(' ');
    let (kind, options) = (words.next()?, words.nth(1)?);
    let is_it = kind == "cgroup" && options.split(',').any(|word| word == "cpu");
    is_it.then(|| (root.to_owned(), point.to_owned()))
}
