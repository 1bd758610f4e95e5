//! `manx bench sim MACHINE pool`: a pool whose workers are all active, the paper's and Manx's, side
//! by side on a simulated machine; with several processes each has a pool of the same kind, as in
//! figure 7 of the paper (Jeffery and others, section 5).
//!
//! A *load* of 1 is what the CPUs of the machine, or its quota, could do if the program had them
//! alone. Processes have equal parts of the load. Neighbours take a part of the CPUs, so jobs queue
//! at loads below 1, too.
//!
//! Left out of the model of several processes:
//! - Sessions and control groups of their own, which the kernel is fair between: all processes are
//!   in one group, as those that are started from one shell without autogroups.
//! - What a switch to another process costs more than one to another thread, and what processes
//!   take from each other in caches and memory. A job is a calculation that needs neither.
//! - The start of a process, which takes as long as that of a thread. All begin at once.
//! - The program that asks: requests come by the clock of the process itself, from a thread that
//!   needs a CPU for that, and cost it a few microseconds. The paper's front end costs so much that
//!   fewer workers mean less throughput; this one does not.
//! - Processes that come, go, are stopped or killed meanwhile.

use crate::drawing::{Charts, chart, over, panels, whole};
use crate::error::Error;
use crate::harness::{Bench, Case, Sample};
use crate::place::Place;
use contention::jobs::{Jobs, Rules, Served};
use contention::run::Burn;
use platform_sim::machine::Machine;
use report::{Report, Sheet};
use std::collections::BTreeSet;
use std::time::Duration;

/// What the experiment needs to know.
#[derive(Debug)]
pub struct Setup {
    /// Where the runs are made
    pub place: Place,
    /// Numbers of processes, one case each; each process has a pool
    pub processes: Vec<usize>,
    /// How many workers a pool has, one case each; none: as many as the machine has CPUs
    pub workers: Vec<usize>,
    /// Loads of all processes together, one case each
    pub loads: Vec<f64>,
    /// The pools
    pub rules: Vec<Rules>,
    /// The rounds of each case
    pub rounds: usize,
    /// How long a job takes
    pub job_ns: u64,
    /// For how long jobs come
    pub time: Duration,
}

/// How many CPUs of speed 1 the program could have.
fn cpus(machine: &Machine) -> f64 {
    let all: f64 = machine.cpus().iter().map(|cpu| cpu.speed).sum();
    machine.quota.map_or(all, |quota| all.min(quota.quota_ns as f64 / quota.period_ns as f64))
}

/// A case.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Shape {
    processes: usize,
    workers: usize,
    load: f64,
}

impl Shape {
    fn name(&self) -> String {
        let Shape { processes, workers, load } = self;
        let plural = if *processes == 1 { "" } else { "es" };
        format!("{processes} process{plural}, {workers} workers, load {load}")
    }

    /// The case of this name.
    fn named(name: &str) -> Option<Shape> {
        let words: Vec<&str> = name.split(' ').collect();
        let [processes, _, workers, _, _, load] = words[..] else { return None };
        let (processes, workers, load) = (processes.parse().ok()?, workers.parse().ok()?, load.parse().ok()?);
        Some(Shape { processes, workers, load })
    }

    /// The work of each process.
    fn jobs(&self, setup: &Setup, machine: &Machine, rules: Rules) -> Jobs {
        let every_ns = setup.job_ns as f64 * self.processes as f64 / (self.load * cpus(machine));
        let workers = match rules {
            Rules::Optimal => (self.workers / self.processes).max(1),
            _ => self.workers,
        };
        Jobs {
            rules,
            registry: "/dev/shm/manx-cpus".into(),
            workers,
            job_ns: setup.job_ns,
            every_ns: every_ns.max(1.0) as u64,
            phase_ns: 0,
            burn: Burn::Rounds { per_us: contend_sim::burn::ROUNDS_PER_US },
            time: setup.time,
        }
    }
}

