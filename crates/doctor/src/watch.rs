//! Watches processes for some seconds: looks again and again, and adds up what it sees.
//!
//! A look at a thread takes some 20 µs, so a process with 5,000 threads costs 100 ms a look. The
//! doctor must not become a disease itself. After each round it sleeps until the time of all rounds
//! is at most 2 % of one CPU. A look takes a CPU from a thread that others may wait for, so it
//! costs the program more than its own time: five looks per second are enough. The first ones come
//! sooner, because the program may end soon. A huge process is looked at some times in all; the
//! number of looks is part of the evidence.
//!
//! Nothing is attached to a process and nothing in it changes. Its threads are read by `procfs`,
//! their instructions by the kernel's sampling, and so is how long they wait for locks.

use crate::evidence::Evidence;
use crate::evidence::code::{CodeBook, Place};
use crate::evidence::futex::{self, FutexWait, Kind};
use crate::evidence::group::{Groups, cpus_of_sets};
use crate::evidence::locks::{LockEvidence, Locks};
use crate::evidence::machine::MachineLook;
use crate::evidence::modules::Modules;
use crate::evidence::others::Others;
use crate::evidence::sampler::{MachineSampler, Samplers, THREADS_MAX};
use crate::evidence::thread::{ThreadEvidence, Threads, Track};
use crate::evidence::timeline::{Cell, Recorder};
use crate::evidence::under_manx::UnderManx;
use crate::evidence::unseen::Unseen;
use crate::evidence::waits::{self, Waits};
use manx::cpu::CpuSet;
use platform::clock;
use procfs::ProcError;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

/// The shortest time between two looks; the first ones are this near to each other, and each
/// distance is twice the one before.
const INTERVAL: Duration = Duration::from_millis(200);
const FIRST_INTERVAL: Duration = Duration::from_millis(10);
/// The largest part of one CPU that looking may take.
const COST_MAX: f64 = 0.02;
/// The number of threads of each process that are sampled at least, if many processes are watched.
const SAMPLED_MIN: usize = 4;
/// How many locks are kept as evidence.
const LOCKS_MAX: usize = 26;
/// How many functions are kept as evidence.
const PLACES_MAX: usize = 32;
/// … in which threads wait and have page faults.
const FAULT_SITES_MAX: usize = 8;
/// Of how many threads the affinity is asked, those that ran most first.
const AFFINITIES_MAX: usize = 256;
/// A process with more threads is not asked how often each of them lost its CPU.
const SWITCHES_MAX: usize = 512;
/// Code that no file has is searched for no loops: this part of the samples is worth a word.
const GENERATED_MIN: f64 = 0.2;

/// Why a process cannot be watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is no process with this number.
    Missing(i32),
    /// The process exists, but this user may not look at it.
    Forbidden(i32),
    /// The kernel refused for another reason, in words.
    Other(i32, String),
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Refusal::Missing(pid) => write!(f, "there is no process {pid}"),
            Refusal::Forbidden(pid) => write!(f, "the process {pid} may not be looked at"),
            Refusal::Other(pid, why) => write!(f, "the process {pid} cannot be looked at: {why}"),
        }
    }
}

fn refusal(pid: i32, error: ProcError) -> Refusal {
    match error {
        ProcError::NotFound(_) => Refusal::Missing(pid),
        ProcError::PermissionDenied(_) => Refusal::Forbidden(pid),
        other => Refusal::Other(pid, other.to_string()),
    }
}

