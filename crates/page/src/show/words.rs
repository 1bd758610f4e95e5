//! How figures are written, by the end of their names; and which of two is the better one.

use crate::figure::{duration, rate, three_digits};

/// Nanoseconds as a duration: also a label of axes.
pub(crate) fn time(ns: f64) -> String {
    if ns.is_finite() && ns >= 0.0 { duration(ns.round() as u64) } else { "-".into() }
}

/// A number; a dash if there is none.
pub(crate) fn number(value: f64) -> String {
    if !value.is_finite() {
        "-".into()
    } else if value.abs() >= 1e15 {
        format!("{value:.2e}")
    } else {
        three_digits(value)
    }
}

/// A rate, also as a label.
pub(crate) fn throughput(per_second: f64) -> String {
    match per_second.is_finite() {
        true if per_second.abs() >= 1e15 => format!("{per_second:.2e}/s"),
        true => rate(per_second),
        false => "-".into(),
    }
}

/// A share of 1 as a percentage.
pub(crate) fn percent(share: f64) -> String {
    if share.is_finite() { format!("{} %", three_digits(share * 100.0)) } else { "-".into() }
}

/// A number of bytes.
pub(crate) fn size(bytes: f64) -> String {
    match bytes {
        v if !v.is_finite() => "-".into(),
        v if v < 1024.0 => format!("{v:.0} B"),
        v if v < 1024.0 * 1024.0 => format!("{} KiB", three_digits(v / 1024.0)),
        v => format!("{} MiB", three_digits(v / 1024.0 / 1024.0)),
    }
}

/// A figure by its name.
pub(crate) fn figure(name: &str, value: f64) -> String {
    match name {
        _ if name.ends_with("_ns") => time(value),
        _ if name.ends_with("_per_s") => throughput(value),
        _ if name.ends_with("_bytes") => size(value),
        _ if name.ends_with("_share") => percent(value),
        _ => number(value),
    }
}

/// A percentile as the label of 1/(1-q): `p99.9` of 1000.
pub(crate) fn percentile(inverse: f64) -> String {
    if !inverse.is_finite() || inverse <= 1.0 {
        return "p0".into();
    }
    let percent = 100.0 - 100.0 / inverse;
    let decimals = (inverse.log10() - 1.0).ceil().clamp(0.0, 15.0) as usize;
    let text = format!("{percent:.decimals$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("p{text}")
}

/// Whether a larger value of a figure is better, if that is known.
pub(crate) fn is_more_better(name: &str) -> Option<bool> {
    let ends = |all: &[&str]| all.iter().any(|end| name.ends_with(end));
    if ends(&["_per_s"]) {
        return Some(true);
    }
    let less = ["_ns", "_bytes", "_share", "conflicts", "errors", "missed", "waits", "severity", "threads"];
    (ends(&less) || name.starts_with("ns_per_")).then_some(false)
}

/// A number as it stands in a cell, with its unit, to sort by: `1.5 ms` is 1,500,000.
pub(crate) fn value_of(text: &str) -> Option<f64> {
    let text = text.trim().trim_start_matches(['≤', '≥', '±', '~', 'x']).trim_start();
    let end = text.find(|c: char| !(c.is_ascii_digit() || "+-.".contains(c))).unwrap_or(text.len());
    let number: f64 = text[..end].parse().ok()?;
    let factor = match text[end..].trim_start() {
        unit if unit.starts_with("µs") => 1e3,
        unit if unit.starts_with("ms") => 1e6,
        unit if unit.starts_with("s") => 1e9,
        unit if unit.starts_with("k/s") || unit.starts_with("KiB") => 1e3,
        unit if unit.starts_with("M/s") || unit.starts_with("MiB") => 1e6,
        _ => 1.0,
    };
    Some(number * factor)
}

/// A time of the year, from seconds since 1970 (Hinnant, "chrono-compatible low-level date
/// algorithms").
pub(crate) fn date(unix_s: u64) -> String {
    let (days, second) = (unix_s / 86_400 + 719_468, unix_s % 86_400);
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + u64::from(month <= 2);
    format!("{year}-{month:02}-{day:02} {:02}:{:02} UTC", second / 3600, second / 60 % 60)
}

/// The values in their order.
pub(crate) fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_unstable_by(f64::total_cmp);
    values
}

/// The middle of some values; of two the mean.
pub(crate) fn median(values: &[f64]) -> f64 {
    let sorted = sorted(values.to_vec());
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[n / 2],
        n => f64::midpoint(sorted[n / 2 - 1], sorted[n / 2]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_have_as_many_nines_as_they_need() {
        for (inverse, expected) in [
            (1.0, "p0"),
            (2.0, "p50"),
            (10.0, "p90"),
            (20.0, "p95"),
            (1e3, "p99.9"),
            (1e5, "p99.999"),
            (357.0, "p99.72"),
        ] {
            assert_eq!(percentile(inverse), expected);
        }
        assert_eq!(percentile(f64::INFINITY), "p0");
    }

    #[test]
    fn days_are_those_of_the_calendar() {
        assert_eq!(date(0), "1970-01-01 00:00 UTC");
        assert_eq!(date(951_827_696), "2000-02-29 12:34 UTC");
        assert_eq!(date(1_795_634_570), "2026-11-25 19:22 UTC");
    }

    #[test]
    fn cells_are_sorted_by_what_they_say() {
        for (text, expected) in [
            ("1.50 ms", Some(1.5e6)),
            ("2 s", Some(2e9)),
            ("106k/s", Some(106e3)),
            ("-", None),
            ("≤ 0.98", Some(0.98)),
            ("a", None),
        ] {
            assert_eq!(value_of(text), expected, "{text}");
        }
    }
}
