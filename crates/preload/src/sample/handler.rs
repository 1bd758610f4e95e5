//! One sample: if the thread is in a busy-wait loop, sleep before it goes on.
//!
//! Invariants:
//! 1. Nothing here allocates, locks, or touches `errno`: only system calls made directly.
//! 2. A sample that finds the thread outside of every loop ends its wait.

use super::ranges;
use crate::guard::site::Site;
use crate::settings::SETTINGS;
use crate::thread::{self, Thread};
use core::ffi::{c_int, c_void};
use core::sync::atomic::Ordering;
use libc::{siginfo_t, ucontext_t};
use platform::{clock, thread as os};

/// The handler's address.
pub fn address() -> usize {
    handle as *const () as usize
}

/// Where the thread was interrupted.
#[cfg(target_arch = "x86_64")]
fn interrupted_at(context: &ucontext_t) -> usize {
    context.uc_mcontext.gregs[libc::REG_RIP as usize] as usize
}

/// Where the thread was interrupted.
#[cfg(target_arch = "aarch64")]
fn interrupted_at(context: &ucontext_t) -> usize {
    context.uc_mcontext.pc as usize
}

/// What the kernel calls.
unsafe extern "C" fn handle(_: c_int, _: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes the context, valid until the handler returns.
    let at = interrupted_at(unsafe { &*context.cast::<ucontext_t>() });
    let thread = thread::current();
    match ranges::find(at) {
        Some(site) => wait(site, thread),
        None => thread.waiting.set(0),
    }
}

/// Sleeps once: longer, the more samples in a row found the thread here.
fn wait(site: &Site, thread: &Thread) {
    let here = core::ptr::from_ref(site).addr();
    let before = clock::ticks();
    let begins = thread.waiting.get() != here;
    if begins {
        thread.waiting.set(here);
        thread.began_ticks.set(before);
        thread.round.set(0);
    }
    let round = thread.round.get().saturating_add(1);
    thread.round.set(round);
    let step_ns = SETTINGS.step_ns.load(Ordering::Relaxed);
    let ceiling_ns = SETTINGS.ceiling_ns.load(Ordering::Relaxed);
    os::sleep_ns(step_ns.saturating_mul(u64::from(round)).min(ceiling_ns));
    let Some(record) = site.record() else { return };
    let after = clock::ticks();
    record.waits.fetch_add(u64::from(begins), Ordering::Relaxed);
    record.visits.fetch_add(1, Ordering::Relaxed);
    record.sleeps.fetch_add(1, Ordering::Relaxed);
    record.waited_ticks.fetch_add(after.wrapping_sub(before), Ordering::Relaxed);
    record.longest_ticks.fetch_max(after.wrapping_sub(thread.began_ticks.get()), Ordering::Relaxed);
}
