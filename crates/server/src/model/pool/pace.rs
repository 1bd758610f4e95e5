//! The rests of a loop between its rounds, while the server would use more than its share of the
//! CPUs.
//!
//! Clients that send a request as soon as they have an answer give a server more work than its
//! share of busy CPUs is enough for. Without rests it works until the kernel has given it more than
//! its share. Then none of its threads gets a CPU for the time slices of all neighbours, and all
//! its clients wait. A loop that rests by itself after each round has not used up its share when
//! it goes on, so the kernel gives it a CPU soon. Requests gather meanwhile, and a round of many
//! costs less for each. So the server does nearly as much, and its waits are many short ones
//! instead of few long ones.
//!
//! A loop is *late* if more than [`LATE_NS`] have passed since its last step (`watch.rs`), although
//! it had something to do, and the thread that makes the next one has waited for a CPU for so long.
//! A loop that is late for [`LATE_MAX_NS`] within a [`SPAN_NS`] rests from then on
//! [`REST_PERCENT`] as long as a round's CPU time. If that is too little, its rests grow; while it
//! is not late, they become shorter until there are none. So few clients, whose requests the
//! server's share is enough for, do not wait for rests, nor do any on an idle machine. Clients on
//! the same machine may keep it busy, too. But in a rest they wait for answers: if no thread of the
//! machine waits for a CPU at its end, the rest has left a CPU idle, and the next one is shorter.
//!
//! A server that begins beside busy neighbours gets all that it wants at first, and then nothing
//! for a while: all its clients wait for ten milliseconds before a loop is late. So a loop that
//! begins to work also begins to rest if the machine is *crowded*: more than [`CROWD`] threads for
//! each CPU want one. It asks only where it had nothing to do before: then these are neighbours,
//! and not its own clients. (It was tried to ask at any time: 80 clients on the same machine, which
//! count as a crowd then, had about a tenth less in two runs of three pairs each. Rests that all
//! loops share cost ten clients a third of their requests.)
//!
//! A round of a loop that rests is short ([`ROUND`]), so that the kernel does not preempt it.
//!
//! All accesses are Relaxed. The values are hints and counts: a lost update makes a rest too long
//! or too short, and nothing else depends on them.

use manx::cpu::{CpuBudget, CpuSet, ThreadPressure, ThreadTimes, runnable};
use manx::pool::block_in_place;
use platform::clock::{now_ns, thread_cpu_ns};
use platform::epoll::EVENTS_MAX;
use std::cell::RefCell;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

/// A loop without a step for longer than this is late.
const LATE_NS: u64 = 2_000_000;
/// A loop that is late for longer than this …
const LATE_MAX_NS: u64 = 5_000_000;
/// … in this time rests, or rests longer. Rests that are long enough become shorter in each.
const SPAN_NS: u64 = 200_000_000;
/// The first rests, in percent of the CPU time of the round before …
const REST_PERCENT: u64 = 150;
/// … what they grow to at most …
const REST_PERCENT_MAX: u64 = 400;
/// … and what is too short to be worth it.
const REST_PERCENT_MIN: u64 = 100;
/// The longest rest.
const REST_MAX_NS: u64 = 1_000_000;
/// A machine is crowded if more threads than this want each of its CPUs …
const CROWD: u32 = 3;
/// … at a moment, and a loop asks for their number once in this time.
const ASKING_NS: u64 = 10_000_000;
/// A rest that is shorter would be over before the kernel wakes the thread.
const REST_MIN_NS: u64 = 50_000;
/// The maximum number of connections in a round, if the loop rests, …
const ROUND: usize = 48;
/// … and if it does not.
const ROUND_ALL: usize = EVENTS_MAX;
/// A thread's times are read after this number of its steps.
const STEPS: u32 = 64;

thread_local! {
    static WAITS: RefCell<Waits> = RefCell::default();
}

/// For how long a thread has run and waited for a CPU.
#[derive(Default)]
struct Waits {
    steps: u32,
    source: Option<ThreadPressure>,
    seen: ThreadTimes,
}

impl Waits {
    /// Counts a step; returns whether the times are to be read.
    fn count(&mut self) -> bool {
        if self.steps == 0 {
            self.source = ThreadPressure::of_this_thread();
            self.read();
        }
        self.steps = self.steps.wrapping_add(1).max(1);
        self.steps.is_multiple_of(STEPS)
    }

    /// What has been added since they were read last.
    fn read(&mut self) -> ThreadTimes {
        let now = self.source.as_ref().and_then(ThreadPressure::times).unwrap_or_default();
        let before = std::mem::replace(&mut self.seen, now);
        now.since(&before)
    }
}

