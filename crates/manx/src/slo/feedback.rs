//! How long an epoch may be overtaken: a number that follows from how its predecessors ended.
//!
//! The rule of LibASL (Liu and others, *Asymmetry-aware scalable locking*, 2022, Algorithm 2): an
//! epoch that ended within its SLO lets the window grow by a unit; an epoch that missed it halves
//! the window, and sets the unit so that the window is back where it was after as many epochs as
//! may go by between two misses: unit = halved window × (1 - P) / P. (The paper has the halved
//! window × (1 - P), which is the same but for low percentiles.)
//!
//! What is added to the paper's rule, and why:
//! - *The gain.* If latency depends on more than the window, misses come before the window is where
//!   it was, and halving is then punished too often: fewer epochs miss than may. So the unit is
//!   multiplied by a gain, which each epoch moves a little: up if it was met, down if it missed, by
//!   amounts that cancel out exactly if the percentile is kept. The gain does not move while the
//!   window is at either end, where it has no effect.
//! - *The start.* Before the first miss the window doubles with each epoch, from a 64th of the
//!   bound.
//! - *The ends.* A window that is used to an even part is overstayed by the right part of the
//!   epochs if it is the SLO / P; since it moves about that, it may be the SLO × (1 +
//!   2 (1 - P) / P), 1.02 times the SLO at p99 and 3 times at p50. The unit is never less than the
//!   bound × (1 - P) / P / 256, so that a window that misses, load or an impossible SLO have made
//!   nothing of comes back. With an SLO of 0 the window is 0, and with an SLO that all epochs miss
//!   it is a few nanoseconds: first in, first out.
//!
//! All-zero is the state before the first epoch.

use super::percentile::Percentile;

/// The bounds of the gain.
const GAIN_MIN: f32 = 1.0 / 16.0;
const GAIN_MAX: f32 = 16.0;
/// The first window is the bound divided by this.
const FIRST: f32 = 64.0;
/// The least unit lets the window grow from nothing to the bound in this number of times the epochs
/// between two misses.
const SLOWEST: f32 = 256.0;
/// A window is at most the SLO × (1 + this × (1 - P) / P).
const EXCESS: f32 = 2.0;

/// The state: 12 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Feedback {
    window_ns: f32,
    unit_ns: f32,
    /// 0 before the first miss.
    gain: f32,
}

impl Feedback {
    /// For how long the next epoch may be overtaken, in nanoseconds.
    #[inline]
    pub(super) fn window_ns(self) -> u64 {
        self.window_ns as u64
    }

    /// An epoch has ended. Windows are at most `window_ns_max`, and not much longer than the SLO.
    #[inline]
    pub(super) fn ended(&mut self, latency_ns: u64, slo_ns: u64, percentile: Percentile, window_ns_max: u64) {
        let bound_ns = bound_ns(slo_ns, percentile, window_ns_max);
        let least_ns = bound_ns * percentile.ratio / SLOWEST;
        if latency_ns > slo_ns {
            if self.gain == 0.0 {
                self.gain = 1.0;
            } else if self.window_ns > 2.0 * least_ns * self.gain {
                self.gain = (self.gain * percentile.missed).max(GAIN_MIN);
            }
            self.window_ns /= 2.0;
            self.unit_ns = self.window_ns * percentile.ratio;
        } else if self.gain == 0.0 {
            self.window_ns = (self.window_ns * 2.0).max(bound_ns / FIRST);
        } else {
            if self.window_ns < bound_ns {
                self.gain = (self.gain * percentile.met).min(GAIN_MAX);
            }
            self.window_ns += self.unit_ns.max(least_ns) * self.gain;
        }
        self.window_ns = self.window_ns.min(bound_ns);
    }
}

