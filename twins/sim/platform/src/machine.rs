//! A machine's description: CPUs, how far they are from each other, what things cost.
//!
//! A machine is a file (`machines/*.toml`) with the source of its figures. The CPUs have numbers in
//! the order of the groups in the file. Times are in nanoseconds, on a CPU of speed 1.
//!
//! | part of a file | what it describes | file that obeys it |
//! | --- | --- | --- |
//! | `[[group]]`, `smt_share` | CPUs, how fast they are, and what siblings take from each other | `processor.rs` |
//! | `[distance]` | how far a cache line has to go | `lines.rs` |
//! | `[cost]` | how long other things take | `kernel.rs`, `schedule.rs` |
//! | `[scheduler]` | the fair scheduler | `queue.rs`, `eevdf.rs`, `cfs.rs` |
//! | `[noise]` | the host and interrupts; off if it is missing | `interruption.rs` |
//! | `[quota]` | the program's CPU time in a period; no limit if it is missing | `bandwidth.rs` |
//! | `[[neighbour]]` | threads of other processes | `task.rs` |

use serde::Deserialize;

/// The files that come with this package.
const FILES: [(&str, &str); 10] = [
    ("here", include_str!("../machines/here.toml")),
    ("m1", include_str!("../machines/m1.toml")),
    ("epyc-16", include_str!("../machines/epyc-16.toml")),
    ("epyc-64", include_str!("../machines/epyc-64.toml")),
    ("xeon-2x28", include_str!("../machines/xeon-2x28.toml")),
    ("xeon-2x28x2", include_str!("../machines/xeon-2x28x2.toml")),
    ("xeon-40", include_str!("../machines/xeon-40.toml")),
    ("hybrid-laptop", include_str!("../machines/hybrid-laptop.toml")),
    ("graviton-64", include_str!("../machines/graviton-64.toml")),
    ("container", include_str!("../machines/container.toml")),
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
    /// The speed of a CPU while another one of its core runs a thread, as a part of its own
    #[serde(default = "full")]
    pub smt_share: f64,
    /// Groups of cores that share a last-level cache
    pub group: Vec<Group>,
    /// How long a line takes between two CPUs
    pub distance: Distance,
    /// How long other things take
    pub cost: Cost,
    /// The scheduler
    pub scheduler: Scheduler,
    /// What takes CPUs from threads
    #[serde(default)]
    pub noise: Noise,
    /// How much CPU time the program may use
    pub quota: Option<Quota>,
    /// Threads of other processes
    #[serde(default)]
    pub neighbour: Vec<Neighbour>,
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
    /// How fast they calculate
    #[serde(default = "full")]
    pub speed: f64,
    /// How fast they execute instructions that do nothing; if it is missing, as fast as they
    /// calculate
    pub nop_speed: Option<f64>,
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
    /// What the waker takes more then: it interrupts the idle CPU
    pub kick_ns: f64,
    /// From one thread to the next on a CPU
    pub switch_ns: u64,
    /// How late a timer ends a sleep, at most: the timer slack
    pub slack_ns: u64,
}

/// Which thread a CPU runs next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    /// Linux from 6.6 on
    #[default]
    Eevdf,
    /// Linux to 6.5
    Cfs,
}

/// The scheduler.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scheduler {
    /// Which thread a CPU runs next
    #[serde(default)]
    pub policy: Policy,
    /// Ticks per second: between two of them a thread loses its CPU only to one that wakes up
    pub hz: u64,
    /// EEVDF: the slice that a thread asks for
    pub slice_ns: u64,
    /// A thread that ran more recently than this stays where its cache is
    pub hot_ns: u64,
    /// How often busy CPUs are balanced
    pub balance_ns: u64,
    /// EEVDF: whether a thread that yields gives up the rest of its slice (Linux 6.18), or only
    /// asks for a later turn (6.6 to 6.17)
    pub yield_forfeits: bool,
    /// CFS: a round of all threads. The defaults of this and the next two are Linux' with eight
    /// CPUs or more
    #[serde(default = "latency_ns")]
    pub latency_ns: u64,
    /// CFS: the least that each one gets of it
    #[serde(default = "min_granularity_ns")]
    pub min_granularity_ns: u64,
    /// CFS: how far behind a thread is that takes the CPU when it wakes up
    #[serde(default = "wakeup_granularity_ns")]
    pub wakeup_granularity_ns: u64,
}