/// Watches these processes for a time, and calls `progress` with the time that has passed.
///
/// The watching ends early when all of them have ended. The results are in the order of `pids`.
///
/// ```
/// use std::time::Duration;
/// let own = std::process::id() as i32;
/// let watched = doctor::watch(&[own, i32::MAX], Duration::from_millis(120), |_| ());
/// let evidence = watched[0].as_ref().expect("this process");
/// assert!(evidence.looks >= 1 && !evidence.threads.is_empty());
/// assert_eq!(watched[1], Err(doctor::Refusal::Missing(i32::MAX)));
/// ```
pub fn watch(
    pids: &[i32],
    time: Duration,
    mut progress: impl FnMut(Duration),
) -> Vec<Result<Evidence, Refusal>> {
    let began_ns = clock::now_ns();
    let time_ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let end_ns = began_ns.saturating_add(time_ns);
    let cost_before_ns = clock::process_cpu_ns();
    let sampled = (THREADS_MAX / pids.len().max(1)).max(SAMPLED_MIN);
    let followed = (waits::THREADS_MAX / pids.len().max(1)).max(1);
    let mut cpus = MachineSampler::open();
    let mut others = Others::new(cpus.as_ref().map_or(0, MachineSampler::cpus));
    let samplers = || if cpus.is_some() { Samplers::of_machine() } else { Samplers::new(sampled) };
    let of = |&pid: &i32| Watch::of(pid, samplers(), followed);
    let mut watches: Vec<Result<Watch, Refusal>> = pids.iter().map(of).collect();
    let machine = MachineLook::now();
    let mut rounds = 0;
    let mut least = FIRST_INTERVAL;
    loop {
        let mut is_any_there = false;
        let looked_ns = clock::process_cpu_ns();
        collect(cpus.as_mut(), &mut watches, &mut others);
        for watch in watches.iter_mut().flatten() {
            watch.look();
            is_any_there |= !watch.ended;
        }
        let cost_ns = clock::process_cpu_ns().saturating_sub(looked_ns);
        let now_ns = clock::now_ns();
        progress(Duration::from_nanos(now_ns.saturating_sub(began_ns)));
        rounds += 1;
        // One look tells nothing: a huge process may be watched for longer than was asked.
        if now_ns >= end_ns && rounds >= 2 || !is_any_there {
            break;
        }
        let pause_ns = (cost_ns as f64 / COST_MAX) as u64;
        let pause_ns = pause_ns.max(least.as_nanos() as u64);
        least = INTERVAL.min(2 * least);
        // The last look is at the end, however long the pause would be.
        std::thread::sleep(Duration::from_nanos(pause_ns.min(end_ns.saturating_sub(now_ns))));
    }
    collect(cpus.as_mut(), &mut watches, &mut others);
    let since = MachineLook::now().since(&machine, pids);
    let span_ns = clock::now_ns().saturating_sub(began_ns).max(1);
    let own_cpus = clock::process_cpu_ns().saturating_sub(cost_before_ns) as f64 / span_ns as f64;
    let mut results: Vec<Result<Evidence, Refusal>> =
        watches.into_iter().map(|watch| Ok(watch?.finish())).collect();
    let seen = results.iter().flatten().map(|evidence| (evidence.pid, evidence.in_loops()));
    let seen = cpus.is_some().then(|| others.finish().into_iter().chain(seen).collect());
    for evidence in results.iter_mut().flatten() {
        evidence.machine = since.clone();
        if let Some(seen) = &seen {
            evidence.machine.add_loops(seen, evidence.pid);
        }
        evidence.own_cpus = own_cpus;
    }
    results
}

/// Gives the samples of the CPUs to the processes that they are of.
fn collect(cpus: Option<&mut MachineSampler>, watches: &mut [Result<Watch, Refusal>], others: &mut Others) {
    let Some(cpus) = cpus else { return };
    let mut by_pid: HashMap<u32, &mut Samplers> = HashMap::new();
    for watch in watches.iter_mut().flatten() {
        watch.samplers.begin(cpus.lost());
        by_pid.insert(watch.pid.cast_unsigned(), &mut watch.samplers);
    }
    cpus.drain(|sample| match by_pid.get_mut(&sample.process) {
        Some(samplers) => samplers.add(sample),
        None => others.add(sample),
    });
}

/// A process while it is watched.
#[derive(Debug)]
struct Watch {
    pid: i32,
    threads: Threads,
    tracks: BTreeMap<i32, Track>,
    /// How often threads gave their CPUs away and lost them, at the beginning.
    switches: BTreeMap<i32, (u64, u64)>,
    last_switches: BTreeMap<i32, (u64, u64)>,
    affinity: Option<CpuSet>,
    groups: Groups,
    samplers: Samplers,
    locks: Locks,
    waits: Waits,
    modules: Modules,
    command: Vec<String>,
    manx: Option<UnderManx>,
    timeline: Recorder,
    looks: u32,
    first_ns: u64,
    last_ns: u64,
    calls_refused: bool,
    ended: bool,
}

impl Watch {
    fn of(pid: i32, mut samplers: Samplers, followed: usize) -> Result<Watch, Refusal> {
        let threads = Threads::of(pid).map_err(|error| refusal(pid, error))?;
        // The process may be one of a user who hides it.
        threads.process().stat().map_err(|error| refusal(pid, error))?;
        let few = threads.process().stat().is_ok_and(|stat| stat.num_threads <= SWITCHES_MAX as i64);
        let switches = if few { threads.switches() } else { BTreeMap::new() };
        let modules = Modules::of(threads.process());
        samplers.set_code(modules.code());
        let mut waits = Waits::new(followed);
        waits.set_code(modules.code_of_callers());
        Ok(Watch {
            pid,
            tracks: BTreeMap::new(),
            last_switches: BTreeMap::new(),
            switches,
            affinity: None,
            groups: Groups::of(pid.cast_unsigned()),
            samplers,
            locks: Locks::of(pid),
            waits,
            modules,
            command: Vec::new(),
            manx: None,
            threads,
            timeline: Recorder::default(),
            looks: 0,
            first_ns: 0,
            last_ns: 0,
            calls_refused: false,
            ended: false,
        })
    }

