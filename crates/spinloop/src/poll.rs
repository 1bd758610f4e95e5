//! Functions that a thread calls again and again until what it waits for has happened.
//!
//! `while (!done) opal_progress();` is how Open MPI waits. Nothing in the machine code of such a
//! loop says that it waits: it calls, the function that it calls writes memory and calls others,
//! and any of them may find work. The only sign is the name of the function. So the few functions
//! that programs poll with are listed by their names.
//!
//! The pivot is the function's entry, which all callers pass, however the call was bound. Only the
//! instructions that the jump replaces are copied, as for a hint. An `endbr64` keeps its place,
//! because indirect calls have to arrive at one: the pivot is the instruction behind it.
//!
//! The visit comes before the function has done anything, so the function, its arguments and its
//! result stay the same. It is not certain that the caller waits. A thread that calls often enough,
//! with nothing to do in between, is assumed to wait. A mistake costs only time.

use crate::image::Image;
use crate::instruction::Instruction;
use crate::route::ENDBR64;
use core::ffi::CStr;

/// Functions by which threads poll. Each module that exports one has its own.
pub const POLLING: [&CStr; 1] = [
    // Open MPI, in libopen-pal: every wait for a message calls it in a loop.
    c"opal_progress",
];

/// The index of the pivot, for a function whose first instruction is number `at`: that one, or the
/// one behind an `endbr64`.
pub(crate) fn pivot(image: &dyn Image, instructions: &[Instruction], at: usize) -> Option<usize> {
    let first = instructions.get(at)?;
    let behind = image.at(first.address).starts_with(&ENDBR64);
    let pivot = at + usize::from(behind);
    (pivot < instructions.len()).then_some(pivot)
}
