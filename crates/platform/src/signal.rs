//! Signals as the kernel sees them: masks of 64 bits, dispositions, alternate stacks.
//!
//! The C library's own calls hide the two signals that it keeps for itself and go through symbols that
//! the preload library replaces; these go to the kernel.

use crate::syscall::{check, syscall2, syscall3, syscall4};

/// A set of signals as the kernel keeps it: bit `n - 1` stands for signal `n`.
pub type Mask = u64;

/// The bit of a signal in a [`Mask`].
pub const fn bit(signal: i32) -> Mask {
    1 << (signal - 1)
}

/// What the kernel does about a signal (`struct kernel_sigaction`).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disposition {
    /// The handler's address, or `SIG_DFL` (0) or `SIG_IGN` (1).
    pub handler: usize,
    /// `SA_` flags, `SA_RESTORER` among them.
    pub flags: usize,
    /// Where a handler returns to.
    pub restorer: usize,
    /// What is blocked while the handler runs.
    pub mask: Mask,
}

impl Disposition {
    /// The kernel's own action.
    pub const DEFAULT: Disposition = Disposition { handler: 0, flags: 0, restorer: 0, mask: 0 };
}

/// `SA_RESTORER`: the disposition says where a handler returns to.
pub const SA_RESTORER: usize = 0x0400_0000;

// Where a handler returns to. The C library's own has no name. Unwinders know these very bytes
// and step over them into the interrupted code; they look one byte before the address, where a NOP is.
#[cfg(target_arch = "x86_64")]
core::arch::global_asm!(
    ".pushsection .text.manx_restorer,\"ax\",@progbits",
    ".balign 16",
    "nop",
    ".hidden manx_restorer",
    ".globl manx_restorer",
    ".type manx_restorer,@function",
    "manx_restorer:",
    ".byte 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0",
    "syscall",
    ".size manx_restorer, . - manx_restorer",
    ".popsection",
);

/// Where a handler returns to ([`Disposition::restorer`]); 0 where the kernel knows by itself.
pub fn restorer() -> usize {
    #[cfg(target_arch = "x86_64")]
    {
        unsafe extern "C" {
            fn manx_restorer();
        }
        manx_restorer as *const () as usize
    }
    #[cfg(not(target_arch = "x86_64"))]
    0
}

/// Reads what happens at `signal`.
///
/// # Errors
/// The error number of `rt_sigaction`.
pub fn disposition(signal: i32) -> Result<Disposition, i32> {
    let mut old = Disposition::DEFAULT;
    let place = (&raw mut old).addr();
    // SAFETY: the kernel writes one Disposition.
    check(unsafe { syscall4(libc::SYS_rt_sigaction, signal as usize, 0, place, 8) })?;
    Ok(old)
}

/// Sets what happens at `signal` and returns what did before.
///
/// # Safety
/// The handler must be async-signal-safe and its restorer must return by `rt_sigreturn`.
///
/// # Errors
/// The error number of `rt_sigaction`.
pub unsafe fn set_disposition(signal: i32, new: &Disposition) -> Result<Disposition, i32> {
    let mut old = Disposition::DEFAULT;
    let (new, place) = (core::ptr::from_ref(new).addr(), (&raw mut old).addr());
    // SAFETY: the kernel reads and writes one Disposition each; the handler is the caller's promise.
    check(unsafe { syscall4(libc::SYS_rt_sigaction, signal as usize, new, place, 8) })?;
    Ok(old)
}

/// How [`change_mask`] combines its argument with the thread's mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Change {
    /// Adds signals to the blocked ones.
    Block = libc::SIG_BLOCK,
    /// Takes signals from the blocked ones.
    Unblock = libc::SIG_UNBLOCK,
    /// Blocks exactly these.
    Set = libc::SIG_SETMASK,
}

/// Changes the calling thread's mask and returns the one before.
#[inline]
pub fn change_mask(how: Change, mask: Mask) -> Mask {
    let mut old: Mask = 0;
    let (new, place) = ((&raw const mask).addr(), (&raw mut old).addr());
    // SAFETY: the kernel reads and writes one mask each, and cannot fail with these arguments.
    let _ = unsafe { syscall4(libc::SYS_rt_sigprocmask, how as usize, new, place, 8) };
    old
}

/// The calling thread's mask.
#[inline]
pub fn mask() -> Mask {
    change_mask(Change::Block, 0)
}

/// Sends `signal` to the thread `tid` of this process.
///
/// # Errors
/// The error number of `tgkill`.
pub fn send(tid: i32, signal: i32) -> Result<(), i32> {
    // SAFETY: takes no pointer.
    unsafe {
        let pid = check(crate::syscall::syscall0(libc::SYS_getpid))?;
        check(syscall3(libc::SYS_tgkill, pid, tid as usize, signal as usize)).map(drop)
    }
}

/// The signals that are pending for the calling thread or for the process.
pub fn pending() -> Mask {
    let mut set: Mask = 0;
    let place = (&raw mut set).addr();
    // SAFETY: the kernel writes one mask.
    let _ = unsafe { syscall2(libc::SYS_rt_sigpending, place, 8) };
    set
}

/// Takes pending signals of `set`, which must be blocked, without handling them.
pub fn discard(set: Mask) {
    let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let (set, time) = ((&raw const set).addr(), (&raw const at_once).addr());
    // SAFETY: the kernel reads one mask and one timespec.
    while set != 0 && check(unsafe { syscall4(libc::SYS_rt_sigtimedwait, set, 0, time, 8) }).is_ok() {}
}

/// The calling thread's alternate stack.
pub fn alternate_stack() -> libc::stack_t {
    let mut old = libc::stack_t { ss_sp: core::ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };
    let place = (&raw mut old).addr();
    // SAFETY: the kernel writes one stack_t.
    let _ = unsafe { syscall2(libc::SYS_sigaltstack, 0, place) };
    old
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_and_dispositions_are_set_and_read_back() {
        let before = change_mask(Change::Block, bit(libc::SIGUSR2));
        assert_ne!(mask() & bit(libc::SIGUSR2), 0);
        change_mask(Change::Set, before);
        assert_eq!(mask(), before);

        let ignore = Disposition { handler: libc::SIG_IGN, ..Disposition::DEFAULT };
        // SAFETY: ignoring and restoring runs no handler.
        unsafe {
            let old = set_disposition(libc::SIGUSR2, &ignore).expect("set");
            assert_eq!(disposition(libc::SIGUSR2).expect("read").handler, libc::SIG_IGN);
            set_disposition(libc::SIGUSR2, &old).expect("restored");
        }
        assert_eq!(disposition(0), Err(libc::EINVAL));
    }
}
