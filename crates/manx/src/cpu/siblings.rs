//! Which CPUs are threads of one core, and how many cores a set of CPUs has.
//!
//! Two CPUs that are threads of one core share its units: together they do a quarter more than one
//! alone, not twice as much. So four CPUs may be four cores or two, and a program that counts CPUs
//! for work that keeps a core busy wants to know. The kernel lists the threads of a CPU's core,
//! itself included, in `cpuN/topology/thread_siblings_list` (since Linux 5.6 also in
//! `core_cpus_list`). A CPU that is offline has no such file, and many virtual machines show each
//! CPU as a core of its own; a CPU that no file describes is a core.

use super::CpuSet;
use super::detect::Machine;
use std::path::Path;

/// The files, in the order in which they are asked.
const FILES: [&str; 2] = ["thread_siblings_list", "core_cpus_list"];

/// The cores of a machine, and which CPUs each has.
///
/// ```
/// use manx::cpu::{Cores, CpuSet};
///
/// let cores = Cores::detect("/sys".as_ref());
/// let own = CpuSet::of_this_thread();
/// println!("{} CPUs on {} cores", own.len(), cores.count(&own));
/// # assert!((1..=own.len()).contains(&cores.count(&own)));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cores {
    /// The CPUs that share a core with one of a lower number, by their number, and the lowest of
    /// their core.
    others: Vec<(usize, usize)>,
}

impl Cores {
    /// What the machine tells whose `/sys` is at `root`.
    pub fn detect(root: &Path) -> Cores {
        let machine = Machine { root };
        let cpus = machine.list("devices/system/cpu/online").unwrap_or(CpuSet::EMPTY);
        let siblings = |cpu: usize| {
            FILES
                .iter()
                .find_map(|file| machine.list(&format!("devices/system/cpu/cpu{cpu}/topology/{file}")))
        };
        let mut others = Vec::new();
        for cpu in cpus.iter() {
            // A list without the CPU itself is none.
            let first = siblings(cpu).filter(|list| list.contains(cpu)).and_then(|list| list.iter().next());
            if let Some(first) = first.filter(|&first| first != cpu) {
                others.push((cpu, first));
            }
        }
        Cores { others }
    }

    /// The number of the CPU's core: the lowest number of its CPUs.
    pub fn of(&self, cpu: usize) -> usize {
        self.others.binary_search_by_key(&cpu, |it| it.0).map_or(cpu, |at| self.others[at].1)
    }

    /// The CPUs that share the CPU's core, itself included.
    pub fn siblings(&self, cpu: usize) -> CpuSet {
        let core = self.of(cpu);
        self.others.iter().filter(|it| it.1 == core).map(|it| it.0).chain([core]).collect()
    }

    /// The number of cores that these CPUs belong to.
    pub fn count(&self, cpus: &CpuSet) -> usize {
        cpus.iter().map(|cpu| self.of(cpu)).collect::<CpuSet>().len()
    }

    /// Whether some core has more than one CPU.
    pub fn have_siblings(&self) -> bool {
        !self.others.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn machine(files: &[(&str, &str)]) -> Cores {
        let root = tempfile::tempdir().expect("a folder");
        for (path, text) in files {
            let path = root.path().join("devices/system/cpu").join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(path, text).expect("written");
        }
        Cores::detect(root.path())
    }

    fn set(text: &str) -> CpuSet {
        text.parse().expect(text)
    }

    #[test]
    fn the_threads_of_a_core_are_one() {
        // As Intel numbers them: the second threads after all the first ones; CPU 4 is a core
        // alone, 5 is offline.
        let cores = machine(&[
            ("online", "0-4\n"),
            ("cpu0/topology/thread_siblings_list", "0,2\n"),
            ("cpu1/topology/thread_siblings_list", "1,3\n"),
            ("cpu2/topology/thread_siblings_list", "0,2\n"),
            ("cpu3/topology/thread_siblings_list", "1,3\n"),
            ("cpu4/topology/thread_siblings_list", "4\n"),
        ]);
        assert!(cores.have_siblings());
        assert_eq!([0, 1, 2, 3, 4, 5].map(|cpu| cores.of(cpu)), [0, 1, 0, 1, 4, 5]);
        assert_eq!(
            (cores.siblings(3), cores.siblings(4), cores.siblings(9)),
            (set("1,3"), set("4"), set("9"))
        );
        let counts = ["", "0,2", "2", "2-3", "0-4", "0-5"].map(|cpus| cores.count(&set(cpus)));
        assert_eq!(counts, [0, 1, 1, 2, 3, 4]);
    }

    #[test]
    fn the_newer_name_is_read_where_the_older_is_gone() {
        let list = [
            ("online", "0-3"),
            ("cpu2/topology/core_cpus_list", "1-3"),
            ("cpu3/topology/core_cpus_list", "1-3"),
        ];
        assert_eq!(machine(&list).siblings(2), set("1-3"));
    }

    #[test]
    fn a_machine_that_says_nothing_or_nonsense_has_a_core_for_each_cpu() {
        let nonsense = [("online", "0-1"), ("cpu1/topology/thread_siblings_list", "all of them")];
        let without_itself = [("online", "0-1"), ("cpu1/topology/thread_siblings_list", "0")];
        for files in [&[][..], &nonsense, &without_itself] {
            let cores = machine(files);
            assert!(!cores.have_siblings(), "{files:?}");
            assert_eq!((cores.of(1), cores.count(&set("0-1,77"))), (1, 3));
        }
    }
}
