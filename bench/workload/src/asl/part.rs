//! The parts of the experiment, as the user names them.

/// A part of the experiment, named as in the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// What an epoch's start and end cost.
    Epochs,
    /// One big thread and a little one, over a sweep of targets.
    Bench1,
    /// Big cores' turns to a little one's.
    Figure5,
    /// Epochs whose length changes over time.
    Bench2,
    /// Short and long epochs mixed.
    Bench3,
    /// More and more threads at one lock that covers few cache lines.
    Figure1,
    /// The same with many lines.
    Figure4,
    /// The same with targets and all competitors.
    Bench4,
    /// More and more time between epochs.
    Bench5,
    /// Eight threads on two CPUs.
    Bench6,
}

impl Part {
    /// All of them, in the order in which they are measured.
    pub const ALL: [Part; 10] = [
        Part::Epochs,
        Part::Bench1,
        Part::Figure5,
        Part::Bench2,
        Part::Bench6,
        Part::Figure1,
        Part::Figure4,
        Part::Bench4,
        Part::Bench5,
        Part::Bench3,
    ];

    /// By which the user names it.
    pub const fn name(self) -> &'static str {
        match self {
            Part::Epochs => "epochs",
            Part::Bench1 => "bench-1",
            Part::Figure5 => "figure-5",
            Part::Bench2 => "bench-2",
            Part::Bench3 => "bench-3",
            Part::Figure1 => "figure-1",
            Part::Figure4 => "figure-4",
            Part::Bench4 => "bench-4",
            Part::Bench5 => "bench-5",
            Part::Bench6 => "bench-6",
        }
    }
}
