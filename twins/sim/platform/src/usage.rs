//! What the kernel counts of processes.

use crate::procfs::TICK_NS;
use crate::simulation;

/// The CPU time that all threads of a process have used; `None` if there is no such process.
pub fn process_cpu_ns_of(process: u32) -> Option<u64> {
    simulation::make(|kernel| {
        kernel.call();
        kernel.process_ns(process)
    })
}

/// How long a tick is in files such as `/proc/stat`.
pub fn tick_ns() -> u64 {
    TICK_NS
}

/// For how long each CPU has run threads.
pub fn busy_ns_of_cpus() -> Vec<u64> {
    simulation::make(|kernel| {
        kernel.call();
        kernel.busy_ns().collect()
    })
}

/// For how long the quota has throttled CPUs, summed over CPUs, as `cpu.stat` says it.
pub fn throttled_ns() -> u64 {
    simulation::make(|kernel| {
        kernel.call();
        kernel.throttled_ns()
    })
}

/// The number of times that threads of the program have come to a CPU.
pub fn slices() -> u64 {
    simulation::make(|kernel| {
        kernel.call();
        let of = |id| kernel.times(id).voluntary + kernel.times(id).involuntary + 1;
        (0..kernel.threads()).map(of).sum()
    })
}
