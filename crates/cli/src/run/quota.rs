//! `manx run` under a quota of CPU time: a helper process that keeps the program to as many CPUs as
//! the quota pays for, while that is better (`pace.rs`).
//!
//! Only a process of its own can do that. Threads that compute call nothing of Manx's, and when the
//! quota is another one, or the CPUs are crowded, no thread of the program notices. A thread of
//! ours in the program would be seen by it, and would end at its `exec`.
//!
//! 1. The program sees no child: the helper is a child without a signal at its end, which `wait`
//!    returns only to a caller that asks for such children (`platform::fork::unseen_child`).
//! 2. The helper is in a session of its own, and holds no descriptor of the program's.
//! 3. The helper ends with the program, after it has let all threads go. If members of the group
//!    are left (`members.rs`), because the program became a daemon, the helper stays for them.
//! 4. Of all helpers of one group, one acts: the helper that has locked the group's folder. It acts
//!    for all members, because the quota is for all of them. It unlocks the folder when it paces no
//!    more.
//! 5. Where there is no quota when the program starts, there is no helper.
//! 6. Helpers have the CPUs to which their group is kept, and the library knows the helper of its
//!    program. So a runtime that counts its CPUs while the program is paced is told of all
//!    (`crates/preload/src/cpus/paced.rs`).
//!
//! # Designs
//! | design | what happens |
//! | --- | --- |
//! | Tell programs fewer CPUs (`crates/preload/src/cpus`). | Programs that were told a number of threads, or have started them, are stopped as before. Still done: fewer threads need no pacing |
//! | Narrow the affinity once, when the program starts. | A program that computes in bursts loses CPUs that its quota pays for, a fraction is lost, and a quota that changes is not seen. Not built |
//! | Waiters that know what is left of the period; sleeps where threads wait anyway. | Two threads that compute hardly wait: nothing holds them up before the quota is used up. Not built |
//! | **A helper that narrows the affinity while the quota stops the program, and paces a fraction** (this one). | The figures are in `docs/results.md` |

mod members;
mod pace;

use super::helper::leave_program;
use super::program::Program;
use manx::cpu::{BudgetWatch, Cores, CpuBudget, CpuSet, LimitKind, TicksWatch};
use members::Members;
use pace::{Pace, Seen};
use platform::clock::now_ns;
use platform::{fork, pidfd, usage};
use preload_abi::filter::Filters;
use preload_abi::options::{Guard, Options, Quota};
use preload_abi::pacer::{PACER_VARIABLE, Pacer};
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::process::id;

/// The words of the launcher to the helper.
#[derive(Debug)]
pub struct Setting<'a> {
    filters: Filters<'a>,
    /// The filters leave the program itself in.
    is_meant: bool,
    allowed: CpuSet,
}

/// The setting, if this process has a quota that can be paced.
/// `known`: the budget of this process, if it was read already.
pub fn setting<'a>(
    options: &Options<'a>,
    program: &Program,
    known: Option<&CpuBudget>,
) -> Option<Setting<'a>> {
    // Threads that spin, and are not cured, would wait for slices on fewer CPUs.
    if options.quota == Quota::Leave || options.guard == Guard::Off {
        return None;
    }
    let allowed = CpuSet::of_this_thread();
    let budget = known.cloned().unwrap_or_else(CpuBudget::now);
    let is_paced = |kind: &LimitKind| match kind {
        LimitKind::Quota { quota, .. } => Pace::of(*quota, allowed.len()).is_some(),
        _ => false,
    };
    let is_paced = budget.limits().iter().any(|limit| is_paced(&limit.kind));
    let (filters, is_meant) = (options.filters(), program.is_selected(&options.filters()));
    is_paced.then_some(Setting { filters, is_meant, allowed })
}

