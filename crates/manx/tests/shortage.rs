//! While the process is short of CPUs no waiter spins. Alone in its file: the word is the whole
//! process'.

use manx::wait::{Adaptive, Counts, Event, Mutable, Policy, Spin, set_short_of_cpus, short_of_cpus};
use std::time::Duration;

const MICROSECOND: Duration = Duration::from_micros(1);

/// Rounds that spun, yielded, slept and parked.
fn by_kind(counts: Counts) -> [u64; 4] {
    [counts.spins, counts.yields, counts.sleeps, counts.parks]
}

fn rounds<P: Policy>(policy: &P, rounds: u32) -> [u64; 4] {
    let mut backoff = policy.start();
    for _ in 0..rounds {
        backoff.wait_at_most(MICROSECOND);
    }
    by_kind(backoff.counts())
}

#[test]
fn no_waiter_spins_while_there_is_a_shortage() {
    let adaptive = Adaptive::DEFAULT.yields(2).step(MICROSECOND).ceiling(MICROSECOND);
    assert!(!short_of_cpus());
    assert_eq!(rounds(&adaptive, 5), [5, 0, 0, 0]);

    // A wait that has begun stops spinning too.
    let mut begun = adaptive.start();
    begun.wait();
    set_short_of_cpus(true);
    assert!(short_of_cpus());
    begun.wait();
    assert_eq!(by_kind(begun.counts()), [1, 1, 0, 0]);

    assert_eq!(rounds(&adaptive, 3), [0, 2, 1, 0]);
    // One round to register, and the next one parks.
    assert_eq!(rounds(&Event::new(), 2), [1, 0, 0, 1]);
    let mutable = Mutable::new();
    let mut backoff = mutable.start();
    backoff.wait();
    assert_eq!((mutable.spinners(), mutable.window()), (0, 1));
    drop(backoff);
    assert_eq!(rounds(&Spin, 3), [3, 0, 0, 0], "it was told to");

    set_short_of_cpus(false);
    assert_eq!(rounds(&adaptive, 5), [5, 0, 0, 0]);
}
