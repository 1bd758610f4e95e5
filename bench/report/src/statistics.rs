//! The median of repeats.

/// The median; the mean of the two in the middle if their number is even, `NaN` if there are none.
///
/// ```
/// assert_eq!(report::median(&[3.0, 1.0, 2.0]), 2.0);
/// assert_eq!(report::median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
/// assert!(report::median(&[]).is_nan());
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
