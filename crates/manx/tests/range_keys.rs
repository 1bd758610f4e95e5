//! Keys that are made by others: cloned, compared and dropped as often as it is right, also if one
//! of these panics.

use manx::range::{Access, Key, Options, RangeLock, Span, SpanSet};
use std::cell::Cell;
use std::cmp::Ordering as Order;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread;
use std::time::Duration;
use testing::until;

/// Keys are blocks.
const SMALL: Options = Options::new().block_log2(0);

/// Clones that live.
static ALIVE: AtomicI64 = AtomicI64::new(0);

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Counted(u64);

impl Counted {
    fn new(number: u64) -> Counted {
        ALIVE.fetch_add(1, Ordering::Relaxed);
        Counted(number)
    }
}

impl Clone for Counted {
    fn clone(&self) -> Counted {
        Counted::new(self.0)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        ALIVE.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Key for Counted {
    const EXACT: bool = false;

    fn position(&self) -> u64 {
        self.0
    }
}

#[test]
fn keys_are_dropped_as_often_as_they_are_made() {
    {
        let lock = RangeLock::<Counted, 4, 2>::with(SMALL);
        let span = |first, end| Span::new(Counted::new(first), Counted::new(end)).unwrap();
        thread::scope(|scope| {
            for me in 0..4_u64 {
                let lock = &lock;
                scope.spawn(move || {
                    let mut owner = lock.owner().escalating(4);
                    for turn in 0..500 {
                        let first = (me * 3 + turn) % 20;
                        let guard = lock.lock_as(span(first, first + 3), Access::Exclusive).unwrap();
                        let (low, high) = guard.split_at(Counted::new(first + 1)).unwrap();
                        drop(low.downgrade().unwrap());
                        drop(high);
                        let set = SpanSet::merged([
                            span(first, first + 2),
                            span(first + 1, first + 9),
                            span(40, 41),
                        ]);
                        drop(lock.lock_many(set.unwrap()).unwrap());
                        // An owner waits for no other holder while it holds something.
                        if owner.try_lock_as(span(first, first + 5), Access::Shared).is_err() {
                            owner.release_all();
                        }
                        let _ = owner.release(span(first + 1, first + 2));
                        owner.release_all();
                    }
                });
            }
        });
        let dump = lock.dump();
        assert!(dump.held.is_empty() && dump.waiting.is_empty());
        drop(lock.lock_as(Span::all(), Access::Exclusive).unwrap());
        // What is left is in slots that were not used since: two ends each.
        let slots = 4 * 2 + lock.statistics().spilled as i64;
        let alive = ALIVE.load(Ordering::Relaxed);
        assert!((0..=2 * slots).contains(&alive), "{alive} keys in {slots} slots");
    }
    assert_eq!(ALIVE.load(Ordering::Relaxed), 0);
}

thread_local! {
    /// How many key operations from now on the panicking one comes; 0: none panics.
    static FUSE: Cell<u32> = const { Cell::new(0) };
}

/// A key that panics on demand.
#[derive(Debug)]
struct Touchy(u64);

/// What a key says that panics.
const BURNT: &str = "a key that panics";

fn burn() {
    FUSE.with(|fuse| match fuse.get() {
        0 => {}
        1 => {
            fuse.set(0);
            panic!("{BURNT}");
        }
        more => fuse.set(more - 1),
    });
}

impl Clone for Touchy {
    fn clone(&self) -> Touchy {
        burn();
        Touchy(self.0)
    }
}

impl PartialEq for Touchy {
    fn eq(&self, other: &Touchy) -> bool {
        self.cmp(other) == Order::Equal
    }
}

impl Eq for Touchy {}

impl PartialOrd for Touchy {
    fn partial_cmp(&self, other: &Touchy) -> Option<Order> {
        Some(self.cmp(other))
    }
}

impl Ord for Touchy {
    fn cmp(&self, other: &Touchy) -> Order {
        burn();
        self.0.cmp(&other.0)
    }
}

impl Key for Touchy {
    const EXACT: bool = false;

    fn position(&self) -> u64 {
        self.0
    }
}

/// Wherever a key panics while ranges are asked for, what was held is held, nothing else is, and no
/// thread waits.
#[test]
fn a_key_that_panics_breaks_nothing() {
    type Lock = RangeLock<Touchy, 4, 1>;
    type Ask = fn(&Lock);
    fn span(first: u64, end: u64) -> Span<Touchy> {
        Span::new(Touchy(first), Touchy(end)).unwrap()
    }
    let asks: [Ask; 6] = [
        |lock| drop(lock.try_lock_as(span(2, 3), Access::Exclusive)),
        |lock| drop(lock.try_lock_as(span(2, 40), Access::Shared)),
        |lock| drop(lock.lock_timeout(span(0, 4), Duration::ZERO)),
        |lock| drop(lock.lock_timeout(span(4, 30), Duration::ZERO)),
        |lock| {
            let set = SpanSet::merged([span(3, 5), span(5, 9), span(20, 22)]).expect("it has members");
            drop(lock.try_lock_many(set, Access::Exclusive));
        },
        |lock| {
            let mut owner = lock.owner();
            let _ = owner.try_lock_as(span(6, 12), Access::Exclusive);
            let _ = owner.try_lock_as(span(7, 8), Access::Shared);
        },
    ];
    let others = take_hook();
    set_hook(Box::new(move |panic| {
        if panic.payload_as_str() != Some(BURNT) {
            others(panic);
        }
    }));
    for (nth, ask) in asks.iter().enumerate() {
        for fuse in 1..40 {
            let lock = Lock::with(SMALL.window(Duration::ZERO));
            let held = lock.lock_as(span(0, 2), Access::Exclusive).unwrap();
            let result = catch_unwind(AssertUnwindSafe(|| {
                FUSE.with(|it| it.set(fuse));
                ask(&lock);
            }));
            FUSE.with(|it| it.set(0));
            let dump = lock.dump();
            assert!(dump.waiting.is_empty(), "call {nth}, operation {fuse}: a thread waits: {dump}");
            assert_eq!(dump.held.len(), 1, "call {nth}, operation {fuse}: {dump}");
            drop(held);
            assert!(lock.try_lock_as(Span::all(), Access::Exclusive).is_ok());
            if result.is_ok() {
                break;
            }
        }
    }
}

thread_local! {
    /// How often this thread has looked where a key is.
    static LOOKS: Cell<u64> = const { Cell::new(0) };
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Watched(u64);

impl Key for Watched {
    const EXACT: bool = true;

    fn position(&self) -> u64 {
        LOOKS.set(LOOKS.get() + 1);
        self.0
    }
}

/// Each of them holds a key of its own, which no other thread wants: none can close a circle.
#[test]
fn a_crowd_that_waits_for_one_key_does_not_search_all_its_waits() {
    const CROWD: u64 = 40;
    let lock = RangeLock::<Watched, 4, 2>::with(SMALL.detecting_deadlocks());
    let take = |key: u64| lock.lock(Watched(key)..Watched(key + 1)).unwrap();
    let held = take(0);
    let looks: u64 = thread::scope(|scope| {
        let mut crowd = Vec::new();
        for number in 1..=CROWD {
            crowd.push(scope.spawn(move || {
                let _own = take(number);
                drop(take(0));
                LOOKS.get()
            }));
            until("it waits", || lock.dump().waiting.len() as u64 == number);
        }
        drop(held);
        crowd.into_iter().map(|waiter| waiter.join().unwrap()).sum()
    });
    // With each search that went along all waits the sum would grow with the fifth power.
    assert!(looks < 40 * CROWD.pow(3), "{looks}");
}
