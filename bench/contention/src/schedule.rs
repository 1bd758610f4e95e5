//! What a scheduler does to a few threads, as a distribution of times.

crate::named! {
    /// The work of the threads.
    pub enum Pattern {
        /// Two threads work on one CPU: for how long one has no CPU.
        Turns = "two that work: without a CPU",
        /// The same, one of them with a nice value of 5.
        Nice = "nice 0 and 5: without a CPU",
        /// Two threads yield to each other on one CPU: how long a yield takes.
        Yields = "two that yield: a yield",
        /// Two threads wake each other on one CPU: how long a round takes.
        Near = "wake-ups on one CPU: a round",
        /// The same on two CPUs, which have nothing else to do.
        Far = "wake-ups of an idle CPU: a round",
        /// Two threads work on a CPU each and have a quota of one: for how long one has no CPU.
        Quota = "two CPUs, a quota of one: without a CPU",
        /// Two threads work on one CPU and have a quota of half of it: the same.
        NearQuota = "one CPU, a quota of half: without a CPU",
    }
}

impl Pattern {
    /// Whether each thread has a CPU of its own.
    pub fn is_apart(self) -> bool {
        matches!(self, Pattern::Far | Pattern::Quota)
    }

    /// Whether what counts is the time from a wake-up to the CPU, and not the time without one.
    pub fn is_of_wake_ups(self) -> bool {
        matches!(self, Pattern::Near | Pattern::Far)
    }

    /// The quota of the threads, in CPUs.
    pub fn quota_cpus(self) -> Option<f64> {
        match self {
            Pattern::Quota => Some(1.0),
            Pattern::NearQuota => Some(0.5),
            _ => None,
        }
    }
}
