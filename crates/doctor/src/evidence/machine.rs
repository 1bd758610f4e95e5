//! What the rest of the machine did: steal, pressure on CPUs, memory and disks, and the processes
//! that used the most CPU.
//!
//! These are the causes that no setting of the watched program cures, so all of it is cheap: the
//! machine's counters and the CPU time of other processes are read at the first and the last look.

use manx::cpu::Pressure;
use procfs::process::all_processes;
use serde::Serialize;
use std::collections::HashMap;

/// The setting of transparent huge pages.
pub const HUGE_PAGES: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
/// How many names of other processes are kept.
const NAMED: usize = 3;
/// Processes are named if they used so much of a CPU together.
const NAMED_CPUS_MIN: f64 = 0.05;

/// Other processes of one name, and how much they ran together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Neighbour {
    /// Their numbers
    pub pids: Vec<i32>,
    /// Their name
    pub name: String,
    /// How many CPUs they used on average
    pub cpus: f64,
    /// Which part of that time they spent in loops that wait; `None` if they were not sampled
    pub spinning: Option<f64>,
}

/// What the machine did while a process was watched.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct MachineEvidence {
    /// How many CPUs ran something
    pub busy_cpus: f64,
    /// How many CPUs had nothing to run
    pub idle_cpus: f64,
    /// How many CPUs the host ran something else on, while they had something to run
    pub stolen_cpus: f64,
    /// For which part of the time some thread of the machine waited for a CPU
    pub cpu_stalled: Option<f64>,
    /// … for memory
    pub memory_stalled: Option<f64>,
    /// … for a disk
    pub io_stalled: Option<f64>,
    /// Where the kernel uses huge pages for memory that a program has not asked for: `always`,
    /// `madvise` or `never`; `None` if it does not say
    pub huge_pages: Option<String>,
    /// The other processes that ran most
    pub neighbours: Vec<Neighbour>,
    /// Which part of their run time all other processes spent in loops that wait; `None` if they
    /// were not sampled
    pub others_spinning: Option<f64>,
}

impl MachineEvidence {
    /// Adds how many samples each process has, and how many of them lie in loops that wait. The
    /// process `own` is no other one.
    ///
    /// ```
    /// # use doctor::evidence::machine::MachineEvidence;
    /// let mut machine = MachineEvidence::default();
    /// machine.add_loops(&[(1, (100, 100)), (2, (30, 15)), (3, (20, 0))].into(), 1);
    /// assert_eq!(machine.others_spinning, Some(0.3));
    /// ```
    pub fn add_loops(&mut self, seen: &HashMap<i32, (u32, u32)>, own: i32) {
        let part = |of: &dyn Fn(i32) -> bool| {
            let counted = seen.iter().filter(|(pid, _)| of(**pid)).map(|(_, counts)| counts);
            let (all, waiting) =
                counted.fold((0, 0), |(all, waiting), (samples, loops)| (all + samples, waiting + loops));
            (all > 0).then(|| f64::from(waiting) / f64::from(all))
        };
        for neighbour in &mut self.neighbours {
            neighbour.spinning = part(&|pid| neighbour.pids.contains(&pid));
        }
        self.others_spinning = part(&|pid| pid != own);
    }
}

/// The machine's counters at one moment.
#[derive(Debug)]
pub struct MachineLook {
    pressure: Pressure,
    memory_us: Option<u64>,
    io_us: Option<u64>,
    ticks: HashMap<i32, (String, u64)>,
}

impl MachineLook {
    /// Reads them.
    pub fn now() -> MachineLook {
        let stalled =
            |name: &str| stalled_us(&std::fs::read_to_string(format!("/proc/pressure/{name}")).ok()?);
        MachineLook {
            pressure: Pressure::read(),
            memory_us: stalled("memory"),
            io_us: stalled("io"),
            ticks: ticks(),
        }
    }

