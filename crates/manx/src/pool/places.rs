//! On which CPUs workers run: each on one of its own, as far as others leave it one.
//!
//! The kernel divides CPUs among threads, and does not know that two of them take jobs from one
//! queue. So it lets two workers share a CPU for some tens of milliseconds, while a neighbour has
//! another one to itself; and it leaves a worker on a CPU where short turns of other threads
//! interrupt each job. So while threads outnumber CPUs a worker looks between two jobs, and moves
//!
//! - if another worker of the pool began its last job on this CPU;
//! - if its last job waited for this CPU for more than [`INTERRUPTED_NS`], and other workers are
//!   active. (A pool with one worker left has no better CPU to expect: beside three neighbours on
//!   two CPUs such moves cost a tenth of its jobs.)
//!
//! It moves to any CPU that the kernel chooses but this one, the one before, and those of the other
//! workers. To move, a worker takes these CPUs out of its affinity and puts them back at once. A
//! worker that is bound to one CPU never moves.
//!
//! 1. `workers` counts for each CPU the workers whose last job began there. A worker that parks is
//!    counted nowhere. The counts are hints: the kernel moves workers as well.
//! 2. A worker's affinity is the same before and after a move. If another program changes it in the
//!    microseconds between, that change is lost.

use platform::atomic::{AtomicU32, Ordering};
use platform::clock::ns_to_ticks;
use platform::cpu::{self, Mask};
use std::cell::Cell;

/// A job that waited for less was not interrupted: the control thread and the threads that queue
/// jobs run for some microseconds at a time.
const INTERRUPTED_NS: u64 = 200_000;
/// The shortest time between two moves of a worker.
const MOVE_NS_MIN: u64 = 1_000_000;
/// No CPU.
const NOWHERE: usize = usize::MAX;

/// The numbers of workers of a pool on each CPU.
#[derive(Debug)]
pub(super) struct Places {
    workers: Box<[AtomicU32]>,
}

impl Places {
    /// Returns places on the CPUs up to the last one of these.
    pub(super) fn new(cpus: &Mask) -> Places {
        let words = cpus.iter().rposition(|word| *word != 0).map_or(0, |last| last + 1);
        Places { workers: (0..64 * words).map(|_| AtomicU32::new(0)).collect() }
    }

    // Relaxed, in all of these: hints (Invariant 1).

    fn enter(&self, cpu: usize) {
        self.workers.get(cpu).inspect(|count| _ = count.fetch_add(1, Ordering::Relaxed));
    }

    fn leave(&self, cpu: usize) {
        self.workers.get(cpu).inspect(|count| _ = count.fetch_sub(1, Ordering::Relaxed));
    }

    fn count(&self, cpu: usize) -> u32 {
        self.workers.get(cpu).map_or(0, |count| count.load(Ordering::Relaxed))
    }

    /// Takes these CPUs and those of the workers out of a mask; `None` if no CPU is left.
    fn free(&self, mut mask: Mask, without: [usize; 2]) -> Option<Mask> {
        let taken = (0..self.workers.len()).filter(|cpu| self.count(*cpu) > 0);
        for cpu in taken.chain(without) {
            if let Some(word) = mask.get_mut(cpu / 64) {
                *word &= !(1 << (cpu % 64));
            }
        }
        mask.iter().any(|word| *word != 0).then_some(mask)
    }
}

/// The place of one worker.
#[derive(Debug)]
pub(super) struct Place {
    /// Where its last job began.
    cpu: Cell<usize>,
    /// The CPU from which it moved last.
    left: Cell<usize>,
    moved_ticks: Cell<u64>,
    /// For how long the worker had waited for CPUs when its last job began, if that was looked up.
    waited_ns: Cell<Option<u64>>,
}

impl Default for Place {
    fn default() -> Place {
        let nowhere = || Cell::new(NOWHERE);
        Place { cpu: nowhere(), left: nowhere(), moved_ticks: Cell::new(0), waited_ns: Cell::new(None) }
    }
}

impl Place {
    /// Notes where the calling worker runs. Returns whether it is where it was.
    pub(super) fn note(&self, places: &Places) -> bool {
        let here = cpu::current();
        let before = self.cpu.replace(here);
        if before != here {
            places.leave(before);
            places.enter(here);
        }
        before == here
    }

