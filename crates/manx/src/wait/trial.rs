//! Which of two ways to wait is better here and now: the running program is asked.
//!
//! A way to wait that cures one program poisons another, and no look at the code tells which. So
//! while CPUs are short, a process waits in turn as its author wrote and in another way, its
//! *cure*, in stretches of some milliseconds. The way in which more work is done is kept, and is
//! asked about again later.
//!
//! *Work* is the CPU time that the process used, less what its waits burned. Nothing has to be
//! known of the program for that: whatever it computes, more of it in the same time is better. The
//! number of waits that ended would not serve: a program that waits well at a lock meets less often
//! there.
//!
//! | step | |
//! | --- | --- |
//! | rest | the process waits as was found best. Then the next cure is asked about in whose place threads wait, and whose rest is over |
//! | await | it still does so, until the turn of the way that is to be measured |
//! | settle | a way begins, and what the scheduler owes the threads from the last one is used up |
//! | measure | work and time are counted, until the turn is over |
//!
//! Turns are the machine's: whatever the process, the author's way is measured in the even ones and
//! the cure in the odd ones. So processes that ask at the same time all wait as their authors
//! wrote, or all with their cures. If each chose its own time, a process that spins would find that
//! better than to sleep, beside one that sleeps: it takes the other's CPU, and both would come to
//! spin.
//!
//! Both ways are measured, one after the other, up to `PAIRS` times, and twice at least: a process
//! may get no CPU at all for a turn. The questions end when one way is ahead by much, or a cure
//! that does not act is not ahead by a tenth. The turn of a way that does less by `FAR` times is
//! cut short: a poison acts for a few milliseconds. A cure has to do more work than the author's
//! way, by `TAKE_PERCENT` to be taken and by `KEEP_PERCENT` to be kept: ties go to the author. But
//! if the author's way burns `WASTE` more of the CPUs, which neighbours could use, ties go to the
//! cure. What was measured while CPUs were not short says nothing, since both ways are the same
//! then; if that is half of the time or more, the question has no answer and changes nothing.
//!
//! After an answer that changes nothing the cure rests twice as long as before, and for `RESTS`
//! times what the question cost; after a change it is asked about again soon. All rests end with
//! the next *meeting*, a time at which all processes ask. Only there a cure that acts is dropped
//! because it did somewhat less: beside a process that sleeps, the author's way is always somewhat
//! better. So what a cure that harms costs is a few stretches in which it acts, and rests make that
//! a small part of the time.
//!
//! An answer may be of another time: threads that never lost a slice to each other come into
//! lock-step, where each wait takes a slice. So while threads lose much in the author's way, that
//! way alone is measured during a rest too, which costs no work. If it does less than the cure did
//! by `FAR` times, the rest is over.
//!
//! A cure that cannot win much is not asked about. Without it threads must have lost `WORTH` of a
//! CPU in their waits, for `LOSS_NS`. If they were *away* in these waits, they must also have lost
//! more than the process had of the CPUs: a process that gives its slices to neighbours gets hardly
//! anything, while a process that shares the CPUs with neighbours is away for as long and loses
//! nothing. So a program that waits well is not asked. A question is dear for it: a stretch of
//! sleeps brings a gang out of step.
//!
//! There is no thread of its own: threads that wait call [`Trial::drive`], and one of them makes
//! the step that is due. Where no thread waits, nothing happens.
//!
//! Invariants:
//! 1. Only the thread that has exchanged `until_ticks` for `STEPPING` writes the other words, until
//!    it stores the next time there (release; the exchange acquires). All other threads read
//!    `acting` and `step`, as hints, and add to `lost_ticks`. What tells the step its progress may
//!    end all rests ([`Trial::begin_anew`]).
//! 2. Nothing here allocates, locks, panics, or uses floating point: it runs in the trampoline of
//!    the guard, too.

use platform::atomic::{AtomicU32, AtomicU64, Ordering};
use platform::clock::{ns_to_ticks, ticks_to_ns};

