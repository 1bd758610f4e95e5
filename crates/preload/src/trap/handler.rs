//! SIGTRAP's handler: lead to the copy of a loop, or pass on what is not ours.
//!
//! A breakpoint of ours stands where a PAUSE stood. The handler does what a jump would have done: it lets
//! the thread go on in the copy of the loop (`spinloop::copy`), where it waits, outside of any handler. So
//! a wait costs one signal, however long it lasts.
//!
//! Every other SIGTRAP is the program's. What the kernel would have done with it is done here: run the
//! program's handler with its mask and flags, keep it for later, drop it, or end the process by it.
//!
//! | disposition | sent by somebody | the program's own breakpoint |
//! | --- | --- | --- |
//! | a handler | runs; kept while blocked | runs; ends the process while blocked |
//! | ignored | dropped | ends the process |
//! | default | ends the process; kept while blocked | ends the process |
//!
//! A site whose waits are over at the first visit a thousand times in a row is paid for with two
//! microseconds each time, for nothing: it is let go, by the handler itself. Each time that it stands
//! again it needs fewer such waits.
//!
//! Invariants:
//! 1. Nothing here allocates or waits for a lock whose holder could be the interrupted thread; `errno` is
//!    touched by the program's own handler only.
//! 2. Nothing of ours is left behind if the program's handler never returns (`siglongjmp`).
//! 3. A PAUSE is written back by one thread at a time; whoever comes second goes on.

use super::action::{self, TRAP};
use super::{mask, survey, table};
use crate::guard;
use crate::guard::site::Site;
use crate::guard::text::Text;
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicBool, Ordering};
use libc::{siginfo_t, ucontext_t};
use platform::signal::{Change, Disposition, change_mask, set_disposition};
use platform::syscall::{syscall0, syscall4};
use preload_abi::live::How;

/// How many waits in a row are over at once before a site is let go for the first time.
const SHORT_WAITS: u32 = 1000;
/// The fewest that will do after it has been let go several times.
const SHORT_WAITS_MIN: u32 = 60;

/// What PAUSE begins with (x86-64 only: see [`super::arm`]).
const PAUSE: u8 = 0xf3;
/// How long the instruction is that a breakpoint stands in the place of.
const PAUSE_BYTES: usize = if cfg!(target_arch = "x86_64") { 2 } else { 4 };

/// The handler's address.
pub fn address() -> usize {
    handle as *const () as usize
}

/// The interrupted code's place: what the handler may change of it.
struct Interrupted<'a>(&'a mut ucontext_t);

#[cfg(target_arch = "x86_64")]
impl Interrupted<'_> {
    /// The breakpoint that raised the signal, if one did.
    fn breakpoint(&self, info: &siginfo_t) -> Option<usize> {
        /// `SI_KERNEL`
        const FROM_KERNEL: c_int = 128;
        /// The number of the breakpoint exception.
        const EXCEPTION: i64 = 3;
        let registers = &self.0.uc_mcontext.gregs;
        let exception = registers[libc::REG_TRAPNO as usize] == EXCEPTION;
        // Emulators (Valgrind) say what other systems' kernels would.
        let raised = info.si_code == FROM_KERNEL && exception || info.si_code == libc::TRAP_BRKPT;
        raised.then_some((registers[libc::REG_RIP as usize] as usize).wrapping_sub(1))
    }

    fn go_on_at(&mut self, address: usize) {
        self.0.uc_mcontext.gregs[libc::REG_RIP as usize] = address as i64;
    }

    fn stack(&self) -> usize {
        self.0.uc_mcontext.gregs[libc::REG_RSP as usize] as usize
    }
}

#[cfg(target_arch = "aarch64")]
impl Interrupted<'_> {
    /// The breakpoint that raised the signal, if one did.
    fn breakpoint(&self, info: &siginfo_t) -> Option<usize> {
        (info.si_code == libc::TRAP_BRKPT).then_some(self.0.uc_mcontext.pc as usize)
    }

    fn go_on_at(&mut self, address: usize) {
        self.0.uc_mcontext.pc = address as u64;
    }

    fn stack(&self) -> usize {
        self.0.uc_mcontext.sp as usize
    }
}

impl Interrupted<'_> {
    /// The mask that the thread goes back to.
    fn mask(&mut self) -> &mut u64 {
        // SAFETY: the kernel's mask is the first word of the C library's set.
        unsafe { &mut *(&raw mut self.0.uc_sigmask).cast::<u64>() }
    }
}

