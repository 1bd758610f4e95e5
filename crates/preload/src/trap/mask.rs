//! Whether a thread believes that it has blocked SIGTRAP, and what came meanwhile.
//!
//! A SIGTRAP that somebody sends to a thread which believes it blocked is kept until that thread
//! unblocks it or takes it by `sigwait`. Then it is queued again, to this thread and with what was known
//! of its sender, so that the kernel interrupts the thread as it would have then. As in the kernel, one
//! of them is kept a thread, and one for the process; the latter goes to the first thread that unblocks.
//!
//! [`Thread::trap_blocked`] holds the bits below; while the program's own handler for SIGTRAP runs and
//! defers more of them, also the low half of the stack pointer at which it began: a handler that was left
//! by `siglongjmp` does not say so, but then the stack pointer is above.
//!
//! Invariants:
//! 1. Of a thread's slot, only its own thread and handlers on it touch the information; `owner` is its
//!    thread's id, or 0 when it is free.
//! 2. The process's slot is read and written by whoever moved its state to `BUSY`.

use super::action::TRAP;
use super::survey::own_tid;
use super::{armed, borrowed, inherit};
use crate::process;
use crate::thread::{self, Thread};
use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use libc::siginfo_t;
use platform::signal::{Change, change_mask};
use platform::syscall::{check, syscall2, syscall4};

/// The program asked for SIGTRAP to be blocked.
const BLOCKED: u32 = 1;
/// [`BLOCKED`] means something; a new thread's is looked up at its first use.
const KNOWN: u32 = 2;
/// The program's handler for SIGTRAP runs, and defers others.
const HANDLING: u32 = 4;
/// The rest: the low half of a stack pointer.
const STACK: u32 = !0xf;

/// In [`Thread::trap_pending`]: one is pending, but nothing more is known of it.
const UNKNOWN: u32 = u32::MAX;

struct Slot {
    owner: AtomicI32,
    pid: AtomicU32,
    info: UnsafeCell<MaybeUninit<siginfo_t>>,
}

// SAFETY: by Invariant 1.
unsafe impl Sync for Slot {}

static SLOTS: [Slot; 16] = [const {
    Slot { owner: AtomicI32::new(0), pid: AtomicU32::new(0), info: UnsafeCell::new(MaybeUninit::zeroed()) }
}; 16];

/// The slot of the process; its `owner` is one of these states.
static SHARED: Slot = Slot {
    owner: AtomicI32::new(EMPTY),
    pid: AtomicU32::new(0),
    info: UnsafeCell::new(MaybeUninit::zeroed()),
};
const EMPTY: i32 = 0;
const BUSY: i32 = 1;
const FULL: i32 = 2;

/// A thread that waits in `sigwait` for SIGTRAP, or 0.
pub static WAITER: AtomicI32 = AtomicI32::new(0);

/// An address in the caller's frame, or near it.
#[inline]
fn here() -> usize {
    let local = 0u8;
    core::ptr::from_ref(&local).addr()
}

fn known(thread: &Thread) -> u32 {
    let state = thread.trap_blocked.get();
    if state & KNOWN != 0 {
        return state;
    }
    let state = KNOWN | if inherit::blocked() { BLOCKED } else { 0 };
    thread.trap_blocked.set(state);
    state
}

/// Whether the calling thread believes SIGTRAP blocked, as seen from code whose stack pointer is
/// `stack`.
fn blocked_at(stack: usize) -> bool {
    let thread = thread::current();
    let state = known(thread);
    if state & HANDLING != 0 && (state & STACK) <= (stack as u32 & STACK) {
        // Left by a jump: see the module's text.
        thread.trap_blocked.set(state & !(HANDLING | STACK));
        return state & BLOCKED != 0;
    }
    state & (BLOCKED | HANDLING) != 0
}

/// Whether the calling thread believes SIGTRAP blocked.
pub fn blocked() -> bool {
    blocked_at(here())
}

/// Whether the program asked for it, its own handler apart.
pub fn asked() -> bool {
    known(thread::current()) & BLOCKED != 0
}

/// The calling thread believes SIGTRAP blocked, or open, from now on; in the latter case it gets what
/// came meanwhile. Returns whether something did.
pub fn set(blocked: bool) -> bool {
    if borrowed() {
        return false;
    }
    let thread = thread::current();
    if blocked {
        thread.trap_blocked.set(known(thread) | BLOCKED);
        return false;
    }
    thread.trap_blocked.set(KNOWN);
    deliver()
}

/// The program's handler for SIGTRAP begins; all that it calls lies on the stack below `stack`. Returns
/// what [`handled`] wants back.
pub fn handling(defers: bool, stack: usize) -> u32 {
    let thread = thread::current();
    let before = known(thread);
    if defers {
        thread.trap_blocked.set(before & (BLOCKED | KNOWN) | HANDLING | (stack as u32 & STACK));
    }
    before
}

/// It returned, with this in the mask that it goes back to.
pub fn handled(before: u32, blocked: bool) {
    let rest = before & !BLOCKED | KNOWN;
    thread::current().trap_blocked.set(rest | if blocked { BLOCKED } else { 0 });
    if !blocked && rest & HANDLING == 0 {
        deliver();
    }
}

