//! The default lock by its two words, and a number that only its holder changes. The tests of
//! `manx-shuttle` use this, too.

#![allow(dead_code, reason = "each test uses a part of it")]

use crate::Arc;
use manx::lock::bounded::{self, Acquired, POLLING, Thread, TimedOut, UNBOUNDED_NS, Wait};
use platform::atomic::{AtomicU32, AtomicU64, Ordering};
use platform::cell::UnsafeCell;

/// Overtaken for ever.
pub const BARGING: Wait = Wait { window_ns: Some(UNBOUNDED_NS), turns: None, deadline: None, trusting: true };
/// Starving as soon as it waits.
pub const STARVING: Wait = Wait { window_ns: Some(0), turns: None, deadline: None, trusting: true };

pub struct Lock {
    pub word: AtomicU32,
    pub side: AtomicU32,
    /// Where waiters that do not trust book turns, as under `manx run`.
    turns: AtomicU64,
    passed: UnsafeCell<u32>,
}

// SAFETY: the cell is used by the lock's holder only, and it reports if that is not so.
unsafe impl Sync for Lock {}
// SAFETY: as above.
unsafe impl Send for Lock {}

impl Lock {
    pub fn new() -> Arc<Lock> {
        Lock::with(0, 0)
    }

    pub fn with(word: u32, side: u32) -> Arc<Lock> {
        let (word, side) = (AtomicU32::new(word), AtomicU32::new(side));
        Arc::new(Lock { word, side, turns: AtomicU64::new(0), passed: UnsafeCell::new(0) })
    }

    pub fn acquire(&self, thread: &Thread, wait: &Wait) -> Result<Acquired, TimedOut> {
        if bounded::try_acquire(&self.word) {
            return Ok(Acquired::default());
        }
        let turns = (!wait.trusting).then_some(&self.turns);
        bounded::acquire_slow(&self.word, &self.side, thread, &Wait { turns, ..*wait })
    }

    pub fn release(&self, thread: &Thread) {
        if !bounded::try_release(&self.word) {
            bounded::release_slow(&self.word, &self.side, thread);
        }
    }

    /// By the holder.
    pub fn pass(&self) {
        // SAFETY: the caller holds the lock; the cell checks it.
        self.passed.with_mut(|passed| unsafe { *passed += 1 });
    }

    pub fn with_lock(&self, wait: &Wait) -> bool {
        let thread = Thread::new();
        let acquired = self.acquire(&thread, wait).is_ok();
        if acquired {
            self.pass();
            self.release(&thread);
        }
        acquired
    }

    /// As a `trylock` under `manx run` whose caller has polled for a window: takes the lock if it
    /// is free, or joins a hand-off. Returns whether it joined; `None` if it did neither.
    pub fn try_with_lock(&self) -> Option<bool> {
        let joins = !bounded::try_acquire(&self.word);
        if joins && !bounded::try_join_hand_off(&self.word, &self.side) {
            return None;
        }
        self.pass();
        self.release(&Thread::new());
        Some(joins)
    }

    /// As a mutex of the library's own where more than two CPUs are used: the first look of each
    /// waiter is that of the first in a line, whether it was told or took over.
    pub fn with_lock_in_line(&self, window_ns: u64) {
        let thread = Thread::new();
        if !bounded::try_acquire(&self.word)
            && let Err(side_seen) = bounded::spin_in_line(&self.word, &self.side, &thread, |_| window_ns)
        {
            let wait = Wait { window_ns: Some(window_ns), ..BARGING };
            bounded::sleep(&self.word, &self.side, &thread, &wait, side_seen).expect("no deadline");
        }
        self.pass();
        self.release(&thread);
    }

    /// Returns how many have passed, once all other threads have been joined.
    pub fn passed(&self) -> u32 {
        // SAFETY: no other thread uses it.
        self.passed.with(|passed| unsafe { *passed })
    }

    /// Checks that no thread holds it, waits or is counted, and that `passed` threads have passed.
    pub fn assert_left(&self, passed: u32) {
        assert_eq!(self.word.load(Ordering::Relaxed), 0, "free");
        let side = self.side.load(Ordering::Relaxed);
        assert_eq!(side & (0xffff | POLLING), 0, "no waiter is counted or polls, nothing is handed off");
        assert_eq!(self.passed(), passed);
    }
}
