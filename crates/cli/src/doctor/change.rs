//! How a figure of a program changes under `manx run`: over pairs of runs.

use super::figure::Better;
use super::session::Session;
use command::statistics::{interval, median};
use serde::Serialize;

/// Fewer lost threads are nothing to cure.
pub const LOST_MIN: f64 = 0.1;
/// The part of the lost threads that is left if the program is cured, at most.
pub const CURED: f64 = 0.2;

/// What a figure's change is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Under `manx run`, divided by as it is
    Ratio,
    /// Under `manx run`, less as it is
    Difference,
}

/// How a figure changes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    pub figure: String,
    pub unit: &'static str,
    pub kind: Kind,
    /// The direction in which the figure gets better, if it is one of work
    pub better: Option<Better>,
    /// The median of the runs as it is
    pub as_it_is: f64,
    /// … and of those under `manx run`
    pub manx_run: f64,
    pub pairs: usize,
    /// The median of the pairs' changes
    pub change: f64,
    pub low: Option<f64>,
    pub high: Option<f64>,
}

impl Change {
    /// Of one figure by pairs; `None` if no pair has it.
    pub fn of(figure: &str, unit: &'static str, kind: Kind, pairs: &[(f64, f64)]) -> Option<Change> {
        let is_usable = |(a, b): &&(f64, f64)| kind == Kind::Difference || *a > 0.0 && *b > 0.0;
        // A sum of nothing is a negative zero; with 0 added it is none.
        let pairs: Vec<(f64, f64)> =
            pairs.iter().filter(is_usable).map(|(a, b)| (a + 0.0, b + 0.0)).collect();
        if pairs.is_empty() {
            return None;
        }
        let change = |(a, b): &(f64, f64)| if kind == Kind::Ratio { b / a } else { b - a };
        let changes: Vec<f64> = pairs.iter().map(change).collect();
        let (low, high) = interval(&changes).unzip();
        let side = |of: fn(&(f64, f64)) -> f64| median(&pairs.iter().map(of).collect::<Vec<_>>());
        Some(Change {
            figure: figure.into(),
            unit,
            kind,
            better: None,
            as_it_is: side(|pair| pair.0),
            manx_run: side(|pair| pair.1),
            pairs: pairs.len(),
            change: median(&changes),
            low,
            high,
        })
    }

    /// Whether it is less, more, or not known.
    pub fn word(&self) -> &'static str {
        let neutral = if self.kind == Kind::Ratio { 1.0 } else { 0.0 };
        match self.low.zip(self.high) {
            None => "too few pairs",
            Some((_, high)) if high < neutral => "less",
            Some((low, _)) if low > neutral => "more",
            Some((low, high)) if low == high => "the same",
            Some(_) => "undecided",
        }
    }

    pub fn row(&self) -> [String; 6] {
        let show = |value: f64| match self.kind {
            Kind::Ratio if value >= 10.0 => format!("x {value:.0}"),
            Kind::Ratio => format!("{} %", signed(100.0 * (value - 1.0), 1)),
            Kind::Difference => signed(value, 2),
        };
        let interval = self
            .low
            .zip(self.high)
            .map_or("-".into(), |(low, high)| format!("{} to {}", show(low), show(high)));
        let figure = if self.unit.is_empty() {
            self.figure.clone()
        } else {
            format!("{} [{}]", self.figure, self.unit)
        };
        let shown = |value: f64| number(value, if self.unit.is_empty() && value >= 100.0 { 0 } else { 2 });
        [figure, shown(self.as_it_is), shown(self.manx_run), show(self.change), interval, self.word().into()]
    }
}

/// A number with this many places. What is rounded to zero has no sign.
pub fn number(value: f64, places: usize) -> String {
    let text = format!("{value:.places$}");
    match text.strip_prefix('-') {
        Some(rest) if rest.bytes().all(|byte| byte == b'0' || byte == b'.') => rest.to_owned(),
        _ => text,
    }
}

/// The same with a sign, as a difference has it.
fn signed(value: f64, places: usize) -> String {
    let text = number(value, places);
    if text.starts_with('-') { text } else { format!("+{text}") }
}

/// A pair of runs.
#[derive(Debug, Default, Serialize)]
pub struct Pair {
    pub as_it_is: Session,
    pub manx_run: Session,
    pub manx_run_first: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_pairs_have_an_interval_and_a_word_and_fewer_have_none() {
        let better = [(2.0, 1.0), (2.0, 1.1), (2.0, 0.9), (2.0, 1.0), (2.0, 1.0)];
        let change = Change::of("wall time", "s", Kind::Ratio, &better).unwrap();
        assert_eq!((change.change, change.word()), (0.5, "less"));
        let change = Change::of("wall time", "s", Kind::Ratio, &better[..4]).unwrap();
        assert_eq!((change.low, change.word()), (None, "too few pairs"));
        let both = [(1.0, 1.1), (1.0, 0.9), (1.0, 1.2), (1.0, 0.8), (1.0, 1.0)];
        assert_eq!(Change::of("wall time", "s", Kind::Ratio, &both).unwrap().word(), "undecided");
    }

    #[test]
    fn what_may_be_zero_is_a_difference() {
        let change = Change::of("lost", "threads", Kind::Difference, &[(3.0, 0.0); 5]).unwrap();
        assert_eq!((change.change, change.word()), (-3.0, "less"));
        assert_eq!(change.row()[3..], ["-3.00", "-3.00 to -3.00", "less"]);
        assert_eq!(Change::of("delay", "s", Kind::Ratio, &[(0.0, 0.0)]), None);
    }

    #[test]
    fn what_is_rounded_to_zero_has_no_minus() {
        let nothing = Change::of("lost", "threads", Kind::Difference, &[(-0.0, -0.004); 5]).unwrap();
        assert_eq!(nothing.row()[1..5], ["0.00", "0.00", "+0.00", "+0.00 to +0.00"]);
        let ratio = Change::of("wall time", "s", Kind::Ratio, &[(10_000.0, 9_999.0); 5]).unwrap();
        assert_eq!(ratio.row()[3..5], ["+0.0 %", "+0.0 % to +0.0 %"]);
        assert_eq!((number(-0.01, 2), number(-1.0, 0)), ("-0.01".into(), "-1".into()));
    }
}
