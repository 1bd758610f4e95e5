//! The control thread: what it measures at each tick, and what it decides.

use super::control::{ASLEEP, AWAKE, Control, Decision, STOPPED, Seen, Steering, Why, fair, pressure, share};
use super::shared::Shared;
use crate::cpu::{BudgetWatch, CpuBudget, ThreadTimes};
use platform::atomic::{Ordering, fence};
use platform::clock::{duration_ns, now_ns, ticks};
use platform::futex;
use std::sync::Arc;
use std::time::Instant;

/// The time between two readings of the budget, while the control thread is awake.
const BUDGET_NS: u64 = 100_000_000;
/// While nothing calls for haste, a tick is doubled after this number of ticks that changed
/// nothing …
const CALM_TICKS: u32 = 8;
/// … and again, up to this multiple of its length.
const STRETCH_MAX: u32 = 4;
/// Ticks without anything queued after which the control thread sleeps.
const QUIET_TICKS: u32 = 3;

/// The rules in use.
enum Rules {
    Pressure(pressure::Pressure),
    Share(Box<share::Share>),
}

/// The control thread.
struct Controller<'a> {
    shared: &'a Arc<Shared>,
    rules: Rules,
    fair: fair::Fair,
    watch: BudgetWatch,
    budget_read_ns: u64,
    /// The quota, if that is what limits.
    quota_cpus: Option<f64>,
    seen_ns: u64,
    times: Vec<ThreadTimes>,
    /// A tick is this multiple of its usual length …
    stretch: u32,
    /// … and was so for this number of ticks that changed nothing.
    calm: u32,
}

pub(super) fn run(shared: &Arc<Shared>) {
    let steering = &shared.steering;
    let rules = match steering.control {
        Control::Share => Rules::Share(Box::new(share::Share::new(steering.overcommit))),
        Control::Pressure | Control::Fixed => Rules::Pressure(pressure::Pressure::new(steering.overcommit)),
    };
    let watch = BudgetWatch::new();
    let (fair, times) = (fair::Fair::default(), Vec::new());
    let (seen_ns, quota_cpus) = (now_ns(), steering.quota_cpus(&CpuBudget::now()));
    let mut controller = Controller {
        shared,
        rules,
        fair,
        watch,
        budget_read_ns: 0,
        quota_cpus,
        seen_ns,
        times,
        stretch: 1,
        calm: 0,
    };
    let mut quiet = 0;
    loop {
        match steering.state.load(Ordering::Relaxed) {
            STOPPED => return,
            ASLEEP => {
                futex::wait(&steering.state, ASLEEP);
                controller.begin();
                if steering.state.load(Ordering::Relaxed) == STOPPED || !steering.has_bounds() {
                    continue;
                }
                // What was given back while there was nothing to do is asked for at once.
            }
            _ => {
                futex::wait_for(&steering.state, AWAKE, steering.tick_ns * u64::from(controller.stretch));
            }
        }
        controller.tick();
        quiet = if shared.queue.is_empty() && steering.may_sleep() { quiet + controller.stretch } else { 0 };
        if quiet >= QUIET_TICKS {
            quiet = 0;
            let _ = steering.state.compare_exchange(AWAKE, ASLEEP, Ordering::Relaxed, Ordering::Relaxed);
            // Pairs with the fence of an offer: Invariant 2 of the control.
            fence(Ordering::SeqCst);
            if !shared.queue.is_empty() {
                let _ = steering.state.compare_exchange(ASLEEP, AWAKE, Ordering::Relaxed, Ordering::Relaxed);
            }
        }
    }
}

/// Returns the share of the process in its registry, in CPUs. While jobs are queued, the process
/// demands all that it may use, and otherwise a little more than it uses. `None` if it is not a
/// member, or not any more.
fn registry_share(steering: &Steering, seen: &Seen) -> Option<f64> {
    let member = steering.member.as_ref()?;
    let uses_cpus = seen.run_ns as f64 / seen.elapsed_ns as f64;
    let wants_cpus = if seen.queued { f64::from(seen.limit) } else { uses_cpus * 1.2 + 0.1 };
    member.set_demand(wants_cpus).ok()?;
    // A member that has gone is swept away at the next look.
    let _ = member.sweep();
    let share_cpus = member.share().ok()?.cpus();
    // No member is left without anything: a job that was taken has to be done some time.
    Some(share_cpus.max(0.05))
}

