//! CPUs: those of the simulated machine.

use crate::kernel::Kernel;
use crate::simulation;

/// The most CPUs that [`count`] can count.
pub const COUNT_MAX: usize = 8192;

/// Waits for a moment, as the machine's instruction for it does.
pub fn pause() {
    simulation::pass(Kernel::pause);
}

/// How many CPUs the calling thread may run on.
pub fn count() -> usize {
    if simulation::is_inside() { simulation::kernel(|kernel| kernel.allowed(kernel.current())) } else { 1 }
}

/// The CPU that the calling thread runs on.
pub fn current() -> usize {
    if simulation::is_inside() { simulation::make(|kernel| kernel.current_cpu()) } else { 0 }
}

/// The NUMA node of the CPU that the calling thread runs on: its socket.
pub fn numa_node() -> u32 {
    if simulation::is_inside() { simulation::make(|kernel| kernel.current_socket()) } else { 0 }
}

/// Lets the calling thread run on these CPUs only.
pub fn bind(cpus: &[usize]) {
    simulation::make_and_stop(|kernel| {
        kernel.call();
        kernel.allow(cpus)
    });
}

/// The calling thread makes NOPs, for as long as a CPU of speed 1 takes `ns` nanoseconds for.
pub fn nops(ns: u64) {
    simulation::pass(|kernel| kernel.work_nops(ns as f64));
}

/// The calling thread works, and accesses no shared memory, for as long as a CPU of speed 1 takes
/// `ns` nanoseconds for.
pub fn work(ns: u64) {
    simulation::pass(|kernel| kernel.work(ns as f64));
}
