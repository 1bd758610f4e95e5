//! What single instructions take on a CPU that has all it needs.
//!
//! | figure | how |
//! | --- | --- |
//! | an addition | a chain of additions: each needs the result of the one before, and takes a cycle |
//! | a change | exchanges of a word that no other CPU touches, each with the result of the last |
//! | a pause | the hint that spin loops give |
//! | a look at the clock | the platform's cheap clock, and the kernel's monotonic one |

use super::samples::{Samples, batches};
use platform::atomic::AtomicU32;
use platform::{clock, cpu, futex, syscall};
use std::arch::asm;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

/// Additions that are written out one after the other, so that the loop around them costs nothing.
const ADDITIONS: u32 = 64;

/// [`ADDITIONS`] additions that depend on each other. In assembly: a compiler would replace the sum
/// by a product.
fn add(mut sum: u64, by: u64) -> u64 {
    // SAFETY: works on two registers only.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        asm!(".rept 64", "add {0}, {1}", ".endr", inout(reg) sum, in(reg) by, options(nomem, nostack));
    }
    // SAFETY: works on two registers only.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        asm!(".rept 64", "add {0}, {0}, {1}", ".endr", inout(reg) sum, in(reg) by, options(nomem, nostack));
    }
    sum
}

/// An addition, which is a cycle on every CPU that we know.
pub fn addition() -> Samples {
    let (mut sum, by) = (0, black_box(3));
    let samples = batches(400, 1_000, || sum = add(sum, by)).over(f64::from(ADDITIONS));
    black_box(sum);
    samples
}

/// An atomic exchange of a word that this CPU has.
pub fn change() -> Samples {
    let (word, mut seen) = (AtomicU64::new(0), 0_u64);
    let samples = batches(400, 3_000, || seen = word.swap(seen.wrapping_add(1), Ordering::SeqCst));
    black_box(seen);
    samples
}

/// A pause.
pub fn pause() -> Samples {
    batches(400, 1_000, cpu::pause)
}

/// A look at the platform's cheap clock.
pub fn ticks() -> Samples {
    batches(400, 1_000, || {
        black_box(clock::ticks());
    })
}

/// A look at the kernel's monotonic clock.
pub fn now() -> Samples {
    batches(400, 1_000, || {
        black_box(clock::now_ns());
    })
}

// What system calls take that do next to nothing.
//
// `getppid` enters the kernel, reads a number and returns: what every call takes. A futex call
// with nothing to do takes that, and what it needs to find the word's queue: a wait for a word
// that has changed returns at once, and so does a wake-up of a word at which no thread waits.

/// A system call.
pub fn call() -> Samples {
    batches(300, 200, || {
        // SAFETY: the call takes no argument and changes nothing.
        black_box(unsafe { syscall::syscall0(libc::SYS_getppid) });
    })
}

/// A wait for a word that has another value.
pub fn futex_wait() -> Samples {
    let word = AtomicU32::new(1);
    batches(300, 200, || {
        black_box(futex::wait(&word, 0));
    })
}

/// A wake-up at a word where no thread waits.
pub fn futex_wake() -> Samples {
    let word = AtomicU32::new(0);
    batches(300, 200, || {
        black_box(futex::wake(&word, 1));
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_additions_are_made() {
        assert_eq!(add(5, 3), 5 + 3 * u64::from(ADDITIONS));
    }
}