impl Controller<'_> {
    /// Starts again after a sleep: the measurements from before are of no use.
    fn begin(&mut self) {
        self.seen();
        self.reset_tick();
        match &mut self.rules {
            Rules::Share(share) => share.begin(),
            Rules::Pressure(pressure) => pressure.forget(),
        }
    }

    fn reset_tick(&mut self) {
        (self.stretch, self.calm) = (1, 0);
    }

    /// Makes ticks longer if that would miss nothing.
    fn adapt_tick(&mut self, is_calm: bool) {
        if !is_calm {
            return self.reset_tick();
        }
        self.calm += 1;
        if self.calm >= CALM_TICKS && self.stretch < STRETCH_MAX {
            (self.stretch, self.calm) = (self.stretch * 2, 0);
        }
    }

    fn tick(&mut self) {
        let steering = &self.shared.steering;
        let now_ns = now_ns();
        if now_ns.saturating_sub(self.budget_read_ns) >= BUDGET_NS {
            self.budget_read_ns = now_ns;
            steering.budget_ticks.store(ticks(), Ordering::Relaxed);
            self.read_budget();
        }
        steering.fit_tokens(|| self.shared.workers.active() as usize + self.shared.queue.len());
        let seen = self.seen();
        let share_cpus = registry_share(steering, &seen);
        if steering.member.is_some() && share_cpus.is_none() {
            // It is not a member any more.
            self.shared.pace.set_quota(self.quota_cpus);
        }
        let decided = match &mut self.rules {
            _ if steering.allowance.is_some() => Some((seen.limit, Why::Tokens)),
            _ if seen.target > seen.limit => Some((seen.limit, Why::Budget { cpus: self.watch.cpus() })),
            _ if let Some(share_cpus) = share_cpus => {
                match self.quota_cpus {
                    Some(quota_cpus) => self.shared.pace.set_quota(Some(quota_cpus.min(share_cpus))),
                    None => self.shared.pace.set_share(share_cpus),
                }
                Some((steering.workers_for(share_cpus), Why::Registry { share_cpus }))
            }
            Rules::Share(share) => share.decide(&seen, self.watch.cpus()),
            Rules::Pressure(pressure) => {
                let decided = pressure.decide(&seen);
                steering.waited.store(pressure.is_waiting(), Ordering::Relaxed);
                if pressure.gives_way(&seen) {
                    let limit_cpus = steering.budget_cpus().min(f64::from(seen.limit));
                    let may_correct = pressure.may_correct(&seen);
                    match self.fair.look(now_ns, seen.target, limit_cpus, may_correct) {
                        Some(fair::Verdict::Unfair(unfair)) => pressure.correct(&seen, unfair).or(decided),
                        Some(fair::Verdict::Ineffective) => {
                            pressure.withdraw();
                            decided
                        }
                        None => decided,
                    }
                } else {
                    decided
                }
            }
        };
        let is_calm = match &self.rules {
            Rules::Pressure(pressure) if !steering.has_bounds() => {
                let is_firm = pressure.is_firm() && !self.fair.is_content();
                steering.firm.store(is_firm, Ordering::Relaxed);
                steering.may_rest.store(self.fair.is_rich(), Ordering::Relaxed);
                pressure.is_calm(&seen)
            }
            _ => false,
        };
        self.adapt_tick(is_calm && decided.is_none());
        if let Some((to, why)) = decided
            && to != seen.target
        {
            self.shared.workers.set_target(to);
            steering.decisions.fetch_add(1, Ordering::Relaxed);
            *steering.last.lock() = Some(Decision { at: Instant::now(), from: seen.target, to, why });
        }
        if !self.shared.queue.is_empty() {
            self.shared.offer_if_few();
        }
    }

    fn read_budget(&mut self) {
        let before = self.watch.version();
        let cpus = self.watch.cpus();
        let steering = &self.shared.steering;
        if before != self.watch.version() || steering.budget.load(Ordering::Relaxed) != (cpus * 1000.0) as u64
        {
            steering.note_budget(cpus);
            self.quota_cpus = steering.quota_cpus(&self.watch.budget());
            if steering.member.is_none() {
                self.shared.pace.set_quota(self.quota_cpus);
            }
        }
    }

    fn seen(&mut self) -> Seen {
        let shared = self.shared;
        let now_ns = now_ns();
        let (mut run_ns, mut wait_ns) = (0, 0);
        for (slot, pressure) in shared.pressures() {
            let Some(times) = pressure.times() else { continue };
            if self.times.len() <= slot {
                // Of a worker that is new to us nothing is known of the time before.
                self.times.resize(slot + 1, times);
            }
            let passed = times.since(&self.times[slot]);
            self.times[slot] = times;
            run_ns += duration_ns(passed.run_time);
            wait_ns += duration_ns(passed.wait_time);
        }
        let elapsed_ns = now_ns.saturating_sub(self.seen_ns).max(1);
        self.seen_ns = now_ns;
        let steering = &shared.steering;
        let cpu_idle = steering.idle.as_ref().map(|idle| idle.is_idle_for_observer());
        let (target, limit) = (shared.workers.target(), steering.limit());
        let (ticks, queued) = (self.stretch, !shared.queue.is_empty());
        Seen { target, limit, run_ns, wait_ns, elapsed_ns, ticks, queued, cpu_idle }
    }
}
