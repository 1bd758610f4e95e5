//! What the machine offers: atomics, futexes, clocks, sleep, CPUs, memory, signals. The only place with system calls.

pub mod file;
pub mod memory;
pub mod signal;
pub mod syscall;
