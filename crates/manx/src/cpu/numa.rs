//! The NUMA node of each CPU, as the kernel tells it.
//!
//! `/sys/devices/system/node/online` lists the nodes and `nodeN/cpulist` the CPUs of each. Many
//! kernels have no such folder, and most machines one node; both are one node here. A file that is
//! not what it should be says nothing, and a CPU that no file names is of node 0.

use super::CpuSet;
use super::detect::Machine;
use std::path::Path;

/// The NUMA nodes of a machine, and the CPUs of each.
///
/// ```
/// use manx::cpu::NumaNodes;
///
/// let nodes = NumaNodes::detect("/sys".as_ref());
/// println!("CPU 0 is of node {}, one of {}", nodes.of(0), nodes.len());
/// # assert!(nodes.len() >= 1);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NumaNodes {
    /// The nodes that have CPUs, by number.
    nodes: Vec<(u16, CpuSet)>,
}

impl NumaNodes {
    /// What the machine tells whose `/sys` is at `root`.
    pub fn detect(root: &Path) -> NumaNodes {
        let machine = Machine { root };
        let online = machine.list("devices/system/node/online").unwrap_or(CpuSet::EMPTY);
        let cpus = |node| machine.list(&format!("devices/system/node/node{node}/cpulist"));
        let nodes = online.iter().filter_map(|node| Some((node as u16, cpus(node)?)));
        NumaNodes { nodes: nodes.filter(|(_, cpus)| !cpus.is_empty()).collect() }
    }

    /// How many nodes have CPUs: at least one.
    #[expect(clippy::len_without_is_empty, reason = "there is always one")]
    pub fn len(&self) -> usize {
        self.nodes.len().max(1)
    }

    /// The node of this CPU; 0 if no file says.
    pub fn of(&self, cpu: usize) -> u32 {
        self.nodes.iter().find(|(_, cpus)| cpus.contains(cpu)).map_or(0, |&(node, _)| u32::from(node))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn machine(files: &[(&str, &str)]) -> NumaNodes {
        let root = tempfile::tempdir().expect("a folder");
        for (path, text) in files {
            let path = root.path().join("devices/system/node").join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(path, text).expect("written");
        }
        NumaNodes::detect(root.path())
    }

    #[test]
    fn each_cpu_is_of_the_node_that_lists_it() {
        let nodes = machine(&[
            ("online", "0,2\n"),
            ("node0/cpulist", "0-3,8-11\n"),
            ("node1/cpulist", "100\n"),
            ("node2/cpulist", "4-7\n"),
        ]);
        assert_eq!(nodes.len(), 2);
        let found: Vec<u32> = [0, 3, 4, 7, 8, 11, 12, 100].map(|cpu| nodes.of(cpu)).into();
        assert_eq!(found, [0, 0, 2, 2, 0, 0, 0, 0]);
    }

    #[test]
    fn a_machine_that_says_nothing_or_nonsense_has_one_node() {
        for files in [&[][..], &[("online", "many")], &[("online", "0-1"), ("node1/cpulist", "")]] {
            let nodes = machine(files);
            assert_eq!((nodes.len(), nodes.of(0), nodes.of(77)), (1, 0, 0), "{files:?}");
        }
    }

    #[test]
    fn a_node_with_memory_and_no_cpus_is_no_other_node() {
        let nodes = machine(&[("online", "0-1\n"), ("node0/cpulist", "0-7\n"), ("node1/cpulist", "\n")]);
        assert_eq!((nodes.len(), nodes.of(7)), (1, 0));
    }
}
