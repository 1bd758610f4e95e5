//! How many workers are to be active: who decides, when, and by what.
//!
//! Two things decide at once, in the thread that queues a job or has just done one: an idle CPU lets one more work ([`idle`]), and
//! a quota that is used up lets one less ([`Pace`](super::pace::Pace)). What takes a view over some time is decided by the pool's
//! *control thread*, as in the paper, at each *tick*: by the rules of [`pressure`], which are ours, or of [`share`], which are the paper's.
//!
//! The control thread sleeps while nothing is queued: then nobody needs more workers, and who is active was needed. It is started by the first
//! job that finds all workers at work, and woken by such jobs from then on. So a pool that is idle, or has less to do than it could, costs
//! nothing.
//!
//! Two more limits may be set. Under `make -j` there are as many workers as there are tokens. And in a registry the process says what it could use, and
//! its share takes the place of what the rules would find out.
//!
//! Invariants:
//! 1. `limit` is from 1 to the number of workers that the builder was told, and the target from 1 to `limit`.
//! 2. The control thread is born once. It goes to sleep by changing `state` from [`AWAKE`] to [`ASLEEP`], and then looks at the queue once more; who has queued a job
//!    looks at `state` afterwards. Each has a fence in between, so no queue stays without somebody who decides.

mod fair;
mod idle;
mod pressure;
mod share;

use super::jobserver::{Allowance, Tokens};
use super::registry::Member;
use super::shared::Shared;
use super::stats::Stats;
use crate::cpu::{BudgetWatch, CpuBudget, LimitKind, ThreadTimes};
use crate::lock::Mutex;
use idle::Idle;
use platform::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
use platform::clock::{now_ns, ns_to_ticks, ticks};
use platform::futex;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(super) use share::OVERCOMMIT_MAX;

/// How often the control thread looks while there is more to do than is being done: each accounting tick of the kernel, as in the paper.
pub const TICK: Duration = Duration::from_millis(10);

/// Who decides how many of a pool's workers are active.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Control {
    /// By how long the workers wait for a CPU, which CPUs are idle, and the CPU budget: the default. Also
    /// under a quota, which is paced.
    #[default]
    Pressure,
    /// By the part of all busy CPU time that is the process's, as in the paper (section 5.2): `ceil(overcommit · own / all · CPUs)`. What the
    /// CPUs are is the process's budget, not the machine's.
    Share {
        /// How many workers for each CPU that the process has; the paper's factor O, 1 by default.
        overcommit: f64,
        /// How often it is computed; 10 ms by default.
        tick: Duration,
    },
    /// Nobody: all workers are active whenever there is something to do, as in most pools.
    Fixed,
}

impl Control {
    /// [`Control::Share`] with the paper's numbers.
    pub const SHARE: Control = Control::Share { overcommit: 1.0, tick: TICK };
}

/// A change of the number of workers that are to be active.
#[derive(Clone, Debug)]
pub struct Decision {
    /// When.
    pub at: Instant,
    /// So many were to be active before …
    pub from: u32,
    /// … and so many from then on.
    pub to: u32,
    /// Why.
    pub why: Why,
}

/// Why a pool grew or shrank. Shares are from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Why {
    /// The workers waited for a CPU for this part of the time in which they wished to run, and got so many CPUs.
    Waited {
        /// The part.
        waiting: f64,
        /// The CPUs.
        received_cpus: f64,
    },
    /// A CPU is idle while jobs are queued.
    CpuIdle,
    /// Jobs are queued, and for some time no worker had to wait for a CPU.
    Quiet,
    /// The process gets less than others that wish for as much.
    Unfair {
        /// The CPUs that it got.
        received_cpus: f64,
        /// What would be fair.
        fair_cpus: f64,
    },
    /// The CPU budget is another one.
    Budget {
        /// So many CPUs.
        cpus: f64,
    },
    /// What the registry's members divide.
    Registry {
        /// The process's share, in CPUs.
        share_cpus: f64,
    },
    /// So many tokens of make's are to be had.
    Tokens,
    /// The paper's formula.
    Share {
        /// Of all busy time, so much was the process's.
        own: f64,
    },
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::Waited { waiting, received_cpus } => {
                write!(
                    f,
                    "workers waited for a CPU {:.0} % of the time and got {received_cpus:.2} CPUs",
                    waiting * 100.0
                )
            }
            Why::CpuIdle => f.write_str("a CPU is idle while jobs are queued"),
            Why::Quiet => f.write_str("jobs are queued and no worker waits for a CPU"),
            Why::Unfair { received_cpus, fair_cpus } => {
                write!(f, "others take more: {received_cpus:.2} CPUs of {fair_cpus:.2} that would be fair")
            }
            Why::Budget { cpus } => write!(f, "the CPU budget is {cpus:.2} CPUs"),
            Why::Registry { share_cpus } => {
                write!(f, "the share among the registry's members is {share_cpus:.2} CPUs")
            }
            Why::Tokens => f.write_str("make's jobserver allows so many"),
            Why::Share { own } => write!(f, "{:.0} % of all busy time is the process's", own * 100.0),
        }
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} → {}: {}", self.from, self.to, self.why)
    }
}

