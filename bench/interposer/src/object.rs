//! The program's own objects, and the lock beside a mutex.
//!
//! A `pthread_mutex_t` is smaller than some locks together with what their holder keeps, so the
//! lock stands in a [`Side`] of 256 bytes, and a pointer to it in the mutex: where the C library
//! keeps a list entry of robust and priority-inheriting mutexes, which are not ours. The pointer is
//! zero in each new mutex, initialised statically or by a call, and the first thread that locks
//! makes the side. All other fields stay as the C library's initialisation writes them.
//!
//! | mutex | |
//! | --- | --- |
//! | 16 | the C library's: the kind, 0 to 3 for ours |
//! | 24 | ours: the side, or null |
//!
//! | condition variable that is private to the process | |
//! | --- | --- |
//! | 0 | ours: a [`RawCondvar`] |
//! | 8 | ours: how many waits with a deadline are in progress |
//! | 36 | the C library's: bit 0 shared between processes, bit 1 by the monotonic clock |
//!
//! A mutex that goes away without `pthread_mutex_destroy` leaks its side; sides are never unmapped,
//! so a thread that is late with the end of an unlock touches memory that is there.
//!
//! Invariant 1: a mutex's side is set once between its initialisation and its destruction.

use crate::arena;
use crate::side::Side;
use core::mem::offset_of;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use manx::lock::RawCondvar;

/// A `pthread_mutex_t`.
#[repr(C)]
pub struct Mutex {
    theirs: [u32; 4],
    kind: AtomicU32,
    spins: u32,
    side: AtomicPtr<Side>,
}

const _: () = assert!(
    size_of::<Mutex>() <= size_of::<libc::pthread_mutex_t>()
        && align_of::<Mutex>() <= align_of::<libc::pthread_mutex_t>()
        && offset_of!(Mutex, kind) == 16
        && offset_of!(Mutex, side) == 24
);

/// The kinds that are ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Does not know its owner: normal and adaptive mutexes.
    Plain,
    /// Its owner may lock it again.
    Recursive,
    /// Reports what its owner does wrong.
    ErrorCheck,
}

impl Mutex {
    /// The kind, if it is one of ours: not shared between processes, not robust, without a priority
    /// protocol, and not destroyed.
    #[inline]
    pub fn kind(&self) -> Option<Kind> {
        /// Set where a program asks for `PTHREAD_MUTEX_NORMAL` by an attribute.
        const NO_ELISION: u32 = 512;
        // Relaxed: written by the initialisation, which the program orders before its locks.
        match self.kind.load(Ordering::Relaxed) & !NO_ELISION {
            0 | 3 => Some(Kind::Plain),
            1 => Some(Kind::Recursive),
            2 => Some(Kind::ErrorCheck),
            _ => None,
        }
    }

    /// The lock, which the first caller makes.
    #[inline]
    pub fn side(&self) -> &Side {
        // Acquire pairs with the release of the thread that made it.
        // SAFETY: null, or a side of the arena, which is never unmapped.
        unsafe { self.side.load(Ordering::Acquire).as_ref() }.unwrap_or_else(|| self.make_side())
    }

    #[cold]
    fn make_side(&self) -> &Side {
        let made = arena::take();
        let set = self.side.compare_exchange(
            null_mut(),
            core::ptr::from_ref(made).cast_mut(),
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        match set {
            Ok(_) => made,
            Err(others) => {
                arena::give_back(made);
                // SAFETY: another thread's, by Invariant 1.
                unsafe { &*others }
            }
        }
    }

    /// Frees the lock, if there is one and no thread holds it. Returns whether none does.
    pub fn free_side(&self) -> bool {
        // SAFETY: as in `side`.
        let Some(side) = (unsafe { self.side.load(Ordering::Acquire).as_ref() }) else { return true };
        if side.owner.load(Ordering::Relaxed) != 0 {
            return false;
        }
        self.side.store(null_mut(), Ordering::Relaxed);
        arena::give_back(side);
        true
    }
}

/// A `pthread_cond_t`.
#[repr(C)]
pub struct Cond {
    /// The waiters.
    pub condvar: RawCondvar,
    /// How many of them have a deadline.
    pub limited: AtomicU32,
    theirs: [u32; 6],
    flags: AtomicU32,
}

const _: () = assert!(
    size_of::<Cond>() <= size_of::<libc::pthread_cond_t>()
        && align_of::<Cond>() <= align_of::<libc::pthread_cond_t>()
        && offset_of!(Cond, flags) == 36
);

impl Cond {
    /// Whether other processes use it too: then it is the C library's.
    #[inline]
    pub fn is_shared(&self) -> bool {
        // Relaxed: written by the initialisation.
        self.flags.load(Ordering::Relaxed) & 1 != 0
    }

