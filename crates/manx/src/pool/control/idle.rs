//! Whether a CPU is idle, at this moment.
//!
//! The kernel says how many threads run or wish to on the whole machine ([`Runnable`]). If they are
//! fewer than the CPUs that are online, a CPU is idle, and one more worker takes nothing from other
//! threads: neither from neighbours' nor from the pool's own. That costs a microsecond, so it is
//! asked at most each [`FRESH_NS`], and only by a thread that could do something with the answer.
//!
//! It is of no use to a process that may use some of the CPUs only, since it cannot know where the
//! others' threads run: then there is no [`Idle`], and the pool grows by trying (`pressure.rs`).

use crate::cpu::{CpuBudget, Runnable};
use platform::atomic::{AtomicBool, AtomicU64, Ordering};
use platform::clock::ns_to_ticks;

/// The time for which an answer is used.
const FRESH_NS: u64 = 200_000;

pub(in crate::pool) struct Idle {
    runnable: Runnable,
    /// Up to this number of threads there is room for one more: the CPUs that are online, times the
    /// factor of overcommitment.
    room: u32,
    asked_ticks: AtomicU64,
    answer: AtomicBool,
    /// When a worker was called because of an answer.
    taken_ticks: AtomicU64,
}

impl Idle {
    /// For a process of this budget, and `overcommit` threads for each CPU; `None` if it cannot be
    /// known.
    pub(in crate::pool) fn of(budget: &CpuBudget, overcommit: f64) -> Option<Idle> {
        let online = budget.online()?.len();
        let sets = budget.limits().iter().filter_map(|limit| limit.kind.cpus());
        if sets.into_iter().any(|set| set.len() < online) {
            return None;
        }
        let runnable = Runnable::open()?;
        let (asked_ticks, taken_ticks) = (AtomicU64::new(0), AtomicU64::new(0));
        let room = (online as f64 * overcommit).max(1.0) as u32;
        Some(Idle { runnable, room, asked_ticks, answer: AtomicBool::new(false), taken_ticks })
    }

    /// Asked by a thread that runs, about another that would run with it, or about itself. A thread
    /// that has just queued a job is about to wait most likely; so the caller counts as no thread's
    /// rival.
    #[inline]
    pub(in crate::pool) fn is_idle(&self, now_ticks: u64) -> bool {
        // Relaxed: a hint, here and below.
        let asked_ticks = self.asked_ticks.load(Ordering::Relaxed);
        if now_ticks.saturating_sub(asked_ticks) < ns_to_ticks(FRESH_NS) {
            return self.answer.load(Ordering::Relaxed);
        }
        if self
            .asked_ticks
            .compare_exchange(asked_ticks, now_ticks, Ordering::Relaxed, Ordering::Relaxed)
            .is_err()
        {
            return self.answer.load(Ordering::Relaxed);
        }
        let idle = self.runnable.threads().is_some_and(|threads| threads <= self.room);
        self.answer.store(idle, Ordering::Relaxed);
        idle
    }

    /// The same, for a caller that calls a worker if it is so: true once for each answer.
    pub(in crate::pool) fn take(&self, now_ticks: u64) -> bool {
        let taken_ticks = self.taken_ticks.load(Ordering::Relaxed);
        if now_ticks.saturating_sub(taken_ticks) < ns_to_ticks(FRESH_NS) || !self.is_idle(now_ticks) {
            return false;
        }
        self.taken_ticks
            .compare_exchange(taken_ticks, now_ticks, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    }

    /// The same, asked by a thread that would not be there if it did not ask.
    pub(in crate::pool) fn is_idle_for_observer(&self) -> bool {
        self.runnable.threads().is_some_and(|threads| threads <= self.room)
    }
}