/// It waits to be woken, or is not born.
const ASLEEP: u32 = 0;
/// It decides at each tick.
const AWAKE: u32 = 1;
/// It is to end.
const STOPPED: u32 = 2;

/// The budget is read again after so long, while the control thread is awake.
const BUDGET_NS: u64 = 100_000_000;
/// … and at least so often while jobs come.
const BUDGET_NS_MAX: u64 = 1_000_000_000;
/// Ticks without anything queued after which the control thread sleeps.
const QUIET_TICKS: u32 = 3;

/// What the threads of a pool have of its control.
pub(super) struct Steering {
    control: Control,
    tick_ns: u64,
    workers_max: u32,
    limit: AtomicU32,
    idle: Option<Idle>,
    state: AtomicU32,
    is_born: AtomicU32,
    decisions: AtomicU64,
    last: Mutex<Option<Decision>>,
    /// In thousandths.
    budget: AtomicU64,
    /// Whether workers waited for CPUs at the last tick.
    waited: AtomicBool,
    /// When it was read.
    budget_ticks: AtomicU64,
    allowance: Option<Mutex<Allowance>>,
    member: Option<Member>,
}

/// What limits a pool besides the budget.
#[derive(Default)]
pub(super) struct Bounds {
    pub(super) tokens: Option<Tokens>,
    pub(super) member: Option<Member>,
}

