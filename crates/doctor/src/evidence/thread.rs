//! The threads of a process: what one look sees of each, and what many looks add up to.
//!
//! A look reads `stat` and `schedstat` of each thread. The counters in these files are compared
//! with those of the first look; states are counted over the looks. A thread that begins later
//! counts from zero, and a thread that ends keeps the values of its last look. A kernel without
//! scheduler statistics has no `schedstat`. Then run time comes from `stat`, in ticks, and the time
//! for which threads waited for a CPU is not known.

use procfs::ProcError;
use procfs::process::{Process, Task};
use serde::Serialize;
use std::collections::BTreeMap;

/// A thread that loses its CPU more often than this per second of run time may be a thread that
/// yields: a scheduler lets a thread run for about a millisecond at least …
const YIELDS_PER_SECOND: f64 = 5_000.0;
/// … but threads that wake up often beside it also take its CPU. So it must also be seen in a loop
/// that waits, or spend this part of its run time in the kernel, unless samples have shown what it
/// does there, or …
const YIELDS_KERNEL_MIN: f64 = 0.25;
/// With fewer samples it is not known what a thread does in the kernel.
const YIELDS_SAMPLES_MIN: u32 = 20;
/// With as many, this part of them lies in loops that wait or in yields. A scheduler of Erlang that
/// others preempt thousands of times per second, and that looks for work for 2 % of its time, does
/// not yield.
const YIELDS_WAITING_MIN: f64 = 0.1;
/// … wait this long each time that it loses its CPU: others use whole slices, and it does not.
const YIELDS_WAIT_MIN_NS: u64 = 1_000_000;
/// A thread that lost its CPU fewer times than this is not judged.
const YIELDS_MIN: u64 = 500;

/// How the kernel schedules a thread. A better priority compares as greater.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Priority {
    /// 3 for the deadline class, 2 for the real-time classes, 1 for the usual ones, 0 for idle
    pub class: u8,
    /// The real-time priority; 0 in other classes
    pub real_time: u32,
    /// The negated nice value: the greater, the more CPU time the thread gets
    pub eagerness: i32,
}

impl Priority {
    /// The priority by the numbers in `stat`.
    ///
    /// ```
    /// use doctor::evidence::thread::Priority;
    /// let usual = Priority::new(0, 0, 0);
    /// assert!(Priority::new(1, 1, 0) > usual, "SCHED_FIFO");
    /// assert!(Priority::new(0, 0, 19) < usual, "nice 19");
    /// assert!(Priority::new(5, 0, 0) < Priority::new(0, 0, 19), "SCHED_IDLE");
    /// ```
    pub fn new(policy: u32, real_time: u32, nice: i64) -> Priority {
        let class = match policy {
            6 => 3,
            1 | 2 => 2,
            5 => 0,
            _ => 1,
        };
        let eagerness = if class == 1 { i32::try_from(-nice).unwrap_or(0) } else { 0 };
        Priority { class, real_time: if class == 2 { real_time } else { 0 }, eagerness }
    }
}

impl std::fmt::Display for Priority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.class {
            3 => write!(f, "the deadline class"),
            2 => write!(f, "real-time priority {}", self.real_time),
            1 => write!(f, "nice {}", -self.eagerness),
            _ => write!(f, "the idle class"),
        }
    }
}

/// What one look sees of a thread.
#[derive(Clone, Debug, Default)]
pub struct ThreadLook {
    /// Its name
    pub name: String,
    /// `R`, `S`, `D` and so on, as in proc(5)
    pub state: char,
    /// How long it ran, in ns
    pub run_ns: u64,
    /// How long it waited for a CPU, in ns; `None` if the kernel does not say
    pub wait_ns: Option<u64>,
    /// How often it was given a CPU
    pub slices: u64,
    /// The part of its run time that it spent in the kernel, in ns, counted by ticks
    pub kernel_ns: u64,
    /// Page faults that needed no disk
    pub minor_faults: u64,
    /// Page faults that needed a disk
    pub major_faults: u64,
    /// Its class and nice value
    pub priority: Priority,
}

/// Reads the threads of one process.
#[derive(Debug)]
pub struct Threads {
    process: Process,
    tick_ns: u64,
}

