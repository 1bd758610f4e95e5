//! Latency targets in the options string.
//!
//! ```text
//! slo=2000000:9900+7:500000:9990
//! ```
//!
//! Entries are separated by `+`. Each is a bound in nanoseconds and a percentile in hundredths of a
//! percent, with the id of the epochs that it is for before them; without an id it is for requests:
//! from the return of a read from a socket to the next write to it.

use crate::escape::number;

/// How many targets there may be.
pub const SLOS_MAX: usize = 64;

/// A latency target: a share of the epochs with this id that are to end within a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slo {
    /// Which epochs; `None`: requests that the program does not annotate.
    pub id: Option<u64>,
    /// The bound, in nanoseconds.
    pub bound_ns: u64,
    /// The percentile, in hundredths of a percent: 9950 is p99.5. From [`Slo::PERCENTILE_MIN`] to
    /// [`Slo::PERCENTILE_MAX`].
    pub percentile: u16,
}

impl Slo {
    /// The lowest percentile that can be asked for.
    pub const PERCENTILE_MIN: u16 = 5000;
    /// The highest.
    pub const PERCENTILE_MAX: u16 = 9999;

    fn parse(entry: &[u8]) -> Option<Slo> {
        let mut parts = entry.rsplit(|&b| b == b':');
        let percentile = number(parts.next()?)?;
        let bound_ns = number(parts.next()?)?;
        let id = match parts.next() {
            Some(id) => Some(number(id)?),
            None => None,
        };
        let fits =
            (Slo::PERCENTILE_MIN..=Slo::PERCENTILE_MAX).contains(&percentile) && parts.next().is_none();
        fits.then_some(Slo { id, bound_ns, percentile })
    }
}

impl core::fmt::Display for Slo {
    /// As an entry of the options string.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        if let Some(id) = self.id {
            write!(f, "{id}:")?;
        }
        write!(f, "{}:{}", self.bound_ns, self.percentile)
    }
}

/// All targets of an options string.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Slos<'a>(&'a [u8]);

impl<'a> Slos<'a> {
    /// No target.
    pub const NONE: Slos<'static> = Slos(b"");

    /// Reads the value of `slo`, unless an entry is malformed, or there are more than [`SLOS_MAX`].
    ///
    /// ```
    /// use preload_abi::slo::{Slo, Slos};
    ///
    /// let slos = Slos::parse(b"2000000:9900+7:500000:9990").expect("well formed");
    /// assert_eq!(slos.requests(), Some(Slo { id: None, bound_ns: 2_000_000, percentile: 9900 }));
    /// assert_eq!(slos.of(7).map(|slo| slo.bound_ns), Some(500_000));
    /// assert_eq!(slos.of(8), None);
    /// assert!(Slos::parse(b"2000000").is_none());
    /// ```
    pub fn parse(value: &'a [u8]) -> Option<Slos<'a>> {
        let all = Slos(value);
        if value.split(|&b| b == b'+').count() > SLOS_MAX {
            return None;
        }
        (value.is_empty() || value.split(|&b| b == b'+').all(|entry| Slo::parse(entry).is_some()))
            .then_some(all)
    }

    /// Every target, in the order they were given.
    pub fn iter(self) -> impl Iterator<Item = Slo> + 'a {
        self.0.split(|&b| b == b'+').filter_map(Slo::parse)
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// The target for requests that the program does not annotate; the last one given.
    pub fn requests(self) -> Option<Slo> {
        self.iter().filter(|slo| slo.id.is_none()).last()
    }

    /// The target for epochs of this id; the last one given.
    pub fn of(self, id: u64) -> Option<Slo> {
        self.iter().filter(|slo| slo.id == Some(id)).last()
    }
}

impl core::fmt::Display for Slos<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(core::str::from_utf8(self.0).map_err(|_| core::fmt::Error)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_target_is_read() {
        for slo in [
            Slo { id: None, bound_ns: 0, percentile: 5000 },
            Slo { id: Some(0), bound_ns: u64::MAX, percentile: 9999 },
            Slo { id: Some(u64::MAX), bound_ns: 1, percentile: 9900 },
        ] {
            let text = slo.to_string();
            let all = format!("{text}+{text}");
            let read = Slos::parse(all.as_bytes()).expect("well formed");
            assert_eq!(read.iter().collect::<Vec<_>>(), [slo, slo]);
            assert_eq!(read.to_string(), all);
        }
        assert!(Slos::parse(b"").is_some_and(Slos::is_empty));
        assert_eq!(Slos::default().iter().count(), 0);
    }

    #[test]
    fn the_last_one_counts() {
        let slos = Slos::parse(b"1:9900+3:5:9900+2:9900+3:6:9900").expect("well formed");
        assert_eq!(slos.requests().map(|slo| slo.bound_ns), Some(2));
        assert_eq!(slos.of(3).map(|slo| slo.bound_ns), Some(6));
    }

    #[test]
    fn malformed_entries_are_refused() {
        for text in [
            "2000000",
            "2ms:9900",
            ":9900",
            "1:",
            "1:4999",
            "1:10000",
            "1:2:3:9900",
            "x:1:9900",
            "1:9900+",
            "+",
            "18446744073709551616:9900",
        ] {
            assert!(Slos::parse(text.as_bytes()).is_none(), "{text}");
        }
    }
}
