//! `pthread_mutex_lock` and its kin, for the kinds that are ours.
//!
//! What a caller can see is as in the GNU C library: return values, which thread is the owner, what
//! `destroy` says. The order of things is its too: an owner is written after the mutex was taken
//! and removed before it is released, and after the release nothing of the mutex is touched.

use super::asl::Standby;
use super::object::Mutex;
use super::{asl, fifo, mode, real, statistics};
use crate::slo::epochs;
use crate::statistics::wanted;
use crate::thread;
use core::ffi::c_int;
use libc::{EAGAIN, EBUSY, EDEADLK, EINVAL, ENOSYS, EOWNERDEAD, EPERM, ETIMEDOUT, clockid_t, timespec};
use manx::lock::bounded::{self, Acquired, TimedOut, UNBOUNDED_NS, Wait};
use platform::clock;
use platform::fork;
use platform::futex::{Clock, Deadline};
use preload_abi::live::Kind;
use preload_abi::options::Lock;

/// When to give up waiting: never, or then.
#[derive(Clone, Copy)]
pub(super) struct Timeout {
    pub(super) clock: Clock,
    /// Null: never.
    pub(super) time: *const timespec,
}

impl Timeout {
    pub(super) const NEVER: Timeout = Timeout { clock: Clock::Realtime, time: core::ptr::null() };

    /// As a deadline, if it is one, or an error's number.
    ///
    /// # Safety
    /// The time is null or may be read.
    pub(super) unsafe fn deadline(self) -> Result<Option<Deadline>, c_int> {
        if self.time.is_null() {
            return Ok(None);
        }
        // SAFETY: the caller's promise.
        let time = unsafe { &*self.time };
        if !(0..clock::SECOND_NS as i64).contains(&time.tv_nsec) {
            return Err(EINVAL);
        }
        // A time before 1970, or before the machine started, is over.
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        let ns = seconds.saturating_mul(clock::SECOND_NS).saturating_add(time.tv_nsec as u64);
        let ns = if time.tv_sec < 0 { 0 } else { ns.min(i64::MAX as u64) };
        Ok(Some(Deadline { clock: self.clock, ns }))
    }
}

/// The clock of this number, if one can wait by it.
pub(super) fn clock_of(number: clockid_t) -> Result<Clock, c_int> {
    match number {
        libc::CLOCK_REALTIME => Ok(Clock::Realtime),
        libc::CLOCK_MONOTONIC => Ok(Clock::Monotonic),
        _ => Err(EINVAL),
    }
}

/// The time in which running threads may overtake a sleeping one. Programs were not written for
/// Manx: many hold a mutex nearly all the time, and with the 1 ms of the library's own locks the
/// mutex changes hands so often that LevelDB's writers lose 14 %, and SQLite with one connection 10
/// % of their throughput. The window is longer than the 4 ms between two ticks of most kernels. The
/// kernel need not program a timer that ends after the next tick. In a virtual machine it programs
/// one by a trap of a microsecond or two.
const WINDOW_NS: u64 = 4_500_000;
/// A thread to which a mutex was handed off goes on with its turn for this time: if another thread
/// takes the mutex meanwhile, it waits without a window. Otherwise a piece of work that takes the
/// mutex several times, as each of SQLite's does, would wait for several turns.
const GOES_ON_NS: u64 = 100_000;

/// Whether locking and unlocking depend on the owner.
#[inline(always)]
fn checks_owner(kind: Kind) -> bool {
    matches!(kind, Kind::Recursive | Kind::ErrorCheck)
}

/// Locks; `caller` is where the program's call returns to. Like [`trylock`] and [`unlock`] it calls
/// others only at its end, by functions that cannot unwind. So it needs no stack frame, and no
/// atomic operation has to wait for a frame's stores.
#[inline(always)]
pub(super) extern "C" fn lock(mutex: &Mutex, caller: usize) -> c_int {
    if lock_at_once(mutex) { 0 } else { lock_slow(mutex, caller) }
}

/// Locks if that needs neither a wait nor a special mode: the mutex is free, or it is recursive and
/// this thread holds it.
#[inline(always)]
fn lock_at_once(mutex: &Mutex) -> bool {
    if mode::is_direct()
        && let (Some(kind), Some(me)) = (mutex.kind(), thread::cached_tid())
    {
        if checks_owner(kind) && mutex.is_owned_by(me) {
            return kind == Kind::Recursive && mutex.enter();
        }
        if bounded::try_acquire(&mutex.word) {
            finish_acquire(mutex, kind, me, 1);
            return true;
        }
    }
    false
}

