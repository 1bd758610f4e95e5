//! Percentiles over time, in characters: one column a point, one row a step of a logarithmic scale.
//!
//! Plain ASCII, so that a log file shows the same picture as a terminal.

use crate::figure::duration;
use std::ops::Range;

/// Rows in a factor of ten.
const ROWS_A_DECADE: f64 = 2.0;

/// A mark and its values over time, in nanoseconds; 0 leaves the column empty.
pub struct Series<'a> {
    /// The character that marks it
    pub mark: char,
    /// What it is
    pub name: &'a str,
    /// A value a column
    pub values_ns: Vec<u64>,
}

/// Draws the series into one picture; where two marks fall together, the later series is shown. The
/// columns of `window` are framed by `|`, if it is not empty.
pub fn plot(title: &str, series: &[Series], window: Range<usize>, range_ns: Range<u64>) -> String {
    let row_of = |value: u64| ((value.max(1) as f64).log10() * ROWS_A_DECADE).floor() as i64;
    let (low, high) = (row_of(range_ns.start), row_of(range_ns.end));
    let columns = series.iter().map(|s| s.values_ns.len()).max().unwrap_or(0);
    let mut text = format!("{title}\n");
    for row in (low..=high).rev() {
        let value = 10f64.powf(row as f64 / ROWS_A_DECADE);
        let label = if row.rem_euclid(ROWS_A_DECADE as i64) == 0 {
            duration(value.round() as u64)
        } else {
            String::new()
        };
        let mut line = format!("{label:>8} ");
        for column in 0..columns {
            line.push(if !window.is_empty() && (column == window.start || column == window.end) {
                '|'
            } else {
                ' '
            });
            let here = |s: &&Series| {
                s.values_ns.get(column).is_some_and(|&v| v > 0 && row_of(v).clamp(low, high) == row)
            };
            line.push(series.iter().rev().find(here).map_or(' ', |s| s.mark));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text.push_str(&format!(
        "{:>8} {}\n",
        "second",
        (0..columns)
            .map(|c| if c % 5 == 0 { format!(" {c:<9}") } else { String::new() })
            .collect::<String>()
            .trim_end()
    ));
    let legend: Vec<String> = series.iter().map(|s| format!("{} {}", s.mark, s.name)).collect();
    text.push_str(&format!("{:>8}  {}\n", "", legend.join("   ")));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_stand_at_their_decade_and_the_window_is_framed() {
        let series = [
            Series { mark: 'o', name: "p50", values_ns: vec![1_000, 1_000, 0] },
            Series { mark: '^', name: "max", values_ns: vec![1_000_000, 1_000, 500_000_000] },
        ];
        let text = plot("t", &series, 1..2, 1_000..100_000_000);
        let line = |label: &str| text.lines().find(|l| l.trim_start().starts_with(label)).unwrap().to_owned();
        assert_eq!(line("1.00 ms"), format!("{:>8}  ^| |", "1.00 ms"));
        assert_eq!(line("1.00 µs"), format!("{:>8}  o|^|", "1.00 µs"));
        // A value above the range is drawn in the top row.
        assert_eq!(line("100 ms"), format!("{:>8}   | |^", "100 ms"));
        assert!(text.ends_with("o p50   ^ max\n"), "{text}");
    }
}
