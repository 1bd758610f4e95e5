//! What every lock does under loom: every order of steps that the memory model allows.
//!
//! Each lock guards a cell that loom watches: two holders at once, or a holder that does not see
//! what the one before it wrote, are reported, and so is a lock that its waiters never get. The
//! tests of the package `baselines-loom` use this, too.

#[path = "guarded.rs"]
mod guarded;

use crate::common::{check, join, spawn};
pub use guarded::Guarded;
use loom::sync::Arc;
use loom::thread;
use manx_loom::lock::RawLock;

/// Two threads take the lock, one of them twice, so that a place or a flag is used again.
pub fn two_take_turns<L: RawLock + 'static>(preemptions: usize) {
    check(preemptions, || {
        let guarded = Guarded::<L>::new();
        let other = spawn(&guarded, Guarded::lock_and_add);
        guarded.lock_and_add();
        guarded.lock_and_add();
        other.join().unwrap();
        guarded.assert_done(3);
    });
}

/// Three threads take the lock once each, this one first, so that a thread waits behind a waiter.
/// (Two that spin on the same word could take turns for ever, as loom sees it, and never let the
/// third one run.)
pub fn three_take_turns<L: RawLock + 'static>(preemptions: usize) {
    check(preemptions, || {
        let guarded = Guarded::<L>::new();
        let held = guarded.lock.lock();
        let others = [spawn(&guarded, Guarded::lock_and_add), spawn(&guarded, Guarded::lock_and_add)];
        guarded.add();
        // SAFETY: locked above.
        unsafe { guarded.lock.unlock(held) };
        join(others);
        guarded.assert_done(3);
    });
}

/// One thread waits and another only tries; the try leaves nothing behind, whether or not it
/// succeeds.
pub fn one_tries<L: RawLock + 'static>(preemptions: usize) {
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
            pub fn two_take_turns() {
                crate::locks::two_take_turns::<$lock>(4);
            }

            #[test]
            pub fn one_tries() {
                crate::locks::one_tries::<$lock>(4);
            }
        }
    )*};
}

/// The tests that need three threads, for locks whose waiters do not all spin on the same word.
macro_rules! every_queue {
    ($($name:ident: $lock:ty, $preemptions:literal;)*) => {
        mod three_take_turns {
            use super::*;

            $(
                #[test]
                fn $name() {
                    crate::locks::three_take_turns::<$lock>($preemptions);
                }
            )*
        }
    };
}

pub(crate) use {every_lock, every_queue};

/// Two locks are held at once, and their places are given back in the order in which they were
/// lent.
pub fn places_of_two_queues_are_given_back_in_any_order<L: RawLock + 'static>() {
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