/// Starts the helper of this process. Returns what the library of the program is to know of it.
///
/// # Errors
/// There can be no such process.
pub fn start(setting: &Setting<'_>) -> io::Result<(&'static str, OsString)> {
    let launcher = id();
    let program = pidfd::open(launcher).map_err(io::Error::from_raw_os_error)?;
    // SAFETY: this process has one thread.
    match unsafe { fork::unseen_child() }.map_err(io::Error::from_raw_os_error)? {
        0 => {
            // SAFETY: a child with one thread.
            unsafe {
                libc::setsid();
                libc::prctl(libc::PR_SET_NAME, members::HELPER.as_ptr());
            }
            if let Ok(program) = leave_program(program.as_raw_fd()) {
                // SAFETY: `leave_program` has made it, and nothing else has it.
                let program = unsafe { OwnedFd::from_raw_fd(program) };
                Keeper::new(setting, launcher, program).run();
            }
            // SAFETY: ends without running what others registered for the end of the launcher.
            unsafe { libc::_exit(0) }
        }
        pid => {
            let pacer = Pacer { pid, allowed: *setting.allowed.words() };
            Ok((PACER_VARIABLE, pacer.to_string().into()))
        }
    }
}

/// Looks, decides and acts until the program has ended.
struct Keeper<'a> {
    setting: &'a Setting<'a>,
    pid: u32,
    /// Until the program has ended.
    program: Option<OwnedFd>,
    watch: BudgetWatch,
    pacer: pace::Pacer,
    group: Option<Group<'a>>,
}

/// The group for which this helper acts.
struct Group<'a> {
    /// Locked.
    _folder: File,
    members: Members<'a>,
    /// Each CPU's idle time, from before the group is paced.
    idle: Vec<Cpu>,
    /// The CPUs in the order in which they are used, from then on.
    order: Vec<usize>,
    /// Those that are used all the time.
    narrow: Option<TicksWatch>,
}

struct Cpu {
    number: usize,
    ticks: Option<TicksWatch>,
    idle: u64,
}

impl<'a> Keeper<'a> {
    fn new(setting: &'a Setting<'a>, pid: u32, program: OwnedFd) -> Keeper<'a> {
        let pacer = pace::Pacer::new(setting.allowed.len());
        let watch = BudgetWatch::new();
        Keeper { setting, pid, program: Some(program), watch, pacer, group: None }
    }

    fn run(&mut self) {
        let mut sleep_ns = 0;
        loop {
            if self.program.as_ref().is_some_and(|program| has_ended(program, sleep_ns)) {
                self.program = None;
                if let Some(group) = &mut self.group {
                    group.members.forget_program();
                }
            } else if self.program.is_none() {
                platform::thread::sleep_ns(sleep_ns);
            }
            sleep_ns = self.step();
            if self.program.is_none() && !self.is_needed() {
                self.let_go();
                return;
            }
        }
    }

    /// Returns whether members are left, and no other helper acts for them.
    fn is_needed(&mut self) -> bool {
        if self.group.is_none() {
            self.group = self.lock();
        }
        self.group.as_mut().is_some_and(|group| group.members.look() > 0)
    }

    /// Looks, decides and acts. Returns for how long there is nothing to do.
    fn step(&mut self) -> u64 {
        let paced_before = self.pacer.pace().is_some();
        let mut seen = self.look();
        self.pacer.see(seen);
        if self.pacer.asks() && self.group.is_none() {
            self.group = self.lock();
            if self.group.is_some() {
                seen = self.look();
                self.pacer.see(seen);
            } else {
                self.pacer.give_up();
            }
        }
        let quota = seen.quota;
        let Some(group) = &mut self.group else { return self.pacer.next_ns(quota) };
        let Some((pace, since_ns)) = self.pacer.pace() else {
            if paced_before {
                group.members.release();
            }
            if !self.pacer.asks() && self.program.is_some() {
                self.group = None;
            }
            return self.pacer.next_ns(quota);
        };
        if !paced_before {
            group.choose(pace.narrow, self.pid);
        }
        let (cpus, for_ns) = pace.at(seen.now_ns - since_ns);
        let cpus = set_of(&group.order[..cpus.min(group.order.len())]);
        group.members.bind(&cpus);
        for_ns
    }

    fn look(&mut self) -> Seen {
        self.watch.cpus();
        let stopped = self.watch.throttled().map_or(0, |it| it.throttled_time.as_nanos() as u64);
        let is_paced = self.pacer.pace().is_some();
        if let Some(group) = self.group.as_mut().filter(|_| self.pacer.asks()) {
            group.members.look();
        }
        Seen {
            now_ns: now_ns(),
            quota: self.watch.quota(),
            stopped_ns: stopped,
            got_ns: self.group.as_ref().map_or(0, |group| group.members.got_ns()),
            slices: self.group.as_ref().map_or(0, |group| group.members.slices()),
            // Seen only while that counts: it takes longer than all else.
            code: self.group.as_ref().filter(|_| !is_paced).map_or(0, |group| group.members.code()),
            idle_ns: self.group.as_mut().map_or(0, Group::idle_ns),
        }
    }

    /// Locks the group; `None` if another helper has done so.
    fn lock(&mut self) -> Option<Group<'a>> {
        let path = self.watch.group_folder()?.to_owned();
        let folder = File::open(&path).ok()?;
        // SAFETY: the descriptor is open.
        if unsafe { libc::flock(folder.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0 {
            return None;
        }
        let (filters, allowed) = (self.setting.filters, self.setting.allowed.clone());
        let program = (self.program.is_some() && self.setting.is_meant).then_some(self.pid);
        let mut members = Members::of(&path, program, filters, allowed);
        members.look();
        let cpu = |number| {
            let mut ticks = TicksWatch::of(set_of(&[number]));
            let idle = ticks.as_mut().and_then(TicksWatch::ticks).map_or(0, |ticks| ticks.idle);
            Cpu { number, ticks, idle }
        };
        let idle = self.setting.allowed.iter().map(cpu).collect();
        Some(Group { _folder: folder, members, idle, order: Vec::new(), narrow: None })
    }

    fn let_go(&mut self) {
        if let Some(group) = self.group.as_mut().filter(|_| self.pacer.pace().is_some()) {
            group.members.look();
            group.members.release();
        }
    }
}

