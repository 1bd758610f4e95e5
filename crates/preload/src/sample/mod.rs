//! Waiting on behalf of threads that spin, without a change to the program's text (`guard=sample`).
//!
//! Each thread has a timer that counts the CPU time it uses. When it fires, the thread is interrupted
//! wherever it is; if that is inside a busy-wait loop that the guard has found, it sleeps for a while
//! before it goes on: a little longer each time that it is found in the same loop again, as long as it is
//! found nowhere else in between. Nobody needs to know when a wait begins or ends, and no text is
//! written; but a wait costs 4 ms of CPU time before anything happens, since the kernel looks at such
//! timers only at its tick.
//!
//! | file | its part |
//! | --- | --- |
//! | [`ranges`] | which addresses are busy-wait loops |
//! | [`timers`] | one timer a thread, made by its creator, deleted when it is gone |
//! | [`handler`] | one sample |
//!
//! Invariants:
//! 1. The timers' signal is one that had its default disposition when it was chosen. When the program asks
//!    for that signal itself, sampling ends before the program gets it.
//! 2. A timer's signal is queued with the timer when it is made: it can neither get lost nor become
//!    another signal.
//!
//! A thread that blocks every signal is not sampled. A system call that a sample interrupts goes on
//! (`SA_RESTART`), but for those that never do (`poll`, `nanosleep`, ...: signal(7)); such a call uses no
//! CPU time while it waits, so a sample meets it only as it begins.

pub mod handler;
pub mod ranges;
pub mod timers;

use crate::guard::site::Site;
use crate::process;
use core::ops::Range;
use core::sync::atomic::{AtomicI32, Ordering};
use platform::signal::restorer;
use platform::signal::{Disposition, SA_RESTORER, disposition, set_disposition};
use preload_abi::live::How;

/// The timers' signal; 0: not chosen yet, or sampling has ended.
static SIGNAL: AtomicI32 = AtomicI32::new(0);
/// The program wants the signal, or there was none: no sampling in this process any more.
const NEVER: i32 = -1;

/// The last real-time signal.
const LAST: i32 = 64;
/// The C library uses those below.
const FIRST: i32 = 34;

/// Threads in the loop of these parts are to be slept for; false if there is no room for it.
pub fn add(site: &'static Site, parts: &[Range<u64>]) -> bool {
    let added = parts.iter().all(|part| ranges::add(part.start as usize..part.end as usize, site));
    if !added {
        ranges::remove(|_, other| core::ptr::eq(other, site));
    }
    added
}

/// A module is gone; `visit` gets each of its sites.
pub fn forget(module: &Range<usize>, mut visit: impl FnMut(&'static Site)) {
    let mut last: Option<&'static Site> = None;
    ranges::remove(|range, site| {
        let gone = module.contains(&range.start);
        if gone && !last.is_some_and(|last| core::ptr::eq(last, site)) {
            last = Some(site);
            site.set_how(How::Closed);
            visit(site);
        }
        gone
    });
}

/// Samples all threads that exist, from now on. Does nothing where there is nothing to find.
pub fn start() {
    if ranges::is_empty() || SIGNAL.load(Ordering::Acquire) != 0 {
        return;
    }
    let free = |signal: &i32| disposition(*signal) == Ok(Disposition::DEFAULT);
    let Some(signal) = (FIRST..=LAST).rev().find(free) else {
        SIGNAL.store(NEVER, Ordering::Release);
        process::say(
            crate::settings::verbose(),
            format_args!("every real-time signal is in use: no sampling"),
        );
        return;
    };
    let flags = (libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART) as usize;
    let restorer = restorer();
    let flags = if restorer == 0 { flags } else { flags | SA_RESTORER };
    let ours = Disposition { handler: handler::address(), flags, restorer, mask: 0 };
    // SAFETY: the handler is async-signal-safe (see its file); nobody else uses the signal.
    if unsafe { set_disposition(signal, &ours) }.is_ok() {
        SIGNAL.store(signal, Ordering::Release);
        timers::start(signal);
    }
}

/// Whether [`created`] needs the new thread's name.
pub fn wants_name() -> bool {
    SIGNAL.load(Ordering::Relaxed) > 0
}

/// A thread was created under this name.
pub fn created(name: usize) {
    match SIGNAL.load(Ordering::Acquire) {
        signal if signal > 0 => timers::created(name, signal),
        _ => {}
    }
}

/// Whether samples come by this signal. The program believes that it has its default disposition.
pub fn uses(signal: i32) -> bool {
    signal > 0 && SIGNAL.load(Ordering::Relaxed) == signal
}

/// The program wants something to happen at `signal`: if that is ours, it gets it.
pub fn yield_to_program(signal: i32) {
    if signal <= 0 || SIGNAL.compare_exchange(signal, NEVER, Ordering::AcqRel, Ordering::Relaxed).is_err() {
        return;
    }
    timers::stop();
    let ignore = Disposition { handler: libc::SIG_IGN, ..Disposition::DEFAULT };
    // SAFETY: runs no code. Ignoring first drops what is pending in any thread.
    unsafe {
        let _ = set_disposition(signal, &ignore);
        let _ = set_disposition(signal, &Disposition::DEFAULT);
    }
}

/// Before `fork`.
pub fn hold() {
    timers::hold();
}

/// After `fork`, in parent and child.
pub fn release() {
    timers::release();
}
