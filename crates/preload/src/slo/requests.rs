//! Requests of a server without annotations: from the return of a read from a socket to the next
//! write to it.
//!
//! A thread has one request at a time: that of the socket it read first. Reads from other sockets
//! meanwhile are part of it (a question to another server), as are more reads from the same one
//! (the rest of the request). It ends when the thread writes to that socket, and counts for nothing
//! if the socket is closed without an answer, or if the thread turns to another socket after 16
//! times the target (at least 100 ms): then there was no answer to be sent.
//!
//! An event loop that reads from many sockets before it answers the first has one request at a time
//! as well; the others go unseen.

use super::{descriptors, epochs};
use crate::thread::{self, Thread};
use core::ffi::c_int;
use core::sync::atomic::{AtomicU64, Ordering};
use platform::clock::{ns_to_ticks, ticks};
use preload_abi::slo::Slo;

/// The id of these epochs: no program is likely to use it.
pub const ID: u64 = u64::MAX;
/// After this multiple of the target a request is given up for another one.
const FORGOTTEN: u64 = 16;
/// And not before this.
const FORGOTTEN_NS_MIN: u64 = 100_000_000;
/// No target is set.
const NONE: u64 = u64::MAX;

/// The bound, in nanoseconds, or [`NONE`].
static BOUND_NS: AtomicU64 = AtomicU64::new(NONE);
/// The percentile, in hundredths of a percent.
static PERCENTILE: AtomicU64 = AtomicU64::new(0);

/// Sets the target.
pub fn set(slo: Option<Slo>) {
    if let Some(slo) = slo {
        PERCENTILE.store(u64::from(slo.percentile), Ordering::Relaxed);
        BOUND_NS.store(slo.bound_ns.min(NONE - 1), Ordering::Relaxed);
    }
}

/// Whether there is a target.
#[inline(always)]
pub fn wanted() -> bool {
    BOUND_NS.load(Ordering::Relaxed) != NONE
}

/// The target's bound in nanoseconds; `u64::MAX` if there is none.
#[inline(always)]
pub fn bound_ns() -> u64 {
    BOUND_NS.load(Ordering::Relaxed)
}

/// Something was read from a socket.
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

/// Something is about to be written: that ends the request, if it succeeds.
pub fn answers(descriptor: c_int) {
    let me = thread::current();
    if is_open(me, descriptor) {
        me.answer_ticks.set(ticks());
    }
}

/// Notes that `written` bytes were written.
pub fn answered(descriptor: c_int, written: isize) {
    let me = thread::current();
    if written > 0 && is_open(me, descriptor) {
        me.request.set(0);
        let percentile = PERCENTILE.load(Ordering::Relaxed) as u16;
        epochs::end_then(ID, me.answer_ticks.get(), BOUND_NS.load(Ordering::Relaxed), percentile);
    }
}

/// A descriptor is about to be closed.
pub fn closed(descriptor: c_int) {
    let me = thread::current();
    if is_open(me, descriptor) {
        me.request.set(0);
        epochs::abandon(ID);
    }
    descriptors::forget(descriptor);
}
