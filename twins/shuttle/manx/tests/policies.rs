//! Policies without signals, and limits by the virtual clock, under randomized schedules.
//!
//! Shuttle models sequentially consistent memory only; the orderings are loom's business
//! (`twins/loom/manx/tests`).

mod common;

use common::{Lock, together};
use manx_shuttle::wait::{Adaptive, Event, FixedSleep, Mutable, Policy, Spin, Yield};
use platform::explore::{Site, check};
use platform::{SPINS_MAX, clock, site};
use shuttle::sync::Arc;
use shuttle::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const THREADS: u32 = 5;
const ROUNDS: u32 = 3;

/// A lock whose waiters look again by themselves passes to all of them.
fn passes<P: Policy + Send + Sync + Clone + 'static>(site: Site, policy: P) {
    check(site, move || {
        let lock = Lock::new(policy.clone());
        together(THREADS, &lock, |lock, _| {
            for round in 0..ROUNDS {
                // In between a thread may give up, and tries again without a limit.
                if round != 1 || !lock.with_in(Duration::from_micros(100), |_| ()) {
                    lock.with(|_| ());
                }
            }
        });
        assert_eq!(lock.passed(), THREADS * ROUNDS);
    });
}

#[test]
fn spinning_ends() {
    passes(site!(), Spin);
}

#[test]
fn yielding_ends() {
    passes(site!(), Yield);
}

#[test]
fn sleeping_ends() {
    passes(site!(), FixedSleep::new(Duration::from_micros(50)));
}

#[test]
fn adaptive_waiting_ends() {
    passes(site!(), Adaptive::DEFAULT.yields(2));
}

#[test]
fn adaptive_waits_go_through_their_stages_while_others_run() {
    check(site!(), || {
        let nothing = Arc::new(());
        together(THREADS, &nothing, |(), _| {
            let mut backoff = Adaptive::DEFAULT.yields(2).start();
            (0..SPINS_MAX + 2).for_each(|_| backoff.wait());
            let began_ns = clock::now_ns();
            (0..2).for_each(|_| backoff.wait());
            let counts = backoff.counts();
            assert_eq!((counts.spins, counts.yields, counts.sleeps), (u64::from(SPINS_MAX), 2, 2));
            // 100 µs and 200 µs, by default.
            assert!(clock::now_ns() - began_ns >= 300_000);
        });
    });
}

/// A wait that fails has waited for as long as it was told to, and a wait that need not fails
/// never.
fn keeps_its_limit<P: Policy + Send + Sync + 'static>(site: Site, policy: fn() -> P, signal: fn(&P)) {
    check(site, move || {
        const LIMIT: Duration = Duration::from_micros(120);
        let shared = Arc::new((AtomicBool::new(false), policy(), signal));
        together(THREADS, &shared, |(ready, policy, signal), number| {
            if number == 0 {
                ready.store(true, Ordering::Release);
                signal(policy);
                return;
            }
            let began_ns = clock::now_ns();
            let was = policy.until_for(LIMIT, || ready.load(Ordering::Acquire));
            assert!(was || clock::now_ns() - began_ns >= clock::duration_ns(LIMIT), "gave up too soon");
            assert!(policy.until_for(Duration::ZERO, || true));
        });
        assert!(shared.1.until_for(Duration::ZERO, || shared.0.load(Ordering::Acquire)));
        assert!(!shared.1.until_for(LIMIT, || false));
    });
}

#[test]
fn a_limited_wait_for_an_event_lasts_as_long_as_it_may() {
    keeps_its_limit(site!(), Event::new, Event::signal_all);
}

#[test]
fn a_limited_mutable_wait_lasts_as_long_as_it_may() {
    keeps_its_limit(site!(), Mutable::new, Mutable::signal_all);
}

#[test]
fn a_limited_adaptive_wait_lasts_as_long_as_it_may() {
    keeps_its_limit(site!(), || Adaptive::DEFAULT, |_| ());
}

#[test]
#[should_panic(expected = "max_steps")]
fn a_wait_that_never_ends_would_be_found() {
    check(site!(), || assert_eq!(Adaptive::DEFAULT.until(|| false).rounds(), 0));
}
