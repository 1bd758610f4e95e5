//! What the library remembers of each thread: one zero-initialised block in static thread-local
//! storage.
//!
//! `thread_local!` in a shared library asks the loader for the block's address, and the loader may
//! call `malloc`, which a waiter in a trampoline or a signal handler must not. A `.tbss` variable
//! that is read at a fixed distance from the thread pointer (the initial-exec model) is simply
//! there, in every thread, from its first instruction on: no destructor, nothing to allocate,
//! nothing to free.
//!
//! Invariants:
//! 1. A block is read and written only by its own thread, and by signal handlers that run on it.
//!    Fields are cells, never borrowed across a point where a handler may run.
//! 2. All-zero means: never waited.

use core::cell::Cell;
use platform::fork;
use platform::signal::Mask;

/// The library's data of one thread: see the module's text.
#[repr(C)]
pub struct Thread {
    /// The site of the wait that goes on (its address; 0: none does). The copies of loops write 0
    /// here without being asked for when a wait begins and when it ends: see `spinloop::copy`.
    pub waiting: Cell<usize>,
    /// Rounds of a loop's copy until the next visit: counted down there, zeroed by each visit.
    pub rounds: Cell<u64>,
    /// The site of the wait that goes on, or of the last one (its address; 0: none yet).
    pub site: Cell<usize>,
    /// When the thread left that site, in ticks.
    pub left_ticks: Cell<u64>,
    /// When the wait began, in ticks.
    pub began_ticks: Cell<u64>,
    /// Rounds of this wait so far.
    pub round: Cell<u32>,
    /// Rounds of this wait in which CPUs were short, and the rounds that were never seen.
    pub short_round: Cell<u32>,
    /// How many rounds the copy runs until the next visit.
    pub stride: Cell<u64>,
    /// Up to when the wait's time has been added to the site's statistics, in ticks.
    pub counted_ticks: Cell<u64>,
    /// Rounds of this wait that have been added to the site's statistics.
    pub counted_rounds: Cell<u32>,
    /// Yields not yet added to the site's statistics.
    pub yields: Cell<u32>,
    /// Sleeps not yet added to the site's statistics.
    pub sleeps: Cell<u32>,
    /// What is known of this wait so far: bits of [`super::guard::visit`].
    pub flags: Cell<u32>,
    /// How long the wait has slept in the place of rounds, in ticks.
    pub slept_ticks: Cell<u64>,
    /// Until when the thread does not yield where it polls, in ticks.
    pub no_yields_until_ticks: Cell<u64>,
    /// The shortest time of a round in this wait, in ticks; 0: not yet known.
    pub round_ticks: Cell<u64>,
    /// Until when the trial has counted what the thread's waits burned, in ticks.
    pub burned_until_ticks: Cell<u64>,
    /// What the kernel had counted of the thread when the thread last asked.
    pub switches: Cell<platform::usage::Switches>,
    /// When a wait of the thread last began behind a gap, in ticks.
    pub gap_ticks: Cell<u64>,
    /// What the program's mutexes remember of the thread.
    pub lock: manx::lock::bounded::Thread,
    /// The number by which the kernel knows the thread, and above it the generation of the process
    /// in which it was asked; 0 until the number is asked for.
    pub number: Cell<u64>,
    /// When the thread's turn at spin locks began, in ticks.
    pub turn_ticks: Cell<u64>,
    /// The mutex that was last handed off to the thread in its turn (its address), and until when
    /// The mutex that was last handed off to the thread in its turn (its address), and until when
    /// that turn goes on, in ticks. With `lock=asl` the mutex that the thread last polled and found
    /// handed off, and from when on that is stale.
    pub turn: Cell<(usize, u64)>,
    /// The descriptor plus 1 of the socket whose request goes on; 0: none does.
    pub request: Cell<u32>,
    /// When that request began, in ticks.
    pub request_ticks: Cell<u64>,
    /// When the write began that may end it, in ticks.
    pub answer_ticks: Cell<u64>,
    /// What the thread has to undo after the fork that it makes.
    pub forking: Cell<Forking>,
    /// The yields that the thread makes in a row.
    pub yielding: crate::yield_history::YieldHistory,
    /// Where the thread allocates, if apart from all others: see [`crate::arena::with_scratch`].
    pub scratch: Cell<*const crate::scratch::ScratchArena>,
    /// The program's epochs.
    pub epochs: manx::slo::Thread,
    /// What the thread did since its last call, if it is dilated: behind all that hot paths use.
    #[cfg(target_arch = "x86_64")]
    pub past: crate::dilate::DilationState,
}

