//! What a scheduler does to a few threads, as a distribution of times.

/// What the threads do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Two threads work on one CPU: for how long one has no CPU.
    Turns,
    /// The same, one of them with a nice value of 5.
    Nice,
    /// Two threads yield to each other on one CPU: how long a yield takes.
    Yields,
    /// Two threads wake each other on one CPU: how long a round takes.
    Near,
    /// The same on two CPUs, which have nothing else to do.
    Far,
}

impl Pattern {
    /// All of them.
    pub const ALL: [Pattern; 5] =
        [Pattern::Turns, Pattern::Nice, Pattern::Yields, Pattern::Near, Pattern::Far];

    /// The name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Pattern::Turns => "two that work: without a CPU",
            Pattern::Nice => "nice 0 and 5: without a CPU",
            Pattern::Yields => "two that yield: a yield",
            Pattern::Near => "wake-ups on one CPU: a round",
            Pattern::Far => "wake-ups of an idle CPU: a round",
        }
    }
}
