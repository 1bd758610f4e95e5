//! Which of two ways to wait is better here and now: the running program is asked.
//!
//! A way to wait that cures one program poisons another, and no look at the code tells which. So
//! while CPUs are short, a process waits in turn as its author wrote and in another way, its *cure*,
//! in stretches of some milliseconds. What gets more work done is kept, and asked again later.
//!
//! *Work* is the CPU time that the process used, less what its waits burned. Nothing that the program
//! does has to be known for that: whatever it computes, more of it in the same time is better. (The
//! number of waits that ended does not serve: threads that wait well meet less often at a lock.)
//!
//! | step | |
//! | --- | --- |
//! | rest | the process waits as was found best. When the rest is over, the next cure in which threads waited meanwhile is asked |
//! | settle | a way begins, and what the scheduler owes the threads from the last one is used up |
//! | measure | work and time are counted. A challenger that does less than a quarter of the work is stopped at the next look |
//!
//! The incumbent and the challenger are measured in turn, up to `PAIRS` times: until one is far
//! better, by sums. Less than `AHEAD_PERCENT` is no reason to change. After a question that changed
//! nothing the cure rests twice as long, up to `REST_NS_MAX`; after a change it is asked again soon.
//! So what a cure that harms costs is a few stretches in which it acts.
//!
//! There is no thread of its own: threads that wait call [`Trial::drive`], and one of them makes the
//! step that is due. Where no thread waits, nothing happens.
//!
//! Invariants:
//! 1. All words but `until_ticks` are written by the thread only that has exchanged `until_ticks` for
//!    [`STEPPING`], until it stores another time there; `asked` is a flag that any thread sets. They
//!    are hints to all others, which read `acting` alone.
//! 2. Nothing here allocates, locks, panics, or uses floating point: it runs in the trampoline of the
//!    guard, too.

use platform::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use platform::clock::ns_to_ticks;

/// How long a way acts before it is measured.
const SETTLE_NS: u64 = 2_000_000;
/// The time between two looks at a way that is measured: longer than the kernel's longest tick.
const LOOK_NS: u64 = 4_000_000;
/// How many looks a measurement has.
const LOOKS: u32 = 4;
/// How often the incumbent and the challenger are measured at most.
const PAIRS: u32 = 4;
/// A challenger is better if it does more work by this much.
const AHEAD_PERCENT: u64 = 5;
/// The rest before the first question, and after a change.
const REST_NS_MIN: u64 = 4_000_000;
/// The longest rest.
const REST_NS_MAX: u64 = 4_000_000_000;
/// A stretch that lasted this long measured nothing: no thread waited for most of it.
const LOST_NS: u64 = 200_000_000;

/// [`Trial::until_ticks`] while a thread makes the step.
const STEPPING: u64 = u64::MAX;

/// Steps of a question, in [`Trial::step`].
const REST: u32 = 0;
const SETTLE_INCUMBENT: u32 = 1;
const MEASURE_INCUMBENT: u32 = 2;
const SETTLE_CHALLENGER: u32 = 3;
const MEASURE_CHALLENGER: u32 = 4;

/// Asks about `CURES` cures, one after the other.
#[derive(Debug)]
pub struct Trial<const CURES: usize> {
    /// The cures that act now: bit n is cure n.
    acting: AtomicU32,
    /// When the next step is due.
    until_ticks: AtomicU64,
    /// The cures that were found best.
    best: AtomicU32,
    step: AtomicU32,
    /// The cure that is asked, or was last.
    cure: AtomicU32,
    pair: AtomicU32,
    look: AtomicU32,
    began_ticks: AtomicU64,
    began_work_ns: AtomicU64,
    incumbent: Sum,
    challenger: Sum,
    cures: [Cure; CURES],
}

/// What was measured of a way, in all its stretches of a question.
#[derive(Debug, Default)]
struct Sum {
    work_ns: AtomicU64,
    ticks: AtomicU64,
}

/// What is remembered of a cure.
#[derive(Debug, Default)]
struct Cure {
    /// A thread waited where this cure would act.
    asked: AtomicBool,
    /// Until when it is not asked about.
    rest_until_ticks: AtomicU64,
    rest_ns: AtomicU64,
    /// Work in a second as the author wrote and with the cure, in nanoseconds, as last measured.
    rates: [AtomicU64; 2],
    kept: AtomicU32,
    dropped: AtomicU32,
}

/// What the trial says of a cure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Whether the cure acts.
    pub acts: bool,
    /// How often a question ended with the cure.
    pub kept: u32,
    /// How often it ended with the author's way.
    pub dropped: u32,
    /// Work in a second as the author wrote, in nanoseconds, as last measured.
    pub as_written_ns: u64,
    /// The same with the cure.
    pub cured_ns: u64,
}