/// What the kernel calls.
unsafe extern "C-unwind" fn handle(_: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes both, valid until the handler returns.
    let (known, mut interrupted) = unsafe { (&*info, Interrupted(&mut *context.cast::<ucontext_t>())) };
    if let Some(pause) = interrupted.breakpoint(known)
        && let Some(site) = table::find(pause)
    {
        interrupted.go_on_at(match site.entry.load(Ordering::Acquire) {
            0 => pause + PAUSE_BYTES,
            copy => copy,
        });
        if site.how() == How::Trap && site.short.load(Ordering::Relaxed) >= short_waits(site) {
            let_go(site, pause);
        }
        return;
    }
    // SAFETY: both are what the kernel passed.
    unsafe { pass_on(info, interrupted, context) };
}

/// How many waits in a row are over at once before this site is let go.
fn short_waits(site: &Site) -> u32 {
    (SHORT_WAITS >> site.released.load(Ordering::Relaxed).min(8)).max(SHORT_WAITS_MIN)
}

/// Makes a breakpoint a PAUSE again.
pub fn let_go(site: &'static Site, pause: usize) {
    static BUSY: AtomicBool = AtomicBool::new(false);
    if site.how() != How::Trap || BUSY.swap(true, Ordering::Acquire) {
        return;
    }
    // SAFETY: one byte makes the breakpoint, and the NOP behind it, the PAUSE that they were made from.
    let written = unsafe { Text::open().write_live_byte(pause, PAUSE) };
    if written.is_ok() {
        site.released.fetch_add(1, Ordering::Relaxed);
        site.short.store(0, Ordering::Relaxed);
        site.set_how(How::Released);
        // The next thread that is created makes the guard look whether it should stand again.
        super::RELEASED.store(true, Ordering::Relaxed);
        guard::DIRTY.store(true, Ordering::Relaxed);
    }
    BUSY.store(false, Ordering::Release);
}

/// A SIGTRAP that is not ours: see the table above.
///
/// # Safety
/// The arguments must be what the kernel passed to the handler.
unsafe fn pass_on(info: *mut siginfo_t, interrupted: Interrupted<'_>, context: *mut c_void) {
    // SAFETY: as the caller promised.
    let own = unsafe { (*info).si_code } > 0;
    // SAFETY: as the caller promised.
    if !own && unsafe { mask::keep(info, interrupted.stack()) } {
        return;
    }
    let wanted = action::use_once();
    match wanted.handler {
        libc::SIG_IGN if !own => {}
        libc::SIG_IGN | libc::SIG_DFL => end(info),
        _ if own && mask::asked() => end(info),
        // SAFETY: the program asked for this handler; the rest is what the kernel passed.
        _ => unsafe { run(&wanted, info, interrupted, context) },
    }
}

/// Runs the program's handler as the kernel would have.
///
/// # Safety
/// `wanted` must be a handler of the program's, the rest what the kernel passed.
#[inline(never)]
unsafe fn run(
    wanted: &Disposition,
    info: *mut siginfo_t,
    mut interrupted: Interrupted<'_>,
    context: *mut c_void,
) {
    type WithInfo = unsafe extern "C-unwind" fn(c_int, *mut siginfo_t, *mut c_void);
    type Plain = unsafe extern "C-unwind" fn(c_int);
    let defers = wanted.flags & libc::SA_NODEFER as usize == 0 || wanted.mask & TRAP != 0;
    let before = mask::handling(defers, core::ptr::from_ref(&wanted).addr());
    // The handler sees the mask that the thread believes it has, and may edit it.
    if mask::asked() {
        *interrupted.mask() |= TRAP;
    }
    change_mask(Change::Block, wanted.mask & !TRAP);
    // SAFETY: as the caller promised; the flags say which type it has.
    unsafe {
        if wanted.flags & libc::SA_SIGINFO as usize != 0 {
            core::mem::transmute::<usize, WithInfo>(wanted.handler)(libc::SIGTRAP, info, context);
        } else {
            core::mem::transmute::<usize, Plain>(wanted.handler)(libc::SIGTRAP);
        }
    }
    let blocked = *interrupted.mask() & TRAP != 0;
    *interrupted.mask() &= !TRAP;
    // What was kept meanwhile comes now, at the mask that the thread goes back to.
    change_mask(Change::Set, *interrupted.mask());
    mask::handled(before, blocked);
}

/// Ends the process by this SIGTRAP.
fn end(info: *const siginfo_t) {
    // SAFETY: the default runs no code of ours; the kernel reads one siginfo_t; the process ends.
    unsafe {
        let _ = set_disposition(libc::SIGTRAP, &Disposition::DEFAULT);
        change_mask(Change::Unblock, TRAP);
        let (pid, tid) = (syscall0(libc::SYS_getpid) as usize, survey::own_tid() as usize);
        syscall4(libc::SYS_rt_tgsigqueueinfo, pid, tid, libc::SIGTRAP as usize, info.addr());
    }
    platform::memory::exit_now(128 + libc::SIGTRAP);
}