#[cold]
extern "C" fn lock_slow(mutex: &Mutex, caller: usize) -> c_int {
    if mode::is_asl() && mutex.is_plain() && asl::try_acquire(mutex, true) {
        finish_acquire(mutex, Kind::Normal, thread::tid(), 1);
        return 0;
    }
    mode::serve(mode::get, |mode| match (mode, mutex.kind()) {
        (Lock::Glibc, _) | (_, None) => passed_on(mutex, real::lock().map_or(ENOSYS, |real| real(mutex))),
        // SAFETY: there is no time to read.
        (_, Some(kind)) => unsafe { lock_within(mutex, kind, Timeout::NEVER, caller, 1) },
    })
}

/// Locks, until a time since 1970.
///
/// # Safety
/// The time may be read.
pub(super) unsafe extern "C" fn lock_until(mutex: &Mutex, time: *const timespec, caller: usize) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { lock_until_by(mutex, libc::CLOCK_REALTIME, time, caller) }
}

/// Locks, until a time by this clock.
///
/// # Safety
/// The time may be read.
pub(super) unsafe extern "C" fn lock_until_by(
    mutex: &Mutex,
    clock: clockid_t,
    time: *const timespec,
    caller: usize,
) -> c_int {
    mode::serve(mode::get, |mode| match (mode, mutex.kind()) {
        (Lock::Glibc, _) | (_, None) if clock == libc::CLOCK_REALTIME => {
            passed_on(mutex, real::timedlock().map_or(ENOSYS, |real| real(mutex, time)))
        }
        (Lock::Glibc, _) | (_, None) => {
            passed_on(mutex, real::clocklock().map_or(ENOSYS, |real| real(mutex, clock, time)))
        }
        (_, Some(kind)) => match clock_of(clock) {
            // SAFETY: the caller's promise.
            Ok(clock) => unsafe { lock_within(mutex, kind, Timeout { clock, time }, caller, 1) },
            Err(error) => error,
        },
    })
}

/// Locks again after a wait for a condition, for which the mutex has kept its user.
pub(super) fn relock(mutex: &Mutex, caller: usize) -> c_int {
    match (mode::get(), mutex.kind()) {
        (Lock::Glibc, _) | (_, None) => passed_on(mutex, real::lock().map_or(ENOSYS, |real| real(mutex))),
        // SAFETY: there is no time to read.
        (_, Some(kind)) => unsafe { lock_within(mutex, kind, Timeout::NEVER, caller, 0) },
    }
}

/// Locks; `users` is 0 for a thread that locks again after a wait for a condition; such a thread
/// does not stand by.
///
/// # Safety
/// The timeout's time may be read.
unsafe fn lock_within(mutex: &Mutex, kind: Kind, timeout: Timeout, caller: usize, users: u32) -> c_int {
    let me = thread::tid();
    match kind {
        Kind::Recursive if mutex.is_owned_by(me) => return if mutex.enter() { 0 } else { EAGAIN },
        Kind::ErrorCheck if mutex.is_owned_by(me) => return EDEADLK,
        _ => {}
    }
    let free = match mode::get() {
        Lock::Fifo => fifo::try_acquire(mutex),
        // A thread with a timeout does not stand by, so a free mutex is not refused to it.
        Lock::Asl => asl::try_acquire(mutex, users != 0 && timeout.time.is_null()),
        _ => mutex.take(),
    };
    if !free {
        // An invalid limit is reported only if the call has to wait.
        // SAFETY: the caller's promise.
        match unsafe { timeout.deadline() } {
            Err(error) => return error,
            Ok(deadline) => {
                if wait_for(mutex, kind, deadline, caller, users).is_err() && !take_stale_hand_off(mutex) {
                    return ETIMEDOUT;
                }
            }
        }
    }
    finish_acquire(mutex, kind, me, users);
    0
}

/// The calling thread, of this number, has come to hold the mutex.
#[inline(always)]
fn finish_acquire(mutex: &Mutex, kind: Kind, me: u32, users: u32) {
    mutex.set_owner(me, users);
    if kind == Kind::Recursive {
        mutex.enter_first();
    }
    thread::current().lock.on_acquire();
}

