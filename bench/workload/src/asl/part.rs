//! The parts of the experiment, named as in the paper.

crate::parts::parts! {
    /// What an epoch's start and end cost.
    Epochs = "epochs" by epochs,
    /// One big thread and a little one, over a sweep of targets.
    Bench1 = "bench-1" by critical_sections,
    /// Big cores' turns to a little one's.
    Figure5 = "figure-5" by proportions,
    /// Epochs whose length changes over time.
    Bench2 = "bench-2" by changing,
    /// Eight threads on two CPUs.
    Bench6 = "bench-6" by over_subscription,
    /// More and more threads at one lock that covers few cache lines.
    Figure1 = "figure-1" by figure_1,
    /// The same with many lines.
    Figure4 = "figure-4" by figure_4,
    /// The same with targets and all competitors.
    Bench4 = "bench-4" by scalability,
    /// More and more time between epochs.
    Bench5 = "bench-5" by contention,
    /// Short and long epochs mixed.
    Bench3 = "bench-3" by mixed,
}
