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

use platform::perf::Sampler;
use std::collections::{HashMap, HashSet};

/// After how much CPU time a thread is sampled, in ns.
pub const PERIOD_NS: u64 = 1_000_000_000 / 199;
/// How many threads are sampled at once.
pub const THREADS_MAX: usize = 64;

/// The samplers of a process.
#[derive(Debug)]
pub struct Samplers {
    most: usize,
    open: HashMap<i32, Sampler>,
    /// Why a thread was not sampled.
    refused: Option<i32>,
    /// Threads that are not to be tried again.
    given_up: HashSet<i32>,
    samples: HashMap<(u64, u32), u32>,
    /// The instruction of each thread's last sample among those of the last drain.
    latest: HashMap<u32, u64>,
    lost: u64,
}

impl Samplers {
    /// Samples at most this many threads.
    pub fn new(most: usize) -> Samplers {
        Samplers {
            most,
            open: HashMap::new(),
            refused: None,
            given_up: HashSet::new(),
            samples: HashMap::new(),
            latest: HashMap::new(),
            lost: 0,
        }
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
            match Sampler::of_thread(tid.cast_unsigned(), PERIOD_NS) {
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
    }

    /// Collects what was noted since the last call.
    pub fn drain(&mut self) {
        self.latest.clear();
        for sampler in self.open.values_mut() {
            let before = sampler.lost();
            sampler.drain(|sample| {
                *self.samples.entry((sample.address, sample.thread)).or_default() += 1;
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

    /// How often each thread was seen at each address.
    pub fn samples(&self) -> &HashMap<(u64, u32), u32> {
        &self.samples
    }
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
        assert!(one.open.is_empty());
    }
}
