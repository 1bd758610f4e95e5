//! The best static windows, for the feedback to be measured against (the paper's LibASL-OPT).
//!
//! The longer the window, the later little epochs end. So a bisection finds the longest window with
//! which 99 % of them keep the target. Epochs of two lengths get one window each, which no real
//! program could do: it does not know a length in advance. The window of short epochs is found
//! first, while long epochs have none, because short epochs have the most time to spare.

use super::cases::{AGAINST_OPT, OPT};
use super::plan::{Plan, Variant};
use crate::error::Error;
use contention::lock::Lock;
use contention::run::{Run, Window};
use manx::slo::Percentile;

/// Steps in which a window is found.
pub(super) const STEPS: u32 = 10;
/// The same in a smoke check.
const QUICK_STEPS: u32 = 2;

impl Plan {
    /// Adds the feedback at this target, and the best static window.
    pub(super) fn with_opt(&self, run: &Run, slo_ns: u64, variants: &mut Vec<Variant>) -> Result<(), Error> {
        let window = Window::Fixed(self.best_ns(run, slo_ns, Window::Fixed)?);
        Self::add_opt(slo_ns, window, variants);
        Ok(())
    }

    /// The same with a window for each length.
    pub(super) fn with_opt_by_length(
        &self,
        run: &Run,
        slo_ns: u64,
        variants: &mut Vec<Variant>,
    ) -> Result<(), Error> {
        let short_ns = self.best_ns(run, slo_ns, |short_ns| Window::ByLength { short_ns, long_ns: 0 })?;
        let long_ns = self.best_ns(run, slo_ns, |long_ns| Window::ByLength { short_ns, long_ns })?;
        Self::add_opt(slo_ns, Window::ByLength { short_ns, long_ns }, variants);
        Ok(())
    }

    fn add_opt(slo_ns: u64, window: Window, variants: &mut Vec<Variant>) {
        variants.push(Variant::slo(AGAINST_OPT, Lock::AslMcs, slo_ns, Percentile::P99));
        variants.push(Variant::named(OPT, Lock::Static, window));
    }

    fn best_ns(&self, run: &Run, slo_ns: u64, window: impl Fn(u64) -> Window) -> Result<u64, Error> {
        let steps = if self.quick { QUICK_STEPS } else { STEPS };
        longest(slo_ns, steps, |ns| {
            let run = Run { window: window(ns), little_epochs: 0, ..run.clone() };
            Ok(self.once(Lock::Static, &run)?.little.summary().p99_ns <= slo_ns)
        })
    }
}

/// The longest of the tried windows up to `most_ns` that keeps the target; 0 if none does.
fn longest(
    most_ns: u64,
    steps: u32,
    mut keeps: impl FnMut(u64) -> Result<bool, Error>,
) -> Result<u64, Error> {
    let (mut low_ns, mut high_ns) = (0, most_ns);
    for _ in 0..steps {
        let middle_ns = low_ns + (high_ns - low_ns) / 2;
        if keeps(middle_ns)? { low_ns = middle_ns } else { high_ns = middle_ns }
    }
    Ok(low_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_window_that_keeps_the_target_is_found_and_an_error_ends_it() {
        let find = |limit: u64| longest(1024, 10, |ns| Ok(ns <= limit)).unwrap();
        assert_eq!((find(0), find(300), find(5000)), (0, 300, 1023));
        let error = longest(1024, 10, |_| Err(Error::Interrupted));
        assert!(matches!(error, Err(Error::Interrupted)));
    }
}
