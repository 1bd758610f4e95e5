//! Where functions begin and end, from `.eh_frame_hdr`.
//!
//! Instructions of x86-64 have no fixed length, so a PAUSE can only be told from the inside of another
//! instruction by decoding from a place where an instruction certainly starts. Symbols are often stripped;
//! unwind information is not, because exceptions and profilers need it, and the linker sorts it into a table
//! that a binary search reads in place: nothing is parsed ahead, and only the pages of the table that the
//! search touches are faulted in.
//!
//! ```text
//! .eh_frame_hdr: version 1 | encodings of: eh_frame pointer, count, table | eh_frame pointer | count
//!                (start - header: i32, FDE - header: i32)*   ascending by start
//! FDE: length | distance back to its CIE | start | size | …
//! CIE: length | 0 | version | augmentation "zR…" | alignments | … | encoding of start and size
//! ```
//!
//! Everything read is checked, and what is not known is refused: a function that is not found costs one
//! PAUSE that is left alone, a function found wrongly could cost the program.
//!
//! 1. A range returned comes from one FDE, holds the address asked for, is not empty, and starts where the
//!    search table says that it does.

use crate::image::Image;
use core::cmp::Ordering;
use core::ops::Range;

/// `DW_EH_PE_*`: the low four bits are the format, the next three what the value is relative to.
const ABSOLUTE: u8 = 0x00;
const UDATA2: u8 = 0x02;
const UDATA4: u8 = 0x03;
const UDATA8: u8 = 0x04;
const SDATA2: u8 = 0x0a;
const SDATA4: u8 = 0x0b;
const SDATA8: u8 = 0x0c;
const PC_RELATIVE: u8 = 0x10;
const DATA_RELATIVE: u8 = 0x30;
const INDIRECT: u8 = 0x80;
const OMITTED: u8 = 0xff;
/// The table's only encoding that has a fixed-size entry and is in use.
const TABLE: u8 = DATA_RELATIVE | SDATA4;

/// A search table of functions.
#[derive(Clone, Copy)]
pub(crate) struct Unwind<'a> {
    image: &'a dyn Image,
    header: u64,
    table: &'a [u8],
}

impl<'a> Unwind<'a> {
    /// Reads the header at `header`; none if it is not as described above.
    pub(crate) fn new(image: &'a dyn Image, header: u64) -> Option<Self> {
        let mut bytes = Cursor { bytes: image.at(header), address: header };
        let [version, pointer, count, table] = bytes.take()?;
        if version != 1 || table != TABLE {
            return None;
        }
        bytes.value(pointer, header)?;
        let count = usize::try_from(bytes.value(count, header)?).ok()?;
        let table = bytes.bytes.get(..count.checked_mul(8)?)?;
        Some(Unwind { image, header, table })
    }

    /// The function, or part of one, that holds `address`.
    pub(crate) fn function(&self, address: u64) -> Option<Range<u64>> {
        let (start, entry) = self.entry(self.after(address).checked_sub(1)?)?;
        let range = self.range_of(entry)?;
        (range.start == start && range.contains(&address)).then_some(range)
    }

    /// The first function that starts behind `address`.
    pub(crate) fn following(&self, address: u64) -> Option<Range<u64>> {
        let (start, entry) = self.entry(self.after(address))?;
        self.range_of(entry).filter(|range| range.start == start)
    }

