//! How many CPUs the process can really use.

use crate::text::write;
use core::ffi::{c_char, c_long};
use manx::cpu::{CpuBudget, Rounding};

/// How many CPUs the process can use at this moment: more than 0, and a fraction where a quota
/// decides.
#[unsafe(no_mangle)]
pub extern "C" fn manx_cpu_budget() -> f64 {
    CpuBudget::now().cpus()
}

/// How many threads that need CPUs the process has CPUs for: the budget rounded down, and at
/// least 1.
#[unsafe(no_mangle)]
pub extern "C" fn manx_cpu_count() -> c_long {
    c_long::try_from(CpuBudget::now().count(Rounding::Floor)).unwrap_or(c_long::MAX)
}

/// Writes the budget and its reason, such as "1.5 CPUs: quota 150000/100000 of the parent group /a
/// of /a/b", as much as there is room for and with a zero at the end. Returns how long it is
/// without the zero, so `manx_cpu_why(NULL, 0)` says how much room is needed.
///
/// # Safety
/// There are `size` bytes to write to, or `buffer` is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn manx_cpu_why(buffer: *mut c_char, size: usize) -> usize {
    // SAFETY: the caller's promise.
    unsafe { write(&CpuBudget::now().why(), buffer, size) }
}
