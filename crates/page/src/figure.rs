//! Numbers for people: three significant digits, and the unit that suits them.

/// `value` with about three significant digits, and never in scientific notation.
///
/// ```
/// use page::figure::three_digits;
/// assert_eq!(three_digits(0.0271), "0.027");
/// assert_eq!(three_digits(1.234), "1.23");
/// assert_eq!(three_digits(12.34), "12.3");
/// assert_eq!(three_digits(1234.0), "1234");
/// ```
pub fn three_digits(value: f64) -> String {
    let decimals = match value.abs() {
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        v if v >= 1.0 => 2,
        v if v >= 0.001 || v == 0.0 => 3,
        _ => 6,
    };
    let decimals = if value == 0.0 { 0 } else { decimals };
    format!("{value:.decimals$}")
}

/// A duration in the unit that suits it.
///
/// ```
/// use page::figure::duration;
/// assert_eq!(duration(950), "950 ns");
/// assert_eq!(duration(2_300_000), "2.30 ms");
/// assert_eq!(duration(61_000_000_000), "61.0 s");
/// ```
pub fn duration(ns: u64) -> String {
    let value = ns as f64;
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{} µs", three_digits(value / 1e3)),
        1_000_000..1_000_000_000 => format!("{} ms", three_digits(value / 1e6)),
        _ => format!("{} s", three_digits(value / 1e9)),
    }
}

/// A rate per second.
///
/// ```
/// use page::figure::rate;
/// assert_eq!(rate(105_682.0), "106k/s");
/// assert_eq!(rate(12.0), "12.0/s");
/// ```
pub fn rate(per_second: f64) -> String {
    match per_second {
        v if v >= 1e6 => format!("{}M/s", three_digits(v / 1e6)),
        v if v >= 1e3 => format!("{}k/s", three_digits(v / 1e3)),
        v => format!("{}/s", three_digits(v)),
    }
}

/// A ratio as a change, `+15 %`, or as a factor where a percentage would be hard to read.
///
/// ```
/// use page::figure::change;
/// assert_eq!(change(1.15), "+15.0 %");
/// assert_eq!(change(0.98), "-2.00 %");
/// assert_eq!(change(26.6), "x26.6");
/// ```
pub fn change(ratio: f64) -> String {
    if !(0.1..10.0).contains(&ratio) {
        return format!("x{}", three_digits(ratio));
    }
    let percent = (ratio - 1.0) * 100.0;
    format!("{}{} %", if percent >= 0.0 { "+" } else { "" }, three_digits(percent))
}

/// An interval, or a dash where there is none.
///
/// ```
/// use page::figure::interval;
/// assert_eq!(interval(Some((0.98, 1.034))), "0.980 to 1.03");
/// assert_eq!(interval(None), "-");
/// ```
pub fn interval(ends: Option<(f64, f64)>) -> String {
    ends.map_or("-".into(), |(low, high)| format!("{} to {}", three_digits(low), three_digits(high)))
}
