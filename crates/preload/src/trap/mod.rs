//! Breakpoints, where no jump fits, and the program's own SIGTRAP.
//!
//! A breakpoint is one byte, so it fits everywhere; but it raises a signal, and a synchronous signal that
//! is blocked or ignored kills the process. Programs that block every signal in their workers are common.
//! So before the first breakpoint is written SIGTRAP becomes ours: it is never really blocked or replaced
//! from then on, while the program goes on seeing what it asked for.
//!
//! | file | its part |
//! | --- | --- |
//! | [`table`] | which addresses are breakpoints of ours |
//! | [`handler`] | SIGTRAP's handler: lead to the copy of a loop, or pass on what is not ours |
//! | [`action`] | the program's handler for SIGTRAP, and what all handlers asked to block |
//! | [`mask`] | whether a thread believes that it has blocked SIGTRAP, and what came meanwhile |
//! | [`inherit`] | the same, for threads that are new |
//! | [`stack`] | alternate stacks that are too small for a breakpoint in a handler |
//! | [`survey`] | who else could block SIGTRAP: other threads, modules that need no C library for it |
//! | `calls` | the functions of the C library through which a program asks |
//!
//! Invariants:
//! 1. As long as [`armed`] is false, every function of `calls` passes its arguments on unchanged.
//! 2. Once it is true it stays so, in the process and in its forked children. From then on no function of
//!    `calls` blocks SIGTRAP in the kernel, or changes its disposition there.
//! 3. A breakpoint stands only where the handler was told of it before, and only while [`arm`] holds.
//!
//! What is not virtual, since the C library or the kernel does it without a call that we could see:
//!
//! - The mask that a handler edits in its `ucontext_t`, and masks kept in a `jmp_buf` or a `ucontext_t` since
//!   before the first breakpoint, can still block SIGTRAP really. The next call that changes the mask opens
//!   it again.
//! - `siglongjmp` and `setcontext` do not bring back whether the thread believed SIGTRAP blocked.
//! - Inside a handler whose `sa_mask` holds SIGTRAP, a look at the thread's mask does not show SIGTRAP.
//! - A program that is executed (not forked) from a thread that believes it blocked or ignored SIGTRAP starts
//!   with it open and at its default.
//! - A SIGTRAP that is sent to a process whose threads all believe it blocked reaches no `signalfd`.
//!
//! All but the first matter only to a program that is sent SIGTRAP by somebody.

pub mod action;
#[cfg(not(test))]
pub mod calls;
pub mod handler;
pub mod inherit;
pub mod mask;
pub mod stack;
pub mod survey;
pub mod table;

use crate::guard::site::Site;
use crate::latch::Latch;
use crate::process;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use preload_abi::live::How;

/// By Invariant 2.
static ARMED: AtomicBool = AtomicBool::new(false);

/// What [`arm`] has found so far.
static STATE: AtomicU32 = AtomicU32::new(UNDECIDED);
const UNDECIDED: u32 = 0;
const READY: u32 = 1;
const REFUSED: u32 = 2;

/// The process whose memory this is; 0 as long as nothing is virtual.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// Some breakpoint was let go since somebody last looked.
pub static RELEASED: AtomicBool = AtomicBool::new(false);

/// How often to look whether a thread has SIGTRAP blocked, before it counts as doing so for longer.
const LOOKS: u32 = 10;

/// What [`arm`] knows of the modules.
static SURVEY: Latch<survey::Survey> = Latch::new(survey::Survey::new());

/// Whether SIGTRAP is ours.
#[inline]
pub fn armed() -> bool {
    ARMED.load(Ordering::Acquire)
}

/// Whether breakpoints are safe in this process from now on; makes SIGTRAP ours if so.
///
/// To be called again after modules were opened: one that sets signal masks by itself makes every
/// breakpoint that stands a PAUSE again, for good.
pub fn arm(alone: bool) -> bool {
    // Elsewhere a breakpoint is a whole instruction, and the guard writes none.
    if !cfg!(target_arch = "x86_64") || STATE.load(Ordering::Acquire) == REFUSED {
        return false;
    }
    if SURVEY.lock().finds_raw_calls() {
        return refuse("a module sets signal masks without the C library: no breakpoints");
    }
    if STATE.load(Ordering::Acquire) == READY {
        return true;
    }
    // A debugger would stop at each breakpoint, and take the signal for itself.
    if process::traced() {
        return refuse("the process is traced: no breakpoints");
    }
    if !alone && survey::others_block_trap() != Some(false) {
        return false;
    }
    PROCESS.store(process::id(), Ordering::Relaxed);
    if !armed() && !action::take_over(|| ARMED.store(true, Ordering::Release)) {
        return refuse("SIGTRAP cannot be handled: no breakpoints");
    }
    mask::take_over();
    stack::take_over();
    // Who was in the middle of a call when SIGTRAP became ours is seen now, or was seen before. A thread
    // that holds a latch of ours blocks everything for some microseconds: hence more than one look.
    let open = |_| {
        let open = survey::others_block_trap() == Some(false);
        if !open {
            platform::thread::yield_now();
        }
        open
    };
    if !alone && !(0..LOOKS).any(open) {
        return false;
    }
    inherit::start(if alone { 0 } else { process::threads().unwrap_or(2) as usize - 1 });
    STATE.store(READY, Ordering::Release);
    true
}

fn refuse(why: &str) -> bool {
    STATE.store(REFUSED, Ordering::Release);
    process::say(crate::settings::verbose(), format_args!("{why}"));
    table::each(|site, pause| {
        // Another one may be let go by its handler at this moment: then this one's turn comes.
        for _ in 0..LOOKS {
            handler::let_go(site, pause);
            if site.how() != How::Trap {
                break;
            }
            platform::thread::yield_now();
        }
    });
    false
}

/// Makes the handler know a site; false if the table is full.
pub fn watch(site: &'static Site, pause: usize) -> bool {
    table::add(site, pause)
}

/// The opposite of [`watch`]: the breakpoint's module is gone.
pub fn unwatch(site: &Site, pause: usize) {
    table::remove(site, pause);
}

/// Whether breakpoints that were let go may stand again.
pub fn holds() -> bool {
    STATE.load(Ordering::Acquire) == READY
}

/// Whether this is a child of `vfork`, in its parent's memory: what it changes is its own, and it has none
/// of ours to keep that in. It has the kernel's part until it executes another program or ends.
pub fn borrowed() -> bool {
    let owner = PROCESS.load(Ordering::Relaxed);
    owner != 0 && process::id() != owner
}

/// Before `fork`: nobody may be in the middle of a change.
pub fn hold() {
    action::hold();
    stack::hold();
}

/// After `fork`, in parent and child.
pub fn release() {
    PROCESS.store(process::id(), Ordering::Relaxed);
    stack::release();
    action::release();
}
