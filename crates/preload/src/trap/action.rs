//! The program's handler for SIGTRAP, and what all its handlers asked to block.
//!
//! The kernel has our handler for SIGTRAP, and no handler's mask holds SIGTRAP there. What the program
//! asked for is kept here: the disposition of SIGTRAP as the kernel would have it, and one bit for each
//! other signal.
//!
//! Invariants:
//! 1. `PROGRAM` is touched by the holder of its latch only, which has every signal really blocked
//!    meanwhile: no handler that runs on the same thread can want the latch.
//! 2. `ASKED` changes under the same latch, together with what the kernel is told.

use super::{armed, borrowed, handler};
use crate::latch::Latch;
use core::sync::atomic::{AtomicU64, Ordering};
use platform::signal::{Change, Disposition, SA_RESTORER, bit, change_mask, disposition, set_disposition};

/// What the program wants to happen at SIGTRAP.
static PROGRAM: Latch<Disposition> = Latch::new(Disposition::DEFAULT);
/// For which signals the program's handler asked that SIGTRAP be blocked.
static ASKED: AtomicU64 = AtomicU64::new(0);

/// SIGTRAP's bit.
pub const TRAP: u64 = bit(libc::SIGTRAP);
/// The last signal.
const LAST: i32 = 64;

/// Runs `change` while nobody else looks at the program's dispositions.
pub fn locked<T>(change: impl FnOnce(&mut Disposition) -> T) -> T {
    let before = change_mask(Change::Block, u64::MAX);
    let result = change(&mut PROGRAM.lock());
    change_mask(Change::Set, before);
    result
}

/// Makes SIGTRAP ours. `publish` is called when what the program had is known; from then on
/// [`armed`] must be true.
pub fn take_over(publish: impl FnOnce()) -> bool {
    locked(|program| {
        let Ok(before) = disposition(libc::SIGTRAP) else { return false };
        *program = before;
        publish();
        install(program);
        (1..=LAST).filter(|&signal| signal != libc::SIGTRAP).for_each(strip);
        true
    })
}

/// Gives the kernel our handler. Where the program's own would let system calls go on, ours does.
fn install(program: &Disposition) {
    let handles = program.handler != libc::SIG_DFL && program.handler != libc::SIG_IGN;
    let restart = if handles { program.flags & libc::SA_RESTART as usize } else { libc::SA_RESTART as usize };
    let flags = (libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER) as usize | restart;
    let restorer = platform::signal::restorer();
    let flags = if restorer == 0 { flags } else { flags | SA_RESTORER };
    let ours = Disposition { handler: handler::address(), flags, restorer, mask: 0 };
    // SAFETY: the handler is async-signal-safe (see its file), and the restorer returns by rt_sigreturn.
    let _ = unsafe { set_disposition(libc::SIGTRAP, &ours) };
}

/// Takes SIGTRAP out of the mask of another signal's handler. Under the latch.
fn strip(signal: i32) {
    let Ok(before) = disposition(signal) else { return };
    if before.handler == libc::SIG_DFL || before.handler == libc::SIG_IGN || before.mask & TRAP == 0 {
        return;
    }
    let without = Disposition { mask: before.mask & !TRAP, ..before };
    // SAFETY: the program's own disposition, but for one signal that it would have blocked.
    if unsafe { set_disposition(signal, &without) }.is_ok() {
        note(signal, true);
    }
}

/// Notes whether a signal's handler asked for SIGTRAP to be blocked; returns what was noted. Under the
/// latch.
fn note(signal: i32, asked: bool) -> bool {
    let bit = bit(signal);
    let before =
        if asked { ASKED.fetch_or(bit, Ordering::Relaxed) } else { ASKED.fetch_and(!bit, Ordering::Relaxed) };
    before & bit != 0
}

/// A disposition was changed the plain way, just before SIGTRAP became ours or in the middle of it.
pub fn settle(signal: i32) {
    if !armed() || !(1..=LAST).contains(&signal) {
        return;
    }
    locked(|program| {
        if signal != libc::SIGTRAP {
            return strip(signal);
        }
        if let Ok(real) = disposition(signal)
            && real.handler != handler::address()
        {
            *program = real;
            install(program);
        }
    });
}

/// Changes the disposition of a signal other than SIGTRAP through `change`, which gets what to tell the
/// C library and returns whether it agreed; `asks` says whether the new handler's mask holds SIGTRAP, if
/// there is a new one. Returns that result, and whether the old one's did.
pub fn other<T>(signal: i32, asks: Option<bool>, change: impl FnOnce() -> (T, bool)) -> (T, bool) {
    if !(1..=LAST).contains(&signal) {
        return (change().0, false);
    }
    locked(|_| {
        let asked = ASKED.load(Ordering::Relaxed) & bit(signal) != 0;
        let (result, agreed) = change();
        if let Some(asks) = asks.filter(|_| agreed && !borrowed()) {
            note(signal, asks);
        }
        (result, asked)
    })
}

/// Changes what the program wants to happen at SIGTRAP, and returns what it wanted before.
pub fn trap(new: Option<Disposition>) -> Disposition {
    let uncatchable = bit(libc::SIGKILL) | bit(libc::SIGSTOP);
    locked(|program| {
        let before = *program;
        if let Some(new) = new.filter(|_| !borrowed()) {
            *program = Disposition { mask: new.mask & !uncatchable, flags: new.flags | SA_RESTORER, ..new };
            install(program);
            if new.handler == libc::SIG_IGN {
                super::mask::forget();
            }
        }
        before
    })
}

/// What the program wants to happen at SIGTRAP now that one is about to be handled; a handler for one
/// time is used up.
pub fn use_once() -> Disposition {
    locked(|program| {
        let now = *program;
        let handles = now.handler != libc::SIG_DFL && now.handler != libc::SIG_IGN;
        if handles && now.flags & libc::SA_RESETHAND as u32 as usize != 0 {
            program.handler = libc::SIG_DFL;
            install(program);
        }
        now
    })
}

/// Before `fork`.
pub fn hold() {
    PROGRAM.hold();
}

/// After `fork`, in parent and child.
pub fn release() {
    PROGRAM.release();
}