    /// Notes that the calling worker runs nowhere: it is about to park.
    pub(super) fn leave(&self, places: &Places) {
        places.leave(self.cpu.replace(NOWHERE));
        self.waited_ns.set(None);
    }

    /// Notes that a job begins, and for how long the calling worker has waited for CPUs in all its
    /// life, if it will be asked whether the job was interrupted.
    pub(super) fn begin(&self, waited_ns: Option<u64>) {
        self.waited_ns.set(waited_ns);
    }

    /// Moves the calling worker, between two jobs, if it should not stay on its CPU. `has_others`
    /// says whether other workers are active, `waited_ns` for how long the worker has waited for
    /// CPUs in all its life.
    pub(super) fn settle(
        &self,
        places: &Places,
        has_others: bool,
        waited_ns: impl FnOnce() -> Option<u64>,
        now_ticks: u64,
    ) {
        let has_stayed = self.note(places);
        let before_ns = self.waited_ns.get();
        let is_interrupted = || match (before_ns, waited_ns()) {
            (Some(before_ns), Some(waited_ns)) => waited_ns.saturating_sub(before_ns) > INTERRUPTED_NS,
            _ => false,
        };
        let is_crowded = places.count(self.cpu.get()) > 1;
        // If the kernel has moved the worker since, its new place may be a good one.
        if (is_crowded || has_stayed && has_others && is_interrupted())
            && now_ticks.saturating_sub(self.moved_ticks.get()) > ns_to_ticks(MOVE_NS_MIN)
        {
            self.moved_ticks.set(now_ticks);
            self.move_away(places);
        }
    }

    #[cold]
    fn move_away(&self, places: &Places) {
        let (here, all) = (self.cpu.get(), cpu::allowed());
        let before = self.left.replace(here);
        // The second call fails only if none of the CPUs is there any more.
        if places.free(all, [here, before]).is_some_and(|free| cpu::bind(&free)) {
            cpu::bind(&all);
            self.note(places);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mask(cpus: &[usize]) -> Mask {
        let mut mask = [0; cpu::COUNT_MAX / 64];
        cpus.iter().for_each(|cpu| mask[cpu / 64] |= 1 << (cpu % 64));
        mask
    }

    #[test]
    fn a_worker_moves_to_a_cpu_that_no_worker_has() {
        let places = Places::new(&mask(&[0, 1, 2, 70]));
        places.enter(2);
        assert_eq!(places.free(mask(&[0, 1, 2, 70]), [0, NOWHERE]), Some(mask(&[1, 70])));
        assert_eq!(places.free(mask(&[0, 1, 2, 70]), [0, 70]), Some(mask(&[1])));
        assert_eq!(places.free(mask(&[0, 2]), [0, NOWHERE]), None);
        places.leave(2);
        places.leave(NOWHERE);
        places.enter(4096);
        assert_eq!(places.free(mask(&[0, 2, 4096]), [0, NOWHERE]), Some(mask(&[2, 4096])), "unknown is free");
    }

    #[test]
    fn a_worker_stays_that_was_not_interrupted_or_is_the_only_one() {
        let places = Places::new(&cpu::allowed());
        for (has_others, waited_ns) in [(true, INTERRUPTED_NS), (false, 1_000 * INTERRUPTED_NS)] {
            let place = Place::default();
            place.note(&places);
            place.begin(Some(0));
            place.settle(&places, has_others, || Some(waited_ns), 1_000 * ns_to_ticks(MOVE_NS_MIN));
            assert_eq!(place.moved_ticks.get(), 0);
            place.leave(&places);
        }
    }

    #[test]
    fn a_move_leaves_the_affinity_as_it_was_and_the_counts_right() {
        let all = cpu::allowed();
        let places = Places::new(&all);
        let place = Place::default();
        let sum = || (0..places.workers.len()).map(|cpu| places.count(cpu)).sum::<u32>();
        for round in 1..20 {
            place.note(&places);
            place.begin(Some(0));
            place.settle(
                &places,
                true,
                || Some(INTERRUPTED_NS + 1),
                round * 1_000 * ns_to_ticks(MOVE_NS_MIN),
            );
            assert_eq!((cpu::allowed(), sum()), (all, 1));
        }
        place.leave(&places);
        assert_eq!(sum(), 0);
    }
}
