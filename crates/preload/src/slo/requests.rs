//! Requests of a server without annotations: from the return of a read from a socket to the next
//! write to it.
//!
//! A thread has one request at a time: that of the socket from which it read first. Until the
//! thread answers, reads from other sockets are part of the request (the thread asks another
//! server), and so are more reads from the same socket (the rest of the request). The request ends
//! when the thread writes to its socket. The request is given up, and counts for nothing, if the
//! socket is closed without an answer, or if the thread reads from another socket after 16 times
//! the target (at least 100 ms): then the request had no answer.
//!
//! An event loop that reads from many sockets before it answers the first has one request at a time
//! as well; its other requests are not seen.

use super::{descriptors, epochs};
use crate::thread::{self, Thread};
use core::ffi::c_int;
use core::sync::atomic::{AtomicU64, Ordering};
use platform::clock::{ns_to_ticks, ticks};
use preload_abi::slo::Slo;

/// The id of these epochs: no program is likely to use it.
pub const ID: u64 = u64::MAX;
/// After this multiple of the target, a read from another socket begins a new request …
const FORGOTTEN: u64 = 16;
/// … but not before this time.
const FORGOTTEN_NS_MIN: u64 = 100_000_000;
/// The value of `BOUND_NS` if no target is set.
const NONE: u64 = u64::MAX;

/// The target's bound in nanoseconds, or [`NONE`].
static BOUND_NS: AtomicU64 = AtomicU64::new(NONE);
/// The target's percentile, in hundredths of a percent.
static PERCENTILE: AtomicU64 = AtomicU64::new(0);

/// Sets the target.
pub fn set(slo: Option<Slo>) {
    if let Some(slo) = slo {
        PERCENTILE.store(u64::from(slo.percentile), Ordering::Relaxed);
        BOUND_NS.store(slo.bound_ns.min(NONE - 1), Ordering::Relaxed);
    }
}

/// Whether requests are to be measured: whether a target is set.
#[inline(always)]
pub fn wanted() -> bool {
    BOUND_NS.load(Ordering::Relaxed) != NONE
}

/// The target's bound in nanoseconds; `u64::MAX` if there is none.
#[inline(always)]
pub fn bound_ns() -> u64 {
    BOUND_NS.load(Ordering::Relaxed)
}

/// Called after a read from a socket: begins a request, unless the thread has one.
pub fn began(descriptor: c_int) {
    let me = thread::current();
    let open = me.request.get();
    let this = descriptor as u32 + 1;
    if open == this {
        return;
    }
    let now_ticks = ticks();
    if open != 0 {
        let forgotten_ns = BOUND_NS.load(Ordering::Relaxed).saturating_mul(FORGOTTEN).max(FORGOTTEN_NS_MIN);
        if now_ticks.wrapping_sub(me.request_ticks.get()) < ns_to_ticks(forgotten_ns) {
            return;
        }
        epochs::abandon(ID);
    }
    me.request.set(this);
    me.request_ticks.set(now_ticks);
    epochs::start(ID);
}

/// Whether the thread's request came from this descriptor.
fn is_open(me: &Thread, descriptor: c_int) -> bool {
    descriptor >= 0 && me.request.get() == descriptor as u32 + 1
}

/// Called before a write, which ends the thread's request if it succeeds: notes the time.
pub fn answers(descriptor: c_int) {
    let me = thread::current();
    if is_open(me, descriptor) {
        me.answer_ticks.set(ticks());
    }
}

/// Called after a write of `written` bytes: ends the thread's request if this was the answer.
pub fn answered(descriptor: c_int, written: isize) {
    let me = thread::current();
    if written > 0 && is_open(me, descriptor) {
        me.request.set(0);
        let percentile = PERCENTILE.load(Ordering::Relaxed) as u16;
        epochs::end_then(ID, me.answer_ticks.get(), BOUND_NS.load(Ordering::Relaxed), percentile);
    }
}

/// Called before a descriptor is closed: gives up the thread's request if it came from there.
pub fn closed(descriptor: c_int) {
    let me = thread::current();
    if is_open(me, descriptor) {
        me.request.set(0);
        epochs::abandon(ID);
    }
    descriptors::forget(descriptor);
}