    fn look(&mut self) {
        if self.ended {
            return;
        }
        let now_ns = clock::now_ns();
        let (is_first, tracks) = (self.looks == 0, &mut self.tracks);
        let mut waits: Vec<FutexWait> = Vec::new();
        let mut there: Vec<(u64, i32)> = Vec::new();
        let mut refused = self.calls_refused;
        let looked = self.threads.look(|task, look| {
            let is_asleep = look.state == 'S';
            let track = match tracks.entry(task.tid) {
                std::collections::btree_map::Entry::Occupied(entry) => {
                    let track = entry.into_mut();
                    track.add(look);
                    track
                }
                std::collections::btree_map::Entry::Vacant(entry) => {
                    entry.insert(Track::begin(task.tid, look, is_first))
                }
            };
            there.push((track.ran_ns, task.tid));
            if is_asleep && !refused {
                match task.syscall() {
                    Ok(call) => waits.extend(futex::wait(task.tid, &call)),
                    Err(ProcError::PermissionDenied(_)) => refused = true,
                    // The thread has ended, or runs by now.
                    Err(_) => {}
                }
            }
        });
        self.calls_refused = refused;
        // A process that is dead and not yet waited for has no threads, or a zombie.
        let is_dead = |tid: &i32| self.tracks.get(tid).is_none_or(|track| "ZX".contains(track.last().state));
        if looked.is_err() || there.iter().all(|(_, tid)| is_dead(tid)) {
            self.ended = true;
            self.samplers.drain();
            self.waits.drain(|address| self.locks.is_contended(address));
            return;
        }
        let interval_ns = now_ns.saturating_sub(self.last_ns);
        if self.manx.as_ref().is_some_and(|manx| manx.does("--lock=manx")) {
            let is_held = |lock| self.locks.is_contended(lock) || self.locks.is_held(lock, &self.tracks);
            waits.iter_mut().for_each(|wait| *wait = wait.under_manx(is_held));
        }
        if is_first {
            self.first_ns = now_ns;
        } else {
            self.locks.add(&waits, &self.tracks, interval_ns);
        }
        there.sort_unstable_by_key(|&(ran_ns, tid)| (std::cmp::Reverse(ran_ns), tid));
        let tracks = &self.tracks;
        let present: HashSet<i32> = there.iter().map(|(_, tid)| *tid).collect();
        self.samplers.keep(|tid| {
            let track = tracks.get(&tid).filter(|_| present.contains(&tid))?;
            Some(track.slices as f64 * 1e9 / interval_ns.max(1) as f64)
        });
        let hot = there.iter().filter(|(ran_ns, _)| is_first || *ran_ns > 0);
        self.samplers.follow(hot.map(|(_, tid)| *tid));
        let locked = waits.iter().filter(|wait| wait.kind != Kind::Other);
        let contended = locked.filter(|wait| self.locks.is_contended(wait.address));
        let contended: Vec<(i32, u64)> = contended.map(|wait| (wait.tid, wait.address)).collect();
        self.waits.drain(|address| self.locks.is_contended(address));
        self.waits.follow(&contended, |tid| there.iter().any(|(_, it)| *it == tid));
        if self.timeline.keeps(self.looks) {
            let waiting: HashMap<i32, u64> = waits.iter().map(|wait| (wait.tid, wait.address)).collect();
            let cells = there.iter().map(|&(_, tid)| (tid, self.cell(tid, &waiting, interval_ns)));
            let cells: Vec<(i32, Cell)> = cells.filter_map(|(tid, cell)| Some((tid, cell?))).collect();
            self.timeline.add(now_ns.saturating_sub(self.first_ns), cells);
        }
        self.last_ns = now_ns;
        self.looks += 1;
        // A program may have loaded libraries since, and may end before the last look.
        if self.looks.is_power_of_two() {
            let modules = Modules::of(self.threads.process());
            if !modules.is_empty() {
                // Asked while it is there: of a process that has ended nothing can be read.
                self.manx = UnderManx::of(self.threads.process(), &modules.files());
                self.samplers.set_code(modules.code());
                self.waits.set_code(modules.code_of_callers());
                self.modules = modules;
                self.command = self.threads.process().cmdline().unwrap_or_default();
            }
            let ran = there.iter().filter(|(ran_ns, _)| *ran_ns > 0).map(|(_, tid)| *tid);
            self.affinity = affinity(ran).or_else(|| affinity_of(self.pid)).or(self.affinity.take());
            self.last_switches.extend(self.switches_now());
        }
    }

