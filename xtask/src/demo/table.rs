//! The table of the demo, and the same figures as JSON.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::run::Latencies;

/// How a program is started.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// As its author meant it
    AsIs,
    /// Under `manx run`
    Manx,
}

/// The figures of a program, by the way in which it was started.
pub struct Row {
    /// What the table calls it
    pub name: &'static str,
    /// The latencies of each version
    pub versions: BTreeMap<Version, Latencies>,
}

/// What a newcomer looks at: the usual operation, the slow ones, and the slowest.
const FIGURES: [(&str, Figure); 3] =
    [("p50", |of| of.percentile(0.5)), ("p99", |of| of.percentile(0.99)), ("max", |of| of.percentile(1.0))];
type Figure = fn(&Latencies) -> Option<u64>;

/// A row for each program: its latencies as it is and under `manx run`, and the ratio of their p99.
pub fn draw(rows: &[Row]) -> String {
    let width = rows.iter().map(|row| row.name.len()).max().unwrap_or(0);
    let mut text = format!("{:width$}{:>27}{:>27}\n", "", "as it is", "under manx run");
    let heads: String = FIGURES.iter().map(|(name, _)| format!("{name:>9}")).collect();
    text += &format!("{:width$}{heads}{heads}{:>12}\n", "an operation of", "p99 is");
    for row in rows {
        text += &format!("{:width$}", row.name);
        for version in [Version::AsIs, Version::Manx] {
            for (_, figure) in FIGURES {
                let value = row.versions.get(&version).and_then(figure).map_or("-".into(), time);
                text += &format!("{value:>9}");
            }
        }
        text += &format!("{:>12}\n", row.ratio().map_or("-".into(), times));
    }
    text
}

/// The figures of all programs, in nanoseconds.
pub fn json(rows: &[Row]) -> Value {
    let of = |row: &Row, version| {
        let latencies = row.versions.get(&version);
        let figures = FIGURES.map(|(name, figure)| (format!("{name}_ns"), json!(latencies.and_then(figure))));
        Value::from(figures.into_iter().collect::<serde_json::Map<_, _>>())
    };
    let row = |row: &Row| {
        let (as_is, manx) = (of(row, Version::AsIs), of(row, Version::Manx));
        json!({ "program": row.name, "as it is": as_is, "manx run": manx, "p99_as_it_is_of_manx_run": row.ratio() })
    };
    rows.iter().map(row).collect()
}

impl Row {
    /// The p99 as it is, in multiples of that under `manx run`.
    fn ratio(&self) -> Option<f64> {
        let p99 = |version| self.versions.get(&version)?.percentile(0.99);
        Some(p99(Version::AsIs)? as f64 / p99(Version::Manx)?.max(1) as f64)
    }
}

/// A time with two digits that count, in the unit that fits.
fn time(ns: u64) -> String {
    let (value, unit) = match ns {
        0..1_000 => return format!("{ns} ns"),
        1_000..1_000_000 => (ns as f64 / 1e3, "µs"),
        1_000_000..1_000_000_000 => (ns as f64 / 1e6, "ms"),
        _ => (ns as f64 / 1e9, "s"),
    };
    if value < 10.0 { format!("{value:.1} {unit}") } else { format!("{value:.0} {unit}") }
}

/// How many times as short the tail is, or as long.
fn times(ratio: f64) -> String {
    match ratio {
        10.0.. => format!("{ratio:.0} x less"),
        1.05.. => format!("{ratio:.1} x less"),
        0.95.. => "the same".into(),
        _ => format!("{:.1} x more", 1.0 / ratio),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_both_versions_and_their_ratio() {
        let version = |ns: &[u64]| ns.iter().copied().collect::<Latencies>();
        let versions =
            [(Version::AsIs, version(&[120_000, 20_000_000])), (Version::Manx, version(&[220_000, 250_000]))];
        let rows = [Row { name: "numpy", versions: versions.into() }];
        let text = draw(&rows);
        let last: Vec<&str> = text.lines().last().unwrap_or_default().split_whitespace().collect();
        let expected = "numpy 120 µs 20 ms 20 ms 220 µs 250 µs 250 µs 80 x less";
        assert_eq!(last.join(" "), expected);
        assert_eq!(json(&rows)[0]["as it is"]["p99_ns"], 20_000_000);
        assert_eq!(json(&rows)[0]["p99_as_it_is_of_manx_run"], 80.0);
    }

    #[test]
    fn a_longer_tail_is_said_as_well() {
        assert_eq!([2.0, 1.0, 0.5].map(times), ["2.0 x less", "the same", "2.0 x more"]);
        assert_eq!([999, 1_500, 2_000_000_000].map(time), ["999 ns", "1.5 µs", "2.0 s"]);
    }
}