impl Group<'_> {
    /// Puts the CPUs that were idle for longest first, one of each core before the second of any,
    /// and watches the first `narrow` of them. Of those that were alike another one is the first
    /// for each program.
    fn choose(&mut self, narrow: usize, program: u32) {
        let mut cpus: Vec<(u64, usize)> = Vec::with_capacity(self.idle.len());
        for cpu in &mut self.idle {
            let now = cpu.ticks.as_mut().and_then(TicksWatch::ticks).map_or(0, |ticks| ticks.idle);
            cpus.push((now.saturating_sub(cpu.idle), cpu.number));
        }
        let count = cpus.len().max(1);
        cpus.rotate_left(program as usize % count);
        cpus.sort_by_key(|&(idle, _)| std::cmp::Reverse(idle));
        let cores = Cores::detect("/sys".as_ref());
        let mut used = CpuSet::EMPTY;
        let is_first = |&(_, number): &(u64, usize)| {
            let core = cores.of(number);
            let is_first = !used.contains(core);
            used.insert(core);
            is_first
        };
        let (first, others): (Vec<_>, Vec<_>) = cpus.into_iter().partition(is_first);
        self.order = first.into_iter().chain(others).map(|(_, number)| number).collect();
        self.narrow = TicksWatch::of(set_of(&self.order[..narrow.min(self.order.len())]));
    }

    fn idle_ns(&mut self) -> u64 {
        let ticks = self.narrow.as_mut().and_then(TicksWatch::ticks);
        ticks.map_or(0, |ticks| ticks.idle * usage::tick_ns())
    }
}

fn set_of(cpus: &[usize]) -> CpuSet {
    let mut set = CpuSet::EMPTY;
    cpus.iter().for_each(|&cpu| set.insert(cpu));
    set
}

/// Waits for this time, or until the process has ended; returns whether it has.
fn has_ended(process: &OwnedFd, wait_ns: u64) -> bool {
    let mut polled = libc::pollfd { fd: process.as_raw_fd() as RawFd, events: libc::POLLIN, revents: 0 };
    let wait =
        libc::timespec { tv_sec: (wait_ns / 1_000_000_000) as _, tv_nsec: (wait_ns % 1_000_000_000) as _ };
    // SAFETY: the kernel writes the one entry.
    unsafe { libc::ppoll(&raw mut polled, 1, &raw const wait, std::ptr::null()) == 1 }
}
