//! Benches on a simulated machine: the same seed gives the same result, however long anything
//! takes.

use contention::jobs::Rules;
use contention::lock::Lock;
use contention::ranges::RangeLock;
use platform_sim::machine::Machine;
use platform_sim::memory::Allocator;
use report::Report;
use std::time::Duration;
use workload::asl::{self, Part};
use workload::harness::{Bench, Silent};
use workload::place::Place;
use workload::{Error, constants, jobs, mutex, ranges, snapshots};

/// Addresses decide which lines threads share, so they are the same in each run, as in
/// `manx bench sim`.
#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

const MACHINE: &str = "m1";
const TIME: Duration = Duration::from_micros(200);

fn machine() -> Machine {
    Machine::known(MACHINE).unwrap()
}

fn place() -> Place {
    Place::simulated(MACHINE, machine(), 7)
}

/// The result file of a smoke check that may take this long, but for what tells when it ran and how
/// long it took; without a smoke check, each case goes on for this long.
fn result(quick: bool, time: Duration, measure: fn(&mut Bench) -> Result<(), Error>) -> String {
    let mut progress = Silent;
    let mut bench = Bench::new("sim", report::Machine::default(), quick.then_some(time), &mut progress);
    bench.draw_from(7);
    bench.resolution.limit = time;
    bench.resolution.pairs_max = quick.then_some(1);
    measure(&mut bench).unwrap();
    let mut report = bench.finish(&Ok(()));
    report.machine.steal_percent = None;
    serde_json::to_string(&Report { started_unix_s: 0, wall_s: 0.0, ..report }).unwrap()
}

/// Checks that a computer so slow that no time is left gives the same result as a fast one.
fn is_the_same(quick: bool, measure: fn(&mut Bench) -> Result<(), Error>) {
    let hour = Duration::from_secs(3600);
    let fast = result(quick, hour, measure);
    let slow = result(quick, Duration::from_nanos(1), measure);
    assert!(Report::from_json(&fast).unwrap().runs.len() > 1, "{fast}");
    assert_eq!(fast, slow);
}

fn locks(bench: &mut Bench) -> Result<(), Error> {
    let place = place();
    place.describe(bench);
    let (threads, locks) = (vec![2, 4], vec![Lock::Manx, Lock::Mcs, Lock::Tas]);
    mutex::measure(
        &mutex::Setup { place, beside: false, threads, locks, time: TIME, hold_ns: 500, think_ns: 1000 },
        bench,
    )
}

#[test]
fn a_smoke_check_of_locks_leaves_nothing_out() {
    is_the_same(true, locks);
}

#[test]
fn the_rounds_of_locks_do_not_depend_on_the_clock() {
    is_the_same(false, locks);
}

#[test]
fn a_smoke_check_of_targets_for_latency_leaves_nothing_out() {
    is_the_same(true, |bench| {
        let place = place();
        place.describe(bench);
        let parts = vec![Part::Figure5, Part::Bench3];
        asl::measure(
            asl::Setup { parts, quick: true, time: TIME, dilation: None, pinned: true, place },
            bench,
        )
    });
}

#[test]
fn a_smoke_check_of_pools_leaves_nothing_out() {
    is_the_same(true, |bench| {
        let place = place();
        place.describe(bench);
        let rules = Rules::ALL.to_vec();
        let (processes, workers, loads) = (vec![1, 2], vec![2], vec![0.6]);
        let (job_ns, time) = (100_000, Duration::from_millis(2));
        let setup = jobs::Setup { place, processes, workers, loads, rules, rounds: 1, job_ns, time };
        jobs::measure(&setup, bench)
    });
}

#[test]
fn a_smoke_check_of_ranges_leaves_nothing_out() {
    is_the_same(true, |bench| {
        let place = place();
        place.describe(bench);
        let (threads, locks) = (vec![1, 4], RangeLock::ALL.to_vec());
        let setup = ranges::Setup { place, threads, locks, rounds: 1, ranges: 256, write_ns: 50, time: TIME };
        ranges::measure(&setup, bench)
    });
}

#[test]
fn a_smoke_check_of_constants_leaves_nothing_out() {
    is_the_same(true, |bench| {
        let machines = vec![(MACHINE.to_owned(), machine())];
        let varied = constants::usual()[..2].to_vec();
        let setup = constants::Setup {
            machines,
            seed: 7,
            threads: vec![2],
            varied,
            rounds: 1,
            time: TIME,
            hold_ns: 500,
            think_ns: 1000,
        };
        constants::measure(&setup, bench)
    });
}

#[test]
fn a_smoke_check_of_snapshots_leaves_nothing_out() {
    is_the_same(true, |bench| {
        let place = place();
        place.describe(bench);
        let setup = snapshots::Setup {
            place,
            clients: vec![4, 8],
            cpus: 2,
            boosted: 1,
            network_ns: 50_000,
            think_ns: 5_000,
            work_ns: 20_000,
            rounds: 1,
            time: Duration::from_millis(2),
        };
        snapshots::measure(&setup, bench)
    });
}
