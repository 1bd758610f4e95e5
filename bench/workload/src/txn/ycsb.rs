//! YCSB's workloads in memory, beside other engines: WiredTiger (`in_memory`), LMDB (not synced),
//! RocksDB (files in memory, no log), SQLite (a write-ahead log that is not synced).
//!
//! Where there are more threads than CPUs, some versions run with four of them boosted as well:
//! Manx's store by each protocol, and WiredTiger as it is and under the guard. The protocols that
//! are not the store's own are measured with the boost only; `allocation` has them without.

use super::arguments::{Way, What};
use super::cases::{self, GUARDED, MANX, WIREDTIGER};
use super::peers::{How, Variant};
use super::plan::{BOOST, Plan};
use crate::error::Error;
use crate::harness::Bench;

/// Threads, unless something else is asked for: one for each of two CPUs, and more than there are.
pub const THREADS: [usize; 2] = [2, 8];

impl Plan {
    pub(super) fn ycsb(&self, bench: &mut Bench) -> Result<(), Error> {
        let setup = &self.setup;
        let counts = if setup.quick { &setup.ycsb_threads[..1] } else { &setup.ycsb_threads[..] };
        for workload in &setup.workloads {
            for &threads in counts {
                let load = self.drawn(self.load(threads, 0.0, workload));
                let mut variants = self.engines();
                if setup.boosts(threads) {
                    variants.extend(self.boosted(threads));
                }
                self.compare(bench, &cases::ycsb(workload, setup.keys, threads), &load, &variants)?;
            }
        }
        Ok(())
    }

    fn store(&self, name: &str, way: Way) -> Variant {
        Variant::manx(&self.setup.own, name, What::Store, way)
    }

    /// All of them without a boost.
    fn engines(&self) -> Vec<Variant> {
        let manx = self.store(MANX, Way::Help);
        let mut variants = vec![manx];
        variants.extend(
            self.peers.wiredtiger.iter().map(|program| Variant::peer(WIREDTIGER, program, How::AsIs)),
        );
        variants
            .extend(self.peers.others.iter().map(|(name, program)| Variant::peer(name, program, How::AsIs)));
        variants
    }

    /// The versions that also run with some threads boosted.
    fn boosted(&self, threads: usize) -> Vec<Variant> {
        let ways = [(MANX, Way::Help), (Way::Wait.name(), Way::Wait), (Way::Spin.name(), Way::Spin)];
        let mut variants: Vec<Variant> = ways.map(|(name, way)| self.store(name, way)).into();
        if let Some(program) = &self.peers.wiredtiger {
            variants.push(Variant::peer(WIREDTIGER, program, How::AsIs));
            variants.extend(self.peers.guard.then(|| Variant::peer(GUARDED, program, How::Guarded)));
        }
        variants.iter().map(|variant| variant.boosted(BOOST.min(threads))).collect()
    }
}
