//! Alternate stacks that are too small for a breakpoint in a handler.
//!
//! Our handler runs on the thread's alternate stack if it has one, since some programs have nothing but
//! a few hundred bytes under their stack pointers. But `MINSIGSTKSZ` is a constant of 2048 from a time of
//! smaller register files: with AVX-512 the kernel needs 3.6 KiB for the frame alone, and kills a thread
//! whose alternate stack is smaller. A handler of the program's that runs there may come to a breakpoint,
//! so there must be room for two frames. A thread that asks for a stack with less gets one of ours in its
//! place, and is told about its own.
//!
//! Invariants:
//! 1. The table is touched by the holder of its latch only, which has every signal really blocked
//!    meanwhile.
//! 2. A stack of ours is unmapped after the kernel has been told of another, or when its thread is gone.

use crate::latch::Latch;
use crate::trap::survey::own_tid;
use core::ffi::c_int;
use libc::stack_t;
use platform::memory::{READ, WRITE, map_zeroes, unmap};
use platform::signal::{Change, alternate_stack, change_mask};
use platform::syscall::{check, syscall2};

/// What the handler needs beside the kernel's frame, and a small one of the program's.
const HANDLER_BYTES: usize = 2048;
/// How many threads may have a stack of ours.
const ROOM: usize = 64;
/// `AT_MINSIGSTKSZ`
const FRAME_BYTES_KEY: u64 = 51;
/// `SS_AUTODISARM`: the kernel forgets such a stack while a handler runs.
const AUTODISARM: c_int = 1 << 31;

#[derive(Clone, Copy)]
struct Lent {
    /// 0: this entry is free.
    tid: i32,
    /// 0: it is free, or was never used.
    at: usize,
    bytes: usize,
    /// What the thread asked for.
    asked_at: usize,
    asked_bytes: usize,
}

static LENT: Latch<[Lent; ROOM]> =
    Latch::new([Lent { tid: 0, at: 0, bytes: 0, asked_at: 0, asked_bytes: 0 }; ROOM]);

/// The least that a breakpoint in a handler needs on this machine.
fn needed() -> usize {
    // SAFETY: only reads.
    let frame = unsafe { libc::getauxval(FRAME_BYTES_KEY) } as usize;
    2 * frame.max(1024) + HANDLER_BYTES
}

fn locked<T>(change: impl FnOnce(&mut [Lent; ROOM]) -> T) -> T {
    let before = change_mask(Change::Block, u64::MAX);
    let result = change(&mut LENT.lock());
    change_mask(Change::Set, before);
    result
}

fn tell(stack: &stack_t) -> Result<(), i32> {
    // SAFETY: the kernel reads one stack_t; the stack is the caller's, or mapped by us for the thread.
    check(unsafe { syscall2(libc::SYS_sigaltstack, core::ptr::from_ref(stack).addr(), 0) }).map(drop)
}

/// Gives the calling thread a stack of ours in the place of one that is too small, if it just got one.
fn lend(lent: &mut [Lent; ROOM], asked: &stack_t) {
    let enabled = asked.ss_flags & (libc::SS_DISABLE | libc::SS_ONSTACK | AUTODISARM) == 0;
    if !enabled || asked.ss_size >= needed() || super::borrowed() {
        return;
    }
    let gone = |tid: i32| platform::signal::send(tid, 0) == Err(libc::ESRCH);
    let Some(entry) = lent.iter_mut().find(|entry| entry.tid == 0 || gone(entry.tid)) else { return };
    if entry.tid == 0 {
        let bytes = (2 * needed()).next_multiple_of(platform::memory::page_bytes());
        let Ok(mapped) = map_zeroes(bytes, READ | WRITE) else { return };
        (entry.at, entry.bytes) = (mapped.addr(), bytes);
    }
    let ours = stack_t { ss_sp: entry.at as *mut _, ss_flags: 0, ss_size: entry.bytes };
    if tell(&ours).is_ok() {
        entry.tid = own_tid();
        (entry.asked_at, entry.asked_bytes) = (asked.ss_sp.addr(), asked.ss_size);
    } else {
        give_back(entry);
    }
}

