//! Where the CPUs are: cores, shared caches and sockets, as the kernel tells it below
//! `/sys/devices/system/cpu`.
//!
//! A *group* is what the simulator calls one: alike cores that share their last-level cache. Cores
//! that have another number of CPUs or another capacity are a group of their own. What the kernel
//! does not tell is taken as one: one cache for a socket, one socket.

use crate::error::Error;
use manx::cpu::{Cores, CpuSet};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::str::FromStr;

/// The capacity of the fastest CPU, as the kernel counts it.
const CAPACITY: u64 = 1024;
/// Levels of caches that are looked for.
const CACHES: usize = 10;

/// Where a CPU is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Its number
    pub cpu: usize,
    /// Its socket
    pub socket: u32,
    /// The number of its group, from 0
    pub group: usize,
    /// The lowest CPU of its core
    pub core: usize,
}

/// How far two CPUs are from each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// In one core
    Thread,
    /// In one group
    Core,
    /// In one socket
    Group,
    /// In two sockets
    Socket,
}

impl Step {
    /// The step between two CPUs.
    pub fn between([one, other]: [Place; 2]) -> Step {
        match () {
            () if one.core == other.core => Step::Thread,
            () if one.group == other.group => Step::Core,
            () if one.socket == other.socket => Step::Group,
            () => Step::Socket,
        }
    }

    /// What tables call it.
    pub fn name(self) -> &'static str {
        match self {
            Step::Thread => "in one core",
            Step::Core => "in one group",
            Step::Group => "from group to group",
            Step::Socket => "from socket to socket",
        }
    }
}

/// What the CPUs of a group have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kind {
    socket: u32,
    /// The lowest CPU that shares the last-level cache; `None` if the kernel does not tell it.
    cache: Option<usize>,
    /// How many CPUs the core has.
    threads: usize,
    capacity: u64,
}

/// The CPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// Where each is
    pub cpus: Vec<Place>,
    /// The bytes of a cache line, if the kernel tells it
    pub line_bytes: Option<u64>,
    /// The bytes of the last-level cache; 0 if the kernel does not tell it
    pub cache_bytes: usize,
}

impl Topology {
    /// Reads it below `sys` (usually `/sys`), for these CPUs.
    ///
    /// # Errors
    /// With less than two CPUs there is no distance.
    pub fn read(sys: &Path, cpus: &[usize]) -> Result<Topology, Error> {
        if cpus.len() < 2 {
            let help = "run it where it may use at least two CPUs (taskset, cpusets)";
            return Err(Error::request("distances are between CPUs, and here is only one", help));
        }
        let (folder, cores) = (sys.join("devices/system/cpu"), Cores::detect(sys));
        let of = |cpu: usize| folder.join(format!("cpu{cpu}"));
        let kind = |&cpu: &usize| Kind {
            socket: value(&of(cpu).join("topology/physical_package_id")).unwrap_or(0),
            cache: last_cache(&of(cpu)).map(|(first, _)| first),
            threads: cores.siblings(cpu).iter().filter(|sibling| cpus.contains(sibling)).count().max(1),
            capacity: value(&of(cpu).join("cpu_capacity")).unwrap_or(CAPACITY),
        };
        let kinds: Vec<Kind> = cpus.iter().map(kind).collect();
        let mut groups: Vec<Kind> = Vec::new();
        for kind in &kinds {
            if !groups.contains(kind) {
                groups.push(*kind);
            }
        }
        let place = |(&cpu, kind): (&usize, &Kind)| Place {
            cpu,
            socket: kind.socket,
            group: groups.iter().position(|group| group == kind).unwrap_or(0),
            core: cores.siblings(cpu).iter().next().unwrap_or(cpu),
        };
        Ok(Topology {
            cpus: cpus.iter().zip(&kinds).map(place).collect(),
            line_bytes: value(&of(cpus[0]).join("cache/index0/coherency_line_size")),
            cache_bytes: last_cache(&of(cpus[0])).map_or(0, |(_, bytes)| bytes),
        })
    }

    /// The CPUs of each group.
    pub fn groups(&self) -> Vec<Vec<Place>> {
        let count = self.cpus.iter().map(|place| place.group + 1).max().unwrap_or(0);
        let of = |group| self.cpus.iter().filter(|place| place.group == group).copied().collect();
        (0..count).map(of).collect()
    }

    /// The pairs to measure: all pairs of the first `most` CPUs, and one of each kind that is not
    /// among them. A pair within a group is of that group's kind.
    pub fn pairs(&self, most: usize) -> Vec<[Place; 2]> {
        let mut pairs = pairs(&self.cpus[..most.min(self.cpus.len())]);
        let kind = |pair: [Place; 2]| match Step::between(pair) {
            Step::Core => (Step::Core, pair[0].group),
            step => (step, 0),
        };
        let mut kinds: BTreeSet<_> = pairs.iter().copied().map(kind).collect();
        for pair in self::pairs(&self.cpus) {
            if kinds.insert(kind(pair)) {
                pairs.push(pair);
            }
        }
        pairs
    }

    /// The first CPU, and the nearest one that is in another core; in the same core if there is no
    /// other.
    pub fn neighbours(&self) -> [usize; 2] {
        let first = self.cpus[0];
        let others = self.cpus[1..].iter();
        let step = |other: &&Place| match Step::between([first, **other]) {
            Step::Thread => (true, Step::Thread),
            step => (false, step),
        };
        [first.cpu, others.min_by_key(step).map_or(first.cpu, |other| other.cpu)]
    }
}

