//! A user's program under a range of targets for latency: what each costs and what it brings.
//!
//! The program runs under `manx run --lock=… --slo …` for each target, and twice more for
//! comparison: in the order of arrival (*FIFO*) and without Manx (*plain*). This is the
//! latency-throughput graph of figure 8b of Liu et al., *Asymmetry-aware Scalable Locking*,
//! PPoPP 2022.
//!
//! 1. Every round runs every variant once, in an order drawn anew, so that none always follows the
//!    same other one.
//! 2. Whatever was measured is in the profile before the next run begins, and is handed to `keep`.
//! 3. A run that is in the profile is not repeated. A profile of another [`Sweep`] is not
//!    continued.

mod conclude;
mod counted;
mod measure;
mod schema;

pub use conclude::advise;
pub use conclude::{chart, conclude, table};
pub use measure::{NoFigures, Source, read, run};
pub use schema::{Advice, Conclusion, Measured, Point, Profile, Run, SCHEMA, Sweep, VERSION, Variant};

use crate::error::Error;
use crate::harness::Progress;
use crate::interrupt;
use report::Order;
use std::path::Path;

impl Profile {
    /// Runs what is still missing. `keep` is given the profile after each run.
    ///
    /// # Errors
    /// The first run's that fails, `keep`'s, or the user's interrupt. What was measured stays.
    pub fn complete(
        &mut self,
        manx: &Path,
        seed: u64,
        progress: &mut dyn Progress,
        mut keep: impl FnMut(&Profile) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let variants = self.sweep.variants();
        let has =
            |runs: &[Run], variant, round| runs.iter().any(|r| r.variant == variant && r.round == round);
        let (mut missing, mut order) = (Vec::new(), Order::new(seed));
        for round in 0..self.sweep.repeats {
            let these: Vec<_> = variants.iter().copied().filter(|&v| !has(&self.runs, v, round)).collect();
            missing.extend(order.draw(these.len()).into_iter().map(|at| (these[at], round)));
        }
        progress.begin("sweep", Some(missing.len()));
        let mut source = Source::default();
        for (variant, round) in missing {
            if interrupt::requested() {
                return Err(Error::Interrupted);
            }
            progress.step(&variant.to_string());
            let Measured { throughput_per_s, tail_ns, max_ns } =
                run(manx, &self.sweep, variant, &mut source)?;
            self.runs.push(Run { variant, round, throughput_per_s, tail_ns, max_ns });
            keep(self)?;
        }
        progress.end();
        Ok(())
    }
}
