//! Paper 000 on its own server, simulated: what boosted threads do to updates whose snapshots
//! busy-wait, and to repaired ones.
//!
//! `--nocapture` shows the figures.

use platform_sim::machine::Machine;
use platform_sim::memory::Allocator;
use workload::snapshots::{Boost, Did, Server, Waits, run};

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

const SEEDS: std::ops::Range<u64> = 1..3;

fn did(clients: u32, boost: Boost, waits: Waits, seed: u64) -> Did {
    let machine = Machine::known("xeon-2x28").expect("a machine");
    let (network_ns, think_ns, work_ns, time_ns) = (650_000, 50_000, 180_000, 600_000_000);
    let server =
        Server { waits, boost, clients, cpus: 10, boosted: 4, network_ns, think_ns, work_ns, time_ns };
    let did = run(&machine, seed, server);
    let all = did.all.summary();
    println!(
        "{clients} clients, {}, {}, seed {seed}: {} updates, mean {:.0} µs, p99.9 {} µs, max {} µs",
        boost.name(),
        waits.name(),
        all.count,
        all.mean_ns / 1e3,
        all.p999_ns / 1000,
        all.max_ns / 1000
    );
    did
}

#[test]
fn eighty_clients_beside_boosted_threads_are_starved_as_it_is_and_not_when_repaired() {
    for seed in SEEDS {
        let [original, repaired] = [Waits::Spins, Waits::Adapts].map(|it| did(80, Boost::Always, it, seed));
        let (original, repaired) = (original.all.summary(), repaired.all.summary());
        assert!(original.count < repaired.count, "{original:?}, {repaired:?}");
        // The paper's claim of its figure 4.
        assert!((repaired.p999_ns as f64) < original.mean_ns, "{original:?}, {repaired:?}");
    }
}

#[test]
fn unrestricted_the_repair_changes_nothing() {
    for seed in SEEDS {
        let [original, repaired] =
            [Waits::Spins, Waits::Adapts].map(|it| did(40, Boost::Unrestricted, it, seed));
        let (original, repaired) = (original.all.summary(), repaired.all.summary());
        assert!((repaired.mean_ns / original.mean_ns - 1.0).abs() < 0.02, "{original:?}, {repaired:?}");
        assert!(repaired.max_ns < 2 * original.max_ns, "{original:?}, {repaired:?}");
    }
}