fn pairs(cpus: &[Place]) -> Vec<[Place; 2]> {
    let from = |(at, one): (usize, &Place)| {
        let one = *one;
        cpus[at + 1..].iter().map(move |other| [one, *other])
    };
    cpus.iter().enumerate().flat_map(from).collect()
}

/// The lowest CPU that shares a CPU's last-level cache, and its bytes.
fn last_cache(cpu: &Path) -> Option<(usize, usize)> {
    let caches = (0..CACHES).filter_map(|index| {
        let cache = cpu.join(format!("cache/index{index}"));
        let shared: CpuSet = value(&cache.join("shared_cpu_list"))?;
        let level: u32 = value(&cache.join("level"))?;
        let text: String = value(&cache.join("size")).unwrap_or_default();
        let bytes = text.trim_end_matches('K').parse::<usize>().unwrap_or(0) << 10;
        Some((level, shared.iter().next()?, bytes))
    });
    caches.max_by_key(|(level, ..)| *level).map(|(_, first, bytes)| (first, bytes))
}

/// What a file of the kernel says.
fn value<T: FromStr>(path: &Path) -> Option<T> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine of files; each CPU is its socket, the list of its core, that of its cache, and its
    /// capacity.
    fn machine(cpus: &[(u32, &str, &str, u64)]) -> tempfile::TempDir {
        let sys = tempfile::tempdir().unwrap();
        let folder = sys.path().join("devices/system/cpu");
        let write = |name: String, text: String| {
            let path = folder.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text + "\n").unwrap();
        };
        write("online".into(), format!("0-{}", cpus.len() - 1));
        for (cpu, (socket, core, cache, capacity)) in cpus.iter().enumerate() {
            let files = [
                ("topology/physical_package_id", socket.to_string()),
                ("topology/thread_siblings_list", (*core).into()),
                ("cache/index0/level", "1".into()),
                ("cache/index0/shared_cpu_list", (*core).into()),
                ("cache/index0/coherency_line_size", "128".into()),
                ("cache/index3/level", "3".into()),
                ("cache/index3/shared_cpu_list", (*cache).into()),
                ("cache/index3/size", "2048K".into()),
                ("cpu_capacity", capacity.to_string()),
            ];
            for (name, text) in files {
                write(format!("cpu{cpu}/{name}"), text);
            }
        }
        sys
    }

    fn read(sys: &tempfile::TempDir, count: usize) -> Topology {
        Topology::read(sys.path(), &(0..count).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn two_sockets_with_siblings_and_two_caches_each() {
        // As Linux numbers them: the second CPU of each core comes behind all first ones.
        let cores = ["0,8", "1,9", "2,10", "3,11", "4,12", "5,13", "6,14", "7,15"];
        let caches = ["0-1,8-9", "2-3,10-11", "4-5,12-13", "6-7,14-15"];
        let cpu = |at: usize| (at as u32 % 8 / 4, cores[at % 8], caches[at % 8 / 2], 1024);
        let sys = machine(&(0..16).map(cpu).collect::<Vec<_>>());
        let topology = read(&sys, 16);
        assert_eq!((topology.line_bytes, topology.cache_bytes), (Some(128), 2 << 20));
        let groups = topology.groups();
        let numbers: Vec<usize> = groups[1].iter().map(|place| place.cpu).collect();
        assert_eq!((groups.len(), numbers), (4, vec![2, 3, 10, 11]));
        assert_eq!(topology.neighbours(), [0, 1]);
        // Of the first two CPUs there is one pair; the other kinds are a pair each.
        let steps: Vec<Step> = topology.pairs(2).into_iter().map(Step::between).collect();
        let count = |step| steps.iter().filter(|found| **found == step).count();
        let expected = [(Step::Thread, 1), (Step::Core, 4), (Step::Group, 1), (Step::Socket, 1)];
        assert_eq!(expected.map(|(step, _)| count(step)), expected.map(|(_, count)| count));
        assert_eq!(topology.pairs(99).len(), 16 * 15 / 2);
    }

    #[test]
    fn cores_of_another_kind_are_a_group_of_their_own() {
        let fast = |core| (0, core, "0-3", 1024);
        let slow = |core| (0, core, "0-3", 600);
        let sys = machine(&[fast("0-1"), fast("0-1"), slow("2"), slow("3")]);
        let topology = read(&sys, 4);
        let groups: Vec<usize> = topology.cpus.iter().map(|place| place.group).collect();
        assert_eq!(groups, [0, 0, 1, 1]);
        assert_eq!(topology.neighbours(), [0, 2], "the sibling is no neighbour");
        // Of a core only one CPU may be used.
        let some = Topology::read(sys.path(), &[1, 2]).unwrap();
        assert_eq!(some.cpus.iter().map(|place| place.group).collect::<Vec<_>>(), [0, 1]);
    }

    #[test]
    fn a_kernel_that_tells_nothing_has_one_group_and_one_cpu_is_refused() {
        let empty = tempfile::tempdir().unwrap();
        let topology = read(&empty, 3);
        assert_eq!((topology.groups().len(), topology.line_bytes, topology.cache_bytes), (1, None, 0));
        assert_eq!(topology.pairs(8).len(), 3);
        assert!(topology.pairs(8).into_iter().all(|pair| Step::between(pair) == Step::Core));
        assert!(matches!(Topology::read(empty.path(), &[5]), Err(Error::Request { .. })));
    }
}