impl Threads {
    /// Opens the process.
    ///
    /// # Errors
    /// If there is no such process, or nobody may look at it.
    pub fn of(pid: i32) -> Result<Threads, ProcError> {
        Ok(Threads { process: Process::new(pid)?, tick_ns: platform::usage::tick_ns() })
    }

    /// The process.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Calls `each` with every thread of the process.
    ///
    /// # Errors
    /// If the process has ended.
    pub fn look(&self, mut each: impl FnMut(&Task, ThreadLook)) -> Result<(), ProcError> {
        for task in self.process.tasks()?.flatten() {
            // A thread that ends between two readings is left out.
            if let Some(look) = self.look_at(&task) {
                each(&task, look);
            }
        }
        Ok(())
    }

    fn look_at(&self, task: &Task) -> Option<ThreadLook> {
        let stat = task.stat().ok()?;
        let times = task.schedstat().ok();
        let ticks_ns = (stat.utime + stat.stime).saturating_mul(self.tick_ns);
        Some(ThreadLook {
            name: stat.comm,
            state: stat.state,
            run_ns: times.as_ref().map_or(ticks_ns, |times| times.sum_exec_runtime),
            wait_ns: times.as_ref().map(|times| times.run_delay),
            slices: times.as_ref().map_or(0, |times| times.pcount),
            kernel_ns: stat.stime.saturating_mul(self.tick_ns),
            minor_faults: stat.minflt,
            major_faults: stat.majflt,
            priority: Priority::new(stat.policy.unwrap_or(0), stat.rt_priority.unwrap_or(0), stat.nice),
        })
    }

    /// How often each thread gave its CPU away, and how often it lost it. A call of `sched_yield`
    /// counts as a loss.
    pub fn switches(&self) -> BTreeMap<i32, (u64, u64)> {
        let Ok(tasks) = self.process.tasks() else { return BTreeMap::new() };
        let switches = |task: Task| {
            let status = task.status().ok()?;
            Some((task.tid, (status.voluntary_ctxt_switches?, status.nonvoluntary_ctxt_switches?)))
        };
        tasks.flatten().filter_map(switches).collect()
    }
}

/// What all looks say of a thread.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ThreadEvidence {
    /// Its number
    pub tid: i32,
    /// Its name
    pub name: String,
    /// Its class and nice value at the last look
    pub priority: Priority,
    /// In how many looks it was there
    pub looks: u32,
    /// In how many of them it ran or wished to
    pub runnable: u32,
    /// In how many of them it waited for a disk, or for memory from a disk
    pub blocked: u32,
    /// How long it ran, in ns
    pub run_ns: u64,
    /// How long it wished to run and had no CPU, in ns; 0 if the kernel does not say
    pub wait_ns: u64,
    /// How often it was given a CPU
    pub slices: u64,
    /// The part of its run time that it spent in the kernel, in ns, counted by ticks
    pub kernel_ns: u64,
    /// Page faults that needed no disk
    pub minor_faults: u64,
    /// Page faults that needed a disk
    pub major_faults: u64,
    /// How often it gave its CPU away
    pub voluntary: u64,
    /// How often it lost its CPU, yields included
    pub involuntary: u64,
    /// In how many samples the instruction at which it was is known
    pub samples: u32,
    /// How many of the samples lay in loops that wait
    pub waiting_samples: u32,
    /// Whether there are samples of the thread inside the kernel, too
    pub kernel_is_sampled: bool,
    /// Whether Manx's guard makes its process yield instead of spinning
    pub is_guarded: bool,
}

impl ThreadEvidence {
    /// Which part of its run time the thread spent in loops that wait, from 0 to 1; `None` if that
    /// is not known.
    ///
    /// Samples tell this part, or without the right to observe the machine, this part of the time
    /// outside the kernel. Then the time inside the kernel of a thread that yields again and again
    /// is waiting, too.
    ///
    /// ```
    /// use doctor::evidence::thread::ThreadEvidence;
    /// let spins = ThreadEvidence { samples: 8, waiting_samples: 2, ..ThreadEvidence::default() };
    /// assert_eq!(spins.spinning(), Some(0.25));
    /// let yields = ThreadEvidence {
    ///     run_ns: 100_000_000,
    ///     kernel_ns: 50_000_000,
    ///     involuntary: 10_000,
    ///     ..spins
    /// };
    /// assert_eq!(yields.spinning(), Some(0.5 + 0.5 * 0.25));
    /// ```
    pub fn spinning(&self) -> Option<f64> {
        let sampled = (self.samples > 0).then(|| f64::from(self.waiting_samples) / f64::from(self.samples));
        if self.kernel_is_sampled || !self.yields() {
            return sampled;
        }
        let kernel = (self.kernel_ns as f64 / self.run_ns.max(1) as f64).min(1.0);
        Some(kernel + (1.0 - kernel) * sampled.unwrap_or(0.0))
    }

