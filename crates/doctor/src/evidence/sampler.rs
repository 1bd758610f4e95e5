//! Where threads are when they run: samples by the kernel's clock.
//!
//! `perf_event_open` notes the instruction outside the kernel each time that a period has passed.
//! Nothing is attached to the program and nothing stops. But a sample takes some microseconds, and
//! up to 25 on a virtual machine, from a thread that others may wait for. At 97 samples per second
//! a program loses little. The rate is no divisor of anything that programs do regularly.
//!
//! *With the right to observe the machine* ([`MachineSampler`]) each CPU is sampled, and so are all
//! processes (`others.rs`). That costs the program nothing when its threads sleep and wake. A
//! thread inside the kernel is sampled, too, at its system call: one that yields in a loop may
//! spend most of its CPU time there.
//!
//! *Without it* the threads of the own processes are sampled (`perf_event_paranoid` of 2 allows
//! that) while they run outside the kernel: those that run most, and at most a number of them.
//! Their samples stand for the others.
//! Each switch to or from such a thread costs 1.7 µs. So a thread that is often switched to is
//! sampled between two looks of five only ([`SLICES_MAX`]).
//!
//! A thread that waits by calling one function again and again is seen in what this function
//! calls. So a sample has the top of the stack, too; without the right only those of the first few
//! threads. Of it only the words are kept that point into code: the return addresses, and a few
//! others.

use manx::cpu::Classes;
use platform::perf::{Sample, Sampler};
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// After how much CPU time a thread is sampled, in ns.
pub const PERIOD_NS: u64 = 1_000_000_000 / 97;
/// How many threads are sampled at once.
pub const THREADS_MAX: usize = 64;
/// … and how many of them with their stacks. The kernel lets each user lock 516 kB per CPU, and a
/// thread's samples with stacks take 36 kB.
const STACKS_MAX: usize = 12;
/// How many words of a stack are kept.
const CALLERS_MAX: usize = 12;
/// How many places with their callers are told apart; further samples are counted without callers.
const STACKS_KEPT_MAX: usize = 50_000;
/// A thread that is switched to more often, per second, pauses: 0.5 % of its time.
pub const SLICES_MAX: f64 = 3_000.0;
/// … for this number of looks of [`TURN`].
const PAUSES: u32 = 4;
const TURN: u32 = 5;

/// Samplers of all CPUs.
#[derive(Debug)]
pub struct MachineSampler(Vec<Sampler>);

impl MachineSampler {
    /// Samples from now on; `None` without the right to.
    pub fn open() -> Option<MachineSampler> {
        let classes = Classes::detect("/sys".as_ref());
        let cpus = classes.big().union(classes.little());
        let samplers = cpus.iter().map(|cpu| Sampler::of_cpu(cpu as u32, PERIOD_NS).ok());
        let samplers: Vec<Sampler> = samplers.collect::<Option<_>>()?;
        (!samplers.is_empty()).then_some(MachineSampler(samplers))
    }

    /// How many CPUs there are.
    pub fn cpus(&self) -> usize {
        self.0.len()
    }

    /// Calls `each` with the samples since the last call.
    pub fn drain(&mut self, mut each: impl FnMut(Sample<'_>)) {
        self.0.iter_mut().for_each(|sampler| sampler.drain(&mut each));
    }

    /// How many samples were lost, of whatever process.
    pub fn lost(&self) -> u64 {
        self.0.iter().map(Sampler::lost).sum()
    }
}

/// Where a thread was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Seen {
    /// The instruction
    pub address: u64,
    /// The thread
    pub thread: u32,
    /// True if it was inside the kernel, which it has entered there
    pub in_kernel: bool,
    /// Words at the top of its stack that point into code, the top first
    pub callers: Box<[u64]>,
}

/// The samples of a process, and the samplers of its threads.
#[derive(Debug)]
pub struct Samplers {
    /// The samples come from a [`MachineSampler`].
    by_machine: bool,
    most: usize,
    looks: u32,
    /// Where there is code.
    code: Vec<Range<u64>>,
    open: HashMap<i32, Sampler>,
    /// The threads that are sampled with their stacks.
    with_stacks: HashSet<i32>,
    /// Why a thread was not sampled.
    refused: Option<i32>,
    /// Threads that are not to be tried again.
    given_up: HashSet<i32>,
    samples: HashMap<Seen, u32>,
    /// The instruction of each thread's last sample among those of the last drain.
    latest: HashMap<u32, u64>,
    lost: u64,
}

impl Samplers {
    /// Of samples that a [`MachineSampler`] brings.
    pub fn of_machine() -> Samplers {
        Samplers { by_machine: true, ..Samplers::new(0) }
    }

    /// Samples at most this many threads.
    pub fn new(most: usize) -> Samplers {
        Samplers {
            by_machine: false,
            most,
            looks: 0,
            code: Vec::new(),
            open: HashMap::new(),
            with_stacks: HashSet::new(),
            refused: None,
            given_up: HashSet::new(),
            samples: HashMap::new(),
            latest: HashMap::new(),
            lost: 0,
        }
    }

    /// Says where there is code, in ascending order.
    pub fn set_code(&mut self, code: Vec<Range<u64>>) {
        self.code = code;
    }

