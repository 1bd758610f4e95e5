//! A command's arguments, where they lie in the bytes that were received: nothing is copied.

use std::ops::Range;

/// The arguments of a command, its name first; at least one.
#[derive(Clone, Copy, Debug)]
pub struct Args<'a> {
    bytes: &'a [u8],
    ranges: &'a [Range<usize>],
}

impl<'a> Args<'a> {
    /// The arguments at these places.
    pub(crate) fn new(bytes: &'a [u8], ranges: &'a [Range<usize>]) -> Args<'a> {
        Args { bytes, ranges }
    }

    /// How many there are, the name included.
    #[expect(clippy::len_without_is_empty, reason = "there is always the name")]
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Returns the argument at this place, if there is one.
    pub fn get(&self, index: usize) -> Option<&'a [u8]> {
        self.ranges.get(index).map(|range| &self.bytes[range.clone()])
    }

    /// All of them, from this place on.
    pub fn from(&self, index: usize) -> impl Iterator<Item = &'a [u8]> + Clone + use<'a> {
        let bytes = self.bytes;
        self.ranges.get(index..).unwrap_or_default().iter().map(move |range| &bytes[range.clone()])
    }

    /// The same without the first ones; at least one is left.
    pub(crate) fn behind(&self, count: usize) -> Args<'a> {
        Args { bytes: self.bytes, ranges: &self.ranges[count..] }
    }

    /// How many bytes they have together.
    pub fn bytes_len(&self) -> usize {
        self.ranges.iter().map(|range| range.len()).sum()
    }
}

impl std::ops::Index<usize> for Args<'_> {
    type Output = [u8];

    fn index(&self, index: usize) -> &[u8] {
        &self.bytes[self.ranges[index].clone()]
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
