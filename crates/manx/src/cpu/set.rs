//! A set of CPUs, and its text as the kernel writes it: `0-3,6`.
//!
//! The set is a bit for each CPU that can be, so it needs no memory but its own and numbers may be
//! sparse.

use platform::cpu::COUNT_MAX;
use std::fmt;
use std::str::FromStr;

/// A set of CPUs, by number.
///
/// ```
/// use manx::cpu::CpuSet;
///
/// let set: CpuSet = "0-3,6".parse()?;
/// assert_eq!(set.len(), 5);
/// assert!(set.contains(6) && !set.contains(4));
/// assert_eq!(set.to_string(), "0-3,6");
/// # Ok::<(), manx::cpu::ParseCpuListError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct CpuSet {
    words: [u64; COUNT_MAX / 64],
}

/// Why a text is not a list of CPUs, such as `0-3,8`.
///
/// ```
/// use manx::cpu::{CpuSet, ParseCpuListError};
///
/// assert_eq!("3-1".parse::<CpuSet>(), Err(ParseCpuListError::Reversed("3-1".into())));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ParseCpuListError {
    /// Neither a number nor two with a hyphen between them.
    NoNumber(String),
    /// A number that no CPU has: they go from 0 to 8191.
    TooLarge(String),
    /// A range whose first CPU comes after its last one.
    Reversed(String),
}

impl CpuSet {
    /// The set without CPUs.
    pub const EMPTY: CpuSet = CpuSet { words: [0; COUNT_MAX / 64] };

    /// The set that has a bit for each of its CPUs in `words`, as affinities have.
    // For `preload`, which keeps an affinity as words.
    #[doc(hidden)]
    pub const fn from_words(words: [u64; COUNT_MAX / 64]) -> CpuSet {
        CpuSet { words }
    }

    /// The set's words, as affinities have them.
    // For the launcher, which sets affinities.
    #[doc(hidden)]
    pub const fn words(&self) -> &[u64; COUNT_MAX / 64] {
        &self.words
    }

    /// Adds a CPU. Numbers above 8191 are ignored.
    ///
    /// ```
    /// use manx::cpu::CpuSet;
    ///
    /// let mut set = CpuSet::EMPTY;
    /// set.insert(3);
    /// set.insert(1_000_000);
    /// assert_eq!(set.to_string(), "3");
    /// ```
    pub fn insert(&mut self, cpu: usize) {
        if let Some(word) = self.words.get_mut(cpu / 64) {
            *word |= 1 << (cpu % 64);
        }
    }

    /// Whether the CPU is in the set.
    #[inline]
    pub fn contains(&self, cpu: usize) -> bool {
        self.words.get(cpu / 64).is_some_and(|word| word & 1 << (cpu % 64) != 0)
    }

    /// How many CPUs are in the set.
    pub fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether the set has no CPU.
    pub fn is_empty(&self) -> bool {
        *self == CpuSet::EMPTY
    }

    /// The CPUs, from the lowest number to the highest.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        let bits = |word: u64| (0..64).filter(move |bit| word & 1 << bit != 0);
        self.words.iter().enumerate().flat_map(move |(at, &word)| bits(word).map(move |bit| at * 64 + bit))
    }

    /// The CPUs of either set.
    #[must_use]
    pub fn union(&self, other: &CpuSet) -> CpuSet {
        self.with(other, |one, other| one | other)
    }

    /// The CPUs of both sets.
    #[must_use]
    pub fn intersection(&self, other: &CpuSet) -> CpuSet {
        self.with(other, |one, other| one & other)
    }

    /// The CPUs of this set that are not in the other one.
    #[must_use]
    pub fn difference(&self, other: &CpuSet) -> CpuSet {
        self.with(other, |one, other| one & !other)
    }

    fn with(&self, other: &CpuSet, combine: impl Fn(u64, u64) -> u64) -> CpuSet {
        CpuSet { words: std::array::from_fn(|at| combine(self.words[at], other.words[at])) }
    }

    /// Adds the CPUs of one part of a list: a number, or the first and the last with a hyphen
    /// between them.
    ///
    /// # Errors
    /// It is neither; then nothing has been added.
    pub fn insert_range(&mut self, part: &str) -> Result<(), ParseCpuListError> {
        let number = |text: &str| {
            let text = text.trim();
            if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
                return Err(ParseCpuListError::NoNumber(part.into()));
            }
            let cpu = text.parse().ok().filter(|&cpu: &usize| cpu < COUNT_MAX);
            cpu.ok_or_else(|| ParseCpuListError::TooLarge(part.into()))
        };
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (number(first)?, number(last)?);
        if first > last {
            return Err(ParseCpuListError::Reversed(part.into()));
        }
        (first..=last).for_each(|cpu| self.insert(cpu));
        Ok(())
    }
}

