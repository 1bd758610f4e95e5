//! The lock beside a mutex, with what its holder keeps.
//!
//! Invariant 1: `held`, `owner` and `count` are written by the holder only, before it gives the
//! lock back. A thread that reads `owner` compares it with itself, and no other thread writes that
//! value.

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize};

/// The lock of a mutex, and beside it, on cache lines of its own, what the holder writes.
#[repr(C, align(128))]
pub struct Side {
    /// The lock that was chosen.
    pub lock: UnsafeCell<[MaybeUninit<u8>; Side::LOCK_BYTES]>,
    /// What the lock gave its holder. See Invariant 1, here and below.
    pub held: UnsafeCell<[MaybeUninit<usize>; Side::HELD_BYTES / size_of::<usize>()]>,
    /// The holder, by [`me`]; 0 for none.
    pub owner: AtomicUsize,
    /// How often the holder of a recursive mutex holds it beyond the first time.
    pub count: AtomicU32,
    /// Whether a mutex has it. The arena's.
    pub used: AtomicU32,
    /// The next one that is free. The arena's.
    pub next: AtomicPtr<Side>,
}

// SAFETY: the lock is a `RawLock`, which is `Sync`; the rest is the holder's, by Invariant 1.
unsafe impl Sync for Side {}

impl Side {
    /// Room for a lock: two cache lines, which are fetched in pairs.
    pub const LOCK_BYTES: usize = 128;
    /// Room for what a holder keeps.
    pub const HELD_BYTES: usize = 32;
}

const _: () = assert!(size_of::<Side>() == 256);

/// A number that stands for the calling thread, the same before and after it forks; not 0.
#[inline]
pub fn me() -> usize {
    // SAFETY: only reads.
    unsafe { libc::pthread_self() as usize }
}