impl Steering {
    pub(super) fn new(control: Control, tick: Duration, workers_max: u32, bounds: Bounds) -> Steering {
        let tick = if let Control::Share { tick, .. } = control { tick } else { tick };
        let budget = CpuBudget::now();
        let steering = Steering {
            control,
            tick_ns: u64::try_from(tick.as_nanos()).unwrap_or(u64::MAX),
            workers_max,
            limit: AtomicU32::new(workers_max),
            idle: if control == Control::Pressure { Idle::of(&budget) } else { None },
            state: AtomicU32::new(ASLEEP),
            is_born: AtomicU32::new(0),
            decisions: AtomicU64::new(0),
            last: Mutex::new(None),
            budget: AtomicU64::new(0),
            waited: AtomicBool::new(false),
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
    fn has_bounds(&self) -> bool {
        self.allowance.is_some() || self.member.is_some()
    }

    /// Whether [`Control::Pressure`] decides.
    pub(super) fn is_by_pressure(&self) -> bool {
        self.control == Control::Pressure
    }

    /// So many may be active at most.
    #[inline]
    pub(super) fn limit(&self) -> u32 {
        // Relaxed, here and below: hints, unless a fence is named.
        self.limit.load(Ordering::Relaxed)
    }

    /// The quota of a budget, if workers are to be paced by it: if it is what limits, or lets less than one CPU be used for each worker.
    pub(super) fn quota_cpus(&self, budget: &CpuBudget) -> Option<f64> {
        let quota = matches!(budget.source(), LimitKind::Quota { .. });
        (self.control == Control::Pressure && quota).then(|| budget.cpus())
    }

    /// The budget is so many CPUs. The paper's factor makes more workers of them.
    fn note_budget(&self, cpus: f64) {
        self.budget.store((cpus * 1000.0) as u64, Ordering::Relaxed);
        if self.allowance.is_none() {
            self.limit.store(self.workers_for(cpus), Ordering::Relaxed);
        }
        if let Some(member) = &self.member {
            let _ = member.set_cap(cpus);
        }
    }

    /// The most workers that can be of use with so many CPUs.
    fn workers_for(&self, cpus: f64) -> u32 {
        let factor = match self.control {
            Control::Fixed => return self.workers_max,
            Control::Share { overcommit, .. } => overcommit,
            Control::Pressure => 1.0,
        };
        // A hundredth more than a whole number is no reason for a worker more.
        (cpus * factor - 0.01).ceil().clamp(1.0, f64::from(self.workers_max)) as u32
    }

    /// As many workers as there are tokens for, of make's, and no more than have something to do.
    fn fit_tokens(&self, shared: &Shared) {
        if let Some(allowance) = &self.allowance {
            let cpus = self.budget.load(Ordering::Relaxed) as f64 / 1000.0;
            let busy = shared.crew.active() as usize + shared.queue.len();
            let wanted = busy.clamp(1, self.workers_for(cpus) as usize);
            let got = allowance.lock().fit(wanted) as u32;
            self.limit.store(got.max(1), Ordering::Relaxed);
        }
    }

    /// Whether the control thread may sleep while nothing is queued: not as long as it has tokens to give back.
    fn may_sleep(&self) -> bool {
        self.allowance.as_ref().is_none_or(|allowance| allowance.lock().active() == 1)
    }

    /// There are no workers any more.
    pub(super) fn release(&self) {
        if let Some(allowance) = &self.allowance {
            allowance.lock().fit(1);
        }
    }

    /// Whether one more worker would have a CPU for itself, as far as is known.
    #[inline]
    pub(super) fn is_cpu_idle(&self, now_ticks: u64) -> bool {
        self.idle.as_ref().is_some_and(|idle| idle.is_idle(now_ticks))
    }

    /// Whether threads outnumber the CPUs: now, or if that cannot be known, at the last tick.
    #[inline]
    pub(super) fn is_pressed(&self, now_ticks: u64) -> bool {
        match &self.idle {
            Some(idle) => !idle.is_idle(now_ticks),
            None => self.waited.load(Ordering::Relaxed),
        }
    }

    /// The same, for who calls a worker if it is so.
    pub(super) fn take_idle_cpu(&self, now_ticks: u64) -> bool {
        self.idle.as_ref().is_some_and(|idle| idle.take(now_ticks))
    }

    /// There is more to do than is being done: the control thread is to decide about that.
    #[inline]
    pub(super) fn wake(&self, shared: &Arc<Shared>) {
        if self.state.load(Ordering::Relaxed) == ASLEEP && self.control != Control::Fixed {
            self.wake_slow(shared);
        }
    }

    /// A job ended at this time: now and then the control thread reads the budget, also if all goes well.
    #[inline]
    pub(super) fn wake_if_old(&self, shared: &Arc<Shared>, now_ticks: u64) {
        let read_ticks = self.budget_ticks.load(Ordering::Relaxed);
        if now_ticks.saturating_sub(read_ticks) > ns_to_ticks(BUDGET_NS_MAX) {
            self.budget_ticks.store(now_ticks, Ordering::Relaxed);
            self.wake(shared);
        }
    }

    #[cold]
    fn wake_slow(&self, shared: &Arc<Shared>) {
        if self.state.compare_exchange(ASLEEP, AWAKE, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            return;
        }
        if self.is_born.swap(1, Ordering::Relaxed) != 0 {
            futex::wake(&self.state, 1);
        } else if shared
            .start(&format!("{}-control", shared.name), STACK_BYTES, |shared| run(&shared))
            .is_err()
        {
            // The pool works without, with as many workers as it has now; the next job in such a place tries again.
            self.is_born.store(0, Ordering::Relaxed);
            let _ = self.state.compare_exchange(AWAKE, ASLEEP, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// The control thread is to end, and none will be born.
    pub(super) fn stop(&self) {
        self.state.store(STOPPED, Ordering::Relaxed);
        futex::wake_all(&self.state);
    }

    pub(super) fn tell(&self, stats: &mut Stats) {
        stats.budget_cpus = self.budget.load(Ordering::Relaxed) as f64 / 1000.0;
        stats.decisions = self.decisions.load(Ordering::Relaxed);
        stats.last = self.last.lock().clone();
    }
}

/// Enough for reading a few files.
const STACK_BYTES: usize = 256 * 1024;

/// What was seen between two ticks.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// So many workers are to be active …
    target: u32,
    /// … and may be.
    limit: u32,
    /// All workers together ran for so long …
    run_ns: u64,
    /// … and waited for a CPU for so long.
    wait_ns: u64,
    elapsed_ns: u64,
    /// Whether jobs are queued.
    queued: bool,
    /// Whether a CPU is idle, if that can be known.
    cpu_idle: Option<bool>,
}

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
}

fn run(shared: &Arc<Shared>) {
    let steering = &shared.steering;
    let rules = match steering.control {
        Control::Share { overcommit, .. } => Rules::Share(Box::new(share::Share::new(overcommit))),
        Control::Pressure | Control::Fixed => Rules::Pressure(pressure::Pressure::default()),
    };
    let watch = BudgetWatch::new();
    let (fair, times) = (fair::Fair::default(), Vec::new());
    let (seen_ns, quota_cpus) = (now_ns(), steering.quota_cpus(&CpuBudget::now()));
    let mut controller =
        Controller { shared, rules, fair, watch, budget_read_ns: 0, quota_cpus, seen_ns, times };
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
                futex::wait_for(&steering.state, AWAKE, steering.tick_ns);
            }
        }
        controller.tick();
        quiet = if shared.queue.is_empty() && steering.may_sleep() { quiet + 1 } else { 0 };
        if quiet >= QUIET_TICKS {
            quiet = 0;
            let _ = steering.state.compare_exchange(AWAKE, ASLEEP, Ordering::Relaxed, Ordering::Relaxed);
            // Pairs with the fence of an offer: Invariant 2.
            fence(Ordering::SeqCst);
            if !shared.queue.is_empty() {
                let _ = steering.state.compare_exchange(ASLEEP, AWAKE, Ordering::Relaxed, Ordering::Relaxed);
            }
        }
    }
}

