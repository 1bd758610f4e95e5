//! Figures in the cells of tables: with their unit, and a dash where there is none.

use crate::figure::{duration, rate, three_digits};

fn or_dash(value: f64, write: impl FnOnce(f64) -> String) -> String {
    if value.is_finite() { write(value) } else { "-".into() }
}

/// A number.
pub fn number(value: f64) -> String {
    or_dash(value, three_digits)
}

/// A time in nanoseconds.
pub fn time(ns: f64) -> String {
    or_dash(ns, |ns| duration(ns as u64))
}

/// A rate per second.
pub fn throughput(per_second: f64) -> String {
    or_dash(per_second, rate)
}

/// A number of bytes.
pub fn size(bytes: f64) -> String {
    or_dash(bytes, |bytes| match bytes {
        v if v < 1024.0 => format!("{v:.0} B"),
        v if v < 1024.0 * 1024.0 => format!("{} KiB", three_digits(v / 1024.0)),
        v => format!("{} MiB", three_digits(v / 1024.0 / 1024.0)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_their_unit() {
        assert_eq!(
            (size(40.0), size(2048.0), size(3.5e6)),
            ("40 B".into(), "2.00 KiB".into(), "3.34 MiB".into())
        );
    }

    #[test]
    fn a_value_that_was_not_measured_is_a_dash() {
        for cell in [number(f64::NAN), time(f64::NAN), throughput(f64::NAN), size(f64::INFINITY)] {
            assert_eq!(cell, "-");
        }
    }
}