    /// Samples these threads too, the first ones first, as long as there is room.
    pub fn follow(&mut self, threads: impl IntoIterator<Item = i32>) {
        for tid in threads {
            if self.open.len() >= self.most {
                return;
            }
            if self.open.contains_key(&tid) || self.given_up.contains(&tid) {
                continue;
            }
            let sampled = |with_stack| Sampler::of_thread(tid.cast_unsigned(), PERIOD_NS, with_stack);
            let with_stack = if self.with_stacks.len() < STACKS_MAX { sampled(true).ok() } else { None };
            if with_stack.is_some() {
                self.with_stacks.insert(tid);
            }
            // Without the right to lock so much memory, a sample has no stack.
            match with_stack.map_or_else(|| sampled(false), Ok) {
                Ok(sampler) => drop(self.open.insert(tid, sampler)),
                Err(error) => {
                    self.given_up.insert(tid);
                    // A thread that has ended meanwhile is no refusal.
                    if error != libc::ESRCH {
                        self.refused = Some(error);
                    }
                }
            }
        }
    }

    /// Stops sampling threads that are not there any more, and lets those pause that are switched
    /// to too often. `slices_per_s` says how often that was, or that there is no such thread.
    pub fn keep(&mut self, slices_per_s: impl Fn(i32) -> Option<f64>) {
        self.drain();
        self.looks += 1;
        self.open.retain(|tid, sampler| {
            let Some(slices_per_s) = slices_per_s(*tid) else { return false };
            let pauses = slices_per_s > SLICES_MAX && self.looks % TURN < PAUSES;
            // A sampler that cannot be changed goes on.
            let _ = if pauses { sampler.pause() } else { sampler.resume() };
            true
        });
        self.with_stacks.retain(|tid| self.open.contains_key(tid));
    }

    /// Collects what was noted since the last call.
    pub fn drain(&mut self) {
        if self.by_machine {
            return;
        }
        self.latest.clear();
        let mut open = std::mem::take(&mut self.open);
        for sampler in open.values_mut() {
            let before = sampler.lost();
            sampler.drain(|sample| self.add(sample));
            self.lost += sampler.lost() - before;
        }
        self.open = open;
    }

    /// The samples of a [`MachineSampler`] that follow are of a new look; `lost` is how many it has
    /// lost so far.
    pub fn begin(&mut self, lost: u64) {
        self.latest.clear();
        self.lost = lost;
    }

    /// Counts a sample where it was seen. [`Samplers::drain`] calls this for samples of threads,
    /// and the watch for those of a [`MachineSampler`].
    pub fn add(&mut self, sample: Sample<'_>) {
        let is_code = |word: &&u64| points_into(&self.code, **word);
        let callers = sample.stack.iter().filter(is_code).take(CALLERS_MAX);
        let callers =
            if self.samples.len() < STACKS_KEPT_MAX { callers.copied().collect() } else { [].into() };
        let Sample { address, thread, in_kernel, .. } = sample;
        let seen = Seen { address, thread, in_kernel, callers };
        *self.samples.entry(seen).or_default() += 1;
        self.latest.insert(sample.thread, sample.address);
    }

    /// Whether there are samples of threads inside the kernel, too.
    pub fn see_the_kernel(&self) -> bool {
        self.by_machine
    }

    /// Why threads could not be sampled, if none was.
    pub fn refusal(&self) -> Option<i32> {
        if self.open.is_empty() && self.samples.is_empty() { self.refused } else { None }
    }

    /// How many samples were lost.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Where this thread was seen last since the look before, if it was.
    pub fn latest(&self, tid: i32) -> Option<u64> {
        self.latest.get(&tid.cast_unsigned()).copied()
    }

    /// How often each thread was seen at each address, with the same callers.
    pub fn samples(&self) -> &HashMap<Seen, u32> {
        &self.samples
    }
}

/// Whether an address lies in one of these ranges, which are in ascending order.
pub(super) fn points_into(code: &[Range<u64>], address: u64) -> bool {
    let next = code.partition_point(|range| range.start <= address);
    code[..next].last().is_some_and(|range| address < range.end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_threads_are_sampled_than_there_is_room_for() {
        let own = platform::thread::id() as i32;
        let mut none = Samplers::new(0);
        none.follow([own]);
        assert!(none.refusal().is_none() && none.open.is_empty());
        let mut one = Samplers::new(1);
        one.follow([own, own]);
        assert!(one.open.len() == 1 || one.refusal().is_some());
        one.keep(|_| Some(SLICES_MAX + 1.0));
        one.keep(|_| None);
        assert!(one.open.is_empty() && one.with_stacks.is_empty());
    }

    #[test]
    fn samples_of_the_machine_are_kept_with_their_callers() {
        let mut samplers = Samplers::of_machine();
        samplers.set_code(vec![10..20, 30..40]);
        samplers.follow([platform::thread::id() as i32]);
        assert!(samplers.open.is_empty(), "no thread is sampled");
        samplers.begin(0);
        let stack = &[1, 31, 50, 12];
        let sample = Sample { address: 11, process: 1, thread: 7, in_kernel: true, stack };
        samplers.add(sample);
        samplers.add(sample);
        samplers.drain();
        let seen = Seen { address: 11, thread: 7, in_kernel: true, callers: [31, 12].into() };
        assert_eq!((samplers.samples().get(&seen), samplers.latest(7)), (Some(&2), Some(11)));
        samplers.begin(3);
        assert_eq!((samplers.lost(), samplers.latest(7)), (3, None));
    }

    #[test]
    fn the_machine_is_sampled_or_refused() {
        let Some(mut machine) = MachineSampler::open() else { return };
        let own = std::process::id();
        let mut seen = 0;
        testing::until("this thread is seen", || {
            (0..1_000_000).for_each(|round| _ = std::hint::black_box(round));
            machine.drain(|sample| seen += u32::from(sample.process == own));
            seen > 0
        });
    }

    #[test]
    fn an_address_is_in_code_or_not() {
        let code = [10..20, 30..40];
        let inside: Vec<u64> = (0..50).filter(|at| points_into(&code, *at)).collect();
        assert_eq!(inside, (10..20).chain(30..40).collect::<Vec<u64>>());
    }
}
