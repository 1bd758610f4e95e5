//! Whether one loop has all connections, or each loop those whose clients are near.
//!
//! Where all CPUs are busy, server and clients share them in any case. Then a leader is best on the
//! CPU of its clients: it wakes them without an interrupt to another CPU (80 threads that wait for
//! each answer, two CPUs: 1.2 times the requests of one loop). But while a CPU idles they should
//! not share one. A client that has many connections, and the leader near it, take turns on their
//! CPU: mostly one of them wants it, so the kernel sees no reason to move the other one (a client
//! with one thread and 50 connections: 0.6 times the requests of one loop). A leader that has all
//! connections always has something to do, so the kernel finds it a CPU of its own.
//!
//! So the loops begin *gathered*: the first one has all connections. In each [`SPAN_NS`] they may
//! *spread*, if
//! - a CPU idles, and the clients are on several CPUs; where that is not known (sockets of files):
//!   the leader has hardly a moment left;
//! - a CPU idles, and the leader has little to do, and hardly waits for a CPU: a client that waits
//!   for each answer is woken sooner on the leader's CPU; or
//! - the CPUs hardly idle, and clients are on the leader's CPU anyway.
//!
//! They gather again if the leaders wait for a CPU nearly as long as they run, although a CPU
//! idles, and one leader suffices. Then they do not spread for [`HOLD_NS`], and for twice as long
//! each time that they had not been spread for long. Each of these rules must hold in [`IN_A_ROW`]
//! spans, one after the other. A server that had nothing to do for a while begins anew.
//!
//! A span is as long as a few of the ticks in which the kernel tells of idle time. Where it does
//! not tell, the loops are spread.
//!
//! All accesses are Relaxed: hints and counts. One thread at a time decides; the others go on.

use manx::cpu::{CpuSet, MachineTicks, ThreadTimes, TicksWatch};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};

/// The shortest span. A span ends when a leader next reports its times.
const SPAN_NS: u64 = 100_000_000;
/// A span that is longer than this number of shortest ones decides nothing.
const SPANS_MAX: u64 = 2;
/// In a span of this number of shortest ones, or more, the server had nothing to do.
const SPANS_IDLE: u64 = 10;
/// The loops spread or gather after this number of spans in which the rules say so.
const IN_A_ROW: u32 = 2;
/// "Clients are somewhere" means: one in this number of them, or more.
const SOME: u64 = 12;
/// How long the loops stay gathered at least when they have been spread, at first …
const HOLD_NS: u64 = 200_000_000;
/// … and at most. They were not spread for long if that was less than …
const HOLD_NS_MAX: u64 = 16_000_000_000;
/// … this.
const SPREAD_NS: u64 = 2_000_000_000;

/// What happened in a span. Percents are of one CPU.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// The time in which CPUs that the server may use had nothing to run.
    idle_percent: u64,
    /// For how long the leaders ran, and waited for a CPU.
    used_percent: u64,
    waited_percent: u64,
    /// How often a client's CPU was asked for, was the leader's, and was not that of the client
    /// before.
    asked: u64,
    near: u64,
    changed: u64,
}

impl Seen {
    /// Of loops that are gathered.
    fn should_spread(&self) -> bool {
        let has_spare_cpu = self.idle_percent >= 75;
        let is_some = |clients: u64| clients > 0 && clients * SOME >= self.asked;
        let are_apart = if self.asked > 0 { is_some(self.changed) } else { self.used_percent >= 90 };
        let is_light = self.used_percent <= 60 && self.waited_percent * 4 <= self.used_percent;
        if has_spare_cpu { are_apart || is_light } else { self.idle_percent < 40 && is_some(self.near) }
    }

    /// Of loops that are spread.
    fn should_gather(&self) -> bool {
        let waits = self.waited_percent * 3 >= self.used_percent * 2;
        self.idle_percent >= 25 && waits && (10..=110).contains(&self.used_percent)
    }
}

