//! What the machine offers: atomics, futexes, clocks, sleep, CPUs, memory, signals. The only place with system calls.