/// The longest window: see the module's text.
#[inline]
fn bound_ns(slo_ns: u64, percentile: Percentile, window_ns_max: u64) -> f32 {
    (slo_ns as f32 * (1.0 + EXCESS * percentile.ratio)).min(window_ns_max as f32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MAX_NS: u64 = 100_000_000;

    fn run(feedback: &mut Feedback, latencies_ns: impl IntoIterator<Item = u64>, slo_ns: u64) {
        for latency_ns in latencies_ns {
            feedback.ended(latency_ns, slo_ns, Percentile::P99, MAX_NS);
        }
    }

    #[test]
    fn an_slo_that_is_always_met_allows_all_of_it() {
        for (slo_ns, window_ns) in [(1_000, 1_020), (2_000_000, 2_040_404), (u64::MAX, MAX_NS)] {
            let mut feedback = Feedback::default();
            run(&mut feedback, [0; 20], slo_ns);
            assert!(feedback.window_ns().abs_diff(window_ns) <= 1, "{feedback:?}");
        }
    }

    #[test]
    fn a_miss_halves_the_window() {
        let mut feedback = Feedback::default();
        run(&mut feedback, [10_000; 10], 2_000_000);
        let window_ns = feedback.window_ns();
        assert!((2_000_000..2_050_000).contains(&window_ns), "{feedback:?}");
        run(&mut feedback, [2_000_001], 2_000_000);
        assert_eq!(feedback.window_ns(), window_ns / 2);
    }

    #[test]
    fn an_slo_of_nothing_or_an_impossible_one_is_first_in_first_out() {
        for slo_ns in [0, 1_000_000] {
            let mut feedback = Feedback::default();
            run(&mut feedback, [0; 20], slo_ns);
            run(&mut feedback, [slo_ns + 1; 100], slo_ns);
            assert!(feedback.window_ns() <= slo_ns / 10_000, "{feedback:?}");
        }
    }

    #[test]
    fn a_window_comes_back_when_the_slo_is_possible_again() {
        let mut feedback = Feedback::default();
        run(&mut feedback, [0; 20], 1_000_000);
        run(&mut feedback, [1_000_001; 10_000], 1_000_000);
        run(&mut feedback, [0; 20_000], 1_000_000);
        assert_eq!(feedback.window_ns, bound_ns(1_000_000, Percentile::P99, MAX_NS));
    }

    #[test]
    fn a_change_of_the_slo_takes_effect_at_once() {
        let mut feedback = Feedback::default();
        run(&mut feedback, [0; 20], 1_000_000);
        run(&mut feedback, [0], 10_000);
        assert_eq!(feedback.window_ns(), 10_202);
    }

    /// How an epoch's latency depends on the window, besides a share of it that chance decides.
    #[derive(Clone, Copy, Debug)]
    enum Load {
        /// Not at all random: base + window.
        Fixed,
        /// Base + an even share of the window.
        Even,
        /// Base with an exponential tail + window.
        Tail,
        /// Half of the epochs wait for the window, the others not.
        Half,
    }

    /// The part of the epochs that missed, after a warm-up, in a queue where waiting is as long as
    /// the window allows.
    fn missed(load: Load, base_ns: f64, slo_ns: u64, percentile: Percentile, seed: u64) -> f64 {
        missed_of(400_000, load, base_ns, slo_ns, percentile, seed)
    }

    /// The same, of `epochs` epochs; a twentieth of them is the warm-up.
    fn missed_of(
        epochs: u32,
        load: Load,
        base_ns: f64,
        slo_ns: u64,
        percentile: Percentile,
        seed: u64,
    ) -> f64 {
        let mut state = seed | 1;
        let mut random = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) as f64 / (1_u64 << 53) as f64
        };
        let mut feedback = Feedback::default();
        let warm_up = epochs / 20;
        let mut misses = 0;
        for epoch in 0..epochs {
            let window_ns = feedback.window_ns as f64;
            let latency_ns = match load {
                Load::Fixed => base_ns + window_ns,
                Load::Even => base_ns + random() * window_ns,
                Load::Tail => base_ns * (1.0 - 0.1 * random().max(1e-12).ln()) + window_ns,
                Load::Half => base_ns + if random() < 0.5 { window_ns } else { 0.0 },
            } as u64;
            feedback.ended(latency_ns, slo_ns, percentile, MAX_NS);
            misses += u32::from(epoch >= warm_up && latency_ns > slo_ns);
        }
        f64::from(misses) / f64::from(epochs - warm_up)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        /// Where the SLO leaves room, as many epochs miss it as may.
        #[test]
        fn the_percentile_is_kept(
            load in prop_oneof![Just(Load::Fixed), Just(Load::Tail), Just(Load::Half), Just(Load::Even)],
            base_ns in 1_000.0..200_000.0_f64,
            room in 0.5..4.0_f64,
            hundredths in prop_oneof![Just(5000), Just(9000), Just(9500), Just(9900), Just(9950)],
            seed in any::<u64>(),
        ) {
            let percentile = Percentile::new(hundredths).unwrap();
            // If only every second epoch waits, half of them cannot miss whatever the window is.
            prop_assume!(hundredths > 5000 || !matches!(load, Load::Half));
            // A tail that misses without any window leaves no room at high percentiles.
            let slo_ns = (base_ns * (1.6 + room)) as u64;
            let missed = missed(load, base_ns, slo_ns, percentile, seed);
            let may = 1.0 - f64::from(hundredths) / 10_000.0;
            prop_assert!((0.8 * may..=1.1 * may).contains(&missed), "{missed} of {may}");
        }

        #[test]
        fn no_state_or_number_breaks_it(
            epochs in prop::collection::vec((any::<u64>(), any::<u64>(), 5000..=9999_u16), 1..200),
        ) {
            let mut feedback = Feedback::default();
            for (latency_ns, slo_ns, hundredths) in epochs {
                let percentile = Percentile::new(hundredths).unwrap();
                feedback.ended(latency_ns, slo_ns, percentile, MAX_NS);
                let bound_ns = bound_ns(slo_ns, percentile, MAX_NS);
                prop_assert!((0.0..=bound_ns).contains(&feedback.window_ns), "{feedback:?}");
                prop_assert!(feedback.unit_ns.is_finite() && (0.0..=GAIN_MAX).contains(&feedback.gain));
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// One in a thousand is rare, so it takes more epochs to learn the window, and to tell.
        #[test]
        fn the_percentile_is_kept_where_misses_are_rare(
            load in prop_oneof![Just(Load::Fixed), Just(Load::Half), Just(Load::Even)],
            base_ns in 1_000.0..200_000.0_f64,
            room in 0.5..4.0_f64,
            seed in any::<u64>(),
        ) {
            let slo_ns = (base_ns * (1.0 + room)) as u64;
            let missed = missed_of(3_000_000, load, base_ns, slo_ns, Percentile::P999, seed);
            prop_assert!((0.000_8..=0.001_1).contains(&missed), "{missed}");
        }
    }

    #[test]
    fn an_even_share_of_the_window_keeps_the_percentile_as_well() {
        // Here the latest of the epochs decides: with an SLO of twice the base, windows are a
        // little over half.
        for seed in 1..4 {
            let missed = missed(Load::Even, 50_000.0, 100_000, Percentile::P99, seed);
            assert!((0.008..=0.011).contains(&missed), "{missed}");
        }
    }
}
