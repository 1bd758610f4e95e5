//! Second by second, with four threads boosted in the middle third: the paper's figures 2b and 3b,
//! of each protocol and of WiredTiger.

use super::cases::TIMELINE;
use super::peers::Variant;
use super::plan::{BOOST, Plan, THINK_US};
use crate::boosted;
use crate::engine::Load;
use crate::error::Error;
use crate::harness::{Bench, Case};

const THREADS: usize = 40;

impl Plan {
    /// Each version once, through all three thirds.
    pub(super) fn timeline(&self, bench: &mut Bench) -> Result<(), Error> {
        let load = boosted::thirds(self.load(THREADS, THINK_US, "change"), self.setup.quick);
        let mut variants = self.ways();
        if !self.setup.quick {
            variants.extend(self.wiredtigers());
        }
        let variants: Vec<Variant> =
            variants.into_iter().map(|variant| Variant { boost: BOOST, ..variant }).collect();
        let names: Vec<&str> = variants.iter().map(|variant| variant.name.as_str()).collect();
        let case = Case { name: TIMELINE, variants: &names, expected: load.expected() };
        bench.rounds(case, 1, |at, _| variants[at].run(&self.setup.manx, &Load { seed: 1, ..load.clone() }))
    }
}
