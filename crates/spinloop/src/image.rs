//! Bytes by address.
//!
//! The same analysis runs on mapped memory and on an ELF file; the only thing it asks of either is
//! the bytes at a virtual address.

use core::ops::Range;

/// Bytes of a module by virtual address. Whether addresses include the load bias is the caller's
/// choice, to be made once for the image, the text ranges and the unwind table.
pub trait Image {
    /// The bytes from `address` to the end of the mapped segment that holds it; empty if none does.
    fn at(&self, address: u64) -> &[u8];
}

/// An image made of slices, each with its first byte's address.
///
/// ```
/// use spinloop::{Image, Segments};
/// let image = Segments(&[(0x1000, b"abcd"), (0x3000, b"xyz")]);
/// assert_eq!(image.at(0x1002), b"cd");
/// assert_eq!(image.at(0x1004), b"");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Segments<'a>(pub &'a [(u64, &'a [u8])]);

impl Image for Segments<'_> {
    fn at(&self, address: u64) -> &[u8] {
        self.0
            .iter()
            .find_map(|&(start, bytes)| {
                let offset = usize::try_from(address.checked_sub(start)?).ok()?;
                bytes.get(offset..).filter(|rest| !rest.is_empty())
            })
            .unwrap_or(&[])
    }
}

/// Which addresses are code.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Text<'a>(pub(crate) &'a [Range<u64>]);

impl Text<'_> {
    /// Whether one executable range holds all of `range`.
    pub(crate) fn holds(&self, range: &Range<u64>) -> bool {
        self.0.iter().any(|text| text.start <= range.start && range.end <= text.end)
    }

    pub(crate) fn contains(&self, address: u64) -> bool {
        self.0.iter().any(|text| text.contains(&address))
    }
}
