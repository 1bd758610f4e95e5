//! What the threads of a pool have of its control: numbers to read, a CPU to ask for, and a thread
//! to wake.

use super::Control;
use super::decision::Decision;
use super::idle::Idle;
use crate::cpu::{CpuBudget, LimitKind};
use crate::lock::Mutex;
use crate::pool::jobserver::{Allowance, Tokens};
use crate::pool::registry::Member;
use platform::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use platform::clock::{duration_ns, ns_to_ticks, ticks};
use platform::futex;
use std::time::Duration;

/// It waits to be woken, or is not started.
pub(in crate::pool) const ASLEEP: u32 = 0;
/// It decides at each tick.
pub(in crate::pool) const AWAKE: u32 = 1;
/// It is to end.
pub(in crate::pool) const STOPPED: u32 = 2;

/// … and at least so often while jobs come.
const BUDGET_NS_MAX: u64 = 1_000_000_000;

/// What the threads of a pool have of its control.
pub(in crate::pool) struct Steering {
    pub(in crate::pool) control: Control,
    /// The number of workers for each CPU: the paper's factor O.
    pub(in crate::pool) overcommit: f64,
    pub(in crate::pool) tick_ns: u64,
    pub(in crate::pool) workers_max: u32,
    pub(in crate::pool) limit: AtomicU32,
    pub(in crate::pool) idle: Option<Idle>,
    pub(in crate::pool) state: AtomicU32,
    pub(in crate::pool) is_started: AtomicU32,
    pub(in crate::pool) decisions: AtomicU64,
    pub(in crate::pool) last: Mutex<Option<Decision>>,
    /// In thousandths.
    pub(in crate::pool) budget: AtomicU64,
    /// Whether workers waited for CPUs at the last tick.
    pub(in crate::pool) waited: AtomicBool,
    /// Whether the pool gives way to no neighbour, since its neighbours do not give way.
    pub(in crate::pool) firm: AtomicBool,
    /// Returns true if a worker that shares its CPU may rest.
    pub(in crate::pool) may_rest: AtomicBool,
    /// When it was read.
    pub(in crate::pool) budget_ticks: AtomicU64,
    pub(in crate::pool) allowance: Option<Mutex<Allowance>>,
    pub(in crate::pool) member: Option<Member>,
}

/// What limits a pool besides the budget.
#[derive(Default)]
pub(in crate::pool) struct Bounds {
    pub(in crate::pool) tokens: Option<Tokens>,
    pub(in crate::pool) member: Option<Member>,
}

impl Steering {
    pub(in crate::pool) fn new(
        control: Control,
        overcommit: f64,
        tick: Duration,
        workers_max: u32,
        bounds: Bounds,
    ) -> Steering {
        let budget = CpuBudget::now();
        let steering = Steering {
            control,
            overcommit,
            tick_ns: duration_ns(tick),
            workers_max,
            limit: AtomicU32::new(workers_max),
            idle: if control == Control::Pressure { Idle::of(&budget, overcommit) } else { None },
            state: AtomicU32::new(ASLEEP),
            is_started: AtomicU32::new(0),
            decisions: AtomicU64::new(0),
            last: Mutex::new(None),
            budget: AtomicU64::new(0),
            waited: AtomicBool::new(false),
            firm: AtomicBool::new(false),
            may_rest: AtomicBool::new(true),
            budget_ticks: AtomicU64::new(ticks()),
            allowance: bounds.tokens.map(|tokens| Mutex::new(Allowance::new(tokens))),
            member: bounds.member,
        };
        steering.note_budget(budget.cpus());
        if steering.allowance.is_some() {
            steering.limit.store(1, Ordering::Relaxed);
        }
        steering
    }

    /// Whether others are asked how many workers may be active.
    pub(in crate::pool) fn has_bounds(&self) -> bool {
        self.allowance.is_some() || self.member.is_some()
    }

    /// Whether [`Control::Pressure`] decides.
    pub(in crate::pool) fn is_by_pressure(&self) -> bool {
        self.control == Control::Pressure
    }

    /// Returns how many workers may be active at most.
    #[inline]
    pub(in crate::pool) fn limit(&self) -> u32 {
        // Relaxed, here and below: hints, unless a fence is named.
        self.limit.load(Ordering::Relaxed)
    }

    /// The quota of a budget, if workers are to be paced by it: if it is what limits.
    pub(in crate::pool) fn quota_cpus(&self, budget: &CpuBudget) -> Option<f64> {
        let quota = matches!(budget.source(), LimitKind::Quota { .. });
        (self.control == Control::Pressure && quota).then(|| budget.cpus())
    }

