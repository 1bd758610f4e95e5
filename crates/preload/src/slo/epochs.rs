//! The program's epochs: each thread's windows, for the locks of [`crate::lock`].
//!
//! A program calls `manx_epoch_start` and `manx_epoch_end` through weak symbols, or through
//! libmanx, which comes here if we are loaded: there is one table a thread, by whichever way the
//! call came.
//!
//! The table is mapped when the thread first begins an epoch, and given back when it ends: by the
//! destructor of a key, since this library has no thread-local variables with destructors.

use super::statistics;
use crate::thread;
use core::ffi::{c_double, c_void};
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use manx::slo::{Percentile, WINDOW_MAX};
use platform::clock;
use preload_abi::slo::{SLOS_MAX, Slos};

/// The longest window of an epoch, in nanoseconds.
pub const WINDOW_NS_MAX: u64 = clock::duration_ns(WINDOW_MAX);

/// The key's number plus 1; 0: there is none yet.
static KEY: AtomicU64 = AtomicU64::new(0);

/// An epoch begins on the calling thread.
#[inline]
pub fn start(id: u64) {
    let epochs = &thread::current().epochs;
    let known = epochs.known();
    if known == 0 {
        // The program may have no thread yet.
        clock::init();
    }
    epochs.start(id);
    if known == 0 {
        free_at_exit();
    }
}

/// The epoch ends; `percentile` is in hundredths of a percent.
#[inline]
pub fn end(id: u64, slo_ns: u64, percentile: u16) {
    end_then(id, clock::ticks(), slo_ns, percentile);
}

/// Ends the epoch as of `now_ticks`.
#[inline]
pub fn end_then(id: u64, now_ticks: u64, slo_ns: u64, percentile: u16) {
    let asked = Percentile::new(percentile).map(|percentile| (slo_ns, percentile));
    if let Some((slo_ns, percentile)) = of(id).or(asked) {
        let latency_ns = thread::current().epochs.end_then(id, now_ticks, slo_ns, percentile, WINDOW_NS_MAX);
        if let Some(latency_ns) = latency_ns
            && crate::statistics::wanted()
        {
            statistics::ended(id, now_ticks, latency_ns, slo_ns, percentile);
        }
    }
}

/// The epoch ends and counts for nothing.
pub fn abandon(id: u64) {
    thread::current().epochs.abandon(id);
}

/// For how long the calling thread may be overtaken, in nanoseconds; `None` outside of any epoch.
#[inline]
pub fn window_ns() -> Option<u64> {
    thread::current().epochs.window_ns()
}

/// Sees to it that the thread's table is given back.
#[cold]
fn free_at_exit() {
    let mut key = KEY.load(Ordering::Relaxed);
    if key == 0 {
        let mut new: libc::pthread_key_t = 0;
        // SAFETY: `new` may be written; the destructor may be called by any thread.
        if unsafe { libc::pthread_key_create(&raw mut new, Some(free)) } != 0 {
            // No keys are left: the memory stays.
            return;
        }
        key = u64::from(new) + 1;
        if let Err(others) = KEY.compare_exchange(0, key, Ordering::Relaxed, Ordering::Relaxed) {
            // SAFETY: no thread uses this key.
            unsafe { libc::pthread_key_delete(new) };
            key = others;
        }
    }
    let block: *const thread::Thread = thread::current();
    // SAFETY: the key exists for the rest of the process. The value only has to differ from null.
    unsafe { libc::pthread_setspecific((key - 1) as libc::pthread_key_t, block.cast()) };
}

/// The thread ends. Destructors that begin epochs after this have the key set again, and this is
/// called again.
unsafe extern "C" fn free(_: *mut c_void) {
    thread::current().epochs.free();
}

/// An epoch with this id begins on the calling thread, inside of the epochs that are open.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub extern "C" fn manx_epoch_start(id: u64) {
    start(id);
}

/// The epoch ends; 99 of a hundred are to end within `slo_ns`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub extern "C" fn manx_epoch_end(id: u64, slo_ns: u64) {
    end(id, slo_ns, Percentile::P99.hundredths());
}

/// As `manx_epoch_end`, for another percentile, from 50 to 99.99. A number outside of that range
/// ends the epoch and teaches nothing.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub extern "C" fn manx_epoch_end_at(id: u64, slo_ns: u64, percentile: c_double) {
    let hundredths = percentile * 100.0 + 0.5;
    if (5000.0..10_000.0).contains(&hundredths) {
        end(id, slo_ns, hundredths as u16);
    } else {
        abandon(id);
    }
}

/// The epoch ends and teaches nothing.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub extern "C" fn manx_epoch_abandon(id: u64) {
    abandon(id);
}

/// For how long the calling thread may be overtaken, in nanoseconds: the window of its innermost
/// epoch, or 2^64 - 1 outside of any.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub extern "C" fn manx_epoch_window_ns() -> u64 {
    window_ns().unwrap_or(u64::MAX)
}

struct Target {
    id: AtomicU64,
    bound_ns: AtomicU64,
    /// In hundredths of a percent.
    percentile: AtomicU64,
}

static TARGETS: [Target; SLOS_MAX] =
    [const { Target { id: AtomicU64::new(0), bound_ns: AtomicU64::new(0), percentile: AtomicU64::new(0) } };
        SLOS_MAX];
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Takes over the targets.
pub fn set(slos: Slos<'_>) {
    let mut count = 0;
    for (slo, target) in slos.iter().filter(|slo| slo.id.is_some()).zip(&TARGETS) {
        target.id.store(slo.id.unwrap_or(0), Ordering::Relaxed);
        target.bound_ns.store(slo.bound_ns, Ordering::Relaxed);
        target.percentile.store(u64::from(slo.percentile), Ordering::Relaxed);
        count += 1;
    }
    COUNT.store(count, Ordering::Relaxed);
}

/// The target for epochs of this id, if the options say one; the last one they say.
#[inline]
pub fn of(id: u64) -> Option<(u64, Percentile)> {
    let count = COUNT.load(Ordering::Relaxed);
    if count == 0 { None } else { search(id, count) }
}

fn search(id: u64, count: usize) -> Option<(u64, Percentile)> {
    let target = TARGETS[..count].iter().rev().find(|target| target.id.load(Ordering::Relaxed) == id)?;
    let percentile = Percentile::new(target.percentile.load(Ordering::Relaxed) as u16)?;
    Some((target.bound_ns.load(Ordering::Relaxed), percentile))
}
