//! How two versions compare: the ratio of each pair, their median, and the interval of that median.
//!
//! A *pair* is two samples of one round. Whatever disturbs a shared machine for longer than a round
//! falls on both samples and leaves their ratio as it was; that is why the ratio is taken first and
//! the median afterwards. A single disturbed pair does not move the median.
//!
//! The interval is that of [`crate::statistics`]: fewer than [`PAIRS_MIN`] pairs have none, and no
//! verdict follows from them.
//!
//! Samples belong together by their round, never by their place in a list: a version may have
//! failed in some round.

pub use crate::statistics::PAIRS_MIN;
use crate::statistics::{interval, median};
use serde::{Deserialize, Serialize};

/// One figure of one version, in all rounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Samples {
    /// The experiment
    pub case: String,
    /// The version
    pub version: String,
    /// The figure's name in a run
    pub figure: String,
}

/// Which ratio: the samples above the line, those below it, and a factor.
#[derive(Clone, Debug, PartialEq)]
pub struct Compared {
    /// Above the line
    pub over: Samples,
    /// Below it
    pub under: Samples,
    /// Each pair's ratio is multiplied by this; 1 unless something else is asked for
    pub factor: f64,
}

impl Compared {
    /// The same figure of two versions of one case.
    ///
    /// ```
    /// use report::Compared;
    /// let compared = Compared::new("lmdb", "manx run", "as it is", "throughput_per_s");
    /// assert_eq!((compared.over.version.as_str(), compared.factor), ("manx run", 1.0));
    /// ```
    pub fn new(case: &str, over: &str, under: &str, figure: &str) -> Compared {
        let of =
            |version: &str| Samples { case: case.into(), version: version.into(), figure: figure.into() };
        Compared { over: of(over), under: of(under), factor: 1.0 }
    }

    /// The names of the two sides and of their figure, as tables show them.
    pub(crate) fn names(&self) -> [String; 3] {
        let (over, under) = (&self.over, &self.under);
        let below = match over.case == under.case {
            true => under.version.clone(),
            false => format!("{}, {}", under.case, under.version),
        };
        let figure = match over.figure == under.figure {
            true => over.figure.clone(),
            false => format!("{} / {}", over.figure, under.figure),
        };
        [over.version.clone(), below, figure]
    }
}

/// The ratios of the pairs of two versions, their median, and its 95 % interval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// What was compared
    pub case: String,
    /// The version above the line
    pub over: String,
    /// The version below it
    pub under: String,
    /// Which of their figures
    pub measure: String,
    /// The ratio of each pair, by round
    #[serde(default)]
    pub pairs: Vec<f64>,
    /// Their median
    pub ratio: f64,
    /// The lower end of the interval; `None` with fewer than [`PAIRS_MIN`] pairs
    pub low: Option<f64>,
    /// Its upper end
    pub high: Option<f64>,
}

impl Ratio {
    /// Compares samples by round; those of the same place are of one round. `None` without a pair
    /// of positive samples.
    ///
    /// ```
    /// use report::Ratio;
    /// let (b, a) = ([2.0, 2.2, 2.1, 2.1, 1.9], [1.0, 1.1, 1.0, 1.0, 1.0]);
    /// let ratio = Ratio::new("case", ("b", &b), ("a", &a), "p50_ns").unwrap();
    /// assert_eq!((ratio.ratio, ratio.interval()), (2.0, Some((1.9, 2.1))));
    /// assert!((ratio.half_width() - 0.05).abs() < 1e-9);
    /// ```
    pub fn new(case: &str, over: (&str, &[f64]), under: (&str, &[f64]), measure: &str) -> Option<Ratio> {
        let names = [over.0, under.0, measure].map(str::to_owned);
        Ratio::of(case, names, over.1.iter().copied().zip(under.1.iter().copied()), 1.0)
    }

    /// The same from pairs of samples; `names` are the two versions' and the figure's.
    pub(crate) fn of(
        case: &str,
        [over, under, measure]: [String; 3],
        samples: impl Iterator<Item = (f64, f64)>,
        factor: f64,
    ) -> Option<Ratio> {
        let usable = |&(a, b): &(f64, f64)| a > 0.0 && b > 0.0 && a.is_finite() && b.is_finite();
        let pairs: Vec<f64> = samples.filter(usable).map(|(a, b)| a / b * factor).collect();
        if pairs.is_empty() {
            return None;
        }
        let (low, high) = interval(&pairs).unzip();
        Some(Ratio { case: case.into(), over, under, measure, ratio: median(&pairs), pairs, low, high })
    }