// Relaxed throughout: see Invariant 1. The exchange of `until_ticks` is Acquire and its store
// Release, so each step sees the last one.
impl<const CURES: usize> Trial<CURES> {
    platform::const_fn! {
        /// Makes a trial in which these cures act until they are asked about: bit n is cure n.
        pub const fn new(best: u32) -> Trial<CURES> {
            Trial {
                acting: AtomicU32::new(best),
                until_ticks: AtomicU64::new(0),
                best: AtomicU32::new(best),
                step: AtomicU32::new(REST),
                cure: AtomicU32::new(0),
                pair: AtomicU32::new(0),
                look: AtomicU32::new(0),
                began_ticks: AtomicU64::new(0),
                began_work_ns: AtomicU64::new(0),
                incumbent: Sum::new(),
                challenger: Sum::new(),
                cures: [const { Cure::new() }; CURES],
            }
        }
    }

    /// Whether a cure acts now.
    #[inline(always)]
    pub fn acts(&self, cure: usize) -> bool {
        self.acting.load(Ordering::Relaxed) & 1 << cure != 0
    }

    /// Whether work is measured now, so that what waits burn is to be counted.
    #[inline(always)]
    pub fn measures(&self) -> bool {
        self.step.load(Ordering::Relaxed) != REST
    }

    /// A thread waits where this cure would act.
    #[inline(always)]
    pub fn ask(&self, cure: usize) {
        let asked = &self.cures[cure].asked;
        if !asked.load(Ordering::Relaxed) {
            asked.store(true, Ordering::Relaxed);
        }
    }

