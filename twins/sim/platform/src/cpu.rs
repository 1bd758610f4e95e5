//! CPUs: those of the simulated machine.

use crate::fair::Id;
use crate::kernel::Kernel;
use crate::simulation;

/// The most CPUs that [`count`] can count.
pub const COUNT_MAX: usize = 8192;

/// Waits for a moment, as the machine's instruction for it does.
pub fn pause() {
    simulation::pass(Kernel::pause);
}

/// CPUs, a bit for each.
pub type Mask = [u64; COUNT_MAX / 64];

/// How many CPUs the calling thread may run on.
pub fn count() -> usize {
    if simulation::is_inside() {
        simulation::kernel(|kernel| kernel.allowed(kernel.current()).count())
    } else {
        1
    }
}

/// The calling thread's affinity, a bit for each CPU.
pub fn allowed() -> Mask {
    simulation::make(|kernel| {
        kernel.call();
        mask_of(kernel, kernel.current())
    })
}

fn mask_of(kernel: &Kernel, id: Id) -> Mask {
    let mut mask = [0; COUNT_MAX / 64];
    kernel.allowed(id).for_each(|cpu| mask[cpu / 64] |= 1 << (cpu % 64));
    mask
}

/// The CPU that the calling thread runs on.
pub fn current() -> usize {
    if simulation::is_inside() { simulation::make(|kernel| kernel.current_cpu()) } else { 0 }
}

/// Binds the calling thread to these CPUs, as [`allowed`] gives them; returns whether the machine
/// has one of them. If not, nothing changes.
pub fn bind(mask: &Mask) -> bool {
    let mut is_done = false;
    simulation::make_and_stop(|kernel| {
        kernel.call();
        let cpus = cpus_of(kernel, mask);
        is_done = !cpus.is_empty();
        is_done && kernel.allow(&cpus)
    });
    is_done
}

fn cpus_of(kernel: &Kernel, mask: &Mask) -> Vec<usize> {
    (0..kernel.machine().cpus().len()).filter(|cpu| mask[cpu / 64] & 1 << (cpu % 64) != 0).collect()
}

/// Binds another thread to these CPUs; the machine has one of them at least.
///
/// # Errors
/// None: all threads are the program's.
pub fn bind_other(thread: u32, mask: &Mask) -> Result<(), i32> {
    simulation::make(|kernel| {
        kernel.call();
        kernel.allow_other(thread as usize - 1, &cpus_of(kernel, mask));
    });
    Ok(())
}

/// From now on the calling thread may run where the thread of this number may.
pub fn join_affinity_of(thread: u32) {
    let Some(id) = thread.checked_sub(1) else { return };
    let mask = simulation::make(|kernel| {
        kernel.call();
        mask_of(kernel, id as usize)
    });
    bind(&mask);
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
