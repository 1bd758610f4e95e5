//! Who asks for an affinity mask only to count it.
//!
//! A mask that is asked for may be bound to, so it is the program's own. Some callers are known: this function of that library
//! counts the bits and forgets the mask. They are told by where the call returns to, by functions that libraries export, or by a
//! whole library that never binds a thread:
//!
//! | who | what it does with the mask |
//! | --- | --- |
//! | `uv_available_parallelism` | libuv, in Node.js and Julia: counts |
//! | `g_get_num_processors` | GLib: counts |
//! | `av_cpu_count` | FFmpeg's libavutil: counts |
//! | `QThread::idealThreadCount()` | Qt: counts |
//! | `libjvm.so` | Java's virtual machine: counts, and caps what its own reading of control groups gave |
//!
//! Others that only count, like `nproc` and OpenMP, take the environment's word (`OMP_NUM_THREADS`), which `manx run` gives.

use crate::elf::holder;
use core::ffi::CStr;

/// Functions that count, wherever they are.
const FUNCTIONS: [&CStr; 4] = [
    c"uv_available_parallelism",
    c"g_get_num_processors",
    c"av_cpu_count",
    c"_ZN7QThread16idealThreadCountEv",
];
/// Libraries of which every function that asks counts.
const LIBRARIES: [&[u8]; 1] = [b"libjvm.so"];

/// Whether a call that returns to `address` came from one that only counts.
pub fn only_count(address: usize) -> bool {
    let counts = holder::with(address, |path, table| {
        let name = path.to_bytes().rsplit(|&b| b == b'/').next().unwrap_or_default();
        LIBRARIES.contains(&name)
            || table.is_some_and(|table| {
                FUNCTIONS.iter().any(|name| table.extent(name).is_some_and(|range| range.contains(&address)))
            })
    });
    counts == Some(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_do_not_only_count() {
        assert!(!only_count(strangers_do_not_only_count as *const () as usize));
        assert!(!only_count(0));
        assert!(!only_count(libc::qsort as *const () as usize));
    }
}
