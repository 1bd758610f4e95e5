//! While the process is short of CPUs no waiter spins. Alone in its file: the word is the whole
//! process'.

use manx::wait::{Adaptive, Counts, Event, Mutable, Policy, Spin, set_short_of_cpus, short_of_cpus};

fn rounds<P: Policy>(policy: &P, rounds: u32) -> Counts {
    let mut backoff = policy.start();
    for _ in 0..rounds {
        backoff.wait_at_most(1_000);
    }
    backoff.counts()
}

#[test]
fn nobody_spins_while_there_is_a_shortage() {
    let adaptive = Adaptive::DEFAULT.yields(2).step_ns(1_000).ceiling_ns(1_000);
    assert!(!short_of_cpus());
    assert_eq!(rounds(&adaptive, 5), Counts { spins: 5, ..Counts::default() });

    // A wait that has begun stops spinning too.
    let mut begun = adaptive.start();
    begun.wait();
    set_short_of_cpus(true);
    assert!(short_of_cpus());
    begun.wait();
    assert_eq!(begun.counts(), Counts { spins: 1, yields: 1, ..Counts::default() });

    assert_eq!(rounds(&adaptive, 3), Counts { yields: 2, sleeps: 1, ..Counts::default() });
    // One round to register, and the next one parks.
    assert_eq!(rounds(&Event::new(), 2), Counts { spins: 1, parks: 1, ..Counts::default() });
    let mutable = Mutable::new();
    let mut backoff = mutable.start();
    backoff.wait();
    assert_eq!((mutable.spinners(), mutable.window()), (0, 1));
    drop(backoff);
    assert_eq!(rounds(&Spin, 3).spins, 3, "it was told to");

    set_short_of_cpus(false);
    assert_eq!(rounds(&adaptive, 5), Counts { spins: 5, ..Counts::default() });
}