    /// How many entries start at or before `address`.
    fn after(&self, address: u64) -> usize {
        let (mut low, mut high) = (0, self.table.len() / 8);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.entry(middle).map(|(start, _)| start.cmp(&address)) {
                Some(Ordering::Less | Ordering::Equal) => low = middle + 1,
                _ => high = middle,
            }
        }
        low
    }

    /// The start and the FDE's address of entry `n`.
    fn entry(&self, n: usize) -> Option<(u64, u64)> {
        let entry = self.table.get(n.checked_mul(8)?..)?.first_chunk::<8>()?;
        let [a, b, c, d, e, f, g, h] = *entry;
        let at = |bytes| self.header.wrapping_add_signed(i64::from(i32::from_le_bytes(bytes)));
        Some((at([a, b, c, d]), at([e, f, g, h])))
    }

    /// The last function that starts before `address`.
    pub(crate) fn preceding(&self, address: u64) -> Option<Range<u64>> {
        let (start, entry) = self.entry(self.after(address.checked_sub(1)?).checked_sub(1)?)?;
        self.range_of(entry).filter(|range| range.start == start)
    }

    /// Whether no function starts before `start`.
    pub(crate) fn is_first(&self, start: u64) -> bool {
        start.checked_sub(1).is_none_or(|before| self.after(before) == 0)
    }

    /// Whether no function starts behind `start`.
    pub(crate) fn is_last(&self, start: u64) -> bool {
        self.after(start) == self.table.len() / 8
    }

    /// Whether the function that starts at `start` handles exceptions, or may for all that can be read.
    pub(crate) fn has_landing_pads(&self, start: u64) -> bool {
        let entry = self.after(start).checked_sub(1).and_then(|n| self.entry(n));
        let description = entry.filter(|&(at, _)| at == start).and_then(|(_, entry)| self.describe(entry));
        description.is_none_or(|description| description.landing_pads)
    }

    /// The range that the FDE at `address` describes.
    fn range_of(&self, address: u64) -> Option<Range<u64>> {
        Some(self.describe(address)?.range)
    }

    /// What the FDE at `address` says.
    fn describe(&self, address: u64) -> Option<Description> {
        let mut entry = Cursor { bytes: self.image.at(address), address }.record()?;
        let here = entry.address;
        let distance = u64::from(u32::from_le_bytes(entry.take()?));
        if distance == 0 {
            return None; // a CIE, not an FDE
        }
        let common = self.common(here.checked_sub(distance)?)?;
        let start = entry.value(common.encoding, self.header)?;
        let size = entry.value(common.encoding & 0x0f, 0)?;
        // A size is never negative, whatever the sign of its encoding.
        (size > 0 && size <= i64::MAX as u64).then_some(())?;
        let mut landing_pads = false;
        if let Some(encoding) = common.handlers {
            entry.leb128()?;
            // Zero stands for none, before it is made relative to anything.
            landing_pads = entry.value(encoding & 0x0f, 0)? != 0;
        }
        Some(Description { range: start..start.checked_add(size)?, landing_pads })
    }

    /// What the CIE at `address` gives its FDEs.
    fn common(&self, address: u64) -> Option<Common> {
        let mut entry = Cursor { bytes: self.image.at(address), address }.record()?;
        let ([0, 0, 0, 0], [version @ (1 | 3)]) = (entry.take()?, entry.take()?) else { return None };
        let end = entry.bytes.iter().take(16).position(|&byte| byte == 0)?;
        let augmentation = entry.bytes.get(..end)?;
        entry.skip(end + 1)?;
        entry.leb128()?;
        entry.leb128()?;
        match version {
            1 => entry.skip(1)?,
            _ => entry.leb128()?,
        }
        let mut common = Common { encoding: ABSOLUTE, handlers: None };
        let Some(letters) = augmentation.strip_prefix(b"z") else {
            return augmentation.is_empty().then_some(common);
        };
        entry.leb128()?;
        for letter in letters {
            match letter {
                b'R' => [common.encoding] = entry.take()?,
                b'L' => {
                    common.handlers =
                        entry.take().map(|[encoding]| encoding).filter(|&encoding| encoding != OMITTED)
                }
                b'P' => {
                    let [personality] = entry.take()?;
                    // The personality's address is skipped: whether it is indirect does not matter here.
                    entry.value(personality & !INDIRECT, self.header)?;
                }
                b'S' | b'B' | b'G' => {}
                _ => return None,
            }
        }
        Some(common)
    }
}

/// What an FDE says.
struct Description {
    range: Range<u64>,
    landing_pads: bool,
}

/// What a CIE gives its FDEs: the encoding of addresses, and of the pointer to a table of landing pads.
struct Common {
    encoding: u8,
    handlers: Option<u8>,
}

/// Bytes that are read from the front, and where they stand.
struct Cursor<'a> {
    bytes: &'a [u8],
    address: u64,
}

impl<'a> Cursor<'a> {
    fn skip(&mut self, count: usize) -> Option<()> {
        self.bytes = self.bytes.get(count..)?;
        self.address = self.address.checked_add(count as u64)?;
        Some(())
    }

    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let bytes = *self.bytes.first_chunk::<N>()?;
        self.skip(N)?;
        Some(bytes)
    }

    /// What follows a 32-bit length, limited to it. The 64-bit form is not in use in `.eh_frame`.
    fn record(mut self) -> Option<Self> {
        let length = u32::from_le_bytes(self.take()?);
        if length == u32::MAX {
            return None;
        }
        let bytes = self.bytes.get(..length as usize)?;
        Some(Cursor { bytes, address: self.address })
    }

    /// Skips a LEB128 number; the numbers themselves do not matter here.
    fn leb128(&mut self) -> Option<()> {
        let length = self.bytes.iter().take(10).position(|byte| byte & 0x80 == 0)?;
        self.skip(length + 1)
    }

    /// An encoded pointer.
    fn value(&mut self, encoding: u8, data: u64) -> Option<u64> {
        let here = self.address;
        let value = match encoding & 0x0f {
            ABSOLUTE | UDATA8 | SDATA8 => u64::from_le_bytes(self.take()?),
            UDATA4 => u64::from(u32::from_le_bytes(self.take()?)),
            SDATA4 => i64::from(i32::from_le_bytes(self.take()?)) as u64,
            UDATA2 => u64::from(u16::from_le_bytes(self.take()?)),
            SDATA2 => i64::from(i16::from_le_bytes(self.take()?)) as u64,
            _ => return None,
        };
        match encoding & 0xf0 {
            ABSOLUTE => Some(value),
            PC_RELATIVE => Some(here.wrapping_add(value)),
            DATA_RELATIVE => Some(data.wrapping_add(value)),
            _ => None,
        }
    }
}