/// Runs every case; what was found is in `bench.report`.
///
/// # Errors
/// [`Error::Interrupted`], or a pool that cannot be made.
pub fn measure(setup: &Setup, bench: &mut Bench) -> Result<(), Error> {
    let failed = |what: String| Error::failed(what);
    let machine = setup.place.machine().ok_or_else(|| failed("no simulated machine".into()))?;
    let usual = [machine.cpus().len()];
    let workers = if setup.workers.is_empty() { &usual[..] } else { &setup.workers };
    // These two differ from others only beside other processes.
    let is_for_several = |rules: &Rules| [Rules::Optimal, Rules::Registry].contains(rules);
    let is_alone = setup.processes.iter().all(|processes| *processes == 1);
    let rules: Vec<Rules> =
        setup.rules.iter().copied().filter(|rules| !is_alone || !is_for_several(rules)).collect();
    let names: Vec<&str> = rules.iter().map(|rules| rules.name()).collect();
    bench.note(format!("a job takes {:.3} ms on a CPU of speed 1", setup.job_ns as f64 / 1e6));
    for (&processes, &workers) in
        setup.processes.iter().flat_map(|it| workers.iter().map(move |its| (it, its)))
    {
        for &load in &setup.loads {
            let shape = Shape { processes, workers, load };
            let case = Case { name: &shape.name(), variants: &names, expected: setup.time * 6 / 5 };
            bench.rounds(case, setup.rounds, |at, _| {
                let seed = setup.place.seed();
                let jobs = shape.jobs(setup, machine, rules[at]);
                let served = setup.place.serve(&jobs, processes).map_err(failed)?;
                let mut sample = sample(&served, setup.time);
                sample.add("seed", seed as f64);
                Ok(sample)
            })?;
        }
    }
    Ok(())
}

/// The outcome of the pools of a run, together.
fn sample(pools: &[Served], time: Duration) -> Sample {
    let served = Served::together(pools);
    let done = |pool: &Served| pool.total.count() as f64;
    let least = pools.iter().map(done).fold(f64::INFINITY, f64::min);
    let mut sample = Sample::of([("jobs_per_s", done(&served) / time.as_secs_f64())]);
    sample.add("slowest_share", least * pools.len() as f64 / done(&served));
    sample.add("left_share", 1.0 - done(&served) / served.offered as f64);
    sample.add("begun", served.begun);
    sample.add("active", served.active.into());
    for (start, times) in
        [("queue_", &served.queue), ("service_", &served.service), ("total_", &served.total)]
    {
        sample.add_tail(start, times);
    }
    sample.with(&served.total)
}

const TABLE: &str = "
    case = case | pool = version | runs [] = rounds | jobs = jobs_per_s | least served [x] = slowest_share
    left [%] = left_share | begun [] = begun | active at the end [] = active
    service p50 = service_p50_ns | p99 = service_p99_ns | max = worst service_max_ns
    queue p99 = queue_p99_ns
    total p50 = total_p50_ns | p99 = total_p99_ns | max = worst total_max_ns";
/// Beside pools that know nothing of each other. In the paper the friendlypool has a maximum 6.7
/// times as short, and 1.4 times less throughput, at most.
const RATIOS: &str = "
    case = case | pool = version | runs [] = rounds
    jobs [x] = ratio jobs_per_s | 95 % [] = interval jobs_per_s
    service p99 [x] = ratio service_p99_ns | 95 % [] = interval service_p99_ns
    service max [x] = ratio service_max_ns | 95 % [] = interval service_max_ns
    total p99 [x] = ratio total_p99_ns | 95 % [] = interval total_p99_ns";

/// Adds the tables.
pub fn conclude(report: &mut Report) {
    let cases = report.cases();
    report.show(Sheet::new(TABLE).of(report, "Pools of threads", &cases));
    let ignorant = Rules::All.name();
    if cases.iter().any(|case| report.variants(case).iter().any(|name| name == ignorant)) {
        let ratios = Sheet::new(RATIOS).over(ignorant).without(ignorant);
        report.show(ratios.of(report, "Beside pools whose workers are all active", &cases));
    }
}

/// The figures that are drawn.
const FIGURES: &str = "service max = service_max_ns | service p99 = service_p99_ns | \
    service p50 = service_p50_ns | jobs per second = jobs_per_s | queue p99 = queue_p99_ns | \
    total p99 = total_p99_ns | total max = total_max_ns";

