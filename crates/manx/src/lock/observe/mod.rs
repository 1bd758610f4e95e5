//! What locks tell about themselves on request: statistics, and deadlocks with the threads in them.
//!
//! Off by default. While it is off a lock reads one static word for each operation (`on`, a relaxed
//! load) and does nothing else; the hooks below are cold and out of line. [`observe`] switches at
//! run time.
//!
//! ```
//! use manx::lock::{Observe, RwLock, observe, statistics};
//!
//! let table = RwLock::new(vec![1, 2, 3]);
//! manx::lock::name(&table, "table");
//! observe(Observe::STATISTICS);
//! assert_eq!(table.read().len(), 3);
//! table.write().push(4);
//! observe(Observe::NOTHING);
//! let statistics = statistics();
//! println!("{statistics}");
//! # let row = statistics.locks.iter().find(|row| row.name.as_deref() == Some("table")).unwrap();
//! # assert_eq!((row.acquisitions, row.shared), (2, 1));
//! ```
//!
//! # Statistics
//! A table of fixed size, [`CAPACITY`] locks by their addresses, counts and histograms in atomics.
//! What finds no room is counted as [`Statistics::dropped`]. They are kept when
//! observation ends and begin anew when it begins.
//!
//! # Deadlocks
//! A thread that is about to block without a limit says so, and what it holds is known. If that
//! closes a cycle of threads that each wait for the next, the thread that closes it **panics**
//! instead of blocking, and the message names every thread, lock, and place in the source. Its
//! unwinding releases what it holds, so that the others go on; only where `lock_api` cannot let a
//! panic pass, as when a condition variable relocks its mutex, it prints the message and aborts.
//! One lock protects the graph, so programs are slowed down: this is for tests and for finding a
//! bug. A wait with a limit will end by itself and is in no cycle.
//!
//! # For locks
//! A lock calls, at the places where `lock_api` calls it, so that `#[track_caller]` knows the
//! user's line:
//!
//! | when | what |
//! | --- | --- |
//! | it was taken without waiting | `if on() { acquired(address, Location::caller(), access) }` |
//! | it is about to wait | `if on() { Some(waiting(address, Location::caller(), access, limited)) } else { None }` (in a closure, the caller is not the lock's) |
//! | it got it | `waiting.acquired(how)`; a dropped `Waiting` means that it gave up |
//! | it is about to be released, while still held | `if on() { released(address, access) }` |
//!
//! Invariants:
//! 1. No hook blocks on anything but the graph's own lock, under which no other code runs, and none
//!    calls a lock of this crate. Locks that the memory allocator takes meanwhile are not observed
//!    (`alone`).
//! 2. A hook unwinds in one case only: `waiting` on a deadlock. The lock is not held then, nor
//!    waited for.
//! 3. What is known when observation is switched is forgotten, so a release that was not observed
//!    leaves no holder behind.

mod event;
mod graph;
mod histogram;
mod names;
mod snapshot;
mod table;

pub(crate) use event::{Access, Place, WaitOutcome};
pub use histogram::Histogram;
pub use names::{Nameable, name, unname};
pub use snapshot::{LockStatistics, Statistics, statistics};
pub use table::CAPACITY;

use platform::atomic::{AtomicU32, Ordering};
use platform::clock;
use std::cell::Cell;

/// [`STATE`]: statistics are kept.
const COUNTING: u32 = 1;
/// [`STATE`]: deadlocks are looked for.
const LOOKING: u32 = 2;

static STATE: AtomicU32 = AtomicU32::new(0);

/// What [`observe`] switches on: statistics, the search for deadlocks, or both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Observe {
    /// Keep statistics: see [`statistics`].
    pub statistics: bool,
    /// Look for deadlocks, and panic in the thread that completes one.
    pub deadlocks: bool,
}

impl Observe {
    /// Nothing: as a program begins.
    pub const NOTHING: Observe = Observe { statistics: false, deadlocks: false };
    /// Statistics only.
    pub const STATISTICS: Observe = Observe { statistics: true, deadlocks: false };
    /// Deadlocks only.
    pub const DEADLOCKS: Observe = Observe { statistics: false, deadlocks: true };
    /// Both.
    pub const BOTH: Observe = Observe { statistics: true, deadlocks: true };
}

