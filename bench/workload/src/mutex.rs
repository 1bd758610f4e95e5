//! `manx bench sim MACHINE mutex`: one critical section, more and more threads, the locks side by
//! side; and the simulated machine beside this one.
//!
//! Each thread takes one lock again and again: it holds it for a while, in which it counts in some
//! cache lines, and spends a while without it. Threads are not bound to CPUs.
//!
//! With [`Setup::beside`] each run is made twice, simulated and here. What both ways find is
//! compared in pairs: that is how far one may believe a simulated figure.

use crate::drawing::{Charts, chart, over, panels, those, whole};
use crate::error::Error;
use crate::harness::{Bench, Case, Sample};
use crate::place::Place;
use contention::length::Length;
use contention::lock::Lock;
use contention::run::{Burn, Run, Window, Work};
use report::{Compared, Report, Sheet};
use std::time::Duration;

/// The locks that are compared unless others are asked for.
pub const LOCKS: [Lock; 6] = [Lock::Manx, Lock::Std, Lock::ParkingLot, Lock::Mcs, Lock::Ticket, Lock::Tas];
/// Cache lines of a section.
const LINES: usize = 4;
/// The versions of a run that is made twice.
const HERE: &str = "here";
const SIMULATED: &str = "simulated";
/// The figure that decides how long pairs go on.
pub(crate) const RATE: &str = "epochs_per_s";

/// What the experiment needs to know.
#[derive(Debug)]
pub struct Setup {
    /// Where the runs are made
    pub place: Place,
    /// Each is also made on this machine
    pub beside: bool,
    /// How many threads, one case each
    pub threads: Vec<usize>,
    /// The locks
    pub locks: Vec<Lock>,
    /// The measured time of a run
    pub time: Duration,
    /// A section, without its cache lines, in nanoseconds on the fastest CPU
    pub hold_ns: u64,
    /// The time between two sections
    pub think_ns: u64,
}

/// Runs every case; what was found is in `bench.report`.
///
/// # Errors
/// [`Error::Interrupted`], or a lock that does not exclude.
pub fn measure(setup: &Setup, bench: &mut Bench) -> Result<(), Error> {
    bench.note(format!(
        "a section takes {} ns and {LINES} cache lines, and {} ns pass between two of a thread",
        setup.hold_ns, setup.think_ns
    ));
    for &threads in &setup.threads {
        if setup.beside {
            setup.locks.iter().try_for_each(|lock| beside(setup, bench, threads, *lock))?;
        } else {
            side_by_side(setup, bench, threads)?;
        }
    }
    Ok(())
}

/// All locks with this number of threads.
fn side_by_side(setup: &Setup, bench: &mut Bench, threads: usize) -> Result<(), Error> {
    let names: Vec<&str> = setup.locks.iter().map(|lock| lock.name()).collect();
    let case = Case { name: &number(threads), variants: &names, expected: setup.time * 6 / 5 };
    let ours = Lock::Manx.name();
    let watched = |_: &Report| {
        let others = names.iter().filter(|name| names.contains(&ours) && **name != ours);
        others.map(|name| Compared::new(&number(threads), ours, name, RATE)).collect()
    };
    let run = run(setup.time, [setup.hold_ns, setup.think_ns], threads);
    bench.compare(case, watched, |at, _| sample(&setup.place, setup.locks[at], &run))
}

/// One lock here and simulated.
fn beside(setup: &Setup, bench: &mut Bench, threads: usize, lock: Lock) -> Result<(), Error> {
    let name = format!("{}, {}", number(threads), lock.name());
    let case = Case { name: &name, variants: &[HERE, SIMULATED], expected: setup.time * 6 / 5 };
    let watched = |_: &Report| vec![Compared::new(&name, SIMULATED, HERE, RATE)];
    let here = Place::here();
    let burn = crate::asl::cores::rounds_of(crate::machine::cpus()[0]);
    let burn = burn.map_err(Error::failed)?;
    let run = run(setup.time, [setup.hold_ns, setup.think_ns], threads);
    bench.compare(case, watched, |at, _| match at {
        0 => sample(&here, lock, &Run { burn, ..run.clone() }),
        _ => sample(&setup.place, lock, &run),
    })
}

fn number(threads: usize) -> String {
    format!("{threads} thread{}", if threads == 1 { "" } else { "s" })
}

/// A run of this time with this number of threads; a section and the time between two.
pub(crate) fn run(time: Duration, [hold_ns, think_ns]: [u64; 2], threads: usize) -> Run {
    Run {
        threads,
        first_big: Some(threads),
        cpus: Vec::new(),
        pinned: false,
        burn: Burn::Rounds { per_us: contend_sim::burn::ROUNDS_PER_US },
        dilation: 1.0,
        work: Work { sections: 1, locks: 1, lines: LINES, hold_ns, nops: 0 },
        think_ns,
        length: Length::Times(1),
        window: Window::Fixed(0),
        time,
        little_epochs: 0,
        limit: Duration::ZERO,
        is_interrupted: crate::interrupt::requested,
        slices: None,
    }
}

