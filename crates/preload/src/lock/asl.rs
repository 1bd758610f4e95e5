//! The SLO-guided lock for cores of two speeds: `lock=asl`.
//!
//! [`manx::lock::Asl`] in the program's own objects. Who holds a mutex is what `word` says, as in all modes, and whoever waits
//! for longer than it stands by does so as by `lock=manx`. Before that a thread on a little CPU lets others pass, for the
//! window of the epoch that it is in, and outside of any for the longest one, as long as others use the mutex: `passes` counts.
//!
//! Who has a limit of its own does not stand by, since it would be over. Calls that never come here (from inside of the
//! C library) are not counted; they are too few to matter.
//!
//! Invariant 1: `passes` is written by holders only.

use super::mutex::take;
use super::object::Mutex;
use crate::slo::epochs;
use core::sync::atomic::Ordering;
use manx::cpu::{Class, class_of_this_cpu};
use manx::lock::bounded::Acquired;
use manx::lock::reorderable;

/// Takes the mutex if it is free, and if the caller need not stand by.
#[inline]
pub(super) fn try_acquire(mutex: &Mutex) -> bool {
    let big = class_of_this_cpu() == Class::Big;
    if !big && mutex.passes.are_in_use() && window_ns() != 0 {
        return false;
    }
    let taken = take(mutex);
    if taken {
        count(mutex, big, false);
    }
    taken
}

/// Stands by, if the caller is to, until the mutex is had or its window is over (`None`).
pub(super) fn stand_by(mutex: &Mutex) -> Option<Acquired> {
    if class_of_this_cpu() == Class::Big {
        return None;
    }
    // Relaxed: a look; who takes it does so by a step that acquires.
    let is_locked = || mutex.word.load(Ordering::Relaxed) != 0;
    mutex.passes.stand_by(window_ns(), is_locked, || take(mutex).then_some(Acquired::default()))
}

/// The calling holder has waited, one way or the other.
pub(super) fn acquired(mutex: &Mutex) {
    count(mutex, class_of_this_cpu() == Class::Big, true);
}

#[inline]
fn count(mutex: &Mutex, big: bool, waited: bool) {
    if big {
        mutex.passes.passed(waited);
    } else {
        mutex.passes.stood_by();
    }
}

#[inline]
fn window_ns() -> u64 {
    epochs::window_ns().unwrap_or(reorderable::WINDOW_NS_MAX)
}