/// See [the module](self). Times are those of `platform::clock::now_ns`.
pub(super) struct Gather {
    is_gathered: AtomicBool,
    /// The beginning of the present span; 0: there is none yet.
    began_ns: AtomicU64,
    used_ns: AtomicU64,
    waited_ns: AtomicU64,
    asked: AtomicU64,
    near: AtomicU64,
    changed: AtomicU64,
    /// The CPU of the client that was asked for last.
    client_cpu: AtomicUsize,
    history: Mutex<History>,
}

#[derive(Default)]
struct History {
    machine: Option<TicksWatch>,
    /// What the CPUs had done when the span began.
    before: MachineTicks,
    /// When the loops last spread or gathered.
    changed_ns: u64,
    /// After they have gathered, the loops do not spread for this time.
    hold_ns: u64,
    /// The number of spans since the rules last said that the loops should stay as they are.
    in_a_row: u32,
}

impl Gather {
    /// Of loops on the CPUs of the calling thread.
    pub(super) fn new() -> Gather {
        let mut machine = TicksWatch::of(CpuSet::of_this_thread());
        let before = machine.as_mut().and_then(TicksWatch::ticks);
        let (is_gathered, before) = (AtomicBool::new(before.is_some()), before.unwrap_or_default());
        let history = Mutex::new(History { machine, before, ..History::default() });
        let [began_ns, used_ns, waited_ns, asked, near, changed] = [0; 6].map(AtomicU64::new);
        let client_cpu = AtomicUsize::new(0);
        Gather { is_gathered, began_ns, used_ns, waited_ns, asked, near, changed, client_cpu, history }
    }

    /// Whether the first loop has all connections, as far as it depends on clients.
    pub(super) fn is_gathered(&self) -> bool {
        self.is_gathered.load(Relaxed)
    }

    /// A client's CPU was asked for; `is_near`: it is that of its loop's leader.
    pub(super) fn saw(&self, cpu: usize, is_near: bool) {
        self.asked.fetch_add(1, Relaxed);
        self.near.fetch_add(u64::from(is_near), Relaxed);
        if self.client_cpu.load(Relaxed) != cpu {
            self.client_cpu.store(cpu, Relaxed);
            self.changed.fetch_add(1, Relaxed);
        }
    }

    /// What a test begins with.
    #[cfg(test)]
    pub(super) fn set(&self, is_gathered: bool) {
        self.is_gathered.store(is_gathered, Relaxed);
    }

    /// Adds the times for which a leader has run and waited. Ends the span if it is long enough.
    pub(super) fn add(&self, times: ThreadTimes, now_ns: u64) {
        self.used_ns.fetch_add(times.run_time.as_nanos() as u64, Relaxed);
        self.waited_ns.fetch_add(times.wait_time.as_nanos() as u64, Relaxed);
        if now_ns.saturating_sub(self.began_ns.load(Relaxed)) >= SPAN_NS {
            self.end_span(now_ns);
        }
    }

    #[cold]
    fn end_span(&self, now_ns: u64) {
        let Ok(mut history) = self.history.try_lock() else { return };
        let passed_ns = now_ns.saturating_sub(self.began_ns.load(Relaxed));
        if passed_ns < SPAN_NS {
            // Another thread has ended it meanwhile.
            return;
        }
        let Some(ticks) = history.machine.as_mut().and_then(TicksWatch::ticks) else { return };
        self.began_ns.store(now_ns, Relaxed);
        let before = std::mem::replace(&mut history.before, ticks);
        let percent = |ns: u64| ns * 100 / passed_ns;
        let seen = Seen {
            idle_percent: percent(ticks.idle.saturating_sub(before.idle) * platform::usage::tick_ns()),
            used_percent: percent(self.used_ns.swap(0, Relaxed)),
            waited_percent: percent(self.waited_ns.swap(0, Relaxed)),
            asked: self.asked.swap(0, Relaxed),
            near: self.near.swap(0, Relaxed),
            changed: self.changed.swap(0, Relaxed),
        };
        let is_gathered = history.decide(self.is_gathered(), passed_ns / SPAN_NS, seen, now_ns);
        self.is_gathered.store(is_gathered, Relaxed);
    }
}