/// The state of a thread while it forks.
#[derive(Clone, Copy)]
pub struct Forking {
    /// The signals that the thread had blocked before.
    pub mask: Mask,
    /// Whether the thread holds the guard's latch.
    pub holds_guard: bool,
}

/// The bytes that the assembly below sets aside for each thread.
const BYTES: usize = 384;
const _: () = assert!(size_of::<Thread>() <= BYTES);

core::arch::global_asm!(
    ".pushsection .tbss.manx_thread,\"awT\",%nobits",
    ".balign 32",
    ".hidden manx_thread",
    ".globl manx_thread",
    ".type manx_thread,%object",
    ".size manx_thread,{bytes}",
    "manx_thread: .zero {bytes}",
    ".popsection",
    bytes = const BYTES,
);

/// The calling thread's block.
#[inline(always)]
pub fn current() -> &'static Thread {
    let block: *const Thread;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: reads the thread pointer and the variable's offset from it, which the loader filled
    // in.
    unsafe {
        core::arch::asm!(
            "mov {block}, qword ptr [rip + manx_thread@GOTTPOFF]",
            "add {block}, qword ptr fs:[0]",
            block = out(reg) block,
            options(nostack, readonly),
        );
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: reads the thread pointer and the variable's offset from it, which the loader filled
    // in.
    unsafe {
        core::arch::asm!(
            "adrp {block}, :gottprel:manx_thread",
            "ldr {block}, [{block}, :gottprel_lo12:manx_thread]",
            "mrs {base}, tpidr_el0",
            "add {block}, {block}, {base}",
            block = out(reg) block,
            base = out(reg) _,
            options(nostack, readonly),
        );
    }
    // SAFETY: the block is a part of this thread's own storage and lives as long as the thread;
    // all-zero is valid (Invariant 2); the reference does not leave the thread, since Thread is not
    // Sync.
    unsafe { &*block }
}

/// The number by which the kernel knows the calling thread. In the child of a fork that is another
/// one than before, however it was forked.
#[inline(always)]
pub fn tid() -> u32 {
    cached_tid().unwrap_or_else(query_tid)
}

/// The calling thread's id, if the kernel has been asked for it before.
#[inline(always)]
pub fn cached_tid() -> Option<u32> {
    let known = current().number.get();
    fork::is_generation((known >> u32::BITS) as u32).then_some(known as u32)
}

#[cold]
fn query_tid() -> u32 {
    let number = platform::thread::id();
    let generation = fork::generation();
    current().number.set(u64::from(generation) << u32::BITS | u64::from(number));
    number
}

/// How far from the thread pointer [`Thread::waiting`] lies.
#[cfg(target_arch = "x86_64")]
pub fn waiting_offset() -> i32 {
    let distance: i64;
    // SAFETY: reads the variable's offset from the thread pointer, which the loader filled in.
    unsafe {
        core::arch::asm!(
            "mov {distance}, qword ptr [rip + manx_thread@GOTTPOFF]",
            distance = out(reg) distance,
            options(nostack, readonly),
        );
    }
    const { assert!(core::mem::offset_of!(Thread, waiting) == 0 && core::mem::offset_of!(Thread, rounds) == 8) };
    distance as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thread_has_its_own_zeroed_block() {
        current().round.set(7);
        std::thread::spawn(|| {
            assert_eq!((current().round.get(), current().site.get()), (0, 0));
            current().round.set(8);
        })
        .join()
        .expect("the thread");
        assert_eq!(current().round.get(), 7);
        assert!(core::ptr::from_ref(current()).addr().is_multiple_of(32));
    }
}