    /// Whether the thread yields again and again: it lost its CPU more often than a scheduler takes
    /// a CPU away, and a second sign confirms it.
    pub fn yields(&self) -> bool {
        let kernel_is_known = self.kernel_is_sampled && self.samples >= YIELDS_SAMPLES_MIN;
        let is_in_kernel = self.kernel_ns as f64 >= YIELDS_KERNEL_MIN * self.run_ns as f64;
        let waiting_min = if kernel_is_known { YIELDS_WAITING_MIN * f64::from(self.samples) } else { 1.0 };
        self.involuntary >= YIELDS_MIN
            // A thread that sleeps as often, as for pages from a disk, does not wait in a loop.
            && self.involuntary > self.voluntary
            && self.involuntary as f64 * 1e9 > YIELDS_PER_SECOND * self.run_ns as f64
            && (f64::from(self.waiting_samples) >= waiting_min
                || is_in_kernel && !kernel_is_known
                || self.wait_ns >= YIELDS_WAIT_MIN_NS * self.involuntary
                || self.is_guarded)
    }
}

/// A thread while it is watched.
#[derive(Clone, Debug)]
pub struct Track {
    first: ThreadLook,
    last: ThreadLook,
    /// How long it ran between the last two looks, in ns
    pub ran_ns: u64,
    /// How long it waited for a CPU meanwhile, in ns; `None` if the kernel does not say
    pub waited_ns: Option<u64>,
    /// How often it was given a CPU meanwhile
    pub slices: u64,
    evidence: ThreadEvidence,
}

impl Track {
    /// Begins with the first look at a thread. If `is_first`, it is also the first look at the
    /// process, and what the thread did before does not count. A thread that began later counts
    /// from its start.
    pub fn begin(tid: i32, look: ThreadLook, is_first: bool) -> Track {
        let first = if is_first { look.clone() } else { ThreadLook::default() };
        let mut track = Track {
            first,
            last: ThreadLook::default(),
            ran_ns: 0,
            waited_ns: None,
            slices: 0,
            evidence: ThreadEvidence { tid, ..ThreadEvidence::default() },
        };
        track.last = track.first.clone();
        track.add(look);
        track
    }

    /// Adds a look: counts the thread's state, and computes how long the thread ran and waited
    /// since the look before.
    pub fn add(&mut self, look: ThreadLook) {
        self.evidence.looks += 1;
        self.evidence.runnable += u32::from(look.state == 'R');
        self.evidence.blocked += u32::from(look.state == 'D');
        self.ran_ns = look.run_ns.saturating_sub(self.last.run_ns);
        let before_ns = self.last.wait_ns.unwrap_or(0);
        self.waited_ns = look.wait_ns.map(|wait_ns| wait_ns.saturating_sub(before_ns));
        self.slices = look.slices.saturating_sub(self.last.slices);
        self.last = look;
    }

    /// How long the thread ran, as a part of the time in which it wished to run. The time is that
    /// since the last look, `interval_ns` ago; at the first look it is that since the thread began.
    /// 0 for a thread that got no CPU at all.
    pub fn ran_part(&self, interval_ns: u64) -> f32 {
        let (ran_ns, waited_ns) = match self.evidence.looks {
            1 => (self.last.run_ns, self.last.wait_ns),
            _ => (self.ran_ns, self.waited_ns),
        };
        let wished_ns = waited_ns.map_or(interval_ns.max(ran_ns), |waited_ns| ran_ns + waited_ns);
        ran_ns as f32 / wished_ns.max(1) as f32
    }

    /// What the last look saw.
    pub fn last(&self) -> &ThreadLook {
        &self.last
    }

