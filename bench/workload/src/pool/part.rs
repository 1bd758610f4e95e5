//! The parts of the experiment, as the user names them.

/// A part of the experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// More and more threads, alone; and with the computation under a mutex.
    Threads,
    /// Less CPU time than there are CPUs.
    Quota,
    /// Quotas, shares or neither, where one of two is idle half of the time.
    Sharing,
    /// More and more processes.
    Neighbours,
    /// The paper's factor.
    Overcommit,
    /// Two of different kinds.
    Mixed,
    /// From nothing to do to all workers.
    Burst,
    /// Nothing to do, and what the pool does then.
    Idle,
    /// Jobs that do nothing.
    Submit,
}

impl Part {
    /// All of them, in the order in which they are measured.
    pub const ALL: [Part; 9] = [
        Part::Burst,
        Part::Idle,
        Part::Submit,
        Part::Neighbours,
        Part::Mixed,
        Part::Quota,
        Part::Overcommit,
        Part::Sharing,
        Part::Threads,
    ];

    /// By which the user names it.
    pub const fn name(self) -> &'static str {
        match self {
            Part::Threads => "threads",
            Part::Quota => "quota",
            Part::Sharing => "sharing",
            Part::Neighbours => "neighbours",
            Part::Overcommit => "overcommit",
            Part::Mixed => "mixed",
            Part::Burst => "burst",
            Part::Idle => "idle",
            Part::Submit => "submit",
        }
    }
}
