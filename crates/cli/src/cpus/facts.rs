//! The machine, and how busy it is, apart from any limit.

use manx::cpu::{Classes, Cores, CpuSet, NumaNodes, Pressure, Throttled};

/// What is shown beside the limits.
#[derive(Clone, Debug, PartialEq)]
pub struct Facts {
    /// Which CPUs are big and which little.
    pub classes: Classes,
    /// How many CPUs the machine has.
    pub cpus: usize,
    /// On how many cores they are: fewer, where a core has several CPUs.
    pub cores: usize,
    /// How many NUMA nodes there are.
    pub numa_nodes: usize,
    /// How many threads run or wish to, on the whole machine, without the one that asks.
    pub runnable: Option<u32>,
    /// How often the group whose quota is the least had used it up, since it was made.
    pub throttled: Option<Throttled>,
}

impl Facts {
    /// Those of this machine, now.
    pub fn now() -> Facts {
        let classes = Classes::of_this_machine();
        let all: CpuSet = classes.big().union(classes.little());
        let pressure = Pressure::read();
        Facts {
            cpus: all.len(),
            cores: Cores::detect("/sys".as_ref()).count(&all),
            classes,
            numa_nodes: NumaNodes::detect("/sys".as_ref()).len(),
            runnable: pressure.runnable.map(|threads| threads.saturating_sub(1)),
            throttled: pressure.throttled,
        }
    }
}