    /// What all looks say.
    pub fn evidence(&self) -> ThreadEvidence {
        let (first, last) = (&self.first, &self.last);
        let wait_ns = |look: &ThreadLook| look.wait_ns.unwrap_or(0);
        ThreadEvidence {
            name: last.name.clone(),
            priority: last.priority,
            run_ns: last.run_ns.saturating_sub(first.run_ns),
            wait_ns: wait_ns(last).saturating_sub(wait_ns(first)),
            slices: last.slices.saturating_sub(first.slices),
            kernel_ns: last.kernel_ns.saturating_sub(first.kernel_ns),
            minor_faults: last.minor_faults.saturating_sub(first.minor_faults),
            major_faults: last.major_faults.saturating_sub(first.major_faults),
            ..self.evidence.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(state: char, run_ns: u64, wait_ns: u64) -> ThreadLook {
        ThreadLook { state, run_ns, wait_ns: Some(wait_ns), slices: run_ns, ..ThreadLook::default() }
    }

    #[test]
    fn counters_from_before_the_first_look_do_not_count() {
        let mut track = Track::begin(7, look('R', 100, 50), true);
        track.add(look('D', 130, 90));
        track.add(look('S', 150, 90));
        let evidence = track.evidence();
        assert_eq!((evidence.run_ns, evidence.wait_ns, evidence.slices), (50, 40, 50));
        assert_eq!((evidence.looks, evidence.runnable, evidence.blocked), (3, 1, 1));
        assert_eq!(track.ran_ns, 20);
    }

    #[test]
    fn the_part_that_a_thread_ran_counts_from_the_last_look() {
        let mut track = Track::begin(7, look('R', 100, 300), true);
        assert_eq!(track.ran_part(1), 0.25, "since it began");
        track.add(look('R', 150, 350));
        assert_eq!(track.ran_part(1), 0.5);
        track.add(look('R', 150, 350));
        assert_eq!(track.ran_part(1), 0.0);
        track.add(ThreadLook { wait_ns: None, ..look('R', 160, 0) });
        assert_eq!(track.ran_part(40), 0.25, "of the time between the looks");
    }

    #[test]
    fn a_thread_that_loses_its_cpu_often_yields_only_if_a_second_sign_confirms_it() {
        let lost = ThreadEvidence {
            run_ns: 100_000_000,
            involuntary: 10_000,
            samples: 9,
            ..ThreadEvidence::default()
        };
        assert!(!lost.yields());
        let in_kernel = ThreadEvidence { kernel_ns: 30_000_000, kernel_is_sampled: true, ..lost.clone() };
        assert!(in_kernel.yields(), "nine samples are too few");
        let known = ThreadEvidence { samples: 100, ..in_kernel };
        assert!(!known.yields(), "it does something else there");
        assert!(!ThreadEvidence { waiting_samples: 2, ..known.clone() }.yields(), "it hardly waits");
        assert!(ThreadEvidence { waiting_samples: 20, ..known }.yields());
        for told in [
            ThreadEvidence { kernel_ns: 30_000_000, ..lost.clone() },
            ThreadEvidence { waiting_samples: 1, ..lost.clone() },
            ThreadEvidence { wait_ns: 20_000_000_000, ..lost.clone() },
            ThreadEvidence { is_guarded: true, ..lost },
        ] {
            assert!(told.yields(), "{told:?}");
            assert!(!ThreadEvidence { voluntary: 20_000, ..told }.yields());
        }
    }

    #[test]
    fn a_thread_that_began_later_counts_from_its_start() {
        let track = Track::begin(7, look('R', 100, 50), false);
        assert_eq!((track.evidence().run_ns, track.evidence().wait_ns, track.ran_ns), (100, 50, 100));
    }

    #[test]
    fn this_process_has_this_thread() {
        let threads = Threads::of(std::process::id() as i32).unwrap();
        let mut seen = Vec::new();
        threads.look(|task, look| seen.push((task.tid, look.state))).unwrap();
        let own = platform::thread::id() as i32;
        assert!(seen.contains(&(own, 'R')), "{seen:?}");
        assert!(threads.switches().contains_key(&own));
        assert!(Threads::of(i32::MAX).is_err());
    }
}
