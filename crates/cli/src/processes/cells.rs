//! Numbers as text of at most five or six characters.

/// A share as a percentage: 100 is one CPU, or one thread, all the time. At most five characters
/// below 1,000 CPUs.
pub fn percent(share: Option<f64>) -> String {
    let Some(percent) = share.map(|share| share * 100.0).filter(|percent| percent.is_finite()) else {
        return "-".into();
    };
    match percent {
        percent if percent < 0.05 => "0".into(),
        percent if percent < 99.95 => format!("{percent:.1}"),
        percent => format!("{percent:.0}"),
    }
}

/// A duration in the unit that suits it. At most five characters below 1,000 s.
pub fn time(ns: Option<u64>) -> String {
    let Some(ns) = ns else { return "-".into() };
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];
    let Some((scale, unit)) = units.into_iter().find(|(scale, _)| ns >= *scale) else {
        return format!("{ns}ns");
    };
    match ns / scale {
        whole @ 0..10 => format!("{whole}.{}{unit}", ns % scale * 10 / scale),
        whole => format!("{whole}{unit}"),
    }
}

/// A number per second, of at most five characters below 10^12.
pub fn rate(per_s: Option<f64>) -> String {
    let Some(per_s) = per_s.filter(|per_s| per_s.is_finite()) else { return "-".into() };
    match per_s {
        per_s if per_s < 0.05 => "0".into(),
        per_s if per_s < 9.95 => format!("{per_s:.1}"),
        per_s if per_s < 9_999.5 => format!("{per_s:.0}"),
        per_s if per_s < 999_500.0 => format!("{:.0}k", per_s / 1e3),
        per_s if per_s < 999.5e6 => format!("{:.0}M", per_s / 1e6),
        per_s => format!("{:.0}G", per_s / 1e9),
    }
}

/// A count.
pub fn count(count: Option<u32>) -> String {
    count.map_or("-".into(), |count| count.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_unit_is_the_largest_that_a_time_reaches() {
        for (ns, expected) in [
            (0, "0ns"),
            (999, "999ns"),
            (1_000, "1.0us"),
            (9_999, "9.9us"),
            (123_456, "123us"),
            (1_250_000, "1.2ms"),
            (64_000_000_000, "64s"),
        ] {
            assert_eq!(time(Some(ns)), expected);
        }
        assert_eq!(time(None), "-");
    }

    #[test]
    fn nothing_is_unlike_none() {
        assert_eq!((percent(Some(0.0)), percent(None)), ("0".into(), "-".into()));
        assert_eq!((percent(Some(0.999)), percent(Some(0.99996))), ("99.9".into(), "100".into()));
        assert_eq!(
            (rate(Some(0.0)), rate(Some(9.96)), rate(Some(12_345.0))),
            ("0".into(), "10".into(), "12k".into())
        );
    }

    proptest! {
        #[test]
        fn a_cell_keeps_its_width(ns in 0..999_000_000_000_u64, share in 0.0..999.0_f64, per_s in 0.0..9e11_f64) {
            prop_assert!(time(Some(ns)).len() <= 5);
            prop_assert!(percent(Some(share)).len() <= 5);
            prop_assert!(rate(Some(per_s)).len() <= 5);
        }
    }
}
