//! Programs under a quota on a simulated machine of 16 CPUs, as they are and paced by the
//! decisions of `manx run`.
//!
//! Threads that spin until the end are left out: `manx run` cures them. `--nocapture` shows the
//! figures.

use platform_sim::machine::Machine;
use platform_sim::memory::Allocator;
use workload::quota::{Program, Waits, run};

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

const MS: u64 = 1_000_000;
const SEEDS: u64 = 2;

#[test]
fn a_paced_program_is_not_throttled_and_its_tail_is_no_longer() {
    for seed in 1..=SEEDS {
        let (name, quota) = ("epyc-16", 2.0);
        let machine = Machine::known(name).expect("a machine");
        let cpus = machine.cpus().len() as u32;
        let waits = [Waits::Computes, Waits::Sleeps, Waits::Cured];
        for (waits, threads) in waits.iter().flat_map(|waits| [(*waits, cpus), (*waits, 4 * cpus)]) {
            let program = Program { waits, threads, work_ns: 200_000, is_paced: false, time_ns: 2_000 * MS };
            let of = |is_paced| run(&machine, quota, seed, Program { is_paced, ..program });
            let (plain, paced) = (of(false), of(true));
            let figures = |did: &workload::quota::Did| {
                let (p50, p99) = (did.times.tail(50.0).value_ns, did.times.tail(99.0).value_ns);
                (did.throttled_cpus, did.paced_share, did.ops_per_s, p50, p99)
            };
            let (before, after) = (figures(&plain), figures(&paced));
            let what = format!("{name}, {quota} CPUs, {threads} threads, {}, seed {seed}", waits.name());
            println!("{what}: {before:?}, paced {after:?}");
            assert!(after.0 <= 0.01 * quota, "{what}: throttled");
            // Four threads a CPU that compute wait for their turn: that is no matter of the quota.
            let is_turns = waits == Waits::Computes && threads > cpus;
            assert!(after.4 <= before.4 || is_turns, "{what}: p99");
            assert!(after.2 >= 0.9 * before.2, "{what}: throughput");
        }
    }
}
