//! Epochs: the table of a thread against a simple model, misuse, many ids, futures that hop
//! threads.

use manx::slo::{self, EPOCHS_MAX, Epoch, NESTED_MAX, Percentile, Slo, Thread, WINDOW_MAX};
use platform::clock::duration_ns;
use proptest::prelude::*;
use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

const WINDOW_NS_MAX: u64 = duration_ns(WINDOW_MAX);

fn end(thread: &Thread, id: u64, slo_ns: u64) -> Option<u64> {
    thread.end(id, slo_ns, Percentile::P99, WINDOW_NS_MAX)
}

#[derive(Clone, Debug)]
enum Step {
    Start(u64),
    End(u64),
    Abandon(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    // Few ids, so that they are nested, forgotten and ended twice; some of them far apart.
    let id = prop_oneof![0..6_u64, (0..6_u64).prop_map(|n| u64::MAX - n * 0x1234_5678_9abc)];
    let step = (id, 0..7).prop_map(|(id, kind)| match kind {
        0..=3 => Step::Start(id),
        4 | 5 => Step::End(id),
        _ => Step::Abandon(id),
    });
    prop::collection::vec(step, 0..300)
}

/// Ends the innermost one with this id; whether there was one.
fn close(open: &mut Vec<u64>, id: u64) -> bool {
    open.iter().rposition(|&other| other == id).map(|at| open.remove(at)).is_some()
}

proptest! {
    #[test]
    fn a_thread_keeps_its_epochs_as_a_list_would(steps in steps()) {
        let thread = Thread::new();
        let mut open: Vec<u64> = Vec::new();
        let mut met: HashMap<u64, u32> = HashMap::new();
        for step in steps {
            match step {
                Step::Start(id) => {
                    let nested = open.len() - open.iter().collect::<HashSet<_>>().len();
                    if nested == NESTED_MAX {
                        close(&mut open, id);
                    }
                    open.push(id);
                    met.entry(id).or_default();
                    prop_assert!(thread.start(id));
                }
                Step::End(id) => {
                    let was_open = close(&mut open, id);
                    prop_assert_eq!(end(&thread, id, u64::MAX).is_some(), was_open);
                    if was_open {
                        *met.get_mut(&id).unwrap() += 1;
                    }
                }
                Step::Abandon(id) => {
                    let was_open = close(&mut open, id);
                    prop_assert_eq!(thread.abandon(id), was_open);
                }
            }
            prop_assert_eq!(thread.current(), open.last().copied());
            // A target that is always met doubles the window from a 64th of the longest one.
            let window_ns = |met: u32| if met == 0 { 0 } else { (WINDOW_NS_MAX >> 6 << (met - 1).min(6)).min(WINDOW_NS_MAX) };
            prop_assert_eq!(thread.window_ns(), open.last().map(|id| window_ns(met[id])));
        }
        prop_assert_eq!(thread.known() as usize, met.len());
        thread.free();
        prop_assert_eq!((thread.known(), thread.current()), (0, None));
    }
}

#[test]
fn a_hundred_thousand_ids_keep_their_windows_apart() {
    let thread = Thread::new();
    let id = |n: u64| if n.is_multiple_of(2) { n } else { n.wrapping_mul(0x9e37_79b9_7f4a_7c15) };
    for n in 0..100_000_u64 {
        assert!(thread.start(id(n)));
        // Every third misses.
        assert!(end(&thread, id(n), if n.is_multiple_of(3) { 0 } else { u64::MAX }).is_some());
    }
    for n in 0..100_000_u64 {
        let window_ns = if n.is_multiple_of(3) { 0 } else { WINDOW_NS_MAX >> 6 };
        assert_eq!(thread.window_ns_of(id(n)), Some(window_ns), "{n}");
    }
    assert_eq!(thread.known(), 100_000);
    thread.free();
}

#[test]
fn beyond_the_limit_epochs_go_unseen_and_the_others_go_on() {
    let thread = Thread::new();
    for id in 0..u64::from(EPOCHS_MAX) {
        assert!(thread.start(id) && thread.abandon(id));
    }
    assert!(thread.start(5));
    assert!(!thread.start(u64::MAX));
    assert_eq!(end(&thread, u64::MAX, 1), None);
    assert_eq!((thread.current(), thread.known()), (Some(5), EPOCHS_MAX));
    assert!(end(&thread, 5, 1).is_some());
    thread.free();
}

#[test]
fn deep_nesting_ends_from_either_end() {
    let thread = Thread::new();
    for order in [true, false] {
        (0..1000).for_each(|id| assert!(thread.start(id)));
        for n in 0..1000 {
            let id = if order { n } else { 999 - n };
            assert!(end(&thread, id, u64::MAX).is_some(), "{id}");
        }
        assert_eq!(thread.current(), None);
    }
    thread.free();
}

#[test]
fn an_epoch_inside_of_itself_leaves_the_outer_one_as_it_was() {
    const OUTER: Duration = Duration::from_millis(5);
    let thread = Thread::new();
    // Both around another one, and within one.
    for between in [None, Some(2)] {
        assert!(thread.start(1));
        std::thread::sleep(OUTER);
        between.iter().for_each(|&id| assert!(thread.start(id)));
        assert!(thread.start(1));
        let inner_ns = end(&thread, 1, u64::MAX).expect("the inner one is open");
        assert_eq!(thread.current(), between.or(Some(1)));
        between.iter().for_each(|&id| assert!(end(&thread, id, u64::MAX).is_some()));
        assert_eq!(thread.current(), Some(1));
        let outer_ns = end(&thread, 1, u64::MAX).expect("the outer one is open");
        assert!(outer_ns >= OUTER.as_nanos() as u64 && outer_ns > inner_ns, "{outer_ns} {inner_ns}");
        assert_eq!((thread.current(), end(&thread, 1, u64::MAX)), (None, None));
    }
    assert_eq!(thread.known(), 2);
    thread.free();
}

#[test]
fn epochs_that_are_begun_and_never_ended_fill_no_memory() {
    let thread = Thread::new();
    for _ in 0..100_000 {
        assert!(thread.start(1));
    }
    assert_eq!((thread.current(), thread.known()), (Some(1), 1));
    for _ in 0..=NESTED_MAX {
        assert!(thread.abandon(1));
    }
    assert_eq!((thread.current(), thread.abandon(1)), (None, false));
    thread.free();
}

#[test]
fn threads_have_their_own_epochs() {
    slo::start(1);
    let other = std::thread::spawn(|| (slo::current(), slo::end(1, 5), slo::window_ns()));
    assert_eq!(other.join().unwrap(), (None, None, None));
    assert_eq!(slo::current(), Some(1));
    assert!(slo::end(1, 5).is_some());
}

#[test]
fn the_inner_target_rules_and_the_outer_one_comes_back() {
    let outer = Epoch::new("outer", Slo::p99(Duration::from_secs(3600)));
    let inner = Epoch::new("inner", Slo::p99(Duration::ZERO));
    for _ in 0..10 {
        let _outer = outer.enter();
        let _inner = inner.enter();
    }
    let around = outer.enter();
    let outer_ns = slo::window_ns();
    assert_eq!(outer_ns, Some(WINDOW_NS_MAX));
    {
        let _inner = inner.enter();
        assert_eq!(slo::window_ns(), Some(0));
    }
    assert_eq!(slo::window_ns(), outer_ns);
    around.abandon();
    assert_eq!(slo::window_ns(), None);
}

/// Ready after this number of polls.
struct After(u32);

impl Future for After {
    type Output = Option<u64>;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<u64>> {
        if self.0 == 0 {
            return Poll::Ready(slo::current());
        }
        assert!(slo::current().is_some());
        self.0 -= 1;
        Poll::Pending
    }
}

#[test]
fn a_future_takes_its_epoch_from_thread_to_thread() {
    let epoch = Epoch::new("request", Slo::p99(Duration::from_secs(3600)));
    epoch.record(true);
    let id = epoch.id();
    let mut request = Box::pin(epoch.carry(After(3)));
    let pause = Duration::from_millis(5);
    for _ in 0..3 {
        request = std::thread::spawn(move || {
            let mut context = Context::from_waker(Waker::noop());
            assert!(request.as_mut().poll(&mut context).is_pending());
            assert_eq!(slo::current(), None, "between polls the thread does something else");
            std::thread::sleep(pause);
            request
        })
        .join()
        .unwrap();
    }
    assert_eq!(epoch.latencies().count, 0);
    let mut context = Context::from_waker(Waker::noop());
    assert_eq!(request.as_mut().poll(&mut context), Poll::Ready(Some(id)));
    let latencies = epoch.latencies();
    assert_eq!((latencies.count, latencies.missed), (1, 0));
    assert!(latencies.max >= 3 * pause, "it began when it was made: {latencies:?}");
    drop(request);
    drop(epoch.carry(After(1)));
    assert_eq!(epoch.latencies().count, 1, "one that nobody polled never began");
    let mut given_up = Box::pin(epoch.carry(After(1)));
    assert!(given_up.as_mut().poll(&mut context).is_pending());
    drop(given_up);
    assert_eq!(epoch.latencies().count, 2, "one that was given up has ended");
}

#[test]
fn targets_change_while_the_program_runs() {
    let epoch = Epoch::new("changing", Slo::p99(Duration::from_secs(3600)));
    epoch.record(true);
    drop(epoch.enter());
    epoch.set_slo(Slo::new(Duration::ZERO, Percentile::P50));
    assert_eq!(epoch.slo(), Slo::p50(Duration::ZERO));
    drop(epoch.enter());
    assert_eq!((epoch.latencies().count, epoch.latencies().missed), (2, 1));
}

/// A thread was stopped for a day, or a clock jumped: that is one miss, and no more than one.
#[test]
fn a_latency_of_any_length_is_one_miss() {
    const SLO_NS: u64 = 2_000_000;
    let report = |thread: &Thread, latency_ns| {
        thread.report(7, latency_ns, SLO_NS, Percentile::P99, WINDOW_NS_MAX);
        thread.window_ns_of(7).expect("it was reported")
    };
    for late_ns in [SLO_NS + 1, 86_400_000_000_000, i64::MAX as u64, u64::MAX] {
        let thread = Thread::new();
        let full_ns = (0..20).map(|_| report(&thread, 10_000)).last().expect("some");
        assert!(full_ns >= SLO_NS);
        assert_eq!(report(&thread, late_ns), full_ns / 2, "{late_ns}");
        // After as many as may go by between two misses the window is where it was, whatever that
        // one was.
        let epochs = (0..200).take_while(|_| report(&thread, 10_000) < full_ns).count();
        assert!((80..=99).contains(&epochs), "{epochs} after {late_ns}");
        thread.free();
    }
}

/// A thread whose epoch 1 has a window and is open, with epoch 2 open inside; and when the clock
/// was looked at before it began.
fn open_epochs() -> (Thread, u64, Option<u64>) {
    let thread = Thread::new();
    for _ in 0..20 {
        assert!(thread.start(1) && end(&thread, 1, u64::MAX).is_some());
    }
    let before_ticks = platform::clock::ticks();
    assert!(thread.start(1) && thread.start(2));
    let window_ns = thread.window_ns_of(1);
    (thread, before_ticks, window_ns)
}

fn end_then(thread: &Thread, now_ticks: u64) -> Option<u64> {
    thread.end_then(1, now_ticks, 1_000_000_000, Percentile::P99, WINDOW_NS_MAX)
}

#[test]
fn a_clock_that_goes_back_says_nothing_and_the_epoch_ends() {
    for back in [1, platform::clock::ticks_per_second() * 60, 1 << 62] {
        let (thread, before_ticks, window_ns) = open_epochs();
        assert_eq!(end_then(&thread, before_ticks.wrapping_sub(back)), None, "{back}");
        assert_eq!(thread.window_ns_of(1), window_ns, "it counts for nothing");
        assert_eq!(thread.current(), Some(2));
        assert!(!thread.abandon(1), "it is not open any more");
        thread.free();
    }
}

#[test]
fn a_clock_that_jumps_ahead_makes_one_miss() {
    for ahead in [platform::clock::ticks_per_second() * 60, 1 << 50, 1 << 62] {
        let (thread, before_ticks, window_ns) = open_epochs();
        let latency_ns = end_then(&thread, before_ticks.wrapping_add(ahead));
        assert!(latency_ns > Some(1_000_000_000), "{latency_ns:?} after {ahead}");
        assert_eq!(thread.window_ns_of(1), window_ns.map(|window_ns| window_ns / 2));
        assert_eq!(thread.current(), Some(2));
        thread.free();
    }
}
