//! Which target to take, and why: a pure function of what was measured.
//!
//! A target is *kept* if the measured percentile is within it. Of the kept targets, the one at the
//! knee is suggested, or the next longer one: beyond it, a longer target buys little. If throughput
//! has no knee, it is the shortest that brings nearly all there is to gain. If nothing is gained,
//! nothing is suggested.

use super::schema::{Advice, Point};
use report::figure::{change, duration};

/// How far the percentile may be above a target that counts as kept: the accuracy that the feedback
/// promises.
const TOLERANCE: f64 = 1.05;
/// From this much of FIFO's throughput on, a target is worth its latency.
pub const GAIN: f64 = 1.05;
/// Without a knee, this share of the best throughput is nearly all.
const NEARLY_ALL: f64 = 0.95;

/// Suggests one of `points`, which are sorted by target, given the index of their knee and FIFO's
/// point.
pub fn advise(points: &[(u64, Point)], knee: Option<usize>, fifo: Option<Point>) -> Advice {
    let none = |reason: String| Advice { slo_ns: None, reason };
    let is_kept = |(slo_ns, point): &(u64, Point)| point.tail_ns <= *slo_ns as f64 * TOLERANCE;
    let Some(longest) = points.last() else { return none("no target was measured".into()) };
    let kept: Vec<usize> = (0..points.len()).filter(|&index| is_kept(&points[index])).collect();
    let best = kept.iter().map(|&index| points[index].1.throughput_per_s).fold(f64::NAN, f64::max);
    if kept.is_empty() {
        let text = format!("no target up to {} was kept: sweep longer ones", duration(longest.0));
        return none(text);
    }
    if let Some(fifo) = fifo
        && best < fifo.throughput_per_s * GAIN
    {
        let gain = change(best / fifo.throughput_per_s);
        return none(format!("no target that was kept brings much: {gain} at best against FIFO"));
    }
    let at_knee = knee.and_then(|knee| kept.iter().copied().find(|&index| index >= knee));
    // FIFO's throughput is what a knee must be better than, too.
    let worth = |index: &usize| {
        let enough =
            fifo.is_none_or(|fifo| points[*index].1.throughput_per_s >= fifo.throughput_per_s * GAIN);
        enough.then_some(*index)
    };
    let nearly = kept.iter().copied().find(|&index| points[index].1.throughput_per_s >= best * NEARLY_ALL);
    let Some(index) = at_knee.as_ref().and_then(worth).or(nearly) else {
        return none("no target that was kept has a throughput".into());
    };
    let (slo_ns, point) = points[index];
    let why = if knee == Some(index) {
        "it is at the knee: longer targets bring little more".to_owned()
    } else if at_knee == Some(index) && worth(&index).is_some() {
        "it is the first behind the knee that was kept".to_owned()
    } else {
        "it is the shortest that was kept and brings 95 % of the best throughput".to_owned()
    };
    let gain = fifo.map(|fifo| {
        format!("; throughput {} against FIFO", change(point.throughput_per_s / fifo.throughput_per_s))
    });
    let tail = duration(point.tail_ns as u64);
    Advice {
        slo_ns: Some(slo_ns),
        reason: format!("{why}; measured tail {tail}{}", gain.unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn point(throughput_per_s: f64, tail_ns: f64) -> Point {
        Point { throughput_per_s, tail_ns, max_ns: None, runs: 1 }
    }

    #[test]
    fn the_knee_is_suggested_if_it_is_kept() {
        let mut points =
            vec![(100, point(10.0, 100.0)), (200, point(19.0, 200.0)), (400, point(20.0, 400.0))];
        let fifo = Some(point(10.0, 80.0));
        let advice = advise(&points, Some(1), fifo);
        assert_eq!(advice.slo_ns, Some(200));
        assert!(
            advice.reason.contains("at the knee") && advice.reason.contains("+90.0 %"),
            "{}",
            advice.reason
        );
        points[1].1.tail_ns = 300.0;
        let advice = advise(&points, Some(1), fifo);
        assert_eq!(advice.slo_ns, Some(400));
        assert!(advice.reason.contains("behind the knee"), "{}", advice.reason);
    }

    #[test]
    fn without_a_gain_or_a_kept_target_there_is_none() {
        let points = [(100, point(10.0, 100.0)), (200, point(10.2, 100.0))];
        let advice = advise(&points, None, Some(point(10.0, 90.0)));
        assert!(advice.slo_ns.is_none() && advice.reason.contains("brings much"), "{advice:?}");
        let advice = advise(&[(100, point(10.0, 500.0))], None, None);
        assert!(advice.slo_ns.is_none() && advice.reason.contains("sweep longer"), "{advice:?}");
        assert_eq!(advise(&[], None, None).slo_ns, None);
    }

    #[test]
    fn without_a_knee_it_is_the_shortest_with_nearly_all() {
        let points = [(100, point(10.0, 50.0)), (200, point(19.5, 50.0)), (400, point(20.0, 50.0))];
        assert_eq!(advise(&points, None, None).slo_ns, Some(200));
    }

    proptest! {
        #[test]
        fn a_suggested_target_was_kept_and_pays(
            figures in prop::collection::vec((1.0..100.0f64, 1.0..5000.0f64), 0..12),
            knee in prop::option::of(0usize..12),
            fifo in prop::option::of(1.0..100.0f64),
        ) {
            let points: Vec<_> = figures.iter().enumerate().map(|(n, &(t, l))| (100 << n, point(t, l))).collect();
            let knee = knee.filter(|&knee| knee < points.len());
            let advice = advise(&points, knee, fifo.map(|t| point(t, 1.0)));
            prop_assert!(!advice.reason.is_empty());
            if let Some(slo_ns) = advice.slo_ns {
                let point = points.iter().find(|p| p.0 == slo_ns).unwrap().1;
                prop_assert!(point.tail_ns <= slo_ns as f64 * TOLERANCE);
                prop_assert!(fifo.is_none_or(|t| point.throughput_per_s >= t * GAIN * NEARLY_ALL));
            }
        }
    }
}