/// The C library was asked to lock it for the calling thread: counts what this result says.
fn passed_on(mutex: &Mutex, result: c_int) -> c_int {
    if wanted() && mode::get() != Lock::Glibc && mutex.is_passed_on() {
        statistics::passed_on(core::ptr::from_ref(mutex).addr());
    }
    if matches!(result, 0 | EOWNERDEAD) {
        thread::current().lock.on_acquire();
    }
    result
}

/// Takes a mutex that was handed off to a thread that does not come, for a caller that cannot wait.
fn take_stale_hand_off(mutex: &Mutex) -> bool {
    match mode::get() {
        Lock::Asl if !fork::is_child() => asl::take_stale_hand_off(mutex, WINDOW_NS),
        Lock::Asl => mutex.is_handed_off() && mutex.join_hand_off(),
        _ => mutex.take_stale_hand_off(WINDOW_NS),
    }
}

/// How long others may overtake a waiter of an epoch with this window, or of none, and whether it
/// books a turn for the time after.
fn window(mode: Lock, side_seen: u32, epochs_ns: Option<u64>) -> (u64, bool) {
    match mode {
        Lock::Manx => match bounded::window_in_epoch(side_seen, epochs_ns) {
            Some(window_ns) => (window_ns, false),
            None => (WINDOW_NS, true),
        },
        // To the nanosecond: see `asl.rs`.
        Lock::Asl => (epochs_ns.unwrap_or(WINDOW_NS), false),
        // A thread with a deadline does not stand in line, because it could not leave it.
        _ => (UNBOUNDED_NS, false),
    }
}

/// Spins, and looks up how long others may overtake this thread before it sleeps.
fn acquire_slow(
    mutex: &Mutex,
    mode: Lock,
    standby: Standby,
    deadline: Option<Deadline>,
) -> Result<Acquired, TimedOut> {
    let (word, side, thread) = (&mutex.word, &mutex.side, &thread::current().lock);
    let trusting = false;
    let epochs_ns = || if standby == Standby::WindowOver { Some(0) } else { epochs::window_ns() };
    // To spin first is to be overtaken.
    if mode == Lock::Asl && deadline.is_none() && epochs_ns() == Some(0) {
        return asl::stand_in_line(mutex);
    }
    let Err(side_seen) = bounded::spin(word, side, thread, trusting) else {
        return Ok(Acquired::default());
    };
    let (window_ns, books) = window(mode, side_seen, epochs_ns());
    let turn = &crate::thread::current().turn;
    let address = core::ptr::from_ref(mutex).addr();
    let goes_on = books && turn.get().0 == address && clock::ticks() < turn.get().1;
    let (window_ns, turns) = match (books, goes_on) {
        (_, true) => (0, None),
        (true, _) => (window_ns, Some(&mutex.tail)),
        (false, _) => (window_ns, None),
    };
    let wait = Wait { window_ns: Some(window_ns), turns, deadline, trusting };
    let acquired = bounded::sleep(word, side, thread, &wait, side_seen)?;
    if acquired.handed_off && turns.is_some() {
        turn.set((address, clock::ticks() + clock::ns_to_ticks(GOES_ON_NS)));
    }
    Ok(acquired)
}

#[cold]
fn wait_for(
    mutex: &Mutex,
    kind: Kind,
    deadline: Option<Deadline>,
    caller: usize,
    users: u32,
) -> Result<(), TimedOut> {
    let mode = mode::get();
    let began_ticks = if wanted() || mode == Lock::Asl { clock::ticks() } else { 0 };
    let acquired = if mode == Lock::Fifo && deadline.is_none() {
        fifo::acquire(mutex);
        Acquired::default()
    } else {
        let may_stand_by = mode == Lock::Asl && deadline.is_none() && users != 0;
        let acquired = match if may_stand_by { asl::stand_by(mutex) } else { Standby::NotNeeded } {
            Standby::Acquired => Acquired::default(),
            standby => acquire_slow(mutex, mode, standby, deadline)?,
        };
        if !matches!(mode, Lock::Fifo | Lock::Asl) {
            mutex.forget_hand_off();
        }
        acquired
    };
    let waited_ticks = if began_ticks == 0 { 0 } else { clock::ticks().wrapping_sub(began_ticks) };
    if mode == Lock::Asl {
        asl::acquired(mutex, waited_ticks);
    }
    if wanted() && began_ticks != 0 {
        let waited = statistics::Waited {
            ticks: waited_ticks,
            handed_over: acquired.handed_off,
            starving: acquired.starving,
        };
        statistics::waited(core::ptr::from_ref(mutex).addr(), caller, kind, &waited);
    }
    Ok(())
}

