//! Where a curve stops paying: its knee, by Kneedle.
//!
//! Both axes are scaled to 0 … 1, and the knee of a curve that rises and flattens is where it lies
//! highest above the diagonal from its first to its last point: Satopää, Albrecht, Irwin and
//! Raghavan, *Finding a "Kneedle" in a Haystack*, ICDCS workshops 2011. Ours differs in two ways,
//! because points are few and were measured. A dip cannot be a property of the curve, so each value
//! is the largest so far. And instead of a threshold for a local maximum's fall, the highest point
//! itself must rise far enough above the diagonal.

/// How far above the diagonal a knee is at least, of the curve's height.
pub const HEIGHT: f64 = 0.1;

/// The index of the knee of `points`, which are sorted by x; `None` if there are fewer than three,
/// the curve does not rise, or it is about as straight as a line.
///
/// ```
/// use report::knee::knee;
/// assert_eq!(knee(&[(0.0, 0.0), (1.0, 9.0), (2.0, 9.5), (3.0, 10.0)]), Some(1));
/// assert_eq!(knee(&[(0.0, 0.0), (1.0, 1.0), (2.0, 2.0)]), None);
/// ```
pub fn knee(points: &[(f64, f64)]) -> Option<usize> {
    let (first, last) = (points.first()?, points.last()?);
    let mut highest = f64::NEG_INFINITY;
    let rising: Vec<f64> = points
        .iter()
        .map(|&(_, y)| {
            highest = highest.max(y);
            highest
        })
        .collect();
    let (width, height) = (last.0 - first.0, highest - first.1);
    let usable = width.is_finite() && width > 0.0 && height.is_finite() && height > 0.0;
    if points.len() < 3 || !usable {
        return None;
    }
    let above = |index: usize| (rising[index] - first.1) / height - (points[index].0 - first.0) / width;
    let mut best = 0;
    for index in 1..points.len() {
        if above(index) > above(best) {
            best = index;
        }
    }
    (above(best) >= HEIGHT).then_some(best)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_dip_after_the_knee_does_not_move_it() {
        let flat: Vec<(f64, f64)> =
            [0.0, 5.0, 9.0, 9.1, 8.0, 9.2].iter().enumerate().map(|(x, &y)| (x as f64, y)).collect();
        assert_eq!(knee(&flat), Some(2));
    }

    #[test]
    fn a_curve_that_falls_or_is_flat_or_short_has_no_knee() {
        for points in [
            &[][..],
            &[(0.0, 1.0), (1.0, 2.0)],
            &[(0.0, 2.0), (1.0, 2.0), (2.0, 2.0)],
            &[(0.0, 3.0), (1.0, 2.0), (2.0, 1.0)],
            &[(1.0, 1.0), (1.0, 2.0), (1.0, 3.0)],
            &[(0.0, 0.0), (1.0, 0.1), (2.0, 5.0)],
        ] {
            assert_eq!(knee(points), None, "{points:?}");
        }
    }

    proptest! {
        #[test]
        fn the_corner_of_two_lines_is_the_knee(corner in 1usize..15, steep in 2.0..50.0f64, tail in 5usize..20) {
            let count = corner + tail;
            let y = |x: usize| steep * x.min(corner) as f64 + x.saturating_sub(corner) as f64 * 0.01;
            let points: Vec<_> = (0..count).map(|x| (x as f64, y(x))).collect();
            prop_assert_eq!(knee(&points), Some(corner));
        }

        #[test]
        fn units_do_not_move_it(ys in prop::collection::vec(0.0..100.0f64, 3..20), shift in 0i32..8, scale in 1i32..8) {
            // Powers of two scale without rounding.
            let scale = f64::from(1 << scale);
            let points: Vec<_> = ys.iter().enumerate().map(|(x, &y)| (x as f64, y)).collect();
            let moved: Vec<_> = points.iter().map(|&(x, y)| (x * scale + f64::from(shift) * scale, y * scale)).collect();
            prop_assert_eq!(knee(&points), knee(&moved));
        }

        #[test]
        fn it_is_inside(ys in prop::collection::vec(-1e9..1e9f64, 0..20)) {
            let points: Vec<_> = ys.iter().enumerate().map(|(x, &y)| (x as f64, y)).collect();
            if let Some(at) = knee(&points) {
                prop_assert!(at > 0 && at + 1 < points.len());
            }
        }
    }
}
