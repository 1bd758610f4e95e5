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
    /// `manx serve` beside redis-server.
    Server = "server" by server,
    /// The same, asked by a client that costs little.
    Client = "client" by client,
    /// Messages that clients of both leave for each other and wait for.
    Messages = "messages" by messages,
    /// YCSB's workloads and the update workload through both.
    Served = "served" by served,
    /// How much memory both take.
    Memory = "memory" by memory,
    /// The same while clients come and go.
    Churn = "churn" by churn,
}
