//! What the kernel counts of processes.

use crate::procfs::{self, OWN_PROCESS, TICK_NS};
use crate::simulation;

/// The CPU time that all threads of a process have used; `None` if there is no such process.
pub fn process_cpu_ns_of(process: u32) -> Option<u64> {
    if process == OWN_PROCESS {
        return Some(crate::clock::process_cpu_ns());
    }
    simulation::make(|kernel| {
        kernel.call();
        procfs::process_ns(kernel, process)
    })
}

/// How long a tick is in files such as `/proc/stat`.
pub fn tick_ns() -> u64 {
    TICK_NS
}
