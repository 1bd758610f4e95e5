//! The default mutex for threads that lock it again while they hold it.
//!
//! `lock_api` keeps the holder and the number of its locks; this file says which thread is which.

use super::RawMutex;
use core::num::NonZeroUsize;

platform::thread_local! {
    /// Its address is the thread's identity: threads that are alive at the same time differ.
    static IDENTITY: u8 = 0;
}

/// Tells threads apart for a [`ReentrantMutex`].
///
/// ```
/// use lock_api::GetThreadId;
/// use manx::lock::RawThreadId;
///
/// let own = RawThreadId.nonzero_thread_id();
/// let other = std::thread::spawn(|| RawThreadId.nonzero_thread_id()).join().unwrap();
/// assert_eq!(own, RawThreadId.nonzero_thread_id());
/// assert_ne!(own, other);
/// ```
#[derive(Debug)]
pub struct RawThreadId;

// SAFETY: by the comment at `IDENTITY`. A thread that ends takes its guards with it, because they
// cannot be sent; if it leaks one, the mutex stays locked, and a thread of the same identity that
// locks it later has exclusive access all the same.
unsafe impl lock_api::GetThreadId for RawThreadId {
    const INIT: RawThreadId = RawThreadId;

    fn nonzero_thread_id(&self) -> NonZeroUsize {
        let address = IDENTITY.with(|identity| core::ptr::from_ref(identity).addr());
        NonZeroUsize::new(address).expect("a reference is not null")
    }
}

/// A mutex that the thread which holds it may lock again. Its guards give shared access only, since
/// there may be several.
///
/// Waiters are served as at a [`Mutex`](super::Mutex). Prefer that one where you can: a function
/// that locks again what its caller has locked sees data in the middle of a change.
///
/// ```
/// use manx::lock::ReentrantMutex;
/// use std::cell::Cell;
///
/// static COUNT: ReentrantMutex<Cell<u32>> = ReentrantMutex::new(Cell::new(0));
///
/// let outer = COUNT.lock();
/// let inner = COUNT.lock();
/// inner.set(outer.get() + 1);
/// assert_eq!(outer.get(), 1);
/// drop((outer, inner));
/// assert!(!COUNT.is_locked());
/// ```
pub type ReentrantMutex<T> = lock_api::ReentrantMutex<RawMutex, RawThreadId, T>;
/// The guard of a locked [`ReentrantMutex`].
pub type ReentrantMutexGuard<'a, T> = lock_api::ReentrantMutexGuard<'a, RawMutex, RawThreadId, T>;
/// The guard of a part of a locked [`ReentrantMutex`]'s data (`ReentrantMutexGuard::map`).
///
/// ```
/// use manx::lock::{MappedReentrantMutexGuard, ReentrantMutex, ReentrantMutexGuard};
///
/// let mutex = ReentrantMutex::new((1, "one"));
/// let name: MappedReentrantMutexGuard<'_, &str> = ReentrantMutexGuard::map(mutex.lock(), |pair| &pair.1);
/// assert_eq!(*name, "one");
/// ```
pub type MappedReentrantMutexGuard<'a, T> = lock_api::MappedReentrantMutexGuard<'a, RawMutex, RawThreadId, T>;