    /// Whether its deadlines are by the monotonic clock.
    pub fn is_monotonic(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & 2 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::ffi::c_int;

    fn mutex(set: impl FnOnce(&mut libc::pthread_mutexattr_t) -> c_int) -> libc::pthread_mutex_t {
        // SAFETY: objects of these functions, initialised before they are used.
        unsafe {
            let (mut mutex, mut attributes) = core::mem::zeroed();
            libc::pthread_mutexattr_init(&mut attributes);
            assert_eq!(set(&mut attributes), 0);
            assert_eq!(libc::pthread_mutex_init(&mut mutex, &attributes), 0);
            mutex
        }
    }

    fn kind(mutex: &libc::pthread_mutex_t) -> Option<Kind> {
        // SAFETY: of the same size, or larger.
        unsafe { &*core::ptr::from_ref(mutex).cast::<Mutex>() }.kind()
    }

    #[test]
    fn kinds_are_where_the_c_library_writes_them() {
        for (asked, expected) in [
            (libc::PTHREAD_MUTEX_NORMAL, Some(Kind::Plain)),
            (libc::PTHREAD_MUTEX_RECURSIVE, Some(Kind::Recursive)),
            (libc::PTHREAD_MUTEX_ERRORCHECK, Some(Kind::ErrorCheck)),
            (3, Some(Kind::Plain)),
        ] {
            // SAFETY: initialised attributes.
            let mut mutex = mutex(|attributes| unsafe { libc::pthread_mutexattr_settype(attributes, asked) });
            assert_eq!(kind(&mutex), expected);
            // SAFETY: initialised, and not locked.
            assert_eq!(unsafe { libc::pthread_mutex_destroy(&mut mutex) }, 0);
            assert_eq!(kind(&mutex), None, "destroyed");
        }
        // SAFETY: initialised attributes.
        let shared = mutex(|attributes| unsafe {
            libc::pthread_mutexattr_setpshared(attributes, libc::PTHREAD_PROCESS_SHARED)
        });
        assert_eq!(kind(&shared), None);
        // SAFETY: as above.
        let robust = mutex(|attributes| unsafe {
            libc::pthread_mutexattr_setrobust(attributes, libc::PTHREAD_MUTEX_ROBUST)
        });
        assert_eq!(kind(&robust), None);
    }

    #[test]
    fn flags_of_condition_variables_are_where_the_c_library_writes_them() {
        // SAFETY: objects of these functions, initialised before they are used.
        unsafe {
            let (mut variable, mut attributes): (libc::pthread_cond_t, _) = core::mem::zeroed();
            libc::pthread_condattr_init(&mut attributes);
            let read = |variable: &libc::pthread_cond_t| {
                let variable = &*core::ptr::from_ref(variable).cast::<Cond>();
                (variable.is_shared(), variable.is_monotonic())
            };
            libc::pthread_cond_init(&mut variable, &attributes);
            assert_eq!(read(&variable), (false, false));
            libc::pthread_condattr_setclock(&mut attributes, libc::CLOCK_MONOTONIC);
            libc::pthread_cond_init(&mut variable, &attributes);
            assert_eq!(read(&variable), (false, true));
            libc::pthread_condattr_setpshared(&mut attributes, libc::PTHREAD_PROCESS_SHARED);
            libc::pthread_cond_init(&mut variable, &attributes);
            assert_eq!(read(&variable), (true, true));
        }
    }
}
