//! The executable ranges of a module.

use core::ops::Range;

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
