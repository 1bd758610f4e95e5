//! The places in a module at which the calling thread goes on later: addresses on its stacks.
//!
//! While there is no other thread, no thread stands in a loop, but this one may have been
//! interrupted there: a handler of a signal creates the first thread. The kernel has put the
//! address of the next instruction on the stack, and the thread goes on there when the handler
//! returns. Return addresses stand on the stack as well. So each word of the stack that is an
//! address in the module counts; a word that only looks like one costs no more than a jump.
//!
//! Stacks are searched from the frame of the search up. A handler may run on a stack of its own, and
//! may have interrupted another handler, so the stack of the process's first thread is always
//! searched.

use super::mappings;
use alloc::vec::Vec;
use core::ops::Range;
use platform::syscall::{check, syscall2};

/// Larger stacks are not searched.
const BYTES_MAX: usize = 64 << 20;

/// The words in `within` on the stack that holds `frame`, from there on, and on the first thread's
/// stack. `None` if the stacks are not known.
pub fn places(frame: usize, within: &Range<usize>) -> Option<Vec<usize>> {
    let mapped = mappings::all();
    let holding = |address| mapped.iter().find(|mapping| mapping.range.contains(&address));
    let first = mapped.iter().find(|mapping| mapping.grows_down)?;
    let own = alternate().filter(|stack| stack.contains(&frame)).or(Some(holding(frame)?.range.clone()))?;
    let others = if first.range.contains(&frame) { 0..0 } else { first.range.clone() };
    let mut found = Vec::new();
    for stack in [frame.next_multiple_of(size_of::<usize>())..own.end, others] {
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
        assert!(places(0, &(0..0)).is_none(), "no stack");
    }
}