fn give_back(entry: &mut Lent) {
    // SAFETY: by Invariant 2.
    let _ = unsafe { unmap(entry.at as *mut u8, entry.bytes) };
    (entry.tid, entry.at) = (0, 0);
}

/// SIGTRAP has just become ours: looks at the calling thread's stack.
pub fn take_over() {
    locked(|lent| lend(lent, &alternate_stack()));
}

/// What the calling thread has, as it believes.
pub fn believed() -> stack_t {
    let mut real = alternate_stack();
    let own = own_tid();
    locked(|lent| {
        if let Some(entry) = lent.iter().find(|entry| entry.tid == own && entry.at == real.ss_sp.addr()) {
            (real.ss_sp, real.ss_size) = (entry.asked_at as *mut _, entry.asked_bytes);
        }
    });
    real
}

/// The calling thread asks for another stack.
///
/// # Errors
/// The error number of `sigaltstack`.
pub fn ask(stack: &stack_t) -> Result<(), i32> {
    let own = own_tid();
    locked(|lent| {
        tell(stack)?;
        if let Some(entry) = lent.iter_mut().find(|entry| entry.tid == own).filter(|_| !super::borrowed()) {
            give_back(entry);
        }
        lend(lent, stack);
        Ok(())
    })
}

/// Before `fork`.
pub fn hold() {
    LENT.hold();
}

/// After `fork`, in parent and child. The child's only thread has its creator's stack, and another id.
pub fn release() {
    LENT.release();
    let (real, own) = (alternate_stack(), own_tid());
    locked(|lent| {
        lent.iter_mut().filter(|entry| entry.at == real.ss_sp.addr()).for_each(|entry| entry.tid = own)
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_stack_is_believed_and_a_large_one_kept() {
        std::thread::spawn(|| {
            let before = alternate_stack();
            let mut own = vec![0u64; 8192];
            let at = own.as_mut_ptr();
            let small = stack_t { ss_sp: at.cast(), ss_flags: 0, ss_size: 2048 };
            ask(&small).expect("accepted");
            let (seen, real) = (believed(), alternate_stack());
            assert_eq!((seen.ss_sp, seen.ss_size, seen.ss_flags), (at.cast(), 2048, 0));
            assert!(real.ss_sp != seen.ss_sp && real.ss_size >= needed());
            let large = stack_t { ss_sp: at.cast(), ss_flags: 0, ss_size: 65536 };
            ask(&large).expect("accepted");
            assert_eq!((alternate_stack().ss_sp, believed().ss_size), (at.cast(), 65536));
            let tiny = stack_t { ss_sp: at.cast(), ss_flags: 0, ss_size: 1024 };
            assert_eq!(ask(&tiny), Err(libc::ENOMEM));
            assert_eq!(believed().ss_size, 65536, "what was refused changes nothing");
            ask(&before).expect("restored");
        })
        .join()
        .expect("the thread");
    }

    #[test]
    fn stacks_of_threads_that_ended_are_lent_again() {
        for _ in 0..3 * ROOM {
            std::thread::spawn(|| {
                let before = alternate_stack();
                let mut own = [0u8; 2048];
                let small = stack_t { ss_sp: own.as_mut_ptr().cast(), ss_flags: 0, ss_size: own.len() };
                ask(&small).expect("accepted");
                assert!(alternate_stack().ss_size >= needed(), "there is always one to lend");
                let own = own_tid();
                tell(&before).expect("restored behind the table's back, as an ending thread leaves it");
                assert!(locked(|lent| lent.iter().any(|entry| entry.tid == own)));
            })
            .join()
            .expect("the thread");
        }
    }
}
