//! The FIFO and unfair locks under loom: every order of steps that the memory model allows.
//!
//! Each lock guards a cell that loom watches: two holders at once, or one that does not see what the holder
//! before it wrote, are reported, and so is a lock that its waiters never get. What each lock does of its own
//! has a test beside those that all of them pass.

mod common;

use common::{check, check_no_more};
use loom::sync::Arc;
use loom::thread;
use manx_loom::cpu::{Class, set_class_of_this_thread, set_numa_node_of_this_thread};
use manx_loom::lock::{
    Cna, FutexMutex, Mcs, McsPark, MutableLock, RawLock, RawMutex, Shfl, Tas, Ticket, Ttas,
};
use platform::cell::UnsafeCell;

/// A number that a lock guards.
struct Guarded<L> {
    lock: L,
    number: UnsafeCell<u32>,
}

// SAFETY: the number is used by holders of the lock only; loom reports it if that is not enough.
unsafe impl<L: RawLock> Sync for Guarded<L> {}

impl<L: RawLock + 'static> Guarded<L> {
    fn new() -> Arc<Self> {
        Arc::new(Guarded { lock: L::new(), number: UnsafeCell::new(0) })
    }

    fn add(&self) {
        // SAFETY: called by holders only.
        self.number.with_mut(|number| unsafe { *number += 1 });
    }

    fn lock_and_add(&self) {
        let held = self.lock.lock();
        self.add();
        // SAFETY: just locked.
        unsafe { self.lock.unlock(held) };
    }

    fn try_and_add(&self) -> bool {
        let Some(held) = self.lock.try_lock() else { return false };
        self.add();
        // SAFETY: just locked.
        unsafe { self.lock.unlock(held) };
        true
    }

    /// Nobody holds the lock, and so many did.
    fn assert_done(&self, times: u32) {
        assert!(!self.lock.is_locked());
        let held = self.lock.try_lock().expect("a free lock is taken without waiting");
        // SAFETY: held.
        assert_eq!(self.number.with(|number| unsafe { *number }), times);
        // SAFETY: just locked.
        unsafe { self.lock.unlock(held) };
    }
}

/// Runs this in a thread that shares the lock.
fn spawn<L: RawLock + 'static, T: 'static>(
    guarded: &Arc<Guarded<L>>,
    run: impl Fn(&Guarded<L>) -> T + 'static,
) -> thread::JoinHandle<T> {
    let guarded = Arc::clone(guarded);
    thread::spawn(move || run(&guarded))
}

/// Two threads take the lock, one of them twice, so that a place or a flag is used again.
fn two_take_turns<L: RawLock + 'static>(preemptions: usize) {
    check(preemptions, || {
        let guarded = Guarded::<L>::new();
        let other = spawn(&guarded, Guarded::lock_and_add);
        guarded.lock_and_add();
        guarded.lock_and_add();
        other.join().unwrap();
        guarded.assert_done(3);
    });
}

/// Three threads take the lock once each, this one first, so that somebody waits behind a waiter. (Two that spin
/// on the same word could take turns for ever, as loom sees it, and never let the third one run.)
fn three_take_turns<L: RawLock + 'static>(preemptions: usize) {
    check(preemptions, || {
        let guarded = Guarded::<L>::new();
        let held = guarded.lock.lock();
        let others = [spawn(&guarded, Guarded::lock_and_add), spawn(&guarded, Guarded::lock_and_add)];
        guarded.add();
        // SAFETY: locked above.
        unsafe { guarded.lock.unlock(held) };
        for other in others {
            other.join().unwrap();
        }
        guarded.assert_done(3);
    });
}

/// One waits and one only tries; the one who tries leaves nothing behind, whether or not it succeeds.
fn one_tries<L: RawLock + 'static>(preemptions: usize) {
    check(preemptions, || {
        let guarded = Guarded::<L>::new();
        let other = spawn(&guarded, |guarded| u32::from(guarded.try_and_add()));
        guarded.lock_and_add();
        let tried = other.join().unwrap();
        guarded.assert_done(1 + tried);
    });
}

/// The tests that all locks pass.
macro_rules! every_lock {
    ($($name:ident: $lock:ty;)*) => {$(
        mod $name {
            use super::*;

            #[test]
            fn two_take_turns() {
                super::two_take_turns::<$lock>(4);
            }

            #[test]
            fn one_tries() {
                super::one_tries::<$lock>(4);
            }
        }
    )*};
}

/// Those that need three threads, for locks whose waiters do not all spin on the same word.
macro_rules! every_queue {
    ($($name:ident: $lock:ty, $preemptions:literal;)*) => {
        mod three_take_turns {
            use super::*;

            $(
                #[test]
                fn $name() {
                    three_take_turns::<$lock>($preemptions);
                }
            )*
        }
    };
}

every_lock! {
    tas: Tas;
    ttas: Ttas;
    ticket: Ticket;
    mcs: Mcs;
    mcs_park: McsPark;
    futex_mutex: FutexMutex;
    default_mutex: RawMutex;
    mutable_lock: MutableLock;
    shfl: Shfl;
    cna: Cna;
}