fn latency_ns() -> u64 {
    24_000_000
}

fn min_granularity_ns() -> u64 {
    3_000_000
}

fn wakeup_granularity_ns() -> u64 {
    4_000_000
}

/// What takes CPUs from threads. All are means of exponential distributions; 0: never.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Noise {
    /// How often the host takes a CPU
    pub steal_period_ns: u64,
    /// For how long
    pub steal_ns: u64,
    /// How often an interrupt comes to a CPU
    pub interrupt_period_ns: u64,
    /// How long it takes
    pub interrupt_ns: u64,
}

/// How much CPU time the program may use, as a container's `cpu.max`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quota {
    /// On all CPUs together, in each period
    pub quota_ns: u64,
    /// The period
    pub period_ns: u64,
    /// What a CPU takes at a time (`sched_cfs_bandwidth_slice_us`)
    #[serde(default = "quota_slice_ns")]
    pub slice_ns: u64,
}

fn quota_slice_ns() -> u64 {
    5_000_000
}

/// Threads of another process, which only work.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Neighbour {
    /// How many they are
    pub count: u32,
    /// Their nice value
    #[serde(default)]
    pub nice: i32,
    /// The CPUs on which they may run; all if there are none
    #[serde(default)]
    pub cpus: Vec<usize>,
    /// How long a CPU of speed 1 works before they sleep, half as long to half as long again; 0:
    /// they never sleep
    #[serde(default)]
    pub busy_ns: u64,
    /// How long they sleep, half as long to half as long again
    #[serde(default)]
    pub idle_ns: u64,
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
    /// How fast it calculates
    pub speed: f64,
    /// How fast it executes instructions that do nothing
    pub nop_speed: f64,
}

