//! How many CPUs a program is told that it has.
//!
//! ```text
//! cpus=auto  cpus=keep  cpus=3  cpus_also=affinity+configured+java
//! ```

use crate::escape::number;
use crate::words::words;
use core::fmt;

/// The count that a program is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Cpus {
    /// What it really gets: the least of its affinity, its cpuset and the quotas of its control
    /// groups, rounded down, at least 1; looked up again while it runs.
    #[default]
    Auto,
    /// What it would be told without Manx.
    Keep,
    /// This many, from 1 to [`Cpus::MAX`], or less if the machine has less.
    Count(u32),
}

impl Cpus {
    /// The most that can be asked for: as many as Linux runs on.
    pub const MAX: u32 = 8192;

    /// Reads `auto`, `keep` or a number.
    ///
    /// ```
    /// use preload_abi::cpus::Cpus;
    /// assert_eq!(Cpus::from_word(b"3"), Some(Cpus::Count(3)));
    /// assert_eq!(Cpus::from_word(b"0"), None);
    /// ```
    pub fn from_word(word: &[u8]) -> Option<Cpus> {
        match word {
            b"auto" => Some(Cpus::Auto),
            b"keep" => Some(Cpus::Keep),
            digits => number(digits).and_then(Cpus::of),
        }
    }

    /// This many, if it can be.
    pub fn of(count: u32) -> Option<Cpus> {
        (1..=Cpus::MAX).contains(&count).then_some(Cpus::Count(count))
    }
}

impl fmt::Display for Cpus {
    /// As in the options string and on the command line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cpus::Auto => f.write_str("auto"),
            Cpus::Keep => f.write_str("keep"),
            Cpus::Count(count) => write!(f, "{count}"),
        }
    }
}

words! {
    /// One place where the count is told only if it was asked for, because a program may need the
    /// truth of the machine there.
    pub enum Place {
        /// Affinity masks, whoever asks: for programs that count the CPUs in them, and bind no
        /// thread
        Affinity = 1 => "affinity",
        /// The number of configured CPUs: for programs that have no table for each CPU's number
        Configured = 2 => "configured",
        /// JAVA_TOOL_OPTIONS: Java then says on standard error that it is set
        Java = 4 => "java",
        /// The number of online CPUs, whoever asks: for programs that look up or set the CPU on
        /// which a thread runs, but take that number only for how many threads they start
        Online = 8 => "online",
    }
}

/// A set of [`Place`]s.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Places(u8);

impl Places {
    /// None of them.
    pub const NONE: Places = Places(0);

    /// Reads words with `+` between them; nothing stands for none.
    ///
    /// ```
    /// use preload_abi::cpus::{Place, Places};
    /// let places = Places::parse(b"java+affinity").expect("well formed");
    /// assert!(places.has(Place::Java) && !places.has(Place::Configured));
    /// assert_eq!(places.to_string(), "affinity+java");
    /// ```
    pub fn parse(text: &[u8]) -> Option<Places> {
        if text.is_empty() {
            return Some(Places::NONE);
        }
        text.split(|&b| b == b'+')
            .try_fold(Places::NONE, |places, word| Some(places.with(Place::from_word(word)?)))
    }

    /// These and one more.
    #[must_use]
    pub const fn with(self, place: Place) -> Places {
        Places(self.0 | place as u8)
    }

    /// Whether `place` is one of them.
    pub const fn has(self, place: Place) -> bool {
        self.0 & place as u8 != 0
    }

    /// Whether there is none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl fmt::Display for Places {
    /// As [`Places::parse`] reads them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = Place::ALL.into_iter().filter(|place| self.has(*place)).map(Place::word);
        for (index, word) in words.enumerate() {
            if index > 0 {
                f.write_str("+")?;
            }
            f.write_str(word)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_count_is_read() {
        for cpus in [Cpus::Auto, Cpus::Keep, Cpus::Count(1), Cpus::Count(Cpus::MAX)] {
            assert_eq!(Cpus::from_word(cpus.to_string().as_bytes()), Some(cpus));
        }
        for bits in 0..16 {
            assert_eq!(Places::parse(Places(bits).to_string().as_bytes()), Some(Places(bits)));
        }
    }

    #[test]
    fn malformed_words_are_refused() {
        for bad in ["", "0", "8193", "-1", "1.5", "all", "auto ", "4294967297"] {
            assert_eq!(Cpus::from_word(bad.as_bytes()), None, "{bad}");
        }
        for bad in ["+", "affinity+", "all", "affinity,java"] {
            assert_eq!(Places::parse(bad.as_bytes()), None, "{bad}");
        }
    }
}