/// See [the module](self). Times are those of `platform::clock::now_ns`.
pub(super) struct Pace {
    /// The number of the machine's CPUs.
    cpus: u32,
    /// The last step; 0 while the loop has nothing to do.
    stepped_ns: AtomicU64,
    /// The end of the rest; 0 if there is none.
    due_ns: AtomicU64,
    /// When it last asked whether the machine is crowded.
    asked_ns: AtomicU64,
    /// 0: it does not rest.
    rest_percent: AtomicU64,
    /// The beginning of the present span.
    span_began_ns: AtomicU64,
    /// For how long it was late in the span.
    late_ns: AtomicU64,
}

/// What the loop's thread has used before a round.
pub(super) struct Round {
    began_ns: u64,
    cpu_ns: u64,
}

impl Pace {
    /// Of a loop that does not rest yet.
    pub(super) fn new() -> Pace {
        let cpus = CpuBudget::now().online().map_or(1, CpuSet::len) as u32;
        let [stepped_ns, due_ns, asked_ns, rest_percent, span_began_ns, late_ns] = [0; 6].map(AtomicU64::new);
        Pace { cpus, stepped_ns, due_ns, asked_ns, rest_percent, span_began_ns, late_ns }
    }

    /// The calling thread makes a step at this time. If the step reads the thread's times, returns
    /// what has been added to them since they were read last.
    pub(super) fn step(&self, now_ns: u64) -> Option<ThreadTimes> {
        self.foresee(now_ns, runnable);
        WAITS.with_borrow_mut(|waits| {
            let mut read = waits.count().then(|| waits.read());
            self.step_at(now_ns, || {
                let times = read.get_or_insert_with(|| waits.read());
                times.wait_time.as_nanos() as u64
            });
            read
        })
    }

    /// The loop makes a step. If it had nothing to do and does not rest, it asks how many threads
    /// want a CPU, but not all the time.
    fn foresee(&self, now_ns: u64, runnable: impl FnOnce() -> Option<u32>) {
        let has_asked = now_ns.saturating_sub(self.asked_ns.load(Relaxed)) < ASKING_NS;
        if has_asked || !self.is_paused() || self.is_short_of_cpus() {
            return;
        }
        self.asked_ns.store(now_ns, Relaxed);
        if runnable().is_some_and(|threads| threads > CROWD * self.cpus) {
            self.rest_percent.store(REST_PERCENT, Relaxed);
            self.begin_span(now_ns);
        }
    }

    fn step_at(&self, now_ns: u64, waited_ns: impl FnOnce() -> u64) {
        let before_ns = self.stepped_ns.swap(now_ns, Relaxed);
        let passed_ns = now_ns.saturating_sub(before_ns);
        if before_ns != 0 && passed_ns > LATE_NS {
            let late_ns = waited_ns().min(passed_ns);
            if late_ns > LATE_NS {
                self.is_late(now_ns, late_ns);
            }
        }
    }

    #[cold]
    fn is_late(&self, now_ns: u64, late_ns: u64) {
        if self.span_ns(now_ns) > SPAN_NS {
            self.fade(now_ns);
            self.begin_span(now_ns);
        }
        if self.late_ns.fetch_add(late_ns, Relaxed) + late_ns > LATE_MAX_NS {
            let rest_percent = self.rest_percent.load(Relaxed);
            let longer = (2 * rest_percent).clamp(REST_PERCENT, REST_PERCENT_MAX);
            self.rest_percent.store(longer, Relaxed);
            self.begin_span(now_ns);
        }
    }

