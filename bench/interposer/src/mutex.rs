//! `pthread_mutex_lock` and its kin.
//!
//! Return values are the C library's. `owner` is written for each kind: error-checking and
//! recursive mutexes ask for it, and so does the child of a fork (`arena.rs`). It is on the
//! line of what the holder keeps, which the holder writes anyway.
//!
//! A wait with a deadline stands in no queue, which it could not leave: it tries again and again,
//! pauses twice as long each time, and sleeps once the pauses are long. So it may be overtaken
//! until its deadline, which POSIX allows. None of the measured databases has such waits.

use crate::locks::chosen;
use crate::object::{Kind, Mutex};
use crate::real;
use crate::side::{Side, me};
use core::ffi::c_int;
use core::sync::atomic::Ordering;
use libc::{EAGAIN, EBUSY, EDEADLK, EINVAL, EPERM, ETIMEDOUT, clockid_t, timespec};
use platform::clock::SECOND_NS;
use platform::futex::{Clock, Deadline};

/// Pauses of a wait with a deadline: spun up to the first number, and no longer than the second.
const SPUN_NS: u64 = 10_000;
const PAUSE_NS_MAX: u64 = 1_000_000;

/// Locks.
#[inline]
pub fn lock(mutex: &Mutex) -> c_int {
    let Some(kind) = mutex.kind() else {
        // SAFETY: the caller's mutex.
        return unsafe { real::pthread_mutex_lock()(mutex) };
    };
    let (side, me) = (mutex.side(), me());
    if let Some(result) = enter_again(kind, side, me, EDEADLK) {
        return result;
    }
    // SAFETY: the side has a lock of this kind.
    unsafe { (chosen().lock)(side) };
    // Relaxed: Invariant 1 of `side`.
    side.owner.store(me, Ordering::Relaxed);
    0
}

/// The result for a caller that holds the mutex already, if its kind knows its owner.
#[inline]
fn enter_again(kind: Kind, side: &Side, me: usize, owned: c_int) -> Option<c_int> {
    if kind == Kind::Plain || side.owner.load(Ordering::Relaxed) != me {
        return None;
    }
    if kind == Kind::ErrorCheck {
        return Some(owned);
    }
    let count = side.count.load(Ordering::Relaxed);
    if count == u32::MAX {
        return Some(EAGAIN);
    }
    side.count.store(count + 1, Ordering::Relaxed);
    Some(0)
}

/// Locks, if that needs no waiting.
#[inline]
pub fn trylock(mutex: &Mutex) -> c_int {
    let Some(kind) = mutex.kind() else {
        // SAFETY: the caller's mutex.
        return unsafe { real::pthread_mutex_trylock()(mutex) };
    };
    try_lock_ours(mutex, kind)
}

fn try_lock_ours(mutex: &Mutex, kind: Kind) -> c_int {
    let (side, me) = (mutex.side(), me());
    if let Some(result) = enter_again(kind, side, me, EBUSY) {
        return result;
    }
    // SAFETY: the side has a lock of this kind.
    if !unsafe { (chosen().try_lock)(side) } {
        return EBUSY;
    }
    side.owner.store(me, Ordering::Relaxed);
    0
}

/// Locks, until a time by this clock.
///
/// # Safety
/// The time may be read.
pub unsafe fn lock_until(mutex: &Mutex, clock: clockid_t, time: *const timespec) -> c_int {
    let Some(kind) = mutex.kind() else {
        // SAFETY: the caller's mutex and time.
        return unsafe { real::pthread_mutex_clocklock()(mutex, clock, time) };
    };
    if kind == Kind::ErrorCheck && mutex.side().owner.load(Ordering::Relaxed) == me() {
        return EDEADLK;
    }
    let mut pause_ns = 100;
    let mut deadline = None;
    loop {
        let result = try_lock_ours(mutex, kind);
        if result != EBUSY {
            return result;
        }
        // An invalid time is reported only if the call has to wait.
        let until = match deadline {
            Some(until) => until,
            // SAFETY: the caller's promise.
            None => match unsafe { deadline_of(clock, time) } {
                Ok(until) => *deadline.insert(until),
                Err(error) => return error,
            },
        };
        let left_ns = until.remaining_ns();
        if left_ns == 0 {
            return ETIMEDOUT;
        }
        rest(pause_ns.min(left_ns));
        pause_ns = (pause_ns * 2).min(PAUSE_NS_MAX);
    }
}

/// Waits for this time without a look.
fn rest(ns: u64) {
    if ns > SPUN_NS {
        std::thread::sleep(core::time::Duration::from_nanos(ns));
        return;
    }
    let until_ns = platform::clock::now_ns() + ns;
    while platform::clock::now_ns() < until_ns {
        platform::cpu::pause();
    }
}

/// A deadline of the program's, or an error's number.
///
/// # Safety
/// The time may be read.
pub unsafe fn deadline_of(clock: clockid_t, time: *const timespec) -> Result<Deadline, c_int> {
    let clock = match clock {
        libc::CLOCK_REALTIME => Clock::Realtime,
        libc::CLOCK_MONOTONIC => Clock::Monotonic,
        _ => return Err(EINVAL),
    };
    // SAFETY: the caller's promise.
    let time = unsafe { &*time };
    if !(0..SECOND_NS as i64).contains(&time.tv_nsec) {
        return Err(EINVAL);
    }
    // A time before 1970, or before the machine started, is over.
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let ns = seconds.saturating_mul(SECOND_NS).saturating_add(time.tv_nsec as u64);
    Ok(Deadline { clock, ns: if time.tv_sec < 0 { 0 } else { ns.min(i64::MAX as u64) } })
}

/// Unlocks.
#[inline]
pub fn unlock(mutex: &Mutex) -> c_int {
    let Some(kind) = mutex.kind() else {
        // SAFETY: the caller's mutex.
        return unsafe { real::pthread_mutex_unlock()(mutex) };
    };
    let side = mutex.side();
    let owner = side.owner.load(Ordering::Relaxed);
    // A plain mutex that no thread holds: the C library does nothing sensible, a queue would break.
    if owner == 0 || (kind != Kind::Plain && owner != me()) {
        return EPERM;
    }
    if kind == Kind::Recursive {
        let count = side.count.load(Ordering::Relaxed);
        if count != 0 {
            side.count.store(count - 1, Ordering::Relaxed);
            return 0;
        }
    }
    side.owner.store(0, Ordering::Relaxed);
    // SAFETY: a thread holds it, and by the program's promise that is the caller.
    unsafe { (chosen().unlock)(side) };
    0
}

/// Ends the life of a mutex.
pub fn destroy(mutex: &Mutex) -> c_int {
    if mutex.kind().is_some() && !mutex.free_side() {
        return EBUSY;
    }
    // SAFETY: the caller's mutex, in which the C library sees one that no thread holds.
    unsafe { real::pthread_mutex_destroy()(mutex) }
}
