//! Second by second, with four threads boosted in the middle third: the paper's figures 2b and 3b.

use super::{AS_IS, Extent, FIXED, GUARDED, Setup, THINK_US, TIMELINE, Variant};
use crate::boosted;
use crate::engine::{self, Load};
use crate::error::Error;
use crate::harness::{Bench, Case};

/// Runs each version once, through all three thirds.
///
/// # Errors
/// The first error of a run.
pub fn measure(setup: &Setup, bench: &mut Bench, boost: usize) -> Result<(), Error> {
    let mut load = boosted::thirds(setup.load(40, THINK_US), setup.extent == Extent::Quick);
    load.boost = boost;
    let variants: Vec<Variant> =
        [AS_IS, GUARDED, FIXED].into_iter().filter_map(|name| setup.variant(name, boost)).collect();
    let names: Vec<&str> = variants.iter().map(|variant| variant.name).collect();
    let case = Case { name: TIMELINE, variants: &names, expected: load.expected() };
    bench.rounds(case, 1, |at, _| {
        engine::run(variants[at].program, variants[at].start, &Load { seed: 1, ..load.clone() })
    })
}
