//! The parts of the experiment, as the user names them.

/// A part of the experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The paper's update workload under each protocol, boosted and not.
    Allocation,
    /// The same second by second, boosted in the middle.
    Timeline,
    /// YCSB's workloads A to F in memory, beside other engines.
    Ycsb,
    /// What a transaction that only reads costs, beside sessions and writers.
    Snapshot,
    /// Group commit with a disk below.
    Durable,
    /// `manx serve` beside redis-server.
    Server,
    /// YCSB's workloads and the update workload through both.
    Served,
}

impl Part {
    /// All of them, in the order in which they are measured.
    pub const ALL: [Part; 7] = [
        Part::Allocation,
        Part::Timeline,
        Part::Ycsb,
        Part::Snapshot,
        Part::Durable,
        Part::Server,
        Part::Served,
    ];

    /// By which the user names it.
    pub const fn name(self) -> &'static str {
        match self {
            Part::Allocation => "allocation",
            Part::Timeline => "timeline",
            Part::Ycsb => "ycsb",
            Part::Snapshot => "snapshot",
            Part::Durable => "durable",
            Part::Server => "server",
            Part::Served => "served",
        }
    }
}
