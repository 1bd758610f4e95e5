//! Functions that a thread calls again and again until what it waits for has happened.
//!
//! `while (!done) opal_progress();` is how Open MPI waits. Nothing in the machine code of such a loop says that it waits: it calls, the
//! function that it calls writes memory and calls others, and any of them may find work. The only sign is the name of the function.
//! So the few functions that programs poll with are listed by their names.
//!
//! The pivot is the function's entry: all callers come by, whichever way the call was bound. Only the first instructions are copied, as for
//! a hint. A direct call and an indirect one arrive at the same `endbr64`, if there is one, which stays where it is.

use crate::image::Image;
use crate::instruction::Instruction;
use core::ffi::CStr;

/// Functions by which threads poll. Each module that exports one has its own.
pub const POLLING: [&CStr; 1] = [
    // Open MPI, libopen-pal: the loop of every wait for a message (1.0 to 5.0).
    c"opal_progress",
];

/// `endbr64`
const LANDING_PAD: &[u8] = &[0xf3, 0x0f, 0x1e, 0xfa];

/// Which of the function's first `instructions` is the pivot, for a function that is called at `address`.
pub(crate) fn pivot(image: &dyn Image, instructions: &[Instruction], at: usize) -> Option<usize> {
    let first = instructions.get(at)?;
    let behind = image.at(first.address).starts_with(LANDING_PAD);
    let pivot = at + usize::from(behind);
    (pivot < instructions.len()).then_some(pivot)
}