/// Locks, if that needs no waiting.
#[inline(always)]
pub(super) fn trylock(mutex: &Mutex) -> c_int {
    if lock_at_once(mutex) { 0 } else { trylock_slow(mutex) }
}

#[cold]
extern "C" fn trylock_slow(mutex: &Mutex) -> c_int {
    mode::serve(mode::get, |mode| match (mode, mutex.kind()) {
        (Lock::Glibc, _) | (_, None) => passed_on(mutex, real::trylock().map_or(ENOSYS, |real| real(mutex))),
        (_, Some(kind)) => trylock_ours(mutex, kind),
    })
}

fn trylock_ours(mutex: &Mutex, kind: Kind) -> c_int {
    let me = thread::tid();
    if kind == Kind::Recursive && mutex.is_owned_by(me) {
        return if mutex.enter() { 0 } else { EAGAIN };
    }
    if !mutex.take() && !take_stale_hand_off(mutex) {
        return EBUSY;
    }
    finish_acquire(mutex, kind, me, 1);
    0
}

/// Unlocks.
#[inline(always)]
pub(super) fn unlock(mutex: &Mutex) -> c_int {
    if mode::is_direct()
        && let (Some(kind), Some(me)) = (mutex.kind(), thread::cached_tid())
        && (!checks_owner(kind) || mutex.is_owned_by(me))
    {
        return if kind == Kind::Recursive && !mutex.leave() { 0 } else { begin_release(mutex, 1) };
    }
    unlock_slow(mutex)
}

/// Unlocks for a wait for a condition: the mutex keeps its user.
pub(super) fn unlock_for_a_wait(mutex: &Mutex) -> c_int {
    unlock_by(mode::get(), mutex, 0)
}

#[cold]
extern "C" fn unlock_slow(mutex: &Mutex) -> c_int {
    if mode::is_asl() && mutex.is_plain() {
        return begin_release(mutex, 1);
    }
    mode::serve(mode::get, |mode| unlock_by(mode, mutex, 1))
}

fn unlock_by(mode: Lock, mutex: &Mutex, users: u32) -> c_int {
    let kind = match (mode, mutex.kind()) {
        (Lock::Glibc, _) | (_, None) => {
            let result = real::unlock().map_or(ENOSYS, |real| real(mutex));
            if result == 0 {
                thread::current().lock.on_release();
            }
            return result;
        }
        (_, Some(kind)) => kind,
    };
    if checks_owner(kind) && !mutex.is_owned_by(thread::tid()) {
        return EPERM;
    }
    if kind == Kind::Recursive && !mutex.leave() {
        return 0;
    }
    begin_release(mutex, users)
}

/// The calling thread holds the mutex no more.
#[inline(always)]
fn begin_release(mutex: &Mutex, users: u32) -> c_int {
    thread::current().lock.on_release();
    mutex.clear_owner(users);
    if bounded::try_release(&mutex.word) { 0 } else { release_slow(mutex) }
}

#[cold]
extern "C" fn release_slow(mutex: &Mutex) -> c_int {
    if mode::get() == Lock::Fifo {
        fifo::release(mutex);
    } else {
        bounded::release_slow(&mutex.word, &mutex.side, &thread::current().lock);
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_of_asl_are_not_rounded_up() {
        for window_ns in [0, 1, 15_000, 49_999, 140_000] {
            assert_eq!(window(Lock::Asl, 0, Some(window_ns)), (window_ns, false));
        }
        assert_eq!(window(Lock::Manx, 0, Some(15_000)), (bounded::EPOCH_WINDOW_NS_MIN, false));
        assert_eq!(window(Lock::Manx, 0, Some(140_000)), (140_000, false));
        assert_eq!(window(Lock::Asl, 0, None), (WINDOW_NS, false));
        assert_eq!(window(Lock::Manx, 0, None), (WINDOW_NS, true));
        assert_eq!(window(Lock::Adaptive, 0, Some(15_000)), (UNBOUNDED_NS, false));
    }
}
