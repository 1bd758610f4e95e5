//! The callers that ask for an affinity mask only to count it.
//!
//! A mask that is asked for may be bound to, so it is the program's own. Some callers are known:
//! this function of that library counts the bits and forgets the mask. They are told by where the
//! call returns to, by functions that libraries export, or by a whole library that never binds a
//! thread:
//!
//! | caller | what it does with the mask |
//! | --- | --- |
//! | `uv_available_parallelism` | libuv, in Node.js and Julia: counts |
//! | `g_get_num_processors` | GLib: counts |
//! | `av_cpu_count` | FFmpeg's libavutil: counts |
//! | `QThread::idealThreadCount()` | Qt: counts |
//! | `libjvm.so` | Java's virtual machine: counts, and caps what its own reading of control groups gave. It rounds quotas up, and one CPU less would give it another garbage collector |
//!
//! Others that only count, like `nproc` and OpenMP, take the environment's word
//! (`OMP_NUM_THREADS`), which `manx run` gives.

use super::reported::Rounds;
use crate::elf::symbols::Table;
use crate::holder;
use crate::process::file_name;
use core::ffi::CStr;

/// Functions that count, wherever they are.
const FUNCTIONS: [&CStr; 4] = [
    c"uv_available_parallelism",
    c"g_get_num_processors",
    c"av_cpu_count",
    c"_ZN7QThread16idealThreadCountEv",
];
/// A library: every function in it that asks counts.
const JAVA: &[u8] = b"libjvm.so";

/// Returns how the caller rounds quotas, if a call that returns to `address` came from a caller
/// that only counts.
///
/// # Safety
/// A call of the running thread returns to `address`, or the module there is never closed.
pub unsafe fn only_counts(address: usize) -> Option<Rounds> {
    let look = |path: &CStr, table: Option<Table>| {
        if file_name(path.to_bytes()) == JAVA {
            return Some(Rounds::Up);
        }
        let table = table?;
        let is_in = |name: &&CStr| table.extent(name).is_some_and(|range| range.contains(&address));
        FUNCTIONS.iter().any(is_in).then_some(Rounds::Down)
    };
    // SAFETY: the module stays open, as the caller promised.
    unsafe { holder::with(address, look) }.flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_callers_do_not_only_count() {
        let ours = other_callers_do_not_only_count as *const () as usize;
        for address in [ours, 0, libc::qsort as *const () as usize] {
            // SAFETY: neither the program nor the C library is ever closed, and nothing lies at 0.
            assert_eq!(unsafe { only_counts(address) }, None);
        }
    }
}
