//! The histogram against exact percentiles of the same values, and against itself after a journey
//! as JSON.

use proptest::prelude::*;
use report::{Counts, Histogram};

/// Values of all magnitudes, up to a minute.
fn latencies() -> impl Strategy<Value = Vec<u64>> {
    prop::collection::vec((0u32..36, any::<u64>()).prop_map(|(bits, noise)| noise % (1 << bits)), 1..400)
}

fn filled(values: &[u64]) -> Histogram {
    let mut histogram = Histogram::new();
    values.iter().for_each(|&value| histogram.record(value));
    histogram
}

proptest! {
    #[test]
    fn percentiles_are_the_nearest_rank_to_a_tenth_of_a_percent(mut values in latencies(), percentile in 0.1f64..100.0) {
        let tail = filled(&values).tail(percentile);
        values.sort_unstable();
        let rank = (percentile / 100.0 * values.len() as f64).ceil() as usize;
        let exact = |rank: usize| values[rank.clamp(1, values.len()) - 1] as f64;
        // A rank that is whole but for rounding may fall on either side.
        let (low, high) = (exact(rank.saturating_sub(usize::from(rank > 1))), exact(rank));
        let measured = tail.value_ns as f64;
        prop_assert!(measured >= low * 0.998 - 1.0 && measured <= high * 1.002 + 1.0, "{measured} not in {low}..{high}");
        prop_assert_eq!(tail.max_ns, *values.last().unwrap());
    }

    #[test]
    fn count_sum_minimum_and_maximum_are_exact(values in latencies()) {
        let counts = Counts::from(filled(&values));
        prop_assert_eq!(counts.count, values.len() as u64);
        prop_assert_eq!(counts.sum_ns, values.iter().sum::<u64>());
        prop_assert_eq!(counts.min_ns, *values.iter().min().unwrap());
        prop_assert_eq!(counts.max_ns, *values.iter().max().unwrap());
        prop_assert_eq!(counts.counts.iter().map(|c| c.1).sum::<u64>(), counts.count);
    }

    #[test]
    fn json_loses_nothing(values in latencies()) {
        let counts = Counts::from(filled(&values));
        let text = serde_json::to_string(&filled(&values)).unwrap();
        let back: Histogram = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(Counts::from(&back), counts);
        prop_assert_eq!(back.summary(), filled(&values).summary());
    }

    #[test]
    fn merging_is_recording_both(first in latencies(), second in latencies()) {
        let mut merged = filled(&first);
        merged.merge(&filled(&second));
        let both = [first, second].concat();
        prop_assert_eq!(Counts::from(merged), Counts::from(filled(&both)));
    }
}

#[test]
fn an_empty_histogram_is_zero_everywhere() {
    let summary = Histogram::new().summary();
    assert_eq!((summary.count, summary.p50_ns, summary.p999_ns, summary.max_ns), (0, 0, 0, 0));
    assert_eq!(summary.mean_ns, 0.0);
    assert_eq!(Counts::from(Histogram::new()), Counts::default());
}

#[test]
fn counts_that_do_not_add_up_are_refused() {
    let text = r#"{"count":3,"min_ns":1,"max_ns":2,"sum_ns":4,"counts":[[1,1],[2,1]]}"#;
    let error = serde_json::from_str::<Histogram>(text).unwrap_err().to_string();
    assert!(error.contains("hold 2 values, not the 3"), "{error}");
}