platform::timed! {
    impl CpuSet {
        /// The CPUs that the calling thread may run on: its affinity.
        pub fn of_this_thread() -> CpuSet {
            CpuSet::from_words(platform::cpu::allowed())
        }
    }
}

impl FromStr for CpuSet {
    type Err = ParseCpuListError;

    /// Reads a list as the kernel writes it. An empty one has no CPUs.
    fn from_str(text: &str) -> Result<CpuSet, ParseCpuListError> {
        let mut set = CpuSet::EMPTY;
        if !text.trim().is_empty() {
            text.split(',').try_for_each(|part| set.insert_range(part.trim()))?;
        }
        Ok(set)
    }
}

impl FromIterator<usize> for CpuSet {
    fn from_iter<I: IntoIterator<Item = usize>>(cpus: I) -> CpuSet {
        let mut set = CpuSet::EMPTY;
        cpus.into_iter().for_each(|cpu| set.insert(cpu));
        set
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cpus = self.iter().peekable();
        let mut comma = "";
        while let Some(first) = cpus.next() {
            let mut last = first;
            while let Some(next) = cpus.next_if_eq(&(last + 1)) {
                last = next;
            }
            write!(f, "{comma}{first}")?;
            if last > first {
                write!(f, "-{last}")?;
            }
            comma = ",";
        }
        Ok(())
    }
}

impl fmt::Debug for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CpuSet({self})")
    }
}

impl fmt::Display for ParseCpuListError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ParseCpuListError::NoNumber(part) => {
                write!(f, "`{part}` is no CPU: write a number such as `3`, or a range such as `0-3`")
            }
            ParseCpuListError::TooLarge(part) => {
                write!(f, "`{part}`: no CPU has such a number: write one from 0 to {}", COUNT_MAX - 1)
            }
            ParseCpuListError::Reversed(part) => {
                let (first, last) = part.split_once('-').unwrap_or((part, part));
                write!(f, "`{part}` is a range that runs backwards: write `{}-{}`", last.trim(), first.trim())
            }
        }
    }
}

impl std::error::Error for ParseCpuListError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_and_written_as_the_kernel_does() {
        for text in ["", "0", "0-1", "0-3,6", "1,3,5-7,64,8191"] {
            assert_eq!(text.parse::<CpuSet>().expect(text).to_string(), text);
        }
        assert_eq!(" 3 , 0-1\n".parse::<CpuSet>().unwrap().to_string(), "0-1,3");
        assert!("\n".parse::<CpuSet>().unwrap().is_empty());
    }

    #[test]
    fn a_text_that_is_no_cpu_list_is_refused_with_a_remedy() {
        for (text, expected) in [
            ("0,,1", "`` is no CPU: write a number such as `3`, or a range such as `0-3`"),
            ("0-", "`0-` is no CPU: write a number such as `3`, or a range such as `0-3`"),
            ("+1", "`+1` is no CPU: write a number such as `3`, or a range such as `0-3`"),
            ("1-2-3", "`1-2-3` is no CPU: write a number such as `3`, or a range such as `0-3`"),
            ("8192", "`8192`: no CPU has such a number: write one from 0 to 8191"),
            (
                "99999999999999999999999",
                "`99999999999999999999999`: no CPU has such a number: write one from 0 to 8191",
            ),
            ("0,7-4", "`7-4` is a range that runs backwards: write `4-7`"),
        ] {
            assert_eq!(text.parse::<CpuSet>().unwrap_err().to_string(), expected);
        }
    }

    #[test]
    fn each_bit_of_the_words_is_a_cpu() {
        let mut words = [0; COUNT_MAX / 64];
        (words[0], words[1]) = (0b101, 1);
        assert_eq!(CpuSet::from_words(words).to_string(), "0,2,64");
    }

    #[test]
    fn sets_are_combined() {
        let set = |text: &str| text.parse::<CpuSet>().unwrap();
        let (one, other) = (set("0-3,100"), set("2-5"));
        assert_eq!(one.union(&other), set("0-5,100"));
        assert_eq!(one.intersection(&other), set("2-3"));
        assert_eq!(one.difference(&other), set("0-1,100"));
        assert_eq!([7, 3, 7].into_iter().collect::<CpuSet>(), set("3,7"));
        assert_eq!(set("0,63-64,8191").iter().collect::<Vec<_>>(), [0, 63, 64, 8191]);
        assert_eq!([COUNT_MAX].into_iter().collect::<CpuSet>(), CpuSet::EMPTY);
        assert!(!CpuSet::EMPTY.contains(COUNT_MAX));
    }
}
