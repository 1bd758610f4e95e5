//! Latencies as counts: the form of a bench's outputs and of the histograms in `manx stats`.
//!
//! A curve of percentiles is drawn as HdrHistogram's plots are: over 1/(1-q), logarithmic, so that
//! each further nine has the same room, and up to the maximum. The value of rank k among n is
//! drawn at q = k/(n+1) (Weibull's plotting position), so that the maximum has a place.

use serde::Deserialize;
use serde_json::Value;

/// Points of a curve in a factor of ten of 1/(1-q).
const POINTS_A_DECADE: f64 = 18.0;

/// Values and how often each was seen, sorted.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Latencies {
    counts: Vec<(u64, u64)>,
    max_ns: u64,
    all: u64,
}

/// A histogram as a bench writes it.
#[derive(Deserialize)]
struct Written {
    counts: Vec<(u64, u64)>,
    #[serde(default)]
    max_ns: u64,
}

impl Latencies {
    /// The histogram of buckets `[value, count]`; `max_ns` is the exact maximum, or 0.
    pub(crate) fn new(counts: &[(u64, u64)], max_ns: u64) -> Latencies {
        let mut counts: Vec<(u64, u64)> = counts.iter().copied().filter(|(_, count)| *count > 0).collect();
        counts.sort_unstable();
        let all = counts.iter().fold(0, |all: u64, (_, count)| all.saturating_add(*count));
        let max_ns = if max_ns == 0 { counts.last().map_or(0, |last| last.0) } else { max_ns };
        Latencies { counts, max_ns, all }
    }

    /// The histogram that a bench wrote; `None` if the value is no histogram.
    pub(crate) fn of(value: &Value) -> Option<Latencies> {
        value.get("counts")?;
        let written = Written::deserialize(value).ok()?;
        Some(Latencies::new(&written.counts, written.max_ns))
    }

    /// All of both.
    pub(crate) fn merge(&mut self, other: &Latencies) {
        let both = [self.counts.as_slice(), &other.counts].concat();
        *self = Latencies::new(&both, self.max_ns.max(other.max_ns));
    }

    pub(crate) fn count(&self) -> u64 {
        self.all
    }

    pub(crate) fn max_ns(&self) -> u64 {
        self.max_ns
    }

    pub(crate) fn buckets(&self) -> &[(u64, u64)] {
        &self.counts
    }

    /// The smallest value with at least this share of the values at or below it.
    pub(crate) fn quantile_ns(&self, share: f64) -> u64 {
        let rank = ((self.all as f64 * share).ceil() as u64).max(1);
        let mut below = 0u64;
        for (value, count) in &self.counts {
            below = below.saturating_add(*count);
            if below >= rank {
                return (*value).min(self.max_ns);
            }
        }
        self.max_ns
    }

    /// The points `(1/(1-q), value)` up to the maximum.
    pub(crate) fn curve(&self) -> Vec<(f64, f64)> {
        let n = self.all as f64;
        let (mut points, mut below, mut drawn): (Vec<(f64, f64)>, _, _) =
            (Vec::new(), 0u64, f64::NEG_INFINITY);
        for (value, count) in &self.counts {
            // The bucket's first rank, and its last one.
            for rank in [below.saturating_add(1), below.saturating_add(*count)] {
                let x = (n + 1.0) / (n + 1.0 - rank as f64).max(1.0);
                if x.log10() - drawn >= 1.0 / POINTS_A_DECADE {
                    points.push((x, (*value).min(self.max_ns) as f64));
                    drawn = x.log10();
                }
            }
            below = below.saturating_add(*count);
        }
        if self.all > 0 {
            let last = n + 1.0;
            points.retain(|(x, _)| *x < last);
            points.push((last, self.max_ns as f64));
        }
        points
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_curve_ends_at_the_maximum() {
        let latencies = Latencies::new(&[(10, 900), (100, 99), (1000, 1)], 1003);
        let curve = latencies.curve();
        assert_eq!(curve.last(), Some(&(1001.0, 1003.0)));
        assert_eq!(
            (latencies.quantile_ns(0.5), latencies.quantile_ns(0.95), latencies.quantile_ns(1.0)),
            (10, 100, 1000)
        );
        assert!(Latencies::new(&[], 0).curve().is_empty());
    }

    proptest! {
        #[test]
        fn a_curve_rises_and_is_short(counts in prop::collection::vec((any::<u64>(), any::<u64>()), 0..400), max_ns: u64) {
            let curve = Latencies::new(&counts, max_ns).curve();
            prop_assert!(curve.windows(2).all(|two| two[0].0 < two[1].0), "{curve:?}");
            prop_assert!(curve.len() <= 20 * POINTS_A_DECADE as usize + 2);
        }

        #[test]
        fn a_rank_is_where_the_curve_says(values in prop::collection::vec(1u64..1000, 1..50)) {
            let counts: Vec<(u64, u64)> = values.iter().map(|value| (*value, 1)).collect();
            let latencies = Latencies::new(&counts, 0);
            let mut sorted = values;
            sorted.sort_unstable();
            prop_assert_eq!(latencies.max_ns(), sorted[sorted.len() - 1]);
            prop_assert_eq!(latencies.quantile_ns(0.5), sorted[sorted.len().div_ceil(2) - 1]);
        }
    }
}
