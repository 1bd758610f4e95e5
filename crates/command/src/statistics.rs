//! The median of repeats, and the interval in which it lies.
//!
//! The interval is a percentile bootstrap (Efron, "Bootstrap methods: another look at the
//! jackknife", 1979): as many values as there are are drawn with replacement, 2000 times; the
//! median of each draw is taken; 95 % of these medians lie between the two ends. The seed is fixed,
//! so the same values always have the same interval. Of few values the interval is a little too
//! narrow: simulated with normal noise it holds the true median in 92 to 94 %.
//!
//! Invariants:
//! 1. Fewer than [`PAIRS_MIN`] values have no interval, and no verdict follows from them. From five
//!    on, the two ends cannot both lie on one side of the true median but by a chance of 6 %; with
//!    four the chance is 13 %.

/// The fewest values that have an interval (Invariant 1). They are mostly differences or ratios of
/// pairs.
pub const PAIRS_MIN: usize = 5;
/// Draws of a bootstrap.
const DRAWS: usize = 2000;
/// The share of the drawn medians that lies outside of the interval.
const OUTSIDE: f64 = 0.05;
/// Where the draws begin.
const SEED: u64 = 0x9e37_79b9_7f4a_7c15;

/// The median; the mean of the two in the middle if their number is even, `NaN` if there are none.
///
/// ```
/// assert_eq!(command::statistics::median(&[3.0, 1.0, 2.0]), 2.0);
/// assert_eq!(command::statistics::median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
/// assert!(command::statistics::median(&[]).is_nan());
/// ```
pub fn median(values: &[f64]) -> f64 {
    if values.is_empty() { f64::NAN } else { middle(&mut values.to_vec()) }
}

/// The median of at least one value, in time linear in the number of values. The order of the
/// values changes.
fn middle(values: &mut [f64]) -> f64 {
    let count = values.len();
    let (below, &mut upper, _) = values.select_nth_unstable_by(count / 2, f64::total_cmp);
    match count % 2 {
        1 => upper,
        _ => (below.iter().copied().fold(f64::NEG_INFINITY, f64::max) + upper) / 2.0,
    }
}

/// The 95 % interval of the median, by percentile bootstrap; `None` of fewer than [`PAIRS_MIN`].
///
/// ```
/// use command::statistics::interval;
/// assert_eq!(interval(&[2.0, 2.0, 2.1, 2.1, 1.9]), Some((1.9, 2.1)));
/// assert_eq!(interval(&[2.0; 4]), None);
/// ```
pub fn interval(values: &[f64]) -> Option<(f64, f64)> {
    if values.len() < PAIRS_MIN {
        return None;
    }
    let mut random = fastrand::Rng::with_seed(SEED);
    let (mut drawn, mut medians) = (vec![0.0; values.len()], Vec::with_capacity(DRAWS));
    for _ in 0..DRAWS {
        drawn.fill_with(|| values[random.usize(..values.len())]);
        medians.push(middle(&mut drawn));
    }
    medians.sort_by(f64::total_cmp);
    let end = |share: f64| medians[((DRAWS - 1) as f64 * share).round() as usize];
    Some((end(OUTSIDE / 2.0), end(1.0 - OUTSIDE / 2.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_is_that_of_the_sorted_values() {
        for count in 1..12 {
            let mut values: Vec<f64> = (0..count).map(|i| f64::from(i * 7 % 11)).collect();
            let mut sorted = values.clone();
            sorted.sort_by(f64::total_cmp);
            let expected = (sorted[(count as usize - 1) / 2] + sorted[count as usize / 2]) / 2.0;
            assert_eq!(middle(&mut values), expected, "{count}");
        }
    }
}