    /// The 95 % interval of the median, if there are pairs enough.
    pub fn interval(&self) -> Option<(f64, f64)> {
        self.low.zip(self.high)
    }

    /// Half of the interval's width, as a share of the ratio: 0.05 is ±5 %. Infinite if there is no
    /// interval.
    pub fn half_width(&self) -> f64 {
        self.interval().map_or(f64::INFINITY, |(low, high)| (high - low) / 2.0 / self.ratio)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(over: &[f64], under: &[f64]) -> Option<Ratio> {
        Ratio::new("c", ("b", over), ("a", under), "p50_ns")
    }

    /// Normal noise around 1, by the sum of twelve.
    fn noise(random: &mut fastrand::Rng, scatter: f64) -> f64 {
        1.0 + scatter * ((0..12).map(|_| random.f64()).sum::<f64>() - 6.0)
    }

    #[test]
    fn the_ratio_is_the_median_of_the_pairs_and_not_the_ratio_of_the_medians() {
        // The machine is half as fast in two rounds of five, for both versions.
        let found = ratio(&[12.0, 6.0, 12.0, 5.5, 11.0], &[10.0, 5.0, 10.0, 5.0, 10.0]).unwrap();
        assert_eq!(found.pairs, [1.2, 1.2, 1.2, 1.1, 1.1]);
        assert_eq!(found.ratio, 1.2);
    }

    #[test]
    fn fewer_than_five_pairs_have_no_interval() {
        for pairs in 1..PAIRS_MIN {
            let found = ratio(&vec![2.0; pairs], &vec![1.0; pairs]).unwrap();
            assert_eq!((found.ratio, found.interval(), found.pairs.len()), (2.0, None, pairs));
            assert_eq!(found.half_width(), f64::INFINITY);
        }
        assert!(ratio(&[2.0; PAIRS_MIN], &[1.0; PAIRS_MIN]).unwrap().interval().is_some());
    }

    #[test]
    fn the_interval_has_the_true_ratio_in_about_nineteen_of_twenty_experiments() {
        let mut random = fastrand::Rng::with_seed(7);
        for pairs in [5, 8, 15, 40] {
            let hits = (0..400)
                .filter(|_| {
                    let over: Vec<f64> = (0..pairs).map(|_| 2.0 * noise(&mut random, 0.1)).collect();
                    let under: Vec<f64> = (0..pairs).map(|_| noise(&mut random, 0.1)).collect();
                    let (low, high) = ratio(&over, &under).unwrap().interval().unwrap();
                    low <= 2.0 && 2.0 <= high
                })
                .count();
            // Few pairs have 92 to 94 %; three standard errors of 400 experiments are 4 %.
            assert!((354..=396).contains(&hits), "{hits} of 400 with {pairs} pairs");
        }
    }

    #[test]
    fn one_disturbed_pair_does_not_move_it() {
        let calm = [100.5, 100.4, 100.6, 100.5, 100.3, 100.7, 100.5, 100.4, 100.6];
        let mut disturbed = calm;
        disturbed[4] = 5000.0;
        let [calm, disturbed] = [calm, disturbed].map(|over| ratio(&over, &[100.0; 9]).unwrap());
        assert!((calm.ratio - disturbed.ratio).abs() < 0.001, "{} {}", calm.ratio, disturbed.ratio);
        assert!(disturbed.half_width() < 0.003, "{}", disturbed.half_width());
    }

    #[test]
    fn without_a_pair_there_is_none_and_odd_samples_are_left_out() {
        assert_eq!(ratio(&[], &[1.0]), None);
        assert_eq!(ratio(&[f64::NAN], &[1.0]), None);
        assert_eq!(ratio(&[0.0, 4.0], &[1.0, 2.0]).unwrap().pairs, [2.0]);
    }

    #[test]
    fn both_sides_are_named_where_they_differ() {
        let mut compared = Compared::new("c", "b", "a", "f");
        assert_eq!(compared.names(), ["b", "a", "f"]);
        compared.under = Samples { case: "d".into(), version: "a".into(), figure: "g".into() };
        assert_eq!(compared.names(), ["b", "d, a", "f / g"]);
    }
}
