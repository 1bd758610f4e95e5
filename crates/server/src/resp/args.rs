//! A command's arguments, where they lie in the bytes that were received, or, a large one, in
//! memory of its own (`large.rs`): nothing is copied.

use crate::value::HEAD;
use manx::txn::Value;
use std::ops::Range;

/// The arguments of a command, its name first; at least one.
#[derive(Clone, Copy, Debug)]
pub struct Args<'a> {
    bytes: &'a [u8],
    ranges: &'a [Range<usize>],
    /// The one that is elsewhere, behind a head.
    large: Option<(usize, &'a Value)>,
}

/// An argument that may be stored as a string.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    pub(crate) bytes: &'a [u8],
    /// What the store is to have if it does not expire: once, since it has a stamp.
    pub(crate) whole: Option<&'a Value>,
}

impl<'a, B: AsRef<[u8]> + ?Sized> From<&'a B> for Source<'a> {
    fn from(bytes: &'a B) -> Source<'a> {
        Source { bytes: bytes.as_ref(), whole: None }
    }
}

impl<'a> Args<'a> {
    /// The arguments at these places.
    pub(crate) fn new(bytes: &'a [u8], ranges: &'a [Range<usize>]) -> Args<'a> {
        Args { bytes, ranges, large: None }
    }

    /// The same, but the one that was left out is this.
    pub(crate) fn with(self, large: Option<(usize, &'a Value)>) -> Args<'a> {
        Args { large, ..self }
    }

    fn at(&self, index: usize) -> &'a [u8] {
        match self.large {
            Some((large, value)) if large == index => &value[HEAD..],
            _ => &self.bytes[self.ranges[index].clone()],
        }
    }

    /// The argument at this place, which is there, to be stored.
    pub(crate) fn source(&self, index: usize) -> Source<'a> {
        let whole = self.large.filter(|(large, _)| *large == index).map(|(_, value)| value);
        Source { bytes: self.at(index), whole }
    }

    /// How many there are, the name included.
    #[expect(clippy::len_without_is_empty, reason = "there is always the name")]
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Returns the argument at this place, if there is one.
    pub fn get(&self, index: usize) -> Option<&'a [u8]> {
        (index < self.len()).then(|| self.at(index))
    }

    /// All of them, from this place on.
    pub fn from(&self, index: usize) -> impl Iterator<Item = &'a [u8]> + Clone + use<'a> {
        let args = *self;
        (index..args.len()).map(move |index| args.at(index))
    }

    /// The same without the first ones; at least one is left.
    pub(crate) fn behind(&self, count: usize) -> Args<'a> {
        let large = self.large.and_then(|(large, value)| Some((large.checked_sub(count)?, value)));
        Args { bytes: self.bytes, ranges: &self.ranges[count..], large }
    }

    /// How many bytes they have together.
    pub fn bytes_len(&self) -> usize {
        self.from(0).map(<[u8]>::len).sum()
    }
}

impl std::ops::Index<usize> for Args<'_> {
    type Output = [u8];

    fn index(&self, index: usize) -> &[u8] {
        self.at(index)
    }
}

/// A copy of a command, for later.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    bytes: Box<[u8]>,
    ranges: Box<[Range<usize>]>,
}

impl Kept {
    /// A copy of these.
    pub(crate) fn new(args: Args<'_>) -> Kept {
        let mut bytes = Vec::with_capacity(args.bytes_len());
        let ranges = args.from(0).map(|arg| {
            bytes.extend_from_slice(arg);
            bytes.len() - arg.len()..bytes.len()
        });
        let ranges = ranges.collect();
        Kept { bytes: bytes.into(), ranges }
    }

    /// What was kept.
    pub(crate) fn args(&self) -> Args<'_> {
        Args::new(&self.bytes, &self.ranges)
    }

    /// How much memory it takes, about.
    pub(crate) fn memory_bytes(&self) -> usize {
        size_of::<Kept>() + self.bytes.len() + self.ranges.len() * size_of::<Range<usize>>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_arguments_are_the_ones_that_were_there() {
        let bytes = b"xxSETyykeyzz";
        let ranges = [2..5, 7..10, 10..10];
        let kept = Kept::new(Args::new(bytes, &ranges));
        let args = kept.args();
        assert_eq!(args.from(0).collect::<Vec<_>>(), [&b"SET"[..], b"key", b""]);
        assert_eq!((args.len(), &args[1], args.get(3)), (3, &b"key"[..], None));
        assert_eq!(args.from(4).count(), 0);
    }
}