    /// What happened since an earlier look, to all processes but this one and the watched ones.
    pub fn since(&self, earlier: &MachineLook, watched: &[i32]) -> MachineEvidence {
        let delta = self.pressure.since(&earlier.pressure);
        let span_ns = delta.span.as_nanos().max(1) as f64;
        let part = |now: Option<u64>, before: Option<u64>| {
            Some((now?.saturating_sub(before?) as f64 * 1e3 / span_ns).min(1.0))
        };
        let own = std::process::id() as i32;
        let tick_ns = self.pressure.tick.as_nanos() as f64;
        let mut by_name: HashMap<&str, Neighbour> = HashMap::new();
        for (pid, (name, ticks)) in &self.ticks {
            let before = earlier.ticks.get(pid).map_or(0, |(_, before)| *before);
            let cpus = ticks.saturating_sub(before) as f64 * tick_ns / span_ns;
            if *pid == own || watched.contains(pid) || cpus == 0.0 {
                continue;
            }
            let one = by_name.entry(name).or_insert_with(|| Neighbour {
                pids: vec![],
                name: name.clone(),
                cpus: 0.0,
                spinning: None,
            });
            one.pids.push(*pid);
            one.cpus += cpus;
        }
        let mut neighbours: Vec<Neighbour> =
            by_name.into_values().filter(|it| it.cpus >= NAMED_CPUS_MIN).collect();
        neighbours.iter_mut().for_each(|it| it.pids.sort_unstable());
        neighbours.sort_by(|one, other| other.cpus.total_cmp(&one.cpus));
        neighbours.truncate(NAMED);
        let ticks = |of: fn(&manx::cpu::MachineTicks) -> u64| {
            let (now, before) = (self.pressure.machine.as_ref(), earlier.pressure.machine.as_ref());
            let grown = now.zip(before).map_or(0, |(now, before)| of(now).saturating_sub(of(before)));
            grown as f64 * tick_ns / span_ns
        };
        MachineEvidence {
            busy_cpus: ticks(|it| it.busy),
            idle_cpus: ticks(|it| it.idle),
            stolen_cpus: ticks(|it| it.steal),
            cpu_stalled: delta.stalled,
            memory_stalled: part(self.memory_us, earlier.memory_us),
            io_stalled: part(self.io_us, earlier.io_us),
            huge_pages: huge_pages(&std::fs::read_to_string(HUGE_PAGES).unwrap_or_default()),
            neighbours,
            others_spinning: None,
        }
    }
}

/// The word in brackets, which is the setting.
fn huge_pages(text: &str) -> Option<String> {
    let (_, rest) = text.split_once('[')?;
    Some(rest.split_once(']')?.0.to_owned())
}

/// For how long some thread waited, in µs, as a file of pressure says it.
fn stalled_us(text: &str) -> Option<u64> {
    let some = text.lines().find(|line| line.starts_with("some "))?;
    some.split(' ').find_map(|word| word.strip_prefix("total="))?.parse().ok()
}

/// The name of each process, and how long it ran, in ticks.
fn ticks() -> HashMap<i32, (String, u64)> {
    let Ok(processes) = all_processes() else { return HashMap::new() };
    let of = |process: procfs::process::Process| {
        let stat = process.stat().ok()?;
        Some((stat.pid, (stat.comm, stat.utime + stat.stime)))
    };
    processes.flatten().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_total_of_some_is_read() {
        assert_eq!(stalled_us("some avg10=1.0 avg60=0 avg300=0 total=77\nfull total=3\n"), Some(77));
        assert_eq!(stalled_us("full total=3\n"), None);
        assert_eq!(stalled_us("some total=x\n"), None);
    }

    #[test]
    fn the_setting_of_huge_pages_is_the_word_in_brackets() {
        assert_eq!(huge_pages("always [madvise] never\n").as_deref(), Some("madvise"));
        assert_eq!(huge_pages(""), None);
    }

    #[test]
    fn the_processes_that_ran_most_come_first_and_the_watched_ones_do_not_count() {
        let pressure = |read_at_s| {
            let mut pressure = Pressure::default();
            pressure.read_at = Duration::from_secs(read_at_s);
            pressure.tick = Duration::from_millis(10);
            pressure
        };
        let look = |read_at_s, factor: u64| MachineLook {
            pressure: pressure(read_at_s),
            memory_us: Some(100_000 * factor),
            io_us: None,
            ticks: [(1, 10), (2, 20), (3, 20), (4, 0), (12, 20)]
                .map(|(pid, ticks)| (pid, (format!("p{}", pid % 10), ticks * factor)))
                .into_iter()
                .collect(),
        };
        let between = look(2, 2).since(&look(1, 1), &[3]);
        let named: Vec<_> = between.neighbours.iter().map(|it| (it.pids.clone(), it.cpus)).collect();
        assert_eq!(named, [(vec![2, 12], 0.4), (vec![1], 0.1)]);
        assert_eq!((between.memory_stalled, between.io_stalled), (Some(0.1), None));
    }
}