/// How long a way acts before it is measured.
const SETTLE_NS: u64 = 2_000_000;
/// The time between two looks at what is measured: longer than the longest tick of most kernels.
const LOOK_NS: u64 = 4_000_000;
/// The least length of a turn. It is a power of two in ticks, so that processes that do not know of
/// each other agree on it.
const TURN_NS_MIN: u64 = 8_000_000;
/// Questions of a meeting begin this number of turns after it: by then each process has seen that
/// it is time.
const TURNS: u64 = 4;
/// How often both ways are measured at most.
const PAIRS: u32 = 4;
/// The number of pairs in each question of a meeting, so that no process asks on alone.
const PAIRS_OF_MEETING: u32 = 3;
/// The turn of a way that does less than the other by this factor is cut short.
const FAR: u64 = 4;
/// A cure that acts is kept if it does more work by this much. Less is not measured well enough.
const KEEP_PERCENT: u64 = 20;
/// A cure that does not act is taken if it does more work by this much.
const TAKE_PERCENT: u64 = 50;
/// The rest after a change, and the shortest one.
const REST_NS_MIN: u64 = 64_000_000;
/// The longest rest, if no meeting ends it.
const REST_NS_MAX: u64 = 8_000_000_000;
/// The least time between two meetings, at which all processes ask: a power of two in ticks, as the
/// length of a turn is.
const MEETING_NS_MIN: u64 = 3_000_000_000;
/// A question lasts for this time at most: so long before a meeting none begins that can wait.
const QUESTION_NS_MAX: u64 = 160_000_000;
/// The CPUs that the author's way burns more than the cure does, in thousandths, where it is no way
/// to wait unless it does more work.
const WASTE: u64 = 500;
/// The work that such a cure may lose, in percent.
const WASTE_PERCENT: u64 = 10;
/// A way that lost rests for at least this many times the time that it cost.
const RESTS: u64 = 100;
/// The time between two looks for a question.
const CHECK_NS: u64 = 16_000_000;
/// For how long threads must lose much: any process is out of luck for a moment.
const LOSS_NS: u64 = 128_000_000;
/// A cure that does not act is asked about only if threads lost this part of a CPU without it.
const WORTH: u64 = 4;
/// A step that lasted this long measured nothing: no thread waited.
const LOST_NS: u64 = 200_000_000;

/// [`Trial::until_ticks`] while a thread makes the step.
const STEPPING: u64 = u64::MAX;

/// Values of [`Trial::step`].
const REST: u32 = 0;
const AWAIT_INCUMBENT: u32 = 1;
const SETTLE_INCUMBENT: u32 = 2;
const MEASURE_INCUMBENT: u32 = 3;
const AWAIT_CHALLENGER: u32 = 4;
const SETTLE_CHALLENGER: u32 = 5;
const MEASURE_CHALLENGER: u32 = 6;

/// What the process has come to so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    /// The work that it has done, in nanoseconds of CPU time.
    pub work_ns: u64,
    /// The CPU time that its waits have burned.
    pub burned_ns: u64,
    /// For how long CPUs were short.
    pub short_ns: u64,
}

/// Questions about `CURES` cures, one after the other.
#[derive(Debug)]
pub struct Trial<const CURES: usize> {
    /// The cures that act now: bit n is cure n.
    acting: AtomicU32,
    /// When the next step is due.
    until_ticks: AtomicU64,
    /// The cures that were found best.
    best: AtomicU32,
    step: AtomicU32,
    /// The cure that is asked about, or was last.
    cure: AtomicU32,
    /// How many pairs of the question are over.
    pair: AtomicU32,
    /// 1 if it was asked at a meeting.
    is_of_meeting: AtomicU32,
    /// When the step began, or its last look was.
    began_ticks: AtomicU64,
    /// The progress by then.
    began: [AtomicU64; 3],
    incumbent: Sum,
    challenger: Sum,
    /// The cures of waits in which threads are away: bit n is cure n.
    away: u32,
    cures: [Cure; CURES],
}

/// What was measured of a way in all pairs of a question.
#[derive(Debug)]
struct Sum {
    work_ns: AtomicU64,
    burned_ns: AtomicU64,
    short_ns: AtomicU64,
    ticks: AtomicU64,
}

