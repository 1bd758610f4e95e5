//! A machine's description: CPUs, how far they are from each other, what things cost.
//!
//! A machine is a file (`machines/*.toml`) with the source of its figures. The CPUs have numbers in
//! the order of the groups in the file. Times are in nanoseconds, on a CPU of speed 1.

use serde::Deserialize;

/// The files that come with this package.
const FILES: [(&str, &str); 3] = [
    ("here", include_str!("../machines/here.toml")),
    ("m1", include_str!("../machines/m1.toml")),
    ("epyc-64", include_str!("../machines/epyc-64.toml")),
];

/// A machine.
///
/// ```
/// let machine = platform_sim::machine::Machine::known("m1").unwrap();
/// assert_eq!(machine.cpus().len(), 8);
/// assert!(machine.cpus()[0].speed > machine.cpus()[7].speed);
/// ```
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Where the figures come from
    pub source: String,
    /// How many bytes a cache line has
    pub line_bytes: u64,
    /// Groups of cores that share a last-level cache
    pub group: Vec<Group>,
    /// How long a line takes between two CPUs
    pub distance: Distance,
    /// How long other things take
    pub cost: Cost,
    /// The scheduler
    pub scheduler: Scheduler,
}

/// Cores that share a last-level cache.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// The socket in which they are
    #[serde(default)]
    pub socket: u32,
    /// How many there are
    pub cores: u32,
    /// How many CPUs each core has
    #[serde(default = "one")]
    pub threads_per_core: u32,
    /// How fast they are
    #[serde(default = "full")]
    pub speed: f64,
    /// How long a line takes from one of these cores to another
    pub core_ns: u64,
}

fn one() -> u32 {
    1
}

fn full() -> f64 {
    1.0
}

/// How long a cache line takes from the cache of one CPU to that of another, measured as half of
/// the time of a ping-pong of one word.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Distance {
    /// From a CPU to the other one of its core
    pub thread_ns: u64,
    /// From group to group in one socket
    pub group_ns: u64,
    /// From socket to socket
    pub socket_ns: u64,
    /// From memory, if no cache has it
    pub memory_ns: u64,
}

/// How long things take.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cost {
    /// What the program does between two accesses to shared memory
    pub step_ns: f64,
    /// An access to a line that the CPU has
    pub hit_ns: f64,
    /// An atomic change of a line that the CPU has
    pub change_ns: f64,
    /// A PAUSE
    pub pause_ns: f64,
    /// A look at the clock
    pub clock_ns: f64,
    /// A system call
    pub call_ns: f64,
    /// What a futex call takes more
    pub futex_ns: f64,
    /// What the waker takes for each thread that it wakes
    pub wake_ns: f64,
    /// From a wake-up until a CPU runs the thread that had nothing to do before
    pub idle_wake_ns: u64,
    /// From one thread to the next on a CPU
    pub switch_ns: u64,
    /// How late a timer ends a sleep, at most: the timer slack
    pub slack_ns: u64,
}

/// The scheduler.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scheduler {
    /// Ticks per second: between two of them a thread loses its CPU only to one that wakes up
    pub hz: u64,
    /// The slice that a thread asks for
    pub slice_ns: u64,
    /// A thread that ran more recently than this stays where its cache is
    pub hot_ns: u64,
    /// How often busy CPUs are balanced
    pub balance_ns: u64,
    /// Whether a thread that yields gives up the rest of its slice (Linux 6.18), or only asks for a
    /// later turn (6.6 to 6.17)
    pub yield_forfeits: bool,
}

/// A CPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cpu {
    /// Its socket
    pub socket: u32,
    /// Its group
    pub group: u32,
    /// Its core
    pub core: u32,
    /// How fast it is
    pub speed: f64,
}

impl Machine {
    /// The machine of a file.
    ///
    /// # Errors
    /// What is wrong in the file, in words.
    pub fn parse(text: &str) -> Result<Machine, String> {
        let machine: Machine = toml::from_str(text).map_err(|error| error.to_string())?;
        let cpus = machine.cpus();
        match () {
            () if cpus.is_empty() => Err("a machine has a CPU at least".into()),
            () if cpus.len() > CPUS_MAX => Err(format!("a machine has {CPUS_MAX} CPUs at most")),
            () if cpus.iter().any(|cpu| !(cpu.speed > 0.0 && cpu.speed.is_finite())) => {
                Err("a speed is a number above 0".into())
            }
            () if !machine.line_bytes.is_power_of_two() => Err("line_bytes is a power of two".into()),
            () if !(1..=100_000).contains(&machine.scheduler.hz) => Err("hz is from 1 to 100000".into()),
            () if machine.scheduler.slice_ns == 0 => Err("slice_ns is above 0".into()),
            () if machine.scheduler.balance_ns == 0 => Err("balance_ns is above 0".into()),
            () => Ok(machine),
        }
    }

    /// A machine that comes with this package; `None` if there is none of this name.
    ///
    /// # Panics
    /// If its file is wrong: a test reads all of them.
    pub fn known(name: &str) -> Option<Machine> {
        let (_, text) = FILES.iter().find(|(known, _)| *known == name)?;
        Some(Machine::parse(text).unwrap_or_else(|error| panic!("{name}.toml: {error}")))
    }

    /// The names of the machines that come with this package.
    pub fn names() -> impl Iterator<Item = &'static str> {
        FILES.iter().map(|(name, _)| *name)
    }

    /// The CPUs, in the order of their numbers.
    pub fn cpus(&self) -> Vec<Cpu> {
        let mut cpus = Vec::new();
        let mut core = 0;
        for (number, group) in self.group.iter().enumerate() {
            for _ in 0..group.cores {
                let cpu = Cpu { socket: group.socket, group: number as u32, core, speed: group.speed };
                cpus.extend(std::iter::repeat_n(cpu, group.threads_per_core as usize));
                core += 1;
            }
        }
        cpus
    }

    /// How long a line takes from one CPU to another.
    pub fn distance_ns(&self, from: &Cpu, to: &Cpu) -> u64 {
        match () {
            () if from.core == to.core => self.distance.thread_ns,
            () if from.group == to.group => self.group[from.group as usize].core_ns,
            () if from.socket == to.socket => self.distance.group_ns,
            () => self.distance.socket_ns,
        }
    }
}

/// The most CPUs of a machine: a line has a bit for each.
pub const CPUS_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_a_machine_and_says_where_it_is_from() {
        for name in Machine::names() {
            let machine = Machine::known(name).expect("a machine");
            assert!(machine.source.len() > 20, "{name}");
            let cpus = machine.cpus();
            for (from, to) in cpus.iter().flat_map(|from| cpus.iter().map(move |to| (from, to))) {
                let ns = machine.distance_ns(from, to);
                assert_eq!(ns, machine.distance_ns(to, from), "{name}");
                assert!(ns > 0 && ns <= machine.distance.socket_ns.max(machine.distance.group_ns).max(1000));
            }
        }
        assert!(Machine::known("no such machine").is_none());
    }

    #[test]
    fn a_file_that_is_wrong_is_refused_with_words() {
        let good = FILES[0].1;
        for (from, to, word) in [
            ("hz = 250", "hz = 0", "hz"),
            ("line_bytes = 64", "line_bytes = 65", "line_bytes"),
            ("cores = 2", "cores = 0", "CPU"),
            ("cores = 2", "cores = 999", "CPUs"),
            ("hz = 250", "herz = 250", "herz"),
        ] {
            assert!(good.contains(from), "{from}");
            let error = Machine::parse(&good.replace(from, to)).unwrap_err();
            assert!(error.contains(word), "{error}");
        }
    }
}
