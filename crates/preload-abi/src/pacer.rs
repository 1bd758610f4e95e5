//! The helper process that keeps a program to fewer CPUs while its quota stops the program, as the
//! launcher names it to the library.

use core::fmt;

/// The environment variable that carries a [`Pacer`].
pub const PACER_VARIABLE: &str = "MANX_PACER";

/// The helper, and the CPUs on which the program may run without it: a bit for each.
///
/// ```
/// use preload_abi::pacer::Pacer;
///
/// let pacer = Pacer { pid: 77, allowed: [0xff, 0, 1, 0] };
/// assert_eq!(pacer.to_string(), "77:ff,0,1");
/// assert_eq!(Pacer::parse(b"77:ff,0,1"), Some(pacer));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pacer<const WORDS: usize> {
    /// The helper's number.
    pub pid: u32,
    /// The affinity with which the program was started.
    pub allowed: [u64; WORDS],
}

impl<const WORDS: usize> Pacer<WORDS> {
    /// The helper that a value of [`PACER_VARIABLE`] names; `None` if it names none.
    pub fn parse(text: &[u8]) -> Option<Pacer<WORDS>> {
        let (pid, words) = core::str::from_utf8(text).ok()?.split_once(':')?;
        let mut pacer = Pacer { pid: pid.parse().ok().filter(|&pid| pid != 0)?, allowed: [0; WORDS] };
        for (index, word) in words.split(',').enumerate() {
            *pacer.allowed.get_mut(index)? = u64::from_str_radix(word, 16).ok()?;
        }
        Some(pacer)
    }
}

impl<const WORDS: usize> fmt::Display for Pacer<WORDS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let used = self.allowed.iter().rposition(|&word| word != 0).map_or(1, |last| last + 1);
        self.allowed[..used].iter().enumerate().try_for_each(|(index, word)| match index {
            0 => write!(f, "{}:{word:x}", self.pid),
            _ => write!(f, ",{word:x}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_is_read_as_it_was_written(pid in 1_u32.., allowed: [u64; 4]) {
            let pacer = Pacer { pid, allowed };
            prop_assert_eq!(Pacer::parse(pacer.to_string().as_bytes()), Some(pacer));
        }
    }

    #[test]
    fn what_names_no_helper_is_refused() {
        for text in ["", "7", ":1", "0:1", "7:", "7:x", "7:1,", "7:1,2,3,4,5", "7:10000000000000000", "-7:1"]
        {
            assert_eq!(Pacer::<4>::parse(text.as_bytes()), None, "{text}");
        }
        assert_eq!(Pacer::<4>::parse(b"7:\xff"), None);
    }
}