    /// How long the present span has lasted. Another thread may have begun it after `now_ns`.
    fn span_ns(&self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.span_began_ns.load(Relaxed))
    }

    fn begin_span(&self, now_ns: u64) {
        self.span_began_ns.store(now_ns, Relaxed);
        self.late_ns.store(0, Relaxed);
    }

    /// Makes the rests shorter for each span that has passed.
    fn fade(&self, now_ns: u64) {
        let spans = self.span_ns(now_ns) / SPAN_NS;
        let before = self.rest_percent.load(Relaxed);
        let shorter = (0..spans.min(64)).fold(before, |percent, _| percent * 24 / 25);
        self.set_rests(shorter);
    }

    /// The loop has nothing to do: what passes now is not lateness.
    pub(super) fn pause(&self) {
        self.stepped_ns.store(0, Relaxed);
    }

    /// Whether the loop has nothing to do.
    pub(super) fn is_paused(&self) -> bool {
        self.stepped_ns.load(Relaxed) == 0
    }

    /// Whether the loop was late so often that it rests.
    pub(super) fn is_short_of_cpus(&self) -> bool {
        self.rest_percent.load(Relaxed) != 0
    }

    /// The number of connections to serve in a round.
    pub(super) fn round_max(&self) -> usize {
        if self.is_short_of_cpus() { ROUND } else { ROUND_ALL }
    }

    /// The calling thread is about to serve a round; none if the loop does not rest.
    pub(super) fn begin(&self) -> Option<Round> {
        self.is_short_of_cpus().then(|| Round { began_ns: now_ns(), cpu_ns: thread_cpu_ns() })
    }

    /// The calling thread has served a round.
    pub(super) fn end(&self, round: Option<Round>) {
        if let Some(round) = round {
            self.end_at(now_ns(), round.began_ns, thread_cpu_ns() - round.cpu_ns);
        }
    }

    fn end_at(&self, now_ns: u64, began_ns: u64, used_ns: u64) {
        if self.span_ns(now_ns) > SPAN_NS {
            self.fade(now_ns);
            self.begin_span(now_ns);
        }
        let rest_ns = (used_ns * self.rest_percent.load(Relaxed) / 100).min(REST_MAX_NS);
        // Time in which the thread was preempted counts as rest.
        self.due_ns.store(began_ns + used_ns + rest_ns, Relaxed);
    }

    /// Whether the loop rests now: then it is not for want of a CPU that it makes no step.
    pub(super) fn is_resting(&self) -> bool {
        let due_ns = self.due_ns.load(Relaxed);
        due_ns != 0 && due_ns > now_ns()
    }

    /// Sleeps for as long as the loop is still to rest, before its next step.
    pub(super) fn rest(&self) {
        // Rarely another thread has made the loop's steps meanwhile, and a rest is lost.
        if self.due_ns.load(Relaxed) == 0 {
            return;
        }
        if let Some(rest) = self.rest_at(now_ns()) {
            block_in_place(|| thread::sleep(rest));
            // The caller is one of them.
            if runnable().is_none_or(|threads| threads <= self.cpus) {
                self.has_rested_in_vain();
            }
        }
    }

    fn has_rested_in_vain(&self) {
        self.set_rests(self.rest_percent.load(Relaxed) / 2);
    }

    /// From now on it rests for this part of a round's CPU time, or not at all if that is little.
    pub(super) fn set_rests(&self, percent: u64) {
        self.rest_percent.store(if percent < REST_PERCENT_MIN { 0 } else { percent }, Relaxed);
    }

    fn rest_at(&self, now_ns: u64) -> Option<Duration> {
        let due_ns = self.due_ns.load(Relaxed);
        let rest_ns = due_ns.saturating_sub(now_ns);
        if rest_ns < REST_MIN_NS {
            self.due_ns.store(0, Relaxed);
            return None;
        }
        self.stepped_ns.store(due_ns, Relaxed);
        Some(Duration::from_nanos(rest_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Percent.
    fn rests(pace: &Pace) -> u64 {
        pace.rest_percent.load(Relaxed)
    }

    /// The thread that makes this step has waited all the time since the last one.
    fn step_late(pace: &Pace, now_ns: u64) {
        pace.step_at(now_ns, || u64::MAX);
    }

    #[test]
    fn only_waits_for_a_cpu_make_a_loop_rest() {
        let pace = Pace::new();
        // Its first step; then a long command; then nothing to do; then steps in time.
        step_late(&pace, 1_000 * MS);
        pace.step_at(1_100 * MS, || MS);
        pace.pause();
        step_late(&pace, 1_200 * MS);
        (1_201..1_400).for_each(|ms| step_late(&pace, ms * MS));
        assert_eq!((rests(&pace), pace.round_max()), (0, ROUND_ALL));
        assert!(pace.begin().is_none() && !pace.is_resting());
        step_late(&pace, 1_410 * MS);
        assert_eq!((rests(&pace), pace.round_max()), (REST_PERCENT, ROUND));
        assert!(pace.begin().is_some());
    }

    #[test]
    fn a_loop_of_a_crowded_machine_rests_before_it_is_late() {
        let pace = Pace::new();
        let crowd = CROWD * pace.cpus + 1;
        let rests_if = |at_ms: u64, threads: u32| {
            pace.foresee(at_ms * MS, || Some(threads));
            rests(&pace)
        };
        assert_eq!([rests_if(1_000, crowd - 1), rests_if(1_009, crowd)], [0, 0], "it has asked");
        pace.step_at(1_300 * MS, || 0);
        assert_eq!(rests_if(1_301, crowd), 0, "it had something to do");
        pace.pause();
        assert_eq!(rests_if(1_302, crowd), REST_PERCENT);
        // It has just begun: the spans before do not make it shorter.
        pace.end_at(1_303 * MS, 1_303 * MS, 0);
        assert_eq!(rests(&pace), REST_PERCENT);
        pace.set_rests(REST_PERCENT_MAX);
        assert_eq!(rests_if(2_000, crowd), REST_PERCENT_MAX, "it rests already");
    }

    #[test]
    fn lateness_is_added_up_within_a_span() {
        let pace = Pace::new();
        let late = |from_ms: u64| {
            pace.step_at(from_ms * MS, || 0);
            step_late(&pace, (from_ms + 3) * MS);
        };
        late(1_000);
        late(1_300);
        assert_eq!(rests(&pace), 0);
        late(1_400);
        assert_eq!(rests(&pace), REST_PERCENT);
    }

    #[test]
    fn rests_grow_while_the_loop_is_late_and_fade_while_it_is_not() {
        let pace = Pace::new();
        let mut now_ms = 1_000;
        let mut late = || {
            pace.step_at(now_ms * MS, || 0);
            now_ms += 6;
            step_late(&pace, now_ms * MS);
            rests(&pace)
        };
        assert_eq!([late(), late(), late()], [150, 300, 400]);
        // A round that begins and ends at once.
        let mut end = || {
            now_ms += SPAN_NS / MS + 1;
            pace.end_at(now_ms * MS, now_ms * MS, 0);
            rests(&pace)
        };
        assert_eq!([end(), end()], [384, 368]);
        let spans = (0..).take_while(|_| end() > 0).count();
        assert!((10..100).contains(&spans), "{spans}");
        // Also without rounds in between.
        pace.step_at((now_ms + 1) * MS, || 0);
        step_late(&pace, (now_ms + 9) * MS);
        assert_eq!(rests(&pace), REST_PERCENT);
        let hour_ms = now_ms + 3_600_000;
        pace.end_at(hour_ms * MS, (hour_ms - 1) * MS, MS);
        assert_eq!((rests(&pace), pace.rest_at(hour_ms * MS)), (0, None));
    }

    #[test]
    fn a_rest_is_as_long_as_the_round_was_and_a_wait_counts_as_rest() {
        let pace = Pace::new();
        pace.rest_percent.store(200, Relaxed);
        let due = |used_us: u64, took_us: u64| {
            let began_ns = 1_000 * MS;
            let now_ns = began_ns + took_us * 1_000;
            pace.span_began_ns.store(now_ns, Relaxed);
            pace.end_at(now_ns, began_ns, used_us * 1_000);
            pace.rest_at(now_ns).map(|rest| rest.as_micros())
        };
        assert_eq!(due(100, 100), Some(200));
        assert_eq!(due(100, 200), Some(100));
        assert_eq!(due(100, 290), None);
        assert_eq!(due(100, 9_000), None);
        assert_eq!(due(5_000, 5_000), Some(u128::from(REST_MAX_NS) / 1_000));
    }

    #[test]
    fn a_rest_is_no_lateness_but_what_follows_it_is() {
        let pace = Pace::new();
        pace.rest_percent.store(REST_PERCENT, Relaxed);
        pace.span_began_ns.store(1_000 * MS, Relaxed);
        pace.step_at(1_000 * MS, || 0);
        pace.end_at(1_001 * MS, 1_000 * MS, MS);
        let rest = pace.rest_at(1_001 * MS).unwrap();
        let due_ns = 1_001 * MS + rest.as_nanos() as u64;
        step_late(&pace, due_ns + LATE_NS);
        assert_eq!(rests(&pace), REST_PERCENT);
        pace.end_at(1_010 * MS, 1_009 * MS, MS);
        let rest = pace.rest_at(1_010 * MS).unwrap();
        step_late(&pace, 1_010 * MS + rest.as_nanos() as u64 + LATE_MAX_NS + 1);
        assert_eq!(rests(&pace), 2 * REST_PERCENT);
    }

    #[test]
    fn rests_in_vain_end_soon() {
        let pace = Pace::new();
        pace.set_rests(REST_PERCENT_MAX);
        let halves: Vec<u64> = std::iter::repeat_with(|| {
            pace.has_rested_in_vain();
            rests(&pace)
        })
        .take(3)
        .collect();
        assert_eq!(halves, [200, 100, 0]);
    }

    #[test]
    fn a_thread_knows_its_waits() {
        if ThreadPressure::of_this_thread().is_none() {
            return testing::skip("the kernel does not tell run queue waits");
        }
        let pace = Pace::new();
        let reads = (0..3 * STEPS).filter_map(|_| pace.step(now_ns())).count();
        // More if it was late.
        assert!(reads >= 3);
        // It was not late; and what was read once is not read again.
        WAITS.with_borrow_mut(|waits| {
            assert!(waits.source.is_some());
            waits.read();
            let spins_ns = now_ns();
            while now_ns() - spins_ns < 100_000 {}
            let waited = waits.read().wait_time;
            assert!(waited.as_nanos() as u64 <= now_ns() - spins_ns);
        });
    }
}
