//! What keeps a process from the CPUs that it could use, and what it leaves unused.
//!
//! No single file tells, and each is missing somewhere: so a [`Pressure`] is a set of counters.
//! Each counter may be absent, and what it means is in the difference of two ([`Pressure::since`]).
//! From Linux 6.18, measured with open files:
//!
//! | field | of what | file | costs | granularity, and what is wrong with it |
//! | --- | --- | --- | --- | --- |
//! | `threads` | process | `task/T/schedstat` of each thread | 5 µs a thread | ns; a wait counts when it is over. Throttling is in it. Threads that began and ended in between are not |
//! | `preempted` | process | `getrusage` | 0.6 µs | one; yields are in it |
//! | `throttled` | group | `cpu.stat` | 1.1 µs | a period of the quota, mostly 100 ms; there only where there is a quota |
//! | `machine` | machine | `/proc/stat` | 9 µs | a tick of 10 ms, summed over the CPUs; a hypervisor need not tell of what it steals |
//! | `stalled` | machine | `/proc/pressure/cpu` | 1.8 µs | 8 ms steps though the file is in µs; off on many kernels |
//! | `group_stalled` | group | `cpu.pressure` | 1.8 µs | the same; cgroup v2 only |
//! | `runnable` | machine | `/proc/loadavg` | 1 µs | a moment; priorities do not count |
//!
//! A [`PressureWatch`] keeps the files open, but those of threads.

mod delta;
mod sources;
mod threads;

pub use delta::PressureDelta;
pub use threads::ThreadsTimes;

use super::budget::membership::{self, Membership};
use super::detect::Machine;
use super::fields::lines;
use super::machine_ticks::line;
use super::{BudgetWatch, MachineTicks, Runnable, Throttled};
use platform::file::File;
use platform::{clock, usage};
use sources::{in_root, read_into};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Counters that tell, by their growth, what keeps a process from running. See the table at the
/// head of this file's page.
///
/// ```
/// use manx::cpu::Pressure;
///
/// let before = Pressure::read();
/// # std::thread::sleep(std::time::Duration::from_millis(2));
/// let between = Pressure::read().since(&before);
/// println!("{between}"); // 0.8 threads waited for a CPU, 1.9 ran; 0.1 CPUs idle; …
/// if between.waiting.is_some_and(|threads| threads > 0.5) {
///     println!("too many threads");
/// }
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Pressure {
    /// When it was read, by the monotonic clock (`CLOCK_MONOTONIC`).
    pub read_at: Duration,
    /// What each thread of the process has run and waited for a CPU.
    pub threads: Option<ThreadsTimes>,
    /// How often a thread of the process lost its CPU although it wished to go on.
    pub preempted: u64,
    /// How often the group whose quota is the least had used it up.
    pub throttled: Option<Throttled>,
    /// What the machine's CPUs did.
    pub machine: Option<MachineTicks>,
    /// The length of a tick of [`Pressure::machine`].
    pub tick: Duration,
    /// For how long some thread of the machine waited for a CPU.
    pub stalled: Option<Duration>,
    /// For how long some thread of the process' group waited for a CPU.
    pub group_stalled: Option<Duration>,
    /// How many threads of the machine run or wish to, at this moment.
    pub runnable: Option<u32>,
    /// How many CPUs of the machine are online.
    pub online: Option<u32>,
}

impl Pressure {
    /// Reads everything once. To read again and again, keep a [`PressureWatch`].
    pub fn read() -> Pressure {
        PressureWatch::new().read()
    }

    /// How many CPUs had nothing to run at the moment of the reading.
    pub fn idle_cpus(&self) -> Option<u32> {
        Some(self.online?.saturating_sub(self.runnable?))
    }
}

/// Reads a process' pressure again and again, from files that stay open.
///
/// ```
/// let mut watch = manx::cpu::PressureWatch::new();
/// let before = watch.read();
/// let now = watch.read();
/// assert!(now.read_at >= before.read_at && now.preempted >= before.preempted);
/// ```
#[derive(Debug)]
pub struct PressureWatch {
    root: PathBuf,
    budget: BudgetWatch,
    runnable: Option<Runnable>,
    stat: Option<File>,
    stalls: Option<File>,
    /// Where the process' group was when it was looked for last, and its file.
    group: Vec<u8>,
    group_stalls: Option<File>,
    online: Option<u32>,
}

impl PressureWatch {
    /// Watches the calling process.
    #[expect(clippy::new_without_default, reason = "it opens files")]
    pub fn new() -> PressureWatch {
        PressureWatch::with(Path::new("/"), BudgetWatch::new())
    }

    /// Watches a process whose `/proc` and `/sys` are below `root`; how often it was preempted is
    /// the caller's own.
    pub fn detect(root: &Path) -> PressureWatch {
        PressureWatch::with(root, BudgetWatch::detect(root))
    }

    fn with(root: &Path, budget: BudgetWatch) -> PressureWatch {
        let sys = root.join("sys");
        let online = Machine { root: &sys }.list("devices/system/cpu/online").map(|cpus| cpus.len() as u32);
        PressureWatch {
            root: root.into(),
            budget,
            runnable: Runnable::open_below(root),
            stat: in_root(root, "proc/stat"),
            stalls: in_root(root, "proc/pressure/cpu"),
            group: Vec::new(),
            group_stalls: None,
            online: online.filter(|&cpus| cpus > 0),
        }
    }

    /// Everything, read now.
    pub fn read(&mut self) -> Pressure {
        self.find_group();
        let mut text = [0; sources::BYTES];
        let mut stall = |file: &Option<File>| sources::stalled(read_into(file.as_ref()?, &mut text)?);
        let (stalled, group_stalled) = (stall(&self.stalls), stall(&self.group_stalls));
        let machine = |file: &File| of_all(read_into(file, &mut text)?);
        Pressure {
            read_at: Duration::from_nanos(clock::now_ns()),
            machine: self.stat.as_ref().and_then(machine),
            threads: threads::read(&self.root),
            preempted: usage::of_this_process().involuntary,
            throttled: self.budget.throttled(),
            tick: Duration::from_nanos(usage::tick_ns()),
            stalled,
            group_stalled,
            runnable: self.runnable.as_ref().and_then(Runnable::threads),
            online: self.online,
        }
    }

    /// Opens the file of the process' group, if it is another group than before.
    fn find_group(&mut self) {
        let mut text = [0; sources::BYTES];
        let memberships = in_root(&self.root, "proc/self/cgroup");
        let memberships = memberships.as_ref().and_then(|file| read_into(file, &mut text));
        let memberships = memberships.map(membership::parse).unwrap_or_default();
        let group =
            memberships.into_iter().find(Membership::is_unified).map(|it| it.path).unwrap_or_default();
        if self.group != group {
            self.group_stalls = sources::group_stalls(&self.root, &group);
            self.group = group;
        }
    }
}

/// What `/proc/stat` says of all CPUs.
fn of_all(text: &[u8]) -> Option<MachineTicks> {
    line(lines(text).next()?).filter(|(name, _)| *name == b"cpu").map(|(_, ticks)| ticks)
}
