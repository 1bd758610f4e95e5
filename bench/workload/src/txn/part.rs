//! The parts of the experiment, as the user names them.

crate::parts::parts! {
    /// The paper's update workload under each protocol, boosted and not.
    Allocation = "allocation" by allocation,
    /// The same second by second, boosted in the middle.
    Timeline = "timeline" by timeline,
    /// YCSB's workloads A to F in memory, beside other engines.
    Ycsb = "ycsb" by ycsb,
    /// What a transaction that only reads costs, beside sessions and writers.
    Snapshot = "snapshot" by snapshot,
    /// Group commit with a disk below.
    Durable = "durable" by durable,
}
