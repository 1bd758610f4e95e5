//! What a program is told of the CPUs, with no other limit than those of this test.

/// The number of CPUs that are online.
pub fn online() -> usize {
    // SAFETY: only reads.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) }).expect("a count")
}

/// The number of CPUs that may be used.
pub fn budget() -> usize {
    std::thread::available_parallelism().expect("a count").get()
}

/// The number of CPUs in the affinity mask.
pub fn allowed() -> usize {
    manx::cpu::CpuSet::of_this_thread().len()
}
