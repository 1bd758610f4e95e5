//! A byte for each CPU that says its class.
//!
//! A byte begins as *not known*. A thread that finds that for the CPU it runs on looks at the
//! machine and fills in all CPUs that are online; so a CPU that comes online later has the machine
//! looked at again. Two that do so at the same time find the same. Nothing is measured here
//! (`MANX_CORES=measured` is for programs that call `Classes::from_environment` first). Nothing is
//! locked, so a fork at any time leaves a table that works.
//!
//! Invariants:
//! 1. What a caller has said ([`set_classes`]) is not overwritten by what was detected, whichever
//!    came first: detection only replaces *not known*.
//!
//! # Memory orderings
//! All relaxed: a byte is all there is to see.

use super::{Class, Classes};
use platform::atomic::{AtomicU8, Ordering};
use platform::cpu::{COUNT_MAX, current};

/// The machine has not been looked at since this CPU came online.
const NOT_KNOWN: u8 = 0;
const BIG: u8 = 1;
const LITTLE: u8 = 2;

static TABLE: [AtomicU8; COUNT_MAX] = [const { AtomicU8::new(NOT_KNOWN) }; COUNT_MAX];

/// The class of the CPU that the calling thread runs on, or ran on a moment ago, whatever the
/// thread has said. It needs no thread-local of this library.
///
/// ```
/// use manx::cpu::{Classes, class_of_this_cpu, set_classes};
///
/// let classes = Classes::of_this_machine();
/// set_classes(&classes);
/// # platform::cpu::restrict(1); // it stays where it is between the two calls
/// # let cpu = platform::cpu::current();
/// assert_eq!(class_of_this_cpu(), classes.of(cpu));
/// ```
#[inline]
pub fn class_of_this_cpu() -> Class {
    let cpu = current();
    match TABLE.get(cpu).map(|byte| byte.load(Ordering::Relaxed)) {
        Some(BIG) => Class::Big,
        Some(LITTLE) => Class::Little,
        _ => find(cpu),
    }
}

/// Says of which class each CPU is, from now on and for the whole process; a CPU that is in neither
/// set is big. Best before threads ask.
///
/// ```
/// use manx::cpu::{Class, Classes, CpuSet, class_of_this_cpu, set_classes};
///
/// let little = CpuSet::of_this_thread();
/// set_classes(&Classes::parse(&format!("little:{little}"))?);
/// assert_eq!(class_of_this_cpu(), Class::Little);
/// # Ok::<(), manx::cpu::ParseClassesError>(())
/// ```
pub fn set_classes(classes: &Classes) {
    for (cpu, byte) in TABLE.iter().enumerate() {
        byte.store(byte_of(classes.of(cpu)), Ordering::Relaxed);
    }
}

#[cold]
fn find(cpu: usize) -> Class {
    // A text that makes no sense is as good as none: there is no caller here to tell. And it is not
    // the place to measure: a thread waits for a lock.
    let classes = match Classes::from_environment_unmeasured() {
        Ok(Some(told)) => told,
        _ => Classes::of_this_machine(),
    };
    for cpu in classes.big().union(classes.little()).iter().chain([cpu]) {
        if let Some(byte) = TABLE.get(cpu) {
            let found = byte_of(classes.of(cpu));
            // By Invariant 1. A failure is another thread's answer.
            let _ = byte.compare_exchange(NOT_KNOWN, found, Ordering::Relaxed, Ordering::Relaxed);
        }
    }
    // What a caller has said meanwhile comes first.
    match TABLE.get(cpu).map(|byte| byte.load(Ordering::Relaxed)) {
        Some(LITTLE) => Class::Little,
        _ => Class::Big,
    }
}

const fn byte_of(class: Class) -> u8 {
    match class {
        Class::Big => BIG,
        Class::Little => LITTLE,
    }
}
