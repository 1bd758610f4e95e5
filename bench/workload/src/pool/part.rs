//! The parts of the experiment, as the user names them.

crate::parts::parts! {
    /// From nothing to do to all workers.
    Burst = "burst" by burst,
    /// Nothing to do, and what the pool does then.
    Idle = "idle" by idle,
    /// Jobs that do nothing.
    Submit = "submit" by submit,
    /// More and more processes.
    Neighbours = "neighbours" by neighbours,
    /// Two of different kinds.
    Mixed = "mixed" by mixed,
    /// Less CPU time than there are CPUs.
    Quota = "quota" by quota,
    /// The paper's factor.
    Overcommit = "overcommit" by overcommit,
    /// Quotas, shares or neither, where one of two is idle half of the time.
    Sharing = "sharing" by sharing,
    /// More and more threads, alone; and with the computation under a mutex.
    Threads = "threads" by threads,
}
