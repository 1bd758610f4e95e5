//! Which NUMA node the calling thread runs on: this tells whether memory, and the last holder's
//! cache lines, are near to it.
//!
//! A lock that prefers its holder's neighbours asks each time that a thread has to wait. So
//! [`numa_node`] reads what the thread has said of itself, and otherwise one number for the CPU on
//! which it runs now. The numbers are filled in when a thread asks for the first time, from
//! `/sys/devices/system/node`; on a machine with one node, or a machine that says nothing of them,
//! every answer is 0 and not even the CPU is asked for.
//!
//! Invariants:
//! 1. A number is written before `KNOWN` says that there are several nodes, and never changes its
//!    meaning afterwards: two that fill in the table at the same time find the same.
//!
//! # Memory orderings
//! All relaxed: a CPU whose number is not seen yet is taken for one of node 0, and a node is a
//! hint.

use std::cell::Cell;

platform::thread_local! {
    static OVERRIDE: Cell<Option<u32>> = Cell::new(None);
}

/// The number of the NUMA node that the calling thread runs on: as the thread has said, or that of
/// the CPU on which it is now.
///
/// ```
/// use manx::cpu::{numa_node, set_numa_node_of_this_thread};
///
/// set_numa_node_of_this_thread(Some(3));
/// assert_eq!(numa_node(), 3);
/// ```
#[inline]
pub fn numa_node() -> u32 {
    // A thread whose variables are gone has said nothing.
    match OVERRIDE.try_with(Cell::get) {
        Ok(Some(node)) => node,
        _ => numa_node_of_this_cpu(),
    }
}

/// Says on which NUMA node the calling thread runs, wherever it does: to emulate machines of
/// several nodes, and for tests. `None` takes it back.
///
/// ```
/// use manx::cpu::{numa_node, numa_node_of_this_cpu, set_numa_node_of_this_thread};
///
/// set_numa_node_of_this_thread(Some(3));
/// set_numa_node_of_this_thread(None);
/// # platform::cpu::restrict(1); // it stays where it is between the two calls
/// assert_eq!(numa_node(), numa_node_of_this_cpu());
/// ```
pub fn set_numa_node_of_this_thread(node: Option<u32>) {
    // A thread whose variables are gone is about to end, and what it cannot keep is forgotten.
    let _ = OVERRIDE.try_with(|it| it.set(node));
}

platform::twins_only! {
    pub use platform::cpu::numa_node as numa_node_of_this_cpu;
}

platform::os_only! {
    pub use machine::{NumaNodes, numa_node_of_this_cpu};
    mod machine;
}
