//! The SLO-guided lock for cores of two speeds: `lock=asl`.
//!
//! [`manx::lock::Asl`] in the program's own objects. As in all modes, `word` says which thread
//! holds a mutex. A thread that waits for longer than it stands by waits as with `lock=manx`, but
//! its window is that of its epoch to the nanosecond: targets of 15 µs to 140 µs, as in the paper,
//! make windows that are shorter than those of `lock=manx` may be. A thread whose window is 0,
//! since it has stood by for all of it or since its target cannot be reached, stands in line
//! (`fifo.rs`), and the first of the line is starving: the next release is for it. So among these
//! threads the order is that of arrival, whatever others do, and with a target of 0 that is the
//! order of all, as the paper has it (section 4.1, LibASL-0). Before that, a thread on a little CPU
//! lets others pass, for the window of the epoch that it is in, and outside of any for the longest
//! one, as long as others use the mutex: `passes` counts.
//!
//! Three kinds of threads do not stand by. A thread with a timeout of its own does not, since the
//! timeout would be over. A thread that was woken by a signal to a condition variable does not,
//! since others may wait for what it is about to do. A thread that holds another mutex does not,
//! since the waiters for that mutex would stand by with it. Outside of any epoch a target for
//! requests bounds the window as well: another thread may answer them. Calls that never come here
//! (from inside of the C library) are not counted; they are too few to matter.
//!
//! The line has the field in which other modes book turns. So in this mode windows outside of
//! epochs end by themselves, and a caller that polls notes a stale hand-off in its own memory
//! (`take_stale_hand_off`).
//!
//! Invariant 1: `passes` is written by holders only.

use super::fifo;
use super::object::Mutex;
use crate::slo::{epochs, requests};
use crate::thread;
use core::ptr;
use core::sync::atomic::Ordering;
use manx::cpu::{Class, class_of_this_cpu};
use manx::lock::bounded::{self, Acquired, TimedOut, Wait};
use platform::clock;

/// The divisor by which a target for requests bounds the windows of threads that are in no epoch:
/// this number of locks may be taken on the way from the thread that reads a request to the thread
/// that answers it.
const HANDOVERS: u64 = 16;

/// How standing by has ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Standby {
    /// The caller has the mutex.
    Acquired,
    /// The caller's window is over.
    WindowOver,
    /// The caller need not stand by.
    NotNeeded,
}

/// Takes the mutex if it is free, and if the caller need not stand by.
#[inline]
pub(super) fn try_acquire(mutex: &Mutex, may_stand_by: bool) -> bool {
    let big = class_of_this_cpu() == Class::Big;
    if !fifo::is_empty(mutex) && epochs::window_ns() == Some(0) {
        return false;
    }
    if may_stand_by && !big && mutex.passes.are_in_use() && window_ns() != 0 {
        return false;
    }
    let taken = mutex.take();
    if taken {
        count(mutex, big, 0);
    }
    taken
}

/// Stands by, if the caller is to, until the mutex is had or its window is over.
pub(super) fn stand_by(mutex: &Mutex) -> Standby {
    let window_ns = window_ns();
    if class_of_this_cpu() == Class::Big || window_ns == 0 || !mutex.passes.are_in_use() {
        return Standby::NotNeeded;
    }
    // Relaxed: only a look; a thread that takes it does so by a step that acquires.
    let is_locked = || mutex.word.load(Ordering::Relaxed) != 0;
    let try_lock = || mutex.take().then_some(());
    let willing = || class_of_this_cpu() == Class::Little;
    match mutex.passes.stand_by(window_ns, is_locked, try_lock, willing) {
        Some(()) => Standby::Acquired,
        None => Standby::WindowOver,
    }
}

/// Waits in line, for a thread whose window is 0 and that has no deadline.
pub(super) fn stand_in_line(mutex: &Mutex) -> Result<Acquired, TimedOut> {
    fifo::acquire_by(mutex, || {
        let wait = Wait { window_ns: Some(0), turns: None, deadline: None, trusting: false };
        // Relaxed: a hint.
        let side_seen = mutex.side.load(Ordering::Relaxed);
        bounded::sleep(&mutex.word, &mutex.side, &thread::current().lock, &wait, side_seen)
    })
}

/// Takes the mutex if it was handed off, and if its next holder has not come for `window_ns` since
/// the calling thread first saw that at this mutex.
#[cold]
pub(super) fn take_stale_hand_off(mutex: &Mutex, window_ns: u64) -> bool {
    if !mutex.is_handed_off() {
        return false;
    }
    let (noted, address, now_ticks) = (&thread::current().turn, ptr::from_ref(mutex).addr(), clock::ticks());
    match noted.get() {
        (seen, stale_ticks) if seen == address => {
            now_ticks >= stale_ticks && {
                noted.set((0, 0));
                mutex.join_hand_off()
            }
        }
        _ => {
            noted.set((address, now_ticks + clock::ns_to_ticks(window_ns)));
            false
        }
    }
}

/// Counts that the calling holder has waited for `waited_ticks`, one way or the other.
pub(super) fn acquired(mutex: &Mutex, waited_ticks: u64) {
    count(mutex, class_of_this_cpu() == Class::Big, waited_ticks);
}

#[inline]
fn count(mutex: &Mutex, big: bool, waited_ticks: u64) {
    if big {
        mutex.passes.passed(waited_ticks);
    } else {
        mutex.passes.stood_by();
    }
}

/// For how long the calling thread is to stand by.
#[inline]
fn window_ns() -> u64 {
    if thread::current().lock.held() > 0 {
        return 0;
    }
    epochs::window_ns().unwrap_or_else(|| epochs::WINDOW_NS_MAX.min(requests::bound_ns() / HANDOVERS))
}
