//! How unwinders find their way out of copies.
//!
//! A backtrace, a profiler's signal handler or an exception that meets a thread in a copy looks for
//! the FDE of an address that no module has. Behind each copy stands a table for it alone
//! (`spinloop::CallFrame`). What is left is to lead unwinders there.
//!
//! libgcc (from version 12, with the GNU C library from 2.35) and LLVM's libunwind ask
//! `_dl_find_object` of the loader for the table that belongs to an address, and search in that. So
//! we stand in front of this function. For an address in a copy it answers with what the loader
//! says of the loop's module, but with the copy's range and table in place of the module's. Every
//! other question goes on to the loader.
//!
//! The usual way for code that is made at run time, `__register_frame`, was not taken. From the
//! first registration on, libgcc takes a mutex for each look-up, and its first look-up allocates: a
//! profiler's handler that interrupts a `throw` would wait for the mutex of its own thread for
//! ever. It would have to be undone when a library is closed, and not be in progress in another
//! thread while the process forks.
//!
//! | unwinder | finds the copy's callers |
//! | --- | --- |
//! | libgcc: `backtrace`, `_Unwind_Backtrace`, exceptions, cancellation; LLVM's libunwind from 16 on | yes |
//! | frame pointers (`perf record -g`, eBPF), where the program has them | yes: a copy changes no register |
//! | libgcc before 12, the C library before 2.35, nongnu libunwind, debuggers | no: they ask for modules only |
//!
//! One place remains where the answer is wrong: dead padding outside of the loop, through which a
//! short jump leads to its copy. A thread is there for an instruction or two a wait, and such
//! padding has the row of what stands before it, or none.
//!
//! Invariants:
//! 1. Nothing here allocates, locks or writes but to the caller's record, so a signal handler may
//!    ask at any time.
//! 2. What it reads of copies stays readable for ever: see [`super::code_space`].

use super::code_space;
use crate::holder::{self, Found};
use alloc::vec::Vec;
use core::ffi::c_int;
use spinloop::{CALL_FRAME_BYTES_MAX, CallFrame};

/// What [`append`] adds to a copy, at most.
pub const BYTES_MAX: usize = 16 + CALL_FRAME_BYTES_MAX;

/// Adds the table to `copy`, which is to stand at `at`, and in front of it an address of the
/// `original`. Returns at which byte the table begins. The copy stays as it is if there is no
/// frame.
pub fn append(
    copy: &mut Vec<u8>,
    at: usize,
    depths: &[(u64, i64)],
    original: u64,
    frame: &CallFrame<'_>,
) -> Option<usize> {
    let code = at as u64..(at + copy.len()) as u64;
    let table = copy.len().next_multiple_of(8) + 8;
    let bytes = frame.encode((at + table) as u64, &code, depths)?;
    copy.resize(original_of(table), 0);
    copy.extend(original.to_le_bytes());
    copy.extend(bytes);
    Some(table)
}

/// At which byte of a copy the address of the original stands, if its table begins at byte `table`.
pub const fn original_of(table: usize) -> usize {
    table - 8
}

/// As the C library's; for an address in the copy of a loop the answer is the copy's table.
///
/// # Safety
/// As the C library's function.
#[cfg(all(target_arch = "x86_64", not(test)))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _dl_find_object(address: usize, found: *mut Found) -> c_int {
    // SAFETY: the caller's promises.
    unsafe { find(address, found) }
}

/// # Safety
/// As [`_dl_find_object`].
#[cfg_attr(
    any(test, not(target_arch = "x86_64")),
    allow(dead_code, reason = "called by the export, which a test's own binary must not have")
)]
unsafe fn find(address: usize, found: *mut Found) -> c_int {
    let Some((copy, table)) = code_space::find(address) else {
        // SAFETY: the caller's promises.
        return unsafe { holder::ask(address, found) };
    };
    // SAFETY: `append` wrote it there, and copies stay readable (Invariant 2).
    let original = unsafe { (original_of(table) as *const usize).read() };
    // SAFETY: the caller's promises; the record is filled in if the result is 0.
    unsafe {
        let result = holder::ask(original, found);
        if result == 0 {
            Found::lead_to(found, &copy, table);
        }
        result
    }
}