/// The pictures: figure 7 for each load, over the number of processes; and for each number of
/// processes, over the load.
pub fn draw(report: &Report) -> Charts {
    let shapes: Vec<Shape> = report.cases().iter().filter_map(|case| Shape::named(case)).collect();
    let mut charts = Charts::new();
    let mut picture = |name: String, title: &str, axis: &str, places: Vec<(f64, String)>| {
        if places.len() > 1 {
            let panels = panels(FIGURES, |figure| over(report, &places, figure));
            charts.extend(chart(title, (axis, false, label), panels).map(|chart| (name, chart)));
        }
    };
    let several: BTreeSet<usize> = shapes.iter().map(|shape| shape.workers).collect();
    for &workers in &several {
        let of = || shapes.iter().filter(move |shape| shape.workers == workers);
        let start = if several.len() > 1 { format!("{workers}-workers-") } else { String::new() };
        for load in distinct(of().map(|shape| shape.load)) {
            let places = of().filter(|shape| shape.load == load);
            let places = places.map(|shape| (shape.processes as f64, shape.name())).collect();
            let title = format!("pools in several processes, load {load} in all");
            picture(format!("{start}processes-load-{load}"), &title, "processes", places);
        }
        for processes in distinct(of().map(|shape| shape.processes as f64)) {
            let places = of().filter(|shape| shape.processes as f64 == processes);
            let places = places.map(|shape| (shape.load, shape.name())).collect();
            let title = format!("pools over the load, processes: {processes}");
            picture(format!("{start}load-processes-{processes}"), &title, "load", places);
        }
    }
    charts
}

/// The same numbers, each once, in their order.
fn distinct(numbers: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut numbers: Vec<f64> = numbers.collect();
    numbers.sort_by(f64::total_cmp);
    numbers.dedup();
    numbers
}

/// A label of a load or of a number of processes.
fn label(value: f64) -> String {
    let tenths = value * 10.0;
    if (tenths - tenths.round()).abs() < 1e-6 { format!("{}", tenths.round() / 10.0) } else { whole(value) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use report::Machine;

    #[test]
    fn a_case_is_read_as_it_is_written() {
        for shape in [(1, 16, 0.6), (4, 64, 1.0)] {
            let shape = Shape { processes: shape.0, workers: shape.1, load: shape.2 };
            assert_eq!(Shape::named(&shape.name()), Some(shape));
        }
        assert_eq!(Shape::named("4 threads"), None);
    }

    #[test]
    fn pools_are_judged_together_and_the_least_served_has_its_part() {
        let pool = |service_ns: &[u64], begun: f64| {
            let mut served = Served { offered: 4, begun, active: 2, ..Served::default() };
            for ns in service_ns {
                served.service.record(*ns);
                served.total.record(*ns);
            }
            served
        };
        let sample = sample(&[pool(&[5, 7, 9], 1.5), pool(&[30], 0.5)], Duration::from_secs(2));
        let value = |name: &str| sample.values[name];
        assert_eq!((value("jobs_per_s"), value("left_share"), value("slowest_share")), (2.0, 0.5, 0.5));
        assert_eq!((value("begun"), value("active"), value("service_max_ns")), (2.0, 4.0, 30.0));
    }

    #[test]
    fn figures_are_drawn_over_processes_and_over_loads_and_have_ratios() {
        let mut report = Report::new("sim", Machine::default(), 0);
        for (processes, load) in [(1, 0.6), (2, 0.6), (2, 1.5)] {
            let case = Shape { processes, workers: 16, load }.name();
            for (name, rate, max_ns) in [("ignorant", 100.0, 40e6), ("manx", 90.0, 10e6)] {
                report.add(&case, name, 0, &[("jobs_per_s", rate), ("service_max_ns", max_ns)]);
            }
        }
        let charts = draw(&report);
        let names: Vec<&str> = charts.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["processes-load-0.6", "load-processes-2"]);
        assert_eq!(charts[0].1.panels[0].series[1].points, [(1.0, 10e6), (2.0, 10e6)]);
        conclude(&mut report);
        assert_eq!(report.tables[1].rows.len(), 3);
        assert!(report.tables[1].rows[0].contains(&"0.250".to_owned()), "{:?}", report.tables[1].rows);
    }
}
