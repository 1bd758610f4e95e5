//! The update workload of Andreoli and Cucinotta (sections II and III): each thread thinks, then
//! changes one record in a transaction with snapshot isolation; with and without four threads at
//! niceness -20.
//!
//! A change reads its record first, as MongoDB's update does; so the versions of all records tell
//! at the end whether any was lost.

use super::arguments::{Way, What};
use super::cases::{self, FIXED, GUARDED, WIREDTIGER};
use super::peers::{How, Variant};
use super::plan::{BOOST, Plan, THINK_US};
use crate::error::Error;
use crate::harness::Bench;

impl Plan {
    pub(super) fn allocation(&self, bench: &mut Bench) -> Result<(), Error> {
        // One count says whether it runs.
        let counts = if self.setup.quick { &self.setup.threads[..1] } else { &self.setup.threads[..] };
        for &threads in counts {
            let load = self.load(threads, THINK_US, "change");
            let mut variants = Vec::new();
            for variant in self.ways().into_iter().chain(self.wiredtigers()) {
                variants.push(variant.boosted(BOOST.min(threads)));
                variants.push(variant);
            }
            self.compare(bench, &cases::allocation(threads), &load, &variants)?;
        }
        Ok(())
    }

    /// Manx's store by each protocol.
    pub(super) fn ways(&self) -> Vec<Variant> {
        Way::ALL.map(|way| Variant::manx(&self.setup.own, way.name(), What::Store, way)).into()
    }

    /// WiredTiger as it is, and repaired.
    pub(super) fn wiredtigers(&self) -> Vec<Variant> {
        let mut found = Vec::new();
        if let Some(program) = &self.peers.wiredtiger {
            found.push(Variant::peer(WIREDTIGER, program, How::AsIs));
            found.extend(self.peers.guard.then(|| Variant::peer(GUARDED, program, How::Guarded)));
        }
        found.extend(self.peers.fixed.iter().map(|program| Variant::peer(FIXED, program, How::AsIs)));
        found
    }
}