/// Switches observation of all locks of the process. Statistics begin anew when they are switched
/// on, and stay readable when they are switched off. Locks that are held at this moment are known
/// from their next use on.
///
/// ```
/// use manx::lock::{Observe, RwLock, observe};
///
/// observe(Observe::DEADLOCKS);
/// let lock = RwLock::new(0);
/// let guard = lock.write();
/// let again = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(lock.write())));
/// assert!(again.is_err(), "it would have waited for itself, for ever");
/// # drop(guard);
/// # observe(Observe::NOTHING);
/// ```
pub fn observe(what: Observe) {
    clock::init();
    graph::exclusively(|graph| {
        let before = STATE.load(Ordering::Relaxed);
        if what.statistics && before & COUNTING == 0 {
            table::begin();
        }
        if what.deadlocks != (before & LOOKING != 0) {
            graph.forget_all();
        }
        let counting = if what.statistics { COUNTING } else { 0 };
        let looking = if what.deadlocks { LOOKING } else { 0 };
        // Release: a thread that reads the word on behalf of the table or the graph finds them
        // ready.
        STATE.store(counting | looking, Ordering::Release);
    });
}

/// What is observed at the moment.
pub fn observed() -> Observe {
    let state = STATE.load(Ordering::Acquire);
    Observe { statistics: state & COUNTING != 0, deadlocks: state & LOOKING != 0 }
}

/// Whether anything is observed: the one branch that locks pay for.
#[inline(always)]
pub(crate) fn on() -> bool {
    // Relaxed: a hook that must know more looks again, in the table or under the graph's lock.
    STATE.load(Ordering::Relaxed) != 0
}

/// The lock at `address` was taken at `place` without a wait.
#[cold]
pub(crate) fn acquired(address: usize, place: Place, access: Access) {
    without_reentry(|state| {
        if state & COUNTING != 0 {
            table::acquired(address, place, access, None);
        }
        if state & LOOKING != 0 {
            graph::exclusively(|graph| graph.hold(address, place, access));
        }
    });
}

/// The calling thread is about to wait for the lock at `address`; `limited` if it gives up some
/// time.
///
/// # Panics
/// If it would wait for ever, because all of a cycle of threads would.
#[cold]
pub(crate) fn waiting(address: usize, place: Place, access: Access, limited: bool) -> Waiting {
    let deadlock = without_reentry(|state| {
        if state & LOOKING == 0 || limited {
            return None;
        }
        graph::exclusively(|graph| graph.wait(address, place, access))
    });
    if let Some(deadlock) = deadlock.flatten() {
        panic!("{deadlock}");
    }
    without_reentry(|state| {
        if state & COUNTING != 0 {
            table::waiting(address, place);
        }
    });
    Waiting { address, place, access, began_ns: clock::now_ns(), served: false }
}

/// The lock at `address` is about to be released; it is still held.
#[cold]
pub(crate) fn released(address: usize, access: Access) {
    without_reentry(|state| {
        if state & COUNTING != 0 {
            table::released(address, access);
        }
        if state & LOOKING != 0 {
            graph::exclusively(|graph| graph.release(address, access));
        }
    });
}

/// The holder of the lock at `address`, which has it as `from`, is about to have it as `to`.
#[cold]
pub(crate) fn downgraded(address: usize, from: Access, to: Access) {
    without_reentry(|state| {
        if state & COUNTING != 0 {
            table::released(address, from);
            table::shared_from_now(address);
        }
        if state & LOOKING != 0 {
            graph::exclusively(|graph| graph.change(address, from, to));
        }
    });
}

/// A wait in progress. Dropped: the waiter gave up.
#[derive(Debug)]
pub(crate) struct Waiting {
    address: usize,
    place: Place,
    access: Access,
    began_ns: u64,
    served: bool,
}

impl Waiting {
    /// The wait is over, and the lock is held.
    pub(crate) fn acquired(mut self, how: WaitOutcome) {
        self.served = true;
        let waited_ns = clock::now_ns().saturating_sub(self.began_ns);
        without_reentry(|state| {
            if state & COUNTING != 0 {
                table::acquired(self.address, self.place, self.access, Some((waited_ns, how)));
            }
            if state & LOOKING != 0 {
                let access = if self.access == Access::Upgrade { Access::Exclusive } else { self.access };
                graph::exclusively(|graph| graph.hold(self.address, self.place, access));
            }
        });
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if self.served {
            return;
        }
        without_reentry(|state| {
            if state & COUNTING != 0 {
                table::gave_up(self.address);
            }
            if state & LOOKING != 0 {
                graph::exclusively(graph::Graph::give_up);
            }
        });
    }
}

std::thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Runs `hook` with what is observed, unless this thread is inside of a hook already: what the
/// memory allocator locks for us would be observed within the observation (Invariant 1).
fn without_reentry<R>(hook: impl FnOnce(u32) -> R) -> Option<R> {
    /// Leaves also when unwinding.
    struct Leave;
    impl Drop for Leave {
        fn drop(&mut self) {
            INSIDE.with(|inside| inside.set(false));
        }
    }
    if INSIDE.with(|inside| inside.replace(true)) {
        return None;
    }
    let _leave = Leave;
    // Acquire pairs with `observe`.
    Some(hook(STATE.load(Ordering::Acquire)))
}