impl Machine {
    /// The machine of a file.
    ///
    /// # Errors
    /// What is wrong in the file, in words.
    pub fn parse(text: &str) -> Result<Machine, String> {
        let machine: Machine = toml::from_str(text).map_err(|error| error.to_string())?;
        let cpus = machine.cpus();
        let is_speed = |speed: f64| speed > 0.0 && speed.is_finite();
        let scheduler = &machine.scheduler;
        match () {
            () if cpus.is_empty() => Err("a machine has a CPU at least".into()),
            () if cpus.len() > CPUS_MAX => Err(format!("a machine has {CPUS_MAX} CPUs at most")),
            () if !cpus.iter().all(|cpu| is_speed(cpu.speed) && is_speed(cpu.nop_speed)) => {
                Err("a speed is a number above 0".into())
            }
            () if !(is_speed(machine.smt_share) && machine.smt_share <= 1.0) => {
                Err("smt_share is above 0, and 1 at most".into())
            }
            () if !machine.line_bytes.is_power_of_two() => Err("line_bytes is a power of two".into()),
            () if !(1..=100_000).contains(&scheduler.hz) => Err("hz is from 1 to 100000".into()),
            () if !is_interval(scheduler.slice_ns) => Err(interval("slice_ns")),
            () if !is_interval(scheduler.balance_ns) => Err(interval("balance_ns")),
            () if !is_interval(scheduler.latency_ns) => Err(interval("latency_ns")),
            () if !is_interval(scheduler.min_granularity_ns) => Err(interval("min_granularity_ns")),
            () if !is_interval(scheduler.wakeup_granularity_ns) => Err(interval("wakeup_granularity_ns")),
            () => {
                machine.noise.check()?;
                machine.quota.as_ref().map_or(Ok(()), Quota::check)?;
                machine.neighbour.iter().try_for_each(|neighbour| neighbour.check(cpus.len()))?;
                Ok(machine)
            }
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
                let cpu = Cpu {
                    socket: group.socket,
                    group: number as u32,
                    core,
                    speed: group.speed,
                    nop_speed: group.nop_speed.unwrap_or(group.speed),
                };
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

impl Noise {
    fn check(&self) -> Result<(), String> {
        let is_wrong = |period_ns: u64, ns: u64| ns >= period_ns.max(1) || (ns == 0) != (period_ns == 0);
        match () {
            () if is_wrong(self.steal_period_ns, self.steal_ns) => {
                Err("steal_ns and steal_period_ns are both above 0 or both missing, and steal_ns is less".into())
            }
            () if is_wrong(self.interrupt_period_ns, self.interrupt_ns) => Err(
                "interrupt_ns and interrupt_period_ns are both above 0 or both missing, and interrupt_ns is less"
                    .into(),
            ),
            () => Ok(()),
        }
    }
}

impl Quota {
    fn check(&self) -> Result<(), String> {
        match () {
            () if !is_interval(self.quota_ns) => Err(interval("quota_ns")),
            () if !is_interval(self.period_ns) => Err(interval("period_ns")),
            () if !is_interval(self.slice_ns) => Err(interval("slice_ns")),
            () => Ok(()),
        }
    }
}

impl Neighbour {
    fn check(&self, cpus: usize) -> Result<(), String> {
        match () {
            () if !(1..=10_000).contains(&self.count) => Err("count is from 1 to 10000".into()),
            () if !(-20..=19).contains(&self.nice) => Err("nice is from -20 to 19".into()),
            () if self.cpus.iter().any(|cpu| *cpu >= cpus) => {
                Err(format!("the cpus of a neighbour are from 0 to {}", cpus - 1))
            }
            () if (self.busy_ns == 0) != (self.idle_ns == 0) => {
                Err("busy_ns and idle_ns are both above 0 or both missing".into())
            }
            () => Ok(()),
        }
    }
}

/// An interval is shorter than 12 days, so that sums of some thousands are times.
fn is_interval(ns: u64) -> bool {
    (1..1 << 50).contains(&ns)
}

fn interval(name: &str) -> String {
    format!("{name} is above 0, and below {}", 1u64 << 50)
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
            ("cores = 2", "cores = 2\nnop_speed = 0.0", "speed"),
            ("line_bytes = 64", "line_bytes = 64\nsmt_share = 1.5", "smt_share"),
            ("hz = 250", "hz = 250\npolicy = \"lottery\"", "policy"),
            ("hz = 250", "hz = 250\nlatency_ns = 0", "latency_ns"),
            ("slice_ns = 1400000", "slice_ns = 0", "slice_ns"),
            ("[cost]", "[noise]\nsteal_ns = 5\n[cost]", "steal_period_ns"),
            ("[cost]", "[noise]\ninterrupt_ns = 5\ninterrupt_period_ns = 5\n[cost]", "interrupt_ns"),
            ("[cost]", "[quota]\nquota_ns = 0\nperiod_ns = 1\n[cost]", "quota_ns"),
            ("[cost]", "[quota]\nquota_ns = 1\n[cost]", "period_ns"),
            ("[cost]", "[[neighbour]]\ncount = 0\n[cost]", "count"),
            ("[cost]", "[[neighbour]]\ncount = 1\nnice = 20\n[cost]", "nice"),
            ("[cost]", "[[neighbour]]\ncount = 1\ncpus = [2]\n[cost]", "cpus"),
            ("[cost]", "[[neighbour]]\ncount = 1\nbusy_ns = 7\n[cost]", "idle_ns"),
        ] {
            assert!(good.contains(from), "{from}");
            let error = Machine::parse(&good.replace(from, to)).unwrap_err();
            assert!(error.contains(word), "{error}");
        }
    }
}