    /// Makes the step that is due, if one is. `work_ns` returns the work that the process has done so
    /// far, in nanoseconds.
    #[inline(always)]
    pub fn drive(&self, now_ticks: u64, work_ns: impl FnOnce() -> u64) {
        let until_ticks = self.until_ticks.load(Ordering::Relaxed);
        if now_ticks >= until_ticks
            && until_ticks != STEPPING
            && self
                .until_ticks
                .compare_exchange(until_ticks, STEPPING, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
        {
            let lasts_ns = self.next(now_ticks, work_ns());
            self.until_ticks.store(now_ticks + ns_to_ticks(lasts_ns), Ordering::Release);
        }
    }

    /// What is known of a cure.
    pub fn verdict(&self, cure: usize) -> Verdict {
        let of = &self.cures[cure];
        Verdict {
            acts: self.best.load(Ordering::Relaxed) & 1 << cure != 0,
            kept: of.kept.load(Ordering::Relaxed),
            dropped: of.dropped.load(Ordering::Relaxed),
            as_written_ns: of.rates[0].load(Ordering::Relaxed),
            cured_ns: of.rates[1].load(Ordering::Relaxed),
        }
    }

    /// Makes a step, and returns how long the next one lasts.
    #[cold]
    fn next(&self, now_ticks: u64, work_ns: u64) -> u64 {
        let ticks = now_ticks.saturating_sub(self.began_ticks.load(Ordering::Relaxed));
        let step = self.step.load(Ordering::Relaxed);
        if step != REST && ticks > ns_to_ticks(LOST_NS) {
            return self.rest(now_ticks);
        }
        match step {
            REST => match self.due(now_ticks) {
                None => REST_NS_MIN,
                Some(cure) => {
                    self.cure.store(cure, Ordering::Relaxed);
                    self.pair.store(0, Ordering::Relaxed);
                    self.incumbent.reset();
                    self.challenger.reset();
                    self.begin(SETTLE_INCUMBENT, now_ticks, work_ns)
                }
            },
            SETTLE_INCUMBENT => self.begin(MEASURE_INCUMBENT, now_ticks, work_ns),
            SETTLE_CHALLENGER => self.begin(MEASURE_CHALLENGER, now_ticks, work_ns),
            _ => self.measured(step, ticks, now_ticks, work_ns),
        }
    }

    /// A way was measured for a while.
    fn measured(&self, step: u32, ticks: u64, now_ticks: u64, work_ns: u64) -> u64 {
        let sum = if step == MEASURE_INCUMBENT { &self.incumbent } else { &self.challenger };
        sum.add(work_ns.saturating_sub(self.began_work_ns.load(Ordering::Relaxed)), ticks);
        self.began_ticks.store(now_ticks, Ordering::Relaxed);
        self.began_work_ns.store(work_ns, Ordering::Relaxed);
        let look = self.look.load(Ordering::Relaxed) + 1;
        self.look.store(look, Ordering::Relaxed);
        let (old, new) = (self.incumbent.rate_ns(), self.challenger.rate_ns());
        let hopeless = step == MEASURE_CHALLENGER && new < old / 4;
        if look < LOOKS && ticks < ns_to_ticks(LOOKS as u64 * LOOK_NS) && !hopeless {
            return LOOK_NS;
        }
        if step == MEASURE_INCUMBENT {
            return self.begin(SETTLE_CHALLENGER, now_ticks, work_ns);
        }
        let pair = self.pair.load(Ordering::Relaxed) + 1;
        self.pair.store(pair, Ordering::Relaxed);
        let far_ahead = pair > 1 && new > old + old / 4;
        let far_behind = hopeless || new < old - old / 8;
        if pair < PAIRS && !far_ahead && !far_behind {
            return self.begin(SETTLE_INCUMBENT, now_ticks, work_ns);
        }
        self.decide(old, new, now_ticks)
    }

    /// The question is answered.
    fn decide(&self, old_ns: u64, new_ns: u64, now_ticks: u64) -> u64 {
        let number = self.cure.load(Ordering::Relaxed);
        let best = self.best.load(Ordering::Relaxed);
        let was_cured = best & 1 << number != 0;
        let changes = new_ns > old_ns + old_ns * AHEAD_PERCENT / 100;
        if changes {
            self.best.store(best ^ 1 << number, Ordering::Relaxed);
        }
        let Some(cure) = self.cures.get(number as usize) else { return self.rest(now_ticks) };
        let rest_ns = cure.rest_ns.load(Ordering::Relaxed);
        let rest_ns = if changes { REST_NS_MIN } else { (rest_ns * 2).clamp(REST_NS_MIN, REST_NS_MAX) };
        cure.rest_ns.store(rest_ns, Ordering::Relaxed);
        cure.rest_until_ticks.store(now_ticks + ns_to_ticks(rest_ns), Ordering::Relaxed);
        cure.asked.store(false, Ordering::Relaxed);
        let [written, cured] = &cure.rates;
        written.store(if was_cured { new_ns } else { old_ns }, Ordering::Relaxed);
        cured.store(if was_cured { old_ns } else { new_ns }, Ordering::Relaxed);
        let counter = if was_cured != changes { &cure.kept } else { &cure.dropped };
        counter.store(counter.load(Ordering::Relaxed).saturating_add(1), Ordering::Relaxed);
        self.rest(now_ticks)
    }

    /// The next cure to ask about, if there is one.
    fn due(&self, now_ticks: u64) -> Option<u32> {
        let last = self.cure.load(Ordering::Relaxed) as usize;
        let number = (1..=CURES).map(|next| (last + next) % CURES).find(|&number| {
            self.cures.get(number).is_some_and(|cure| {
                cure.asked.load(Ordering::Relaxed)
                    && now_ticks >= cure.rest_until_ticks.load(Ordering::Relaxed)
            })
        })?;
        Some(number as u32)
    }

    fn rest(&self, now_ticks: u64) -> u64 {
        self.acting.store(self.best.load(Ordering::Relaxed), Ordering::Relaxed);
        self.step.store(REST, Ordering::Relaxed);
        self.began_ticks.store(now_ticks, Ordering::Relaxed);
        REST_NS_MIN
    }

    /// Begins a step of a question, and returns how long it lasts.
    fn begin(&self, step: u32, now_ticks: u64, work_ns: u64) -> u64 {
        let best = self.best.load(Ordering::Relaxed);
        let other = best ^ 1 << self.cure.load(Ordering::Relaxed);
        let challenges = matches!(step, SETTLE_CHALLENGER | MEASURE_CHALLENGER);
        self.acting.store(if challenges { other } else { best }, Ordering::Relaxed);
        self.step.store(step, Ordering::Relaxed);
        self.look.store(0, Ordering::Relaxed);
        self.began_ticks.store(now_ticks, Ordering::Relaxed);
        self.began_work_ns.store(work_ns, Ordering::Relaxed);
        if matches!(step, MEASURE_INCUMBENT | MEASURE_CHALLENGER) { LOOK_NS } else { SETTLE_NS }
    }
}

impl Sum {
    platform::const_fn! {
        const fn new() -> Sum {
            Sum { work_ns: AtomicU64::new(0), ticks: AtomicU64::new(0) }
        }
    }

    fn reset(&self) {
        self.work_ns.store(0, Ordering::Relaxed);
        self.ticks.store(0, Ordering::Relaxed);
    }

    fn add(&self, work_ns: u64, ticks: u64) {
        self.work_ns.store(self.work_ns.load(Ordering::Relaxed) + work_ns, Ordering::Relaxed);
        self.ticks.store(self.ticks.load(Ordering::Relaxed) + ticks, Ordering::Relaxed);
    }

    /// Work in a second, in nanoseconds.
    fn rate_ns(&self) -> u64 {
        let ns = platform::clock::ticks_to_ns(self.ticks.load(Ordering::Relaxed));
        let work_ns = self.work_ns.load(Ordering::Relaxed);
        work_ns.saturating_mul(1_000_000) / (ns / 1_000).max(1)
    }
}

impl Cure {
    platform::const_fn! {
        const fn new() -> Cure {
            Cure {
                asked: AtomicBool::new(false),
                rest_until_ticks: AtomicU64::new(0),
                rest_ns: AtomicU64::new(0),
                rates: [AtomicU64::new(0), AtomicU64::new(0)],
                kept: AtomicU32::new(0),
                dropped: AtomicU32::new(0),
            }
        }
    }
}