impl History {
    /// Returns whether the loops are gathered from now on. `is_gathered` says whether they were in
    /// the span that has just ended; `spans` is its length in shortest spans.
    fn decide(&mut self, is_gathered: bool, spans: u64, seen: Seen, now_ns: u64) -> bool {
        if spans >= SPANS_IDLE {
            self.hold_ns = 0;
            return true;
        }
        if spans > SPANS_MAX {
            return is_gathered;
        }
        let stayed_ns = now_ns.saturating_sub(self.changed_ns);
        let should = if is_gathered {
            stayed_ns >= self.hold_ns && seen.should_spread()
        } else {
            seen.should_gather()
        };
        self.in_a_row = if should { self.in_a_row + 1 } else { 0 };
        let changes = self.in_a_row >= IN_A_ROW;
        if changes {
            self.in_a_row = 0;
            self.changed_ns = now_ns;
            if !is_gathered {
                let was_spread = stayed_ns >= SPREAD_NS;
                self.hold_ns =
                    if was_spread { HOLD_NS } else { (2 * self.hold_ns).clamp(HOLD_NS, HOLD_NS_MAX) };
            }
        }
        is_gathered != changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use platform::clock::now_ns;
    use std::time::Duration;

    const MS: u64 = 1_000_000;

    fn seen([idle_percent, used_percent, waited_percent, asked, near, changed]: [u64; 6]) -> Seen {
        Seen { idle_percent, used_percent, waited_percent, asked, near, changed }
    }

    /// One client has 50 connections, and its leader another CPU.
    const APART: [u64; 6] = [10, 97, 2, 700, 0, 0];
    /// They take turns on one CPU.
    const IN_TURNS: [u64; 6] = [60, 65, 63, 420, 410, 7];
    /// Many clients share all CPUs with the leaders.
    const SHARED: [u64; 6] = [0, 97, 102, 650, 650, 320];

    #[test]
    fn each_situation_leads_to_the_better_state() {
        // What two CPUs showed is rounded, without the last number, which is assumed. All of
        // machines with more CPUs is assumed.
        for (situation, figures, spreads) in [
            ("a client with 1 connection", [98, 45, 2, 98, 0, 0], true),
            ("a client with 4", [29, 93, 1, 650, 0, 0], false),
            ("a client with 10", [19, 98, 1, 800, 0, 0], false),
            ("a client with 50", APART, false),
            ("a faster client with 50", [29, 100, 1, 700, 0, 2], false),
            ("a client with 50 that sends 16 requests at once", [47, 97, 1, 250, 0, 0], false),
            ("80 clients", [18, 80, 19, 500, 80, 240], true),
            ("a client with 50, and 8 processes that compute", [0, 28, 29, 200, 150, 100], true),
            ("8 clients on 8 of 16 CPUs", [600, 98, 0, 700, 0, 600], true),
            ("8 clients that send less", [800, 70, 2, 500, 0, 400], true),
            ("a client on one of 16 CPUs", [1_400, 98, 0, 700, 0, 1], false),
            ("clients with sockets of files, 16 CPUs", [1_400, 98, 0, 0, 0, 0], true),
        ] {
            assert_eq!(seen(figures).should_spread(), spreads, "{situation}");
        }
        for (situation, figures, gathers) in [
            ("a client with 1 connection", [108, 46, 13, 200, 150, 5], false),
            ("a client with 3", [100, 45, 20, 300, 100, 5], false),
            ("a client with 4", [100, 52, 41, 300, 200, 5], true),
            ("a client with 50", IN_TURNS, true),
            ("80 clients", SHARED, false),
            ("16 leaders that have much to do", [300, 700, 600, 5_000, 4_000, 4_500], false),
            ("hardly a request", [190, 2, 2, 5, 5, 1], false),
        ] {
            assert_eq!(seen(figures).should_gather(), gathers, "{situation}");
        }
    }

    /// The decisions after these spans. A span is the time of its end and its figures.
    fn decide(history: &mut History, was: bool, spans: &[(u64, [u64; 6])]) -> Vec<bool> {
        let mut is_gathered = was;
        let mut one = |&(at_ms, measured): &(u64, _)| {
            is_gathered = history.decide(is_gathered, 1, seen(measured), at_ms * MS);
            is_gathered
        };
        spans.iter().map(&mut one).collect()
    }

    #[test]
    fn one_span_alone_changes_nothing() {
        let mut history = History::default();
        let spans = [SHARED, APART, SHARED, SHARED, IN_TURNS, SHARED, IN_TURNS, IN_TURNS];
        let spans: Vec<_> = (1..).map(|span| 100 * span).zip(spans).collect();
        let expected = [true, true, true, false, false, false, false, true];
        assert_eq!(decide(&mut history, true, &spans), expected);
    }

    #[test]
    fn loops_that_gather_soon_again_stay_gathered_for_longer() {
        let mut history = History::default();
        let mut now_ms = 10_000;
        let mut spread_after_ms = |history: &mut History, spread_ms: u64| {
            // They gather …
            decide(history, false, &[(now_ms + spread_ms, IN_TURNS); 2]);
            now_ms += spread_ms;
            // … and are always to spread.
            let waited_ms = (0..).find(|ms| decide(history, true, &[(now_ms + ms, SHARED)]) == [false]);
            now_ms += waited_ms.unwrap();
            waited_ms.unwrap()
        };
        // The second of two spans, a millisecond later.
        let waits_ms: Vec<u64> = (0..9).map(|_| spread_after_ms(&mut history, 100)).collect();
        assert_eq!(waits_ms, [201, 401, 801, 1_601, 3_201, 6_401, 12_801, 16_001, 16_001]);
        assert_eq!(spread_after_ms(&mut history, 2_000), 201);
    }

    #[test]
    fn a_time_without_work_begins_anew_and_a_long_span_says_nothing() {
        let mut history = History { hold_ns: HOLD_NS, in_a_row: 1, ..History::default() };
        assert!(!history.decide(false, SPANS_MAX + 1, seen(IN_TURNS), 0));
        assert!(history.decide(true, SPANS_MAX + 1, seen(SHARED), 0));
        assert!(history.decide(false, SPANS_IDLE, seen(SHARED), 0));
        assert_eq!(history.hold_ns, 0);
    }

    #[test]
    fn spans_are_measured() {
        let gather = Gather::new();
        if gather.history.lock().unwrap().machine.is_none() {
            assert!(!gather.is_gathered());
            return testing::skip("the kernel does not tell of idle CPUs");
        }
        assert!(gather.is_gathered());
        let (began_ns, mut times) = (now_ns(), ThreadTimes::default());
        gather.add(times, began_ns);
        // In each span a leader has little to do, and a client is near. Whether a CPU idles is not
        // known here; between the two thresholds nothing changes.
        times.run_time = Duration::from_millis(40);
        let spreads = (1..=1_000).find(|span| {
            gather.saw(0, true);
            gather.add(times, began_ns + span * SPAN_NS - 1);
            gather.end_span(began_ns + span * SPAN_NS - 1);
            assert_eq!(gather.asked.load(Relaxed), 1, "the span has not ended");
            gather.add(ThreadTimes::default(), began_ns + span * SPAN_NS);
            assert_eq!([&gather.asked, &gather.near, &gather.used_ns].map(|it| it.load(Relaxed)), [0; 3]);
            !gather.is_gathered()
        });
        let spreads = spreads.expect("clients are near, or a CPU idles");
        assert!(spreads >= u64::from(IN_A_ROW));
        gather.add(times, began_ns + (spreads + 20) * SPAN_NS);
        assert!(gather.is_gathered());
    }

    #[test]
    fn where_nothing_tells_of_idle_cpus_loops_are_spread() {
        let gather = Gather::new();
        gather.set(false);
        gather.history.lock().unwrap().machine = None;
        gather.add(ThreadTimes::default(), 100 * SPAN_NS);
        assert!(!gather.is_gathered());
    }
}
