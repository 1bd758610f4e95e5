//! From a budget, which is a fraction, to a count of threads, which is not.
//!
//! Runtimes disagree about 1.5 CPUs: Rust and .NET's critics say 1, Go, Java and .NET say 2. Each
//! answer is right for some programs. A count above the budget is throttled for a part of each
//! period, so its longest latencies grow by tens of milliseconds; a count below it leaves CPU time
//! unused. So the caller says which.

use std::fmt;
use std::str::FromStr;

/// How a fraction of CPUs becomes a count.
///
/// ```
/// use manx::cpu::Rounding;
///
/// assert_eq!(Rounding::Floor.count(1.5), 1);
/// assert_eq!(Rounding::Ceil.count(1.5), 2);
/// assert_eq!(Rounding::Floor.count(0.5), 1);
/// assert_eq!("ceil".parse(), Ok(Rounding::Ceil));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Rounding {
    /// Down, but at least 1: never more threads than what is paid for, so that nothing is throttled
    /// that need not be.
    #[default]
    Floor,
    /// Up: all of the CPU time can be used.
    Ceil,
    /// Not at all, where text is asked for; a count is the nearest one, and at least 1.
    Exact,
}

impl Rounding {
    /// Returns the count for this number of CPUs: at least 1.
    pub fn count(self, cpus: f64) -> usize {
        let rounded = match self {
            Rounding::Floor => cpus.floor(),
            Rounding::Ceil => cpus.ceil(),
            Rounding::Exact => cpus.round(),
        };
        // What is no number becomes 0, and what is too large the largest one.
        (rounded as usize).max(1)
    }

    /// The name: `floor`, `ceil` or `exact`.
    pub const fn name(self) -> &'static str {
        match self {
            Rounding::Floor => "floor",
            Rounding::Ceil => "ceil",
            Rounding::Exact => "exact",
        }
    }
}

impl fmt::Display for Rounding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A text that names no rounding.
///
/// ```
/// use manx::cpu::Rounding;
///
/// let error = "up".parse::<Rounding>().unwrap_err();
/// assert_eq!(error.to_string(), "`up` is no rounding: write `floor`, `ceil` or `exact`");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseRoundingError(String);

impl FromStr for Rounding {
    type Err = ParseRoundingError;

    fn from_str(text: &str) -> Result<Rounding, ParseRoundingError> {
        let all = [Rounding::Floor, Rounding::Ceil, Rounding::Exact];
        all.into_iter().find(|it| it.name() == text).ok_or_else(|| ParseRoundingError(text.into()))
    }
}

impl fmt::Display for ParseRoundingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is no rounding: write `floor`, `ceil` or `exact`", self.0)
    }
}

impl std::error::Error for ParseRoundingError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_at_least_1_whatever_the_fraction() {
        for (cpus, floor, ceil, exact) in [
            (0.001, 1, 1, 1),
            (0.5, 1, 1, 1),
            (1.0, 1, 1, 1),
            (1.4, 1, 2, 1),
            (1.5, 1, 2, 2),
            (3.99, 3, 4, 4),
            (8.0, 8, 8, 8),
            (f64::NAN, 1, 1, 1),
            (-3.0, 1, 1, 1),
            (f64::INFINITY, usize::MAX, usize::MAX, usize::MAX),
        ] {
            let counts = [Rounding::Floor, Rounding::Ceil, Rounding::Exact].map(|it| it.count(cpus));
            assert_eq!(counts, [floor, ceil, exact], "{cpus}");
        }
    }

    #[test]
    fn names_are_read_back() {
        for rounding in [Rounding::Floor, Rounding::Ceil, Rounding::Exact] {
            assert_eq!(rounding.name().parse(), Ok(rounding));
        }
        assert!("Floor".parse::<Rounding>().is_err());
    }
}
