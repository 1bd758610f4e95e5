//! The median of repeats, and what the same comparison says about two versions that are the same.

use serde::{Deserialize, Serialize};

/// The median; the mean of the two in the middle if their number is even, `NaN` if there are none.
///
/// ```
/// assert_eq!(report::median(&[3.0, 1.0, 2.0]), 2.0);
/// assert_eq!(report::median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
/// ```
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[middle],
        _ => (sorted[middle - 1] + sorted[middle]) / 2.0,
    }
}

/// From so many pairs on, their scatter says something.
const SCATTER_PAIRS: usize = 3;

/// A against A: how far from 1 the comparison of a version with itself comes out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// What was compared with itself
    pub case: String,
    /// Which of its figures
    pub measure: String,
    /// How many pairs, measured in turn
    pub pairs: usize,
    /// The second median over the first: what this run would have reported
    pub ratio: f64,
    /// The smallest ratio of a pair
    pub low: f64,
    /// The largest ratio of a pair
    pub high: f64,
    /// The spread, at least 1: ratios from 1/factor to factor cannot be told from 1 here
    pub factor: f64,
}

impl Spread {
    /// Compares the samples of a version with further samples of the same version, pair by pair.
    ///
    /// The factor is the larger of two things: the ratio of the medians itself, turned to above 1, which is
    /// what happened to come out, and twice the standard error that the scatter of the pairs gives a median
    /// (1.2533 σ/√n, with σ = 1.4826 times the median absolute logarithm of the ratios, which a single
    /// disturbed pair does not move). Fewer than three pairs have no scatter. `None` without a pair of positive samples.
    pub fn new(case: &str, measure: &str, first: &[f64], second: &[f64]) -> Option<Spread> {
        let usable = |&(a, b): &(f64, f64)| a > 0.0 && b > 0.0 && a.is_finite() && b.is_finite();
        let pairs: Vec<(f64, f64)> =
            first.iter().copied().zip(second.iter().copied()).filter(usable).collect();
        if pairs.is_empty() {
            return None;
        }
        let (first, second): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
        let ratios: Vec<f64> = pairs.iter().map(|(a, b)| b / a).collect();
        let logarithms: Vec<f64> = ratios.iter().map(|ratio| ratio.ln().abs()).collect();
        let ratio = median(&second) / median(&first);
        let scatter = match pairs.len() {
            0..SCATTER_PAIRS => 0.0,
            n => 2.0 * 1.2533 * 1.4826 * median(&logarithms) / (n as f64).sqrt(),
        };
        Some(Spread {
            case: case.into(),
            measure: measure.into(),
            pairs: pairs.len(),
            ratio,
            low: ratios.iter().copied().fold(f64::INFINITY, f64::min),
            high: ratios.iter().copied().fold(0.0, f64::max),
            factor: ratio.ln().abs().max(scatter).exp(),
        })
    }

    /// True if a ratio is so near to 1 that this machine cannot tell the two apart.
    pub fn covers(&self, ratio: f64) -> bool {
        ratio.ln().abs() < self.factor.ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_equal_to_itself_has_no_spread() {
        let spread = Spread::new("a", "b", &[5.0, 6.0], &[5.0, 6.0]).unwrap();
        assert_eq!((spread.ratio, spread.factor, spread.low, spread.high), (1.0, 1.0, 1.0, 1.0));
        assert!(!spread.covers(0.98));
    }

    #[test]
    fn scatter_widens_the_spread_even_if_the_medians_agree() {
        let spread = Spread::new("a", "b", &[1.0, 2.0, 1.0, 2.0], &[2.0, 1.0, 2.0, 1.0]).unwrap();
        assert_eq!(spread.ratio, 1.0);
        assert!(spread.covers(0.98) && spread.covers(1.5), "{spread:?}");
        assert!(!spread.covers(1.0 / 30.0));
        assert_eq!((spread.low, spread.high), (0.5, 2.0));
    }

    #[test]
    fn more_pairs_resolve_more() {
        let pairs = |n: usize| {
            let (a, b) = ([1.0, 1.0].repeat(n), [1.05, 0.952].repeat(n));
            Spread::new("a", "b", &a, &b).unwrap()
        };
        assert!(pairs(2).covers(0.98));
        assert!(!pairs(50).covers(0.98));
    }

    #[test]
    fn one_disturbed_pair_does_not_move_it() {
        let first = [100.0; 9];
        let mut second = [100.5; 9];
        second[4] = 5000.0;
        assert!(!Spread::new("a", "b", &first, &second).unwrap().covers(0.98));
    }

    #[test]
    fn without_samples_there_is_none() {
        assert_eq!(Spread::new("a", "b", &[], &[1.0]), None);
        assert_eq!(Spread::new("a", "b", &[0.0], &[1.0]), None);
        assert!(median(&[]).is_nan());
    }
}
