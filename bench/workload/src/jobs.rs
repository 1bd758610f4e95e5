//! `manx bench sim MACHINE pool`: a pool whose workers are all active, the paper's and Manx's, side
//! by side on a simulated machine.
//!
//! A *load* of 1 is what the CPUs of the machine, or its quota, could do if the program had them
//! alone. Neighbours take a part of that, so jobs queue at loads below 1, too.

use crate::error::Error;
use crate::harness::{Bench, Case, Sample};
use crate::place::Place;
use contention::jobs::{Jobs, Rules};
use contention::run::Burn;
use platform_sim::machine::Machine;
use report::{Report, Sheet};
use std::time::Duration;

/// What the experiment needs to know.
#[derive(Debug)]
pub struct Setup {
    /// Where the runs are made
    pub place: Place,
    /// How many workers a pool has, one case each; none: as many as the machine has CPUs
    pub workers: Vec<usize>,
    /// How much there is to do, one case each
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

/// Runs every case; what was found is in `bench.report`.
///
/// # Errors
/// [`Error::Interrupted`], or a pool that cannot be made.
pub fn measure(setup: &Setup, bench: &mut Bench) -> Result<(), Error> {
    let failed = |what: String| Error::failed(what);
    let machine = setup.place.machine().ok_or_else(|| failed("no simulated machine".into()))?;
    let usual = [machine.cpus().len()];
    let workers = if setup.workers.is_empty() { &usual[..] } else { &setup.workers };
    let names: Vec<&str> = setup.rules.iter().map(|rules| rules.name()).collect();
    bench.note(format!("a job takes {:.3} ms on a CPU of speed 1", setup.job_ns as f64 / 1e6));
    for (workers, load) in workers.iter().flat_map(|workers| setup.loads.iter().map(|load| (*workers, *load)))
    {
        let name = format!("{workers} workers, load {load}");
        let every_ns = (setup.job_ns as f64 / (load * cpus(machine))).max(1.0) as u64;
        let case = Case { name: &name, variants: &names, expected: setup.time * 6 / 5 };
        bench.rounds(case, setup.rounds, |at, _| {
            let burn = Burn::Rounds { per_us: contend_sim::burn::ROUNDS_PER_US };
            let (rules, job_ns, time) = (setup.rules[at], setup.job_ns, setup.time);
            let jobs = Jobs { rules, workers, job_ns, every_ns, burn, time };
            let seed = setup.place.seed();
            let served = setup.place.serve(&jobs).map_err(failed)?;
            let mut sample = Sample::of([("jobs_per_s", served.jobs_per_s), ("seed", seed as f64)]);
            sample.add("left_share", served.left);
            sample.add("active", served.active.into());
            for (start, times) in
                [("queue_", &served.queue), ("service_", &served.service), ("total_", &served.total)]
            {
                sample.add_tail(start, times);
            }
            Ok(sample.with(&served.total))
        })?;
    }
    Ok(())
}

const TABLE: &str = "
    case = case | pool = version | runs [] = rounds | jobs = jobs_per_s | left [%] = left_share
    active at the end [] = active
    service p50 = service_p50_ns | p99 = service_p99_ns | max = worst service_max_ns
    total p50 = total_p50_ns | p99 = total_p99_ns | max = worst total_max_ns";

/// Adds the table.
pub fn conclude(report: &mut Report) {
    let cases = report.cases();
    report.show(Sheet::new(TABLE).of(report, "Pools of threads", &cases));
}