every_queue! {
    mcs: Mcs, 3;
    mcs_park: McsPark, 3;
    futex_mutex: FutexMutex, 4;
    mutable_lock: MutableLock, 2;
    shfl: Shfl, 3;
    shfl_that_alternates: Shfl<1>, 3;
    cna: Cna, 3;
}

#[test]
fn the_shuffle_lock_moves_one_of_four_and_loses_nobody() {
    // While this thread holds the lock, a little one and two big ones come, in any order; the head may find a big
    // one behind a little one, last in the queue or with another one on its way to stand behind it.
    check_no_more(1, || {
        let guarded = Guarded::<Shfl<2>>::new();
        guarded.lock.lock();
        let others = [Class::Big, Class::Little, Class::Big].map(|class| {
            spawn(&guarded, move |guarded| {
                set_class_of_this_thread(Some(class));
                guarded.lock_and_add();
            })
        });
        guarded.add();
        // SAFETY: locked above.
        unsafe { guarded.lock.unlock(()) };
        for other in others {
            other.join().unwrap();
        }
        guarded.assert_done(4);
    });
}

#[test]
fn who_comes_behind_one_that_was_the_last_is_not_lost() {
    // This thread comes back and stands behind a little one, from behind which the head has moved a big one, or
    // is about to.
    check_no_more(1, || {
        let guarded = Guarded::<Shfl<2>>::new();
        guarded.lock.lock();
        let others = [Class::Big, Class::Little, Class::Big].map(|class| {
            spawn(&guarded, move |guarded| {
                set_class_of_this_thread(Some(class));
                guarded.lock_and_add();
            })
        });
        // SAFETY: locked above.
        unsafe { guarded.lock.unlock(()) };
        guarded.lock_and_add();
        for other in others {
            other.join().unwrap();
        }
        guarded.assert_done(4);
    });
}

/// While this thread holds the lock, on node 0, three of these nodes come, in any order; then it comes back, and stands
/// behind whoever is the last of them in the main queue, if anybody is.
fn three_of_these_nodes<const LOCAL: u32>(homes: [u32; 3]) {
    check_no_more(1, move || {
        let guarded = Guarded::<Cna<LOCAL>>::new();
        set_numa_node_of_this_thread(Some(0));
        let held = guarded.lock.lock();
        let others = homes.map(|home| {
            spawn(&guarded, move |guarded| {
                set_numa_node_of_this_thread(Some(home));
                guarded.lock_and_add();
            })
        });
        guarded.add();
        // SAFETY: locked above.
        unsafe { guarded.lock.unlock(held) };
        guarded.lock_and_add();
        for other in others {
            other.join().unwrap();
        }
        guarded.assert_done(5);
    });
}

#[test]
fn the_numa_aware_lock_sets_others_aside_and_loses_nobody() {
    three_of_these_nodes::<64>([1, 0, 1]);
    three_of_these_nodes::<64>([1, 2, 0]);
}

#[test]
fn those_set_aside_come_back_when_one_has_been_passed_over_often_enough() {
    three_of_these_nodes::<1>([1, 0, 0]);
}

#[test]
fn places_of_two_queues_are_given_back_in_any_order() {
    fn both<L: RawLock + 'static>() {
        check(2, || {
            let guarded = (Guarded::<L>::new(), Guarded::<L>::new());
            let other = thread::spawn({
                let guarded = (Arc::clone(&guarded.0), Arc::clone(&guarded.1));
                move || {
                    guarded.0.lock_and_add();
                    guarded.1.lock_and_add();
                }
            });
            let first = guarded.0.lock.lock();
            let second = guarded.1.lock.lock();
            guarded.0.add();
            guarded.1.add();
            // SAFETY: locked above, each by what it returned.
            unsafe {
                guarded.0.lock.unlock(first);
                guarded.1.lock.unlock(second);
            }
            other.join().unwrap();
            guarded.0.assert_done(2);
            guarded.1.assert_done(2);
        });
    }
    both::<Mcs>();
    both::<McsPark>();
    both::<Cna>();
}

/// A lock that forgets to order memory.
struct Forgetful(platform::atomic::AtomicBool);

// SAFETY: it is not: that is the point. Used on a cell that loom watches, and nowhere else.
unsafe impl RawLock for Forgetful {
    type Held = ();
    const NAME: &'static str = "forgetful";

    fn new() -> Self {
        Forgetful(platform::atomic::AtomicBool::new(false))
    }

    fn lock(&self) {
        while self.try_lock().is_none() {
            platform::cpu::pause();
        }
    }

    fn try_lock(&self) -> Option<()> {
        use platform::atomic::Ordering::Relaxed;
        self.0.compare_exchange(false, true, Relaxed, Relaxed).ok().map(drop)
    }

    unsafe fn unlock(&self, (): ()) {
        self.0.store(false, platform::atomic::Ordering::Relaxed);
    }

    fn is_locked(&self) -> bool {
        self.0.load(platform::atomic::Ordering::Relaxed)
    }
}

#[test]
#[should_panic(expected = "Causality violation")]
fn loom_would_find_a_lock_that_does_not_order_memory() {
    two_take_turns::<Forgetful>(2);
}
