//! The two text formats: OpenMetrics 1.0, and the format of Prometheus before it.
//!
//! | | OpenMetrics | Prometheus |
//! | --- | --- | --- |
//! | a counter's family | `x_seconds`, its samples `x_seconds_total` | `x_seconds_total` |
//! | `# UNIT` | if there is one | none |
//! | `# HELP` escapes | `\`, line feed, `"` | `\`, line feed |
//! | the end | `# EOF` | nothing |
//!
//! The buckets of a histogram are those at whole powers of two, because a line for each of the 210
//! buckets would be long. The protobuf format has all of them.
//!
//! A label's value is any UTF-8. `\`, `"` and the line feed are escaped, so a program's name cannot
//! end the value or begin a line.

use crate::metric::{Family, Histogram, Kind, Sample, Value, seconds};
use preload_abi::histogram::{BUCKETS, BUCKETS_PER_DOUBLING, FIRST_EXPONENT};
use std::fmt::Write as _;

/// Which of the formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// OpenMetrics, version 1.0.0.
    OpenMetrics,
    /// The text format of Prometheus, version 0.0.4, which node_exporter reads from files.
    Prometheus,
}

/// Writes all families that have samples.
///
/// ```
/// use exporter::metric::{Description, Family, Kind};
/// use exporter::text::{Dialect, write};
///
/// const WAITS: Description = Description {
///     name: "waits", kind: Kind::Counter, unit: "", labels: &["program"], help: "Waits.",
/// };
/// let mut family = Family::new(&WAITS);
/// family.number(&["a\"b"], 3.0);
/// let text = write(&[family], Dialect::OpenMetrics);
/// assert_eq!(
///     text,
///     "# TYPE waits counter\n# HELP waits Waits.\nwaits_total{program=\"a\\\"b\"} 3\n# EOF\n",
/// );
/// ```
pub fn write(families: &[Family], dialect: Dialect) -> String {
    let mut out = String::new();
    for family in families.iter().filter(|family| !family.samples.is_empty()) {
        head(&mut out, family, dialect);
        for sample in &family.samples {
            put(&mut out, family, sample);
        }
    }
    if dialect == Dialect::OpenMetrics {
        out += "# EOF\n";
    }
    out
}

fn head(out: &mut String, family: &Family, dialect: Dialect) {
    let described = family.description;
    let is_old_counter = dialect == Dialect::Prometheus && described.kind == Kind::Counter;
    let (name, suffix) = (described.name, if is_old_counter { "_total" } else { "" });
    let _ = writeln!(out, "# TYPE {name}{suffix} {}", described.kind.word());
    if dialect == Dialect::OpenMetrics && !described.unit.is_empty() {
        let _ = writeln!(out, "# UNIT {name} {}", described.unit);
    }
    let _ = write!(out, "# HELP {name}{suffix} ");
    escape(out, described.help, dialect == Dialect::OpenMetrics);
    out.push('\n');
}

fn put(out: &mut String, family: &Family, sample: &Sample) {
    let name = family.description.name;
    match &sample.value {
        Value::Number(number) => {
            let suffix = if family.description.kind == Kind::Counter { "_total" } else { "" };
            line(out, &format!("{name}{suffix}"), family, sample, None, *number);
        }
        Value::Histogram(histogram) => {
            let bucket = format!("{name}_bucket");
            for (bound, count) in cumulative(histogram) {
                line(out, &bucket, family, sample, Some(&bound), count as f64);
            }
            line(out, &format!("{name}_sum"), family, sample, None, seconds(histogram.sum_ns));
            line(out, &format!("{name}_count"), family, sample, None, histogram.counts.count() as f64);
        }
    }
}

/// The counts up to each power of two, and up to infinity.
fn cumulative(histogram: &Histogram) -> impl Iterator<Item = (String, u64)> + '_ {
    let mut below = 0;
    histogram.counts.0.iter().enumerate().filter_map(move |(bucket, count)| {
        below += count;
        if bucket == BUCKETS - 1 {
            return Some(("+Inf".to_owned(), below));
        }
        let exponent = FIRST_EXPONENT + (bucket / BUCKETS_PER_DOUBLING) as i32;
        let is_power = bucket.is_multiple_of(BUCKETS_PER_DOUBLING);
        is_power.then(|| (number(f64::from(exponent).exp2(), true), below))
    })
}

fn line(out: &mut String, name: &str, family: &Family, sample: &Sample, le: Option<&str>, value: f64) {
    out.push_str(name);
    let labels = family.description.labels.iter().copied().zip(sample.labels.iter().map(String::as_str));
    let mut before = '{';
    for (label, value) in labels.chain(le.map(|bound| ("le", bound))) {
        let _ = write!(out, "{before}{label}=\"");
        escape(out, value, true);
        out.push('"');
        before = ',';
    }
    if before == ',' {
        out.push('}');
    }
    let _ = writeln!(out, " {}", number(value, false));
}

/// A number as both formats have it. A bound of a bucket has a point, as OpenMetrics wants it.
fn number(value: f64, is_bound: bool) -> String {
    if value.is_infinite() {
        return if value > 0.0 { "+Inf".into() } else { "-Inf".into() };
    }
    if value.is_nan() {
        return "NaN".into();
    }
    if is_bound { format!("{value:?}") } else { format!("{value}") }
}

fn escape(out: &mut String, text: &str, quotes: bool) {
    for character in text.chars() {
        match character {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '"' if quotes => out.push_str("\\\""),
            other => out.push(other),
        }
    }
}
