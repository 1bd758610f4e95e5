//! Where threads are when they run: samples by the kernel's clock.
//!
//! `perf_event_open` interrupts a thread each time that it has run for a period, and notes the
//! instruction. Only what lies outside the kernel is noted, which needs no rights for the own
//! processes (`perf_event_paranoid` of 2). Nothing is attached to the program and nothing stops.
//! At 199 interrupts a second of CPU time, of some microseconds each, a thread loses less than
//! 0.1 %. The rate is no divisor of anything that programs do regularly.
//!
//! Only the threads that run most are sampled, and at most a number of them. Their samples stand
//! for the others.
//!
//! A thread that waits by calling one function again and again is seen in what this function calls.
//! So a sample of the first few threads has the top of the stack, too. Of it only the words are
//! kept that point into code: the return addresses, and a few others.

use platform::perf::Sampler;
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// After how much CPU time a thread is sampled, in ns.
pub const PERIOD_NS: u64 = 1_000_000_000 / 199;
/// How many threads are sampled at once.
pub const THREADS_MAX: usize = 64;
/// … and how many of them with their stacks. The kernel lets each user lock 516 kB per CPU, and a
/// thread's samples with stacks take 36 kB.
const STACKS_MAX: usize = 12;
/// How many words of a stack are kept.
const CALLERS_MAX: usize = 12;

/// Where a thread was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Seen {
    /// The instruction
    pub address: u64,
    /// The thread
    pub thread: u32,
    /// Words at the top of its stack that point into code, the top first
    pub callers: Box<[u64]>,
}

/// The samplers of a process.
#[derive(Debug)]
pub struct Samplers {
    most: usize,
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
    /// Samples at most this many threads.
    pub fn new(most: usize) -> Samplers {
        Samplers {
            most,
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

    /// Stops sampling threads that are not among these.
    pub fn keep(&mut self, is_there: impl Fn(i32) -> bool) {
        self.drain();
        self.open.retain(|tid, _| is_there(*tid));
        self.with_stacks.retain(|tid| is_there(*tid));
    }

    /// Collects what was noted since the last call.
    pub fn drain(&mut self) {
        self.latest.clear();
        for sampler in self.open.values_mut() {
            let before = sampler.lost();
            sampler.drain(|sample| {
                let is_code = |word: &&u64| points_into(&self.code, **word);
                let callers = sample.stack.iter().filter(is_code).take(CALLERS_MAX).copied().collect();
                let seen = Seen { address: sample.address, thread: sample.thread, callers };
                *self.samples.entry(seen).or_default() += 1;
                self.latest.insert(sample.thread, sample.address);
            });
            self.lost += sampler.lost() - before;
        }
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
        one.keep(|_| false);
        assert!(one.open.is_empty() && one.with_stacks.is_empty());
    }

    #[test]
    fn an_address_is_in_code_or_not() {
        let code = [10..20, 30..40];
        let inside: Vec<u64> = (0..50).filter(|at| points_into(&code, *at)).collect();
        assert_eq!(inside, (10..20).chain(30..40).collect::<Vec<u64>>());
    }
}
