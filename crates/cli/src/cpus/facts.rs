//! The machine, and how busy it is, apart from any limit.

use manx::cpu::{Classes, NumaNodes, runnable};

/// What is shown beside the limits.
#[derive(Clone, Debug, PartialEq)]
pub struct Facts {
    /// Which CPUs are big and which little.
    pub classes: Classes,
    /// How many NUMA nodes there are.
    pub numa_nodes: usize,
    /// How many threads run or wish to, on the whole machine, without the one that asks.
    pub runnable: Option<u32>,
}

impl Facts {
    /// Those of this machine, now.
    pub fn now() -> Facts {
        Facts {
            classes: Classes::of_this_machine(),
            numa_nodes: NumaNodes::detect("/sys".as_ref()).len(),
            runnable: runnable().map(|threads| threads.saturating_sub(1)),
        }
    }
}
