//! How one version stands to another: the ratio of their medians, and the interval that it lies in.
//!
//! The interval is a percentile bootstrap (Efron 1979): the rounds are drawn anew, with replacement, and the ratio of the
//! medians is computed of each draw; 95 % of the results lie between its ends. Samples of one round belong together and
//! are drawn together, so what disturbs a whole round falls on both versions alike. The draws are the same in each run.

use crate::statistics::{Spread, median};
use serde::{Deserialize, Serialize};

/// Draws of a bootstrap.
const DRAWS: usize = 2000;
/// Of these, the share that lies outside of the interval.
const OUTSIDE: f64 = 0.05;

/// The ratio of the medians of two versions, and its 95 % interval.
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
    /// Rounds in which both were measured
    pub rounds: usize,
    /// The ratio
    pub ratio: f64,
    /// The lower end of the interval
    pub low: f64,
    /// Its upper end
    pub high: f64,
}

impl Ratio {
    /// Compares samples by round; those of the same place belong together. `None` without a pair of positive samples.
    ///
    /// ```
    /// use report::Ratio;
    /// let ratio = Ratio::new("case", ("b", &[2.0, 2.2, 2.1]), ("a", &[1.0, 1.1, 1.0]), "p50_ns").unwrap();
    /// assert_eq!(ratio.ratio, 2.1);
    /// assert!(ratio.low <= 2.1 && 2.1 <= ratio.high);
    /// ```
    pub fn new(case: &str, over: (&str, &[f64]), under: (&str, &[f64]), measure: &str) -> Option<Ratio> {
        let usable = |&(a, b): &(f64, f64)| a > 0.0 && b > 0.0 && a.is_finite() && b.is_finite();
        let pairs: Vec<(f64, f64)> =
            over.1.iter().copied().zip(under.1.iter().copied()).filter(usable).collect();
        if pairs.is_empty() {
            return None;
        }
        let mut ratios: Vec<f64> = Vec::with_capacity(DRAWS);
        let mut random = fastrand::Rng::with_seed(0x9e37_79b9_7f4a_7c15);
        for _ in 0..DRAWS {
            let drawn: Vec<_> = (0..pairs.len()).map(|_| pairs[random.usize(..pairs.len())]).collect();
            ratios.push(of_medians(&drawn));
        }
        ratios.sort_by(f64::total_cmp);
        let end = |share: f64| ratios[((DRAWS - 1) as f64 * share).round() as usize];
        Some(Ratio {
            case: case.into(),
            over: over.0.into(),
            under: under.0.into(),
            measure: measure.into(),
            rounds: pairs.len(),
            ratio: of_medians(&pairs),
            low: end(OUTSIDE / 2.0),
            high: end(1.0 - OUTSIDE / 2.0),
        })
    }

    /// Half of the interval's width, as a share of the ratio: 0.05 is ±5 %.
    pub fn half_width(&self) -> f64 {
        (self.high - self.low) / 2.0 / self.ratio
    }

    /// As a target takes it: a ratio nearer to 1 than the interval is wide cannot be told from 1.
    pub fn spread(&self) -> Spread {
        Spread {
            case: self.case.clone(),
            measure: self.measure.clone(),
            pairs: self.rounds,
            ratio: self.ratio,
            low: self.low,
            high: self.high,
            factor: 1.0 + self.half_width(),
        }
    }
}

fn of_medians(pairs: &[(f64, f64)]) -> f64 {
    let (over, under): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
    median(&over) / median(&under)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(over: &[f64], under: &[f64]) -> Option<Ratio> {
        Ratio::new("c", ("b", over), ("a", under), "p50_ns")
    }

    #[test]
    fn equal_samples_have_an_interval_of_no_width() {
        let found = ratio(&[3.0; 6], &[2.0; 6]).unwrap();
        assert_eq!((found.ratio, found.low, found.high, found.half_width()), (1.5, 1.5, 1.5, 0.0));
    }

    #[test]
    fn more_rounds_make_it_narrower_and_scatter_makes_it_wider() {
        let width = |rounds: usize, scatter: f64| {
            let noisy = |i: usize| 1.0 + scatter * ((i * 7919 % 13) as f64 / 13.0 - 0.5);
            let over: Vec<f64> = (0..rounds).map(noisy).collect();
            ratio(&over, &vec![1.0; rounds]).unwrap().half_width()
        };
        assert!(width(6, 0.2) > width(60, 0.2), "{} {}", width(6, 0.2), width(60, 0.2));
        assert!(width(20, 0.4) > width(20, 0.1));
    }

    #[test]
    fn the_interval_has_the_true_ratio_in_about_nineteen_of_twenty_experiments() {
        let mut random = fastrand::Rng::with_seed(7);
        let mut draw = || 1.0 + random.f64();
        let hits = (0..100)
            .filter(|_| {
                let over: Vec<f64> = (0..15).map(|_| 2.0 * draw()).collect();
                let under: Vec<f64> = (0..15).map(|_| draw()).collect();
                let found = ratio(&over, &under).unwrap();
                found.low <= 2.0 && 2.0 <= found.high
            })
            .count();
        assert!((88..=100).contains(&hits), "{hits} of 100");
    }

    #[test]
    fn without_a_pair_there_is_none_and_odd_samples_are_left_out() {
        assert_eq!(ratio(&[], &[1.0]), None);
        assert_eq!(ratio(&[f64::NAN], &[1.0]), None);
        assert_eq!(ratio(&[0.0, 4.0], &[1.0, 2.0]).unwrap().rounds, 1);
    }
}
