//! The places in a module at which the calling thread goes on later: addresses on its stacks.
//!
//! While there is no other thread, no thread stands in a loop, but this one may have been
//! interrupted there: a handler of a signal creates the first thread. The kernel has put the
//! address of the next instruction on the stack, and the thread goes on there when the handler
//! returns. Return addresses stand on the stack as well. So each word of the stack that is an
//! address in the module counts; a word that only looks like one costs no more than a jump.
//!
//! Stacks are searched from the frame of the search up. A handler may run on a stack of its own,
//! and may have interrupted another handler, so the stack of the process's first thread is always
//! searched.

use super::mappings;
use alloc::vec::Vec;
use core::ops::Range;
use platform::syscall::{check, syscall2};

/// Larger stacks are not searched. The kernel leaves more room than this below the first thread's.
const BYTES_MAX: usize = 64 << 20;

/// The words in `within` on the stack that holds `frame`, from there on, and on the first thread's
/// stack. `None` if the stacks are not known.
pub fn places(frame: usize, within: &Range<usize>) -> Option<Vec<usize>> {
    let mut found = Vec::new();
    for stack in stacks(frame)?.into_iter().flatten() {
        if stack.len() > BYTES_MAX {
            return None;
        }
        for word in stack.step_by(size_of::<usize>()) {
            // SAFETY: the word lies in a mapping that holds a stack of this thread. What is read is
            // compared only.
            let value = unsafe { (word as *const usize).read_volatile() };
            if within.contains(&value) {
                found.push(value);
            }
        }
    }
    Some(found)
}

/// The stacks on which the calling thread may have been interrupted.
fn stacks(frame: usize) -> Option<[Option<Range<usize>>; 2]> {
    let first_word = frame.next_multiple_of(size_of::<usize>());
    let handlers = alternate().filter(|stack| stack.contains(&frame));
    // Most often there is only the first thread's stack. The kernel leaves the program's name at
    // its upper end.
    // SAFETY: only reads what the kernel left on the first stack.
    let end = unsafe { libc::getauxval(libc::AT_EXECFN) } as usize & !(size_of::<usize>() - 1);
    if handlers.is_none() && end.checked_sub(frame).is_some_and(|bytes| bytes < BYTES_MAX) {
        return Some([Some(first_word..end), None]);
    }
    let mapped = mappings::all();
    let first = mapped.iter().find(|mapping| mapping.grows_down)?.range.clone();
    let holding = || Some(mapped.iter().find(|mapping| mapping.range.contains(&frame))?.range.clone());
    let own = handlers.or_else(holding)?;
    Some([Some(first_word..own.end), Some(first)])
}

/// The stack on which handlers of the calling thread run, if it has one.
fn alternate() -> Option<Range<usize>> {
    // SAFETY: zeroes are a stack_t.
    let mut stack: libc::stack_t = unsafe { core::mem::zeroed() };
    // SAFETY: asks only; the kernel writes a stack_t.
    check(unsafe { syscall2(libc::SYS_sigaltstack, 0, (&raw mut stack).addr()) }).ok()?;
    let start = stack.ss_sp.addr();
    Some(start..start.checked_add(stack.ss_size)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_on_the_stack_is_found() {
        let text = places as *const () as usize;
        let word = core::hint::black_box([text + 3, 0]);
        let frame = core::ptr::from_ref(&word).addr();
        assert!(places(frame, &(text + 3..text + 4)).expect("a stack").contains(&(text + 3)));
        assert!(places(frame, &(0..0)).is_some_and(|none| none.is_empty()));
        assert!(places(8, &(0..0)).is_none(), "no stack");
    }
}