/// What the process gets by the registry of which it is a member, in CPUs: it wants all that it may use while jobs are queued, and a
/// little more than it uses otherwise. `None` if it is no member, or none any more.
fn shared_out(steering: &Steering, seen: &Seen) -> Option<f64> {
    let member = steering.member.as_ref()?;
    let uses_cpus = seen.run_ns as f64 / seen.elapsed_ns as f64;
    let wants_cpus = if seen.queued { f64::from(seen.limit) } else { uses_cpus * 1.2 + 0.1 };
    member.set_demand(wants_cpus).ok()?;
    // Whoever has gone is swept away at the next look.
    let _ = member.sweep();
    let share_cpus = member.share().ok()?.cpus();
    // Nobody is left without anything: a job that was taken has to be done some time.
    Some(share_cpus.max(0.05))
}

impl Controller<'_> {
    /// It has slept: what was seen before is of no use.
    fn begin(&mut self) {
        self.seen();
        match &mut self.rules {
            Rules::Share(share) => share.begin(),
            Rules::Pressure(pressure) => pressure.forget(),
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
        steering.fit_tokens(self.shared);
        let seen = self.seen();
        let share_cpus = shared_out(steering, &seen);
        if steering.member.is_some() && share_cpus.is_none() {
            // It is a member no more.
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
                if pressure.is_waiting() {
                    let unfair = self.fair.look(now_ns, steering.limit());
                    unfair.and_then(|unfair| pressure.correct(&seen, unfair)).or(decided)
                } else {
                    decided
                }
            }
        };
        if let Some((to, why)) = decided
            && to != seen.target
        {
            self.shared.crew.set_target(to);
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
        for (seat, pressure) in shared.pressures() {
            let Some(times) = pressure.times() else { continue };
            if self.times.len() <= seat {
                // Of a worker that is new to us nothing is known of the time before.
                self.times.resize(seat + 1, times);
            }
            let passed = times.since(&self.times[seat]);
            self.times[seat] = times;
            run_ns += passed.run_ns;
            wait_ns += passed.wait_ns;
        }
        let elapsed_ns = now_ns.saturating_sub(self.seen_ns).max(1);
        self.seen_ns = now_ns;
        let steering = &shared.steering;
        let cpu_idle = steering.idle.as_ref().map(|idle| idle.is_idle_for_observer());
        let (target, limit) = (shared.crew.target(), steering.limit());
        Seen { target, limit, run_ns, wait_ns, elapsed_ns, queued: !shared.queue.is_empty(), cpu_idle }
    }
}