    /// What a look saw of a thread, so long after the look before; `None` of a dead one.
    fn cell(&self, tid: i32, waits: &HashMap<i32, u64>, interval_ns: u64) -> Option<Cell> {
        let track = self.tracks.get(&tid)?;
        let of = |state: char| match state {
            'R' => Some(Cell::Runnable {
                ran: track.ran_part(interval_ns),
                address: self.samplers.latest(tid).unwrap_or(0),
            }),
            'D' => Some(Cell::Blocked),
            'Z' | 'X' => None,
            _ => Some(waits.get(&tid).map_or(Cell::Asleep, |address| Cell::Futex(*address))),
        };
        of(track.last().state)
    }

    /// The switches of the threads, unless there are too many of them: the file is a long one.
    fn switches_now(&self) -> BTreeMap<i32, (u64, u64)> {
        if self.tracks.len() > SWITCHES_MAX { BTreeMap::new() } else { self.threads.switches() }
    }

    fn finish(mut self) -> Evidence {
        self.samplers.drain();
        self.waits.drain(|address| self.locks.is_contended(address));
        self.last_switches.extend(self.switches_now());
        let name = self.tracks.get(&self.pid).map(|track| track.last().name.clone());
        let budget = self.groups.budget(self.affinity.as_ref());
        let mut book = CodeBook::new(std::mem::take(&mut self.modules));
        let places = book.places(self.samplers.samples());
        let mut fault_sites = book.fault_sites();
        fault_sites.truncate(FAULT_SITES_MAX);
        let threads = self.thread_evidence(&places);
        let mut locks = std::mem::replace(&mut self.locks, Locks::of(self.pid)).evidence();
        let addresses: Vec<u64> = locks.iter().map(|(lock, _)| lock.address).collect();
        let names = threads.iter().map(|thread| (thread.tid, thread.name.clone())).collect();
        let yielders: HashSet<i32> =
            threads.iter().filter(|thread| thread.yields()).map(|thread| thread.tid).collect();
        let recorder = std::mem::take(&mut self.timeline);
        let timeline = recorder.timeline(
            &addresses,
            |address| book.waits_at(address),
            &names,
            |tid| yielders.contains(&tid),
        );
        locks.truncate(LOCKS_MAX);
        let mut named = |(mut lock, stacks): (LockEvidence, Vec<Vec<u64>>)| {
            lock.place = book.modules().describe(lock.address);
            lock.callers = book.callers(&stacks);
            lock.waits = self.waits.at(lock.address, |words| book.caller(words));
            lock
        };
        let locks = locks.into_iter().map(&mut named).collect();
        let unseen = self.unseen(&book, &places);
        let modules = book.modules().files();
        Evidence {
            pid: self.pid,
            name: name.unwrap_or_default(),
            command: self.command,
            span_ns: self.last_ns.saturating_sub(self.first_ns).max(1),
            looks: self.looks,
            ended: self.ended,
            own_cpus: 0.0,
            budget: budget.cpus(),
            budget_why: budget.why(),
            cpus: cpus_of_sets(&budget).map_or(budget.cpus(), |cpus| cpus as f64),
            threads,
            groups: self.groups.evidence(),
            machine: Default::default(),
            places: places.into_iter().take(PLACES_MAX).collect(),
            fault_sites,
            locks,
            timeline,
            modules,
            manx: self.manx,
            unseen,
        }
    }

    /// What is known of the threads, those that lost most first.
    fn thread_evidence(&self, places: &[Place]) -> Vec<ThreadEvidence> {
        let mut threads: Vec<ThreadEvidence> = self.tracks.values().map(Track::evidence).collect();
        for thread in &mut threads {
            thread.is_guarded = self.manx.as_ref().is_some_and(|manx| manx.guard);
            thread.kernel_is_sampled = self.samplers.see_the_kernel();
            let of = |from: &BTreeMap<i32, (u64, u64)>| from.get(&thread.tid).copied();
            let before = of(&self.switches).unwrap_or_default();
            let after = of(&self.last_switches).unwrap_or(before);
            thread.voluntary = after.0.saturating_sub(before.0);
            thread.involuntary = after.1.saturating_sub(before.1);
            for place in places {
                let count = place.threads.get(&thread.tid.cast_unsigned()).copied().unwrap_or(0);
                thread.samples += count;
                thread.waiting_samples += if place.waits.is_some() { count } else { 0 };
            }
        }
        threads.sort_by_key(|thread| (std::cmp::Reverse(thread.run_ns + thread.wait_ns), thread.tid));
        threads
    }