    /// Notes that the budget is `cpus` CPUs. The factor of overcommitment makes more workers of
    /// them.
    pub(in crate::pool) fn note_budget(&self, cpus: f64) {
        self.budget.store((cpus * 1000.0) as u64, Ordering::Relaxed);
        if self.allowance.is_none() {
            self.limit.store(self.workers_for(cpus), Ordering::Relaxed);
        }
        if let Some(member) = &self.member {
            let _ = member.set_cap(cpus);
        }
    }

    /// Returns the most workers that can be of use with `cpus` CPUs.
    pub(in crate::pool) fn workers_for(&self, cpus: f64) -> u32 {
        if self.control == Control::Fixed {
            return self.workers_max;
        }
        // A hundredth more than a whole number is no reason for a worker more.
        (cpus * self.overcommit - 0.01).ceil().clamp(1.0, f64::from(self.workers_max)) as u32
    }

    /// As many workers as there are tokens for, of make's, and no more than have something to do.
    /// `busy` says how many have.
    pub(in crate::pool) fn fit_tokens(&self, busy: impl FnOnce() -> usize) {
        if let Some(allowance) = &self.allowance {
            let cpus = self.budget_cpus();
            let wanted = busy().clamp(1, self.workers_for(cpus) as usize);
            let got = allowance.lock().fit(wanted) as u32;
            self.limit.store(got.max(1), Ordering::Relaxed);
        }
    }

    /// Whether the control thread may sleep while nothing is queued: not as long as it has tokens
    /// to give back.
    pub(in crate::pool) fn may_sleep(&self) -> bool {
        self.allowance.as_ref().is_none_or(|allowance| allowance.lock().active() == 1)
    }

    /// There are no workers any more.
    pub(in crate::pool) fn release(&self) {
        if let Some(allowance) = &self.allowance {
            allowance.lock().fit(1);
        }
    }

    /// Whether one more worker would have a CPU for itself, as far as is known.
    #[inline]
    pub(in crate::pool) fn is_cpu_idle(&self, now_ticks: u64) -> bool {
        self.idle.as_ref().is_some_and(|idle| idle.is_idle(now_ticks))
    }

    /// Whether a worker between two jobs is to let others run: threads outnumber the CPUs (now, or
    /// if that cannot be known, at the last tick), and the neighbours give way, too, or leave the
    /// pool enough.
    #[inline]
    pub(in crate::pool) fn should_yield(&self, now_ticks: u64) -> bool {
        if self.firm.load(Ordering::Relaxed) {
            return false;
        }
        match &self.idle {
            Some(idle) => !idle.is_idle(now_ticks),
            None => self.waited.load(Ordering::Relaxed),
        }
    }

    /// As `is_cpu_idle`, for a caller that calls a worker if it is so.
    pub(in crate::pool) fn take_idle_cpu(&self, now_ticks: u64) -> bool {
        self.idle.as_ref().is_some_and(|idle| idle.take(now_ticks))
    }

    /// There is more to do than is being done: the control thread is to decide about that. `start`
    /// starts it when it is needed first.
    #[inline]
    pub(in crate::pool) fn wake(&self, start: impl FnOnce() -> std::io::Result<()>) {
        if self.state.load(Ordering::Relaxed) == ASLEEP && self.control != Control::Fixed {
            self.wake_slow(start);
        }
    }

    #[cold]
    fn wake_slow(&self, start: impl FnOnce() -> std::io::Result<()>) {
        if self.state.compare_exchange(ASLEEP, AWAKE, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            return;
        }
        if self.is_started.swap(1, Ordering::Relaxed) != 0 {
            futex::wake(&self.state, 1);
        } else if start().is_err() {
            // The pool works without, with as many workers as it has now; the next job in such a
            // place tries again.
            self.is_started.store(0, Ordering::Relaxed);
            let _ = self.state.compare_exchange(AWAKE, ASLEEP, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Whether the control thread is to read the budget again, by a job that ended at this time:
    /// true once for each time that it is.
    #[inline]
    pub(in crate::pool) fn is_budget_old(&self, now_ticks: u64) -> bool {
        let read_ticks = self.budget_ticks.load(Ordering::Relaxed);
        let is_old = now_ticks.saturating_sub(read_ticks) > ns_to_ticks(BUDGET_NS_MAX);
        if is_old {
            self.budget_ticks.store(now_ticks, Ordering::Relaxed);
        }
        is_old
    }

    /// The control thread is to end, and none will be started.
    pub(in crate::pool) fn stop(&self) {
        self.state.store(STOPPED, Ordering::Relaxed);
        futex::wake_all(&self.state);
    }

    /// The CPUs of the budget, as last read.
    pub(in crate::pool) fn budget_cpus(&self) -> f64 {
        self.budget.load(Ordering::Relaxed) as f64 / 1000.0
    }
}