/// What is remembered of a cure.
#[derive(Debug)]
struct Cure {
    /// The time that threads have lost without it.
    lost_ticks: AtomicU64,
    /// When it was last looked at, that time by then, and the work.
    seen_at_ticks: AtomicU64,
    seen_ticks: AtomicU64,
    seen_work_ns: AtomicU64,
    /// 1 if enough was lost between the last two looks to make a question worth its cost.
    paid: AtomicU32,
    /// Until when it is not asked about.
    rest_until_ticks: AtomicU64,
    rest_ns: AtomicU64,
    /// Work in a second, in nanoseconds, as the author wrote and with the cure.
    rates_ns: [AtomicU64; 2],
    kept: AtomicU32,
    dropped: AtomicU32,
}

/// What the answers say of a cure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Whether the cure acts.
    pub acts: bool,
    /// How many questions ended with the cure.
    pub kept: u32,
    /// How many questions ended with the author's way.
    pub dropped: u32,
    /// Work in a second as the author wrote, in nanoseconds of CPU time, as last measured.
    pub as_written_ns: u64,
    /// The same with the cure.
    pub cured_ns: u64,
}

// Relaxed, but for `until_ticks`: Invariant 1.
impl<const CURES: usize> Trial<CURES> {
    platform::const_fn! {
        /// Makes a trial in which the cures `best` act until they are asked about, and those of
        /// `away` are of waits in which threads do not use the CPU: bit n is cure n.
        pub const fn new(best: u32, away: u32) -> Trial<CURES> {
            Trial {
                acting: AtomicU32::new(best),
                until_ticks: AtomicU64::new(0),
                best: AtomicU32::new(best),
                step: AtomicU32::new(REST),
                cure: AtomicU32::new(0),
                pair: AtomicU32::new(0),
                is_of_meeting: AtomicU32::new(0),
                began_ticks: AtomicU64::new(0),
                began: [AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0)],
                incumbent: Sum::new(),
                challenger: Sum::new(),
                away,
                cures: unasked(),
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

    /// A thread has lost this time in waits that this cure would have ended early.
    #[inline(always)]
    pub fn lost(&self, cure: usize, ticks: u64) {
        self.cures[cure].lost_ticks.fetch_add(ticks, Ordering::Relaxed);
    }

    /// Ends all rests: the machine is another one now, and what was answered is of another time.
    pub fn begin_anew(&self) {
        for cure in &self.cures {
            cure.rest_ns.store(0, Ordering::Relaxed);
            cure.rest_until_ticks.store(0, Ordering::Relaxed);
        }
    }

    /// Makes the step that is due, if one is.
    #[inline(always)]
    pub fn drive(&self, now_ticks: u64, progress: impl FnOnce() -> Progress) {
        let until_ticks = self.until_ticks.load(Ordering::Relaxed);
        if now_ticks >= until_ticks
            && self
                .until_ticks
                .compare_exchange(until_ticks, STEPPING, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
        {
            let until_ticks = self.next(now_ticks, progress());
            self.until_ticks.store(until_ticks, Ordering::Release);
        }
    }

    /// What the answers say of a cure.
    pub fn verdict(&self, cure: usize) -> Verdict {
        let of = &self.cures[cure];
        Verdict {
            acts: self.best.load(Ordering::Relaxed) & 1 << cure != 0,
            kept: of.kept.load(Ordering::Relaxed),
            dropped: of.dropped.load(Ordering::Relaxed),
            as_written_ns: of.rates_ns[0].load(Ordering::Relaxed),
            cured_ns: of.rates_ns[1].load(Ordering::Relaxed),
        }
    }

    /// Makes a step, and returns until when it lasts.
    #[cold]
    fn next(&self, now_ticks: u64, now: Progress) -> u64 {
        let ticks = now_ticks.saturating_sub(self.began_ticks.load(Ordering::Relaxed));
        match self.step.load(Ordering::Relaxed) {
            REST => match self.due(now_ticks, now) {
                None => {
                    self.note(now_ticks, now);
                    after(now_ticks, CHECK_NS)
                }
                Some(cure) => {
                    self.cure.store(cure, Ordering::Relaxed);
                    self.pair.store(0, Ordering::Relaxed);
                    let late_ticks = now_ticks & (meeting_ticks() - 1);
                    let is_of_meeting = late_ticks < (TURNS - 1) << turn_bits();
                    self.is_of_meeting.store(u32::from(is_of_meeting), Ordering::Relaxed);
                    self.incumbent.reset();
                    self.challenger.reset();
                    self.begin(AWAIT_INCUMBENT, now_ticks, now)
                }
            },
            _ if ticks > ns_to_ticks(LOST_NS) => self.rest(now_ticks),
            AWAIT_INCUMBENT => self.begin(SETTLE_INCUMBENT, now_ticks, now),
            SETTLE_INCUMBENT => self.begin(MEASURE_INCUMBENT, now_ticks, now),
            AWAIT_CHALLENGER => self.begin(SETTLE_CHALLENGER, now_ticks, now),
            SETTLE_CHALLENGER => self.begin(MEASURE_CHALLENGER, now_ticks, now),
            MEASURE_INCUMBENT => {
                if !self.look(&self.incumbent, ticks, now_ticks, now) {
                    look_after(now_ticks)
                } else if !self.is_first_of_rest(now_ticks) || self.has_collapsed() {
                    self.begin(AWAIT_CHALLENGER, now_ticks, now)
                } else {
                    self.rest(now_ticks);
                    after(now_ticks, REST_NS_MIN)
                }
            }
            _ => self.challenged(ticks, now_ticks, now),
        }
    }

    /// Looks at what is measured. Returns whether the turn is over.
    #[inline(always)]
    fn look(&self, sum: &Sum, ticks: u64, now_ticks: u64, now: Progress) -> bool {
        let before = self.began.each_ref().map(|word| word.load(Ordering::Relaxed));
        let [work_ns, burned_ns, short_ns] = [now.work_ns, now.burned_ns, now.short_ns];
        sum.add([
            work_ns.saturating_sub(before[0]),
            burned_ns.saturating_sub(before[1]),
            short_ns.saturating_sub(before[2]),
            ticks,
        ]);
        self.note(now_ticks, now);
        turn(now_ticks) & 1 != self.turn_of(self.acting.load(Ordering::Relaxed))
    }

    /// The turn that these cures are measured in: 1 is that of the cure that is asked about.
    #[inline(always)]
    fn turn_of(&self, acting: u32) -> u64 {
        u64::from(acting >> self.cure.load(Ordering::Relaxed) & 1)
    }

    /// Returns whether other processes ask at the same time.
    #[inline(always)]
    fn is_of_meeting(&self) -> bool {
        self.is_of_meeting.load(Ordering::Relaxed) != 0
    }

    /// Returns whether this is the first pair about a cure whose rest is not over.
    #[inline(always)]
    fn is_first_of_rest(&self, now_ticks: u64) -> bool {
        let cure = self.cures.get(self.cure.load(Ordering::Relaxed) as usize);
        self.pair.load(Ordering::Relaxed) == 0
            && cure.is_some_and(|cure| now_ticks < cure.rest_until_ticks.load(Ordering::Relaxed))
    }

    /// Returns whether the author's way does far less work than the cure did when last measured.
    #[inline(always)]
    fn has_collapsed(&self) -> bool {
        let cure = self.cures.get(self.cure.load(Ordering::Relaxed) as usize);
        let cured_ns = cure.map_or(0, |cure| cure.rates_ns[1].load(Ordering::Relaxed));
        self.incumbent.rate_ns() < cured_ns / FAR
    }

    /// The challenger was measured for a while.
    #[inline(always)]
    fn challenged(&self, ticks: u64, now_ticks: u64, now: Progress) -> u64 {
        let over = self.look(&self.challenger, ticks, now_ticks, now);
        let (old_ns, new_ns) = (self.incumbent.rate_ns(), self.challenger.rate_ns());
        let hopeless = new_ns < old_ns / FAR;
        if !over && !hopeless {
            return look_after(now_ticks);
        }
        let pair = self.pair.load(Ordering::Relaxed) + 1;
        self.pair.store(pair, Ordering::Relaxed);
        let is_cured = self.best.load(Ordering::Relaxed) & 1 << self.cure.load(Ordering::Relaxed) != 0;
        let evident = new_ns > old_ns.saturating_mul(2) || new_ns < old_ns / 2;
        let says_nothing = !self.challenger.is_short();
        // A cure that is not ahead by now does not come to be ahead by half.
        let is_futile = !is_cured && new_ns < old_ns.saturating_add(old_ns / 10);
        let is_over = if self.is_of_meeting() {
            pair >= PAIRS_OF_MEETING
        } else {
            pair > 1 && (evident || is_futile || pair >= PAIRS)
        };
        if says_nothing || is_over {
            return self.answer(is_cured, old_ns, new_ns, now_ticks);
        }
        self.begin(AWAIT_INCUMBENT, now_ticks, now)
    }

    /// The question is over.
    #[inline(always)]
    fn answer(&self, is_cured: bool, old_ns: u64, new_ns: u64, now_ticks: u64) -> u64 {
        let number = self.cure.load(Ordering::Relaxed);
        let Some(cure) = self.cures.get(number as usize) else { return self.rest(now_ticks) };
        let known = self.incumbent.is_short() && self.challenger.is_short();
        let (written, cured) =
            if is_cured { (&self.challenger, &self.incumbent) } else { (&self.incumbent, &self.challenger) };
        let percent = if is_cured { KEEP_PERCENT } else { TAKE_PERCENT };
        let says_other = known && is_cured != cured.is_better(written, percent);
        // Whether it asked when all other processes did.
        let met = self.is_of_meeting();
        let changes = says_other && (met || !is_cured || new_ns >= old_ns.saturating_add(old_ns / 2));
        let rest_ns = cure.rest_ns.load(Ordering::Relaxed);
        let challenged_ns = u64::from(self.pair.load(Ordering::Relaxed)).saturating_mul(SETTLE_NS)
            + ticks_to_ns(self.challenger.ticks.load(Ordering::Relaxed));
        // What was lost in this time, by what was measured.
        let cost_ns = challenged_ns / 100 * (100 - (new_ns / (old_ns / 100).max(1)).min(100));
        let rest_ns = if changes {
            REST_NS_MIN
        } else {
            (rest_ns * 2).clamp(REST_NS_MIN, REST_NS_MAX).max(cost_ns.saturating_mul(RESTS))
        };
        cure.rest_ns.store(rest_ns, Ordering::Relaxed);
        // It ends with the next meeting at last.
        let until_ticks = after(now_ticks, rest_ns).min(next_meeting(now_ticks));
        cure.rest_until_ticks.store(until_ticks, Ordering::Relaxed);
        if known {
            let [as_written, cured] = &cure.rates_ns;
            as_written.store(if is_cured { new_ns } else { old_ns }, Ordering::Relaxed);
            cured.store(if is_cured { old_ns } else { new_ns }, Ordering::Relaxed);
            let count = if is_cured == changes { &cure.dropped } else { &cure.kept };
            count.store(count.load(Ordering::Relaxed).saturating_add(1), Ordering::Relaxed);
        }
        if changes {
            let best = self.best.load(Ordering::Relaxed);
            self.best.store(best ^ 1 << number, Ordering::Relaxed);
        }
        self.rest(now_ticks)
    }

    /// The next cure to ask about, if there is one: a cure that acts and has rested, or one without
    /// which threads lost much lately. If that one has not rested, it was measured.
    #[inline(always)]
    fn due(&self, now_ticks: u64, now: Progress) -> Option<u32> {
        let best = self.best.load(Ordering::Relaxed);
        let awaits_meeting = next_meeting(now_ticks) < after(now_ticks, QUESTION_NS_MAX);
        let is_due = |(number, cure): (u32, &Cure)| {
            let is_away = self.away & 1 << number != 0;
            let pays = cure.would_pay(is_away, now_ticks, now.work_ns);
            let rested = now_ticks >= cure.rest_until_ticks.load(Ordering::Relaxed);
            let acts = best & 1 << number != 0;
            let measured = cure.rates_ns[1].load(Ordering::Relaxed) > 0;
            let paid = cure.paid.load(Ordering::Relaxed) != 0;
            let is_due = if acts { rested } else { rested && (pays || paid) || measured && pays };
            (is_due && !(measured && awaits_meeting)).then_some(number)
        };
        let last = self.cure.load(Ordering::Relaxed);
        // The last one again only if no other is due.
        (0u32..).zip(&self.cures).filter_map(is_due).min_by_key(|&number| number == last)
    }

    #[inline(always)]
    fn rest(&self, now_ticks: u64) -> u64 {
        // What was lost during the question does not count.
        for cure in &self.cures {
            cure.see(now_ticks, self.began[0].load(Ordering::Relaxed));
        }
        self.acting.store(self.best.load(Ordering::Relaxed), Ordering::Relaxed);
        self.step.store(REST, Ordering::Relaxed);
        self.began_ticks.store(now_ticks, Ordering::Relaxed);
        after(now_ticks, CHECK_NS)
    }

    /// Begins a step of a question, and returns until when it lasts.
    #[inline(always)]
    fn begin(&self, step: u32, now_ticks: u64, now: Progress) -> u64 {
        let best = self.best.load(Ordering::Relaxed);
        let other = best ^ 1 << self.cure.load(Ordering::Relaxed);
        let way =
            if matches!(step, AWAIT_INCUMBENT | SETTLE_INCUMBENT | MEASURE_INCUMBENT) { best } else { other };
        let acting = if step == AWAIT_CHALLENGER { best } else { way };
        self.acting.store(acting, Ordering::Relaxed);
        self.step.store(step, Ordering::Relaxed);
        self.note(now_ticks, now);
        match step {
            AWAIT_INCUMBENT if self.pair.load(Ordering::Relaxed) == 0 && self.is_of_meeting() => {
                (now_ticks & !(meeting_ticks() - 1)) + ((TURNS - self.turn_of(way)) << turn_bits())
            }
            AWAIT_INCUMBENT | AWAIT_CHALLENGER => turn_begins(now_ticks, self.turn_of(way)),
            SETTLE_INCUMBENT | SETTLE_CHALLENGER => after(now_ticks, SETTLE_NS),
            _ => look_after(now_ticks),
        }
    }

    #[inline(always)]
    fn note(&self, now_ticks: u64, now: Progress) {
        self.began_ticks.store(now_ticks, Ordering::Relaxed);
        for (word, now) in self.began.iter().zip([now.work_ns, now.burned_ns, now.short_ns]) {
            word.store(now, Ordering::Relaxed);
        }
    }
}

/// The length of a turn is this power of two, in ticks.
#[inline(always)]
fn turn_bits() -> u32 {
    u64::BITS - ns_to_ticks(TURN_NS_MIN).max(2).leading_zeros()
}

/// The number of the turn that goes on.
#[inline(always)]
fn turn(now_ticks: u64) -> u64 {
    now_ticks >> turn_bits()
}

/// When an even turn begins, or an odd one; now, if most of it is still to come.
#[inline(always)]
fn turn_begins(now_ticks: u64, odd: u64) -> u64 {
    let (bits, now) = (turn_bits(), turn(now_ticks));
    let is_late = now_ticks & ((1 << bits) - 1) >= 1 << (bits - 2);
    match (now & 1 == odd, is_late) {
        (true, false) => now_ticks,
        (true, true) => now.saturating_add(2) << bits,
        (false, _) => now.saturating_add(1) << bits,
    }
}

/// When the next meeting is after this time.
#[inline(always)]
fn next_meeting(ticks: u64) -> u64 {
    let between = meeting_ticks();
    ticks.saturating_add(between) & !(between - 1)
}

/// The time between two meetings.
#[inline(always)]
fn meeting_ticks() -> u64 {
    ns_to_ticks(MEETING_NS_MIN).max(2).next_power_of_two()
}

/// When to look again at what is measured: at the end of the turn at last.
#[inline(always)]
fn look_after(now_ticks: u64) -> u64 {
    after(now_ticks, LOOK_NS).min((turn(now_ticks) + 1) << turn_bits())
}

#[inline(always)]
fn after(now_ticks: u64, ns: u64) -> u64 {
    now_ticks.saturating_add(ns_to_ticks(ns))
}

impl Sum {
    platform::const_fn! {
        const fn new() -> Sum {
            Sum {
                work_ns: AtomicU64::new(0),
                burned_ns: AtomicU64::new(0),
                short_ns: AtomicU64::new(0),
                ticks: AtomicU64::new(0),
            }
        }
    }

    #[inline(always)]
    fn words(&self) -> [&AtomicU64; 4] {
        [&self.work_ns, &self.burned_ns, &self.short_ns, &self.ticks]
    }

    #[inline(always)]
    fn reset(&self) {
        self.words().into_iter().for_each(|word| word.store(0, Ordering::Relaxed));
    }

    #[inline(always)]
    fn add(&self, more: [u64; 4]) {
        for (word, more) in self.words().into_iter().zip(more) {
            word.store(word.load(Ordering::Relaxed).saturating_add(more), Ordering::Relaxed);
        }
    }

    /// Returns whether this cure does more work than the author's way by `percent`, or as much
    /// while that way burns CPU time that neighbours could use.
    #[inline(always)]
    fn is_better(&self, written: &Sum, percent: u64) -> bool {
        let (cured_ns, written_ns) = (self.rate_ns(), written.rate_ns());
        let wasted_ns = written.of_second(&written.burned_ns).saturating_sub(self.of_second(&self.burned_ns));
        let wastes = wasted_ns >= WASTE * 1_000_000;
        cured_ns > written_ns.saturating_add(written_ns / 100 * percent)
            || wastes && cured_ns >= written_ns / 100 * (100 - WASTE_PERCENT)
    }

    /// Whether CPUs were short for half of the time.
    #[inline(always)]
    fn is_short(&self) -> bool {
        self.short_ns.load(Ordering::Relaxed) >= ticks_to_ns(self.ticks.load(Ordering::Relaxed)) / 2
    }

    /// Work in a second, in nanoseconds.
    #[inline(always)]
    fn rate_ns(&self) -> u64 {
        self.of_second(&self.work_ns)
    }

    /// The part of a sum that is of a second.
    #[inline(always)]
    fn of_second(&self, ns: &AtomicU64) -> u64 {
        let us = ticks_to_ns(self.ticks.load(Ordering::Relaxed)) / 1_000;
        ns.load(Ordering::Relaxed).saturating_mul(1_000_000) / us.max(1)
    }
}

impl Cure {
    platform::const_fn! {
        const fn new() -> Cure {
            Cure {
                lost_ticks: AtomicU64::new(0),
                seen_at_ticks: AtomicU64::new(0),
                seen_ticks: AtomicU64::new(0),
                seen_work_ns: AtomicU64::new(0),
                paid: AtomicU32::new(0),
                rest_until_ticks: AtomicU64::new(0),
                rest_ns: AtomicU64::new(0),
                rates_ns: [AtomicU64::new(0), AtomicU64::new(0)],
                kept: AtomicU32::new(0),
                dropped: AtomicU32::new(0),
            }
        }
    }

    /// Returns whether threads have lost as much since the last look as makes a question worth its
    /// cost.
    #[inline(always)]
    fn would_pay(&self, is_away: bool, now_ticks: u64, work_ns: u64) -> bool {
        let ticks = now_ticks.saturating_sub(self.seen_at_ticks.load(Ordering::Relaxed));
        let seen_ticks = self.seen_ticks.load(Ordering::Relaxed);
        let lost_ticks = self.lost_ticks.load(Ordering::Relaxed).wrapping_sub(seen_ticks);
        if ticks < ns_to_ticks(LOSS_NS) {
            // A whole CPU in vain shows sooner.
            return !is_away && ticks >= ns_to_ticks(LOSS_NS / WORTH) && lost_ticks >= ticks;
        }
        let used_ns = work_ns.saturating_sub(self.seen_work_ns.load(Ordering::Relaxed));
        let worth_ticks = if is_away { ns_to_ticks(used_ns) } else { 0 };
        self.see(now_ticks, work_ns);
        let pays = ticks < ns_to_ticks(LOSS_NS + LOST_NS) && lost_ticks >= worth_ticks.max(ticks / WORTH);
        self.paid.store(u32::from(pays), Ordering::Relaxed);
        pays
    }

    /// Notes what is known now.
    #[inline(always)]
    fn see(&self, now_ticks: u64, work_ns: u64) {
        self.seen_at_ticks.store(now_ticks, Ordering::Relaxed);
        self.seen_ticks.store(self.lost_ticks.load(Ordering::Relaxed), Ordering::Relaxed);
        self.seen_work_ns.store(work_ns, Ordering::Relaxed);
    }
}

platform::os_only! {
    const fn unasked<const CURES: usize>() -> [Cure; CURES] {
        [const { Cure::new() }; CURES]
    }
}
platform::twins_only! {
    fn unasked<const CURES: usize>() -> [Cure; CURES] {
        core::array::from_fn(|_| Cure::new())
    }
}