pub(crate) fn sample(place: &Place, lock: Lock, run: &Run) -> Result<Sample, Error> {
    let seed = place.seed();
    let found = place.run(lock, run);
    let found = found.map_err(|what| Error::failed(format!("{}: {what}", lock.name())))?;
    let mut sample = Sample::of([(RATE, found.epochs_per_s), ("slowest_share", found.slowest_share)]);
    sample.add_tail("", &found.big);
    if place.machine().is_some() {
        sample.add("seed", seed as f64);
    }
    // A run without an epoch has no shares.
    sample.values.retain(|_, value| value.is_finite());
    Ok(sample.with(&found.big))
}

const SIDE_BY_SIDE: &str = "
    threads = case | lock = version | runs [] = rounds | sections = epochs_per_s
    of manx [] = ratio epochs_per_s | p50 = p50_ns | p99 = p99_ns | p99.9 = p999_ns | max = worst max_ns
    slowest [x] = slowest_share";
const BESIDE: &str = "
    threads and lock = case | where = version | runs [] = rounds | sections = epochs_per_s
    simulated / here [] = ratio epochs_per_s | 95 % [] = interval epochs_per_s
    p50 = p50_ns | p99 = p99_ns | p99.9 = p999_ns | max = worst max_ns | slowest [x] = slowest_share";

/// Adds the table, and how near the simulation is.
pub fn conclude(report: &mut Report) {
    let cases = report.cases();
    let is_beside = cases.iter().any(|case| report.variants(case).iter().any(|name| name == SIMULATED));
    let (columns, reference) = if is_beside { (BESIDE, HERE) } else { (SIDE_BY_SIDE, Lock::Manx.name()) };
    report.show(Sheet::new(columns).over(reference).of(report, "A mutex and more and more threads", &cases));
    if is_beside {
        nearness(report, &cases);
    }
}

/// Notes how many cases are near, and at which numbers of threads the order of the locks differs.
fn nearness(report: &mut Report, cases: &[String]) {
    let both = |case: &str, figure: &str| {
        let of = |version: &str| report.middle(case, version, figure);
        of(SIMULATED) / of(HERE)
    };
    let within = |figure: &str, least: f64, most: f64| {
        let ratios: Vec<f64> =
            cases.iter().map(|case| both(case, figure)).filter(|ratio| ratio.is_finite()).collect();
        let near = ratios.iter().filter(|ratio| (least..=most).contains(*ratio)).count();
        format!("{near} of {}", ratios.len())
    };
    let mut notes = vec![
        format!("throughput within 15 % of this machine: {}", within(RATE, 0.85, 1.15)),
        format!("p50 within 20 %: {}", within("p50_ns", 0.8, 1.2)),
        format!("p99 within a factor of 2: {}", within("p99_ns", 0.5, 2.0)),
        format!("maximum within a factor of 2: {}", within("max_ns", 0.5, 2.0)),
    ];
    let mut counts: Vec<&str> = cases.iter().filter_map(|case| case.split(", ").next()).collect();
    counts.dedup();
    let order = |count: &str, version: &str| {
        let start = format!("{count}, ");
        let mut locks: Vec<(f64, &str)> = cases
            .iter()
            .filter_map(|case| Some((report.middle(case, version, RATE), case.strip_prefix(&start)?)))
            .collect();
        locks.sort_by(|one, other| other.0.total_cmp(&one.0));
        locks.into_iter().map(|(_, lock)| lock).collect::<Vec<_>>().join(", ")
    };
    for count in counts {
        let (here, simulated) = (order(count, HERE), order(count, SIMULATED));
        notes.push(match here == simulated {
            true => format!("{count}: both have this order, fastest first: {here}"),
            false => format!("{count}: the order is {here} here, and {simulated} if simulated"),
        });
    }
    report.notes.extend(notes);
}

/// The picture: throughput, latency and maximum over the number of threads.
pub fn draw(report: &Report) -> Charts {
    let threads = |case: &str| case.split(' ').next().and_then(|number| number.parse().ok());
    let places: Vec<(f64, String)> =
        report.cases().into_iter().filter_map(|case| Some((threads(&case)?, case))).collect();
    let of = |figure: &str| over(report, &places, figure);
    let panels = panels("sections = epochs_per_s | p99 = p99_ns | max = max_ns", of);
    those([("mutex", chart("A mutex and more and more threads", ("threads", true, whole), panels))])
}