    /// What could not be seen, and why.
    fn unseen(&self, book: &CodeBook, places: &[Place]) -> Vec<Unseen> {
        let mut unseen = Vec::new();
        unseen.extend(self.samplers.refusal().map(Unseen::samples));
        if self.calls_refused {
            unseen.push(Unseen::system_calls());
            if book.modules().is_empty() {
                unseen.push(Unseen::modules());
            }
        }
        unseen.extend(self.waits.refusal().map(Unseen::waits));
        let (records, waits) = ("records of waits for a lock", "waits for a lock by function");
        for (count, what, why) in [
            (self.samplers.lost(), "samples", "they were lost between two looks"),
            (self.waits.lost(), records, "they were lost between two looks"),
            (self.waits.left_out(), waits, "they came from more functions than are told apart"),
        ] {
            if count > 0 {
                unseen.push(Unseen::new(format!("{count} {what}"), why, "watch fewer processes"));
            }
        }
        unseen.extend(generated(places));
        unseen.extend(book.unreadable().iter().map(|module| {
            let why = "the file cannot be read as the process sees it";
            Unseen::new(format!("loops and names in {module}"), why, "run it as root")
        }));
        if self.tracks.values().all(|track| track.last().wait_ns.is_none()) {
            let why = "there is no /proc/PID/task/TID/schedstat";
            unseen.push(Unseen::new("waits for a CPU", why, "a kernel with CONFIG_SCHED_INFO"));
        }
        unseen
    }
}

/// That many samples lie in code that no file has.
fn generated(places: &[Place]) -> Option<Unseen> {
    let all: u32 = places.iter().map(|place| place.samples).sum();
    let without = places.iter().filter(|place| place.module == "generated code");
    let without: u32 = without.map(|place| place.samples).sum();
    let part = f64::from(without) / f64::from(all.max(1));
    (part >= GENERATED_MIN).then(|| {
        Unseen::new(
            format!("loops in generated code, where {:.0} % of the samples lie", 100.0 * part),
            "only the code of files is searched",
            "use the runtime's own profiler",
        )
    })
}

/// The CPUs on which any of these threads may run.
fn affinity(threads: impl Iterator<Item = i32>) -> Option<CpuSet> {
    threads.take(AFFINITIES_MAX).filter_map(affinity_of).reduce(|all, one| all.union(&one))
}

/// The CPUs on which a thread may run; `None` if there is no such thread.
///
/// ```
/// assert!(doctor::watch::affinity_of(std::process::id() as i32).is_some_and(|cpus| !cpus.is_empty()));
/// ```
pub fn affinity_of(tid: i32) -> Option<CpuSet> {
    // SAFETY: a set of CPUs is made of integers, so all zeroes are one.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes at most the size of the set to it.
    let result = unsafe { libc::sched_getaffinity(tid, size_of_val(&set), &raw mut set) };
    // SAFETY: the number is less than the size of the set in bits.
    let is_in = |cpu: &usize| unsafe { libc::CPU_ISSET(*cpu, &set) };
    (result == 0).then(|| (0..libc::CPU_SETSIZE as usize).filter(is_in).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_thread_may_run_on_some_cpu() {
        let own = affinity([platform::thread::id() as i32].into_iter()).expect("a set");
        assert!(!own.is_empty());
        assert_eq!(affinity([i32::MAX].into_iter()), None);
    }

    #[test]
    fn much_generated_code_is_worth_a_word() {
        let place = |module: &str, samples| Place { module: module.into(), samples, ..Place::default() };
        assert!(generated(&[place("generated code", 10), place("app", 90)]).is_none());
        assert!(generated(&[place("generated code", 30), place("app", 70)]).is_some());
        assert!(generated(&[]).is_none());
    }

    #[test]
    fn a_process_that_ends_is_watched_until_then() {
        let mut child =
            std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().expect("cat");
        let (pid, mut input) = (child.id() as i32, child.stdin.take());
        // It ends after the first look, when its input does.
        let watched = watch(&[pid], Duration::from_secs(600), |_| drop(input.take()));
        let evidence = watched[0].as_ref().expect("it was there");
        assert!(evidence.ended && evidence.span_ns < 600_000_000_000, "{evidence:?}");
        assert_eq!(evidence.command, ["cat"]);
        child.wait().expect("ended");
    }
}
