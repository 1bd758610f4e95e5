//! The SLO-guided lock for cores of two speeds: `lock=asl`.
//!
//! [`manx::lock::Asl`] in the program's own objects. As in all modes, `word` says which thread
//! holds a mutex. A thread that waits for longer than it stands by waits as with `lock=manx`.
//! Before that, a thread on a little CPU lets others pass, for the window of the epoch that it is
//! in, and outside of any for the longest one, as long as others use the mutex: `passes` counts.
//!
//! Three kinds of threads do not stand by. A thread with a timeout of its own does not, since the
//! timeout would be over. A thread that was woken by a signal to a condition variable does not,
//! since others may wait for what it is about to do. A thread that holds another mutex does not,
//! since the waiters for that mutex would stand by with it. Outside of any epoch a target for
//! requests bounds the window as well: another thread may answer them. Calls that never come here
//! (from inside of the C library) are not counted; they are too few to matter.
//!
//! Invariant 1: `passes` is written by holders only.

use super::object::Mutex;
use crate::slo::{epochs, requests};
use crate::thread;
use core::sync::atomic::Ordering;
use manx::cpu::{Class, class_of_this_cpu};

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