/// Makes the calling thread's real mask ours, when SIGTRAP has just become so.
pub fn take_over() {
    let real = platform::signal::mask() & TRAP != 0;
    let thread = thread::current();
    if thread.trap_blocked.get() & KNOWN == 0 || real {
        thread.trap_blocked.set(KNOWN | if real { BLOCKED } else { 0 });
    }
    change_mask(Change::Unblock, TRAP);
}

/// The mask was changed the plain way, just before SIGTRAP became ours or in the middle of it.
pub fn settle() {
    if armed() && platform::signal::mask() & TRAP != 0 {
        take_over();
    }
}

/// A SIGTRAP was sent to a thread whose stack pointer is `stack`. Returns whether it was kept for later.
///
/// # Safety
/// `info` must be what the kernel gave the handler.
pub unsafe fn keep(info: *const siginfo_t, stack: usize) -> bool {
    if !blocked_at(stack) {
        return false;
    }
    // SAFETY: as the caller promised.
    let info = unsafe { *info };
    if info.si_code == libc::SI_TKILL {
        keep_for_thread(info);
    } else if !hand_to_waiter(info)
        && SHARED.owner.compare_exchange(EMPTY, BUSY, Ordering::Acquire, Ordering::Relaxed).is_ok()
    {
        // SAFETY: by Invariant 2.
        unsafe { (*SHARED.info.get()).write(info) };
        SHARED.pid.store(process::id(), Ordering::Relaxed);
        SHARED.owner.store(FULL, Ordering::Release);
    }
    true
}

fn keep_for_thread(info: siginfo_t) {
    let thread = thread::current();
    if thread.trap_pending.get() != 0 {
        return;
    }
    let own = own_tid();
    thread.trap_pending.set(UNKNOWN);
    for (n, slot) in SLOTS.iter().enumerate() {
        let owner = slot.owner.load(Ordering::Relaxed);
        // A thread that ended with its slot in use has left it behind.
        let free = owner == 0 || owner == own || platform::signal::send(owner, 0) == Err(libc::ESRCH);
        if free && slot.owner.compare_exchange(owner, own, Ordering::Acquire, Ordering::Relaxed).is_ok() {
            // SAFETY: by Invariant 1.
            unsafe { (*slot.info.get()).write(info) };
            slot.pid.store(process::id(), Ordering::Relaxed);
            thread.trap_pending.set(n as u32 + 1);
            return;
        }
    }
}

/// A signal for the whole process goes to a thread that waits for it, if there is one.
fn hand_to_waiter(mut info: siginfo_t) -> bool {
    let waiter = WAITER.load(Ordering::Acquire);
    if waiter == 0 || waiter == own_tid() {
        return false;
    }
    // The kernel lets nobody pass on a signal as if a user had sent it.
    info.si_code = libc::SI_QUEUE;
    queue(waiter, &info)
}

fn queue(tid: i32, info: &siginfo_t) -> bool {
    let (pid, place) = (process::id() as usize, core::ptr::from_ref(info).addr());
    let call = libc::SYS_rt_tgsigqueueinfo;
    // SAFETY: the kernel reads one siginfo_t; the signal is one that the thread's handler expects.
    check(unsafe { syscall4(call, pid, tid as usize, libc::SIGTRAP as usize, place) }).is_ok()
}

/// Whether a SIGTRAP waits for the calling thread to unblock it.
pub fn pending() -> bool {
    thread::current().trap_pending.get() != 0 || SHARED.owner.load(Ordering::Relaxed) == FULL
}

/// Takes what is pending for the calling thread.
pub fn take() -> Option<siginfo_t> {
    let number = thread::current().trap_pending.replace(0);
    if let Some(slot) = SLOTS.get((number as usize).wrapping_sub(1)) {
        // SAFETY: by Invariant 1; it was written before the number was noted.
        let info = unsafe { (*slot.info.get()).assume_init() };
        let own = slot.pid.load(Ordering::Relaxed) == process::id();
        slot.owner.store(0, Ordering::Release);
        // What was pending in a parent is not so in its forked child.
        if own {
            return Some(info);
        }
    } else if number == UNKNOWN {
        // SAFETY: a siginfo_t is made of integers.
        let mut info: siginfo_t = unsafe { core::mem::zeroed() };
        info.si_signo = libc::SIGTRAP;
        info.si_code = libc::SI_TKILL;
        return Some(info);
    }
    SHARED.owner.compare_exchange(FULL, BUSY, Ordering::Acquire, Ordering::Relaxed).ok()?;
    // SAFETY: by Invariant 2; a full slot has been written.
    let info = unsafe { (*SHARED.info.get()).assume_init() };
    let own = SHARED.pid.load(Ordering::Relaxed) == process::id();
    SHARED.owner.store(EMPTY, Ordering::Release);
    own.then_some(info)
}

/// The calling thread gets what is pending. Returns whether there was something.
fn deliver() -> bool {
    let mut any = false;
    while pending() {
        let Some(info) = take() else { break };
        any |= queue(own_tid(), &info);
    }
    any
}

/// What is pending is dropped: the program ignores SIGTRAP from now on.
pub fn forget() {
    while pending() && take().is_some() {}
}

/// The signals that the kernel has pending for the calling thread.
pub fn really_pending() -> u64 {
    let mut set = 0u64;
    let place = (&raw mut set).addr();
    // SAFETY: the kernel writes one mask.
    let _ = unsafe { syscall2(libc::SYS_rt_sigpending, place, 8) };
    set
}
