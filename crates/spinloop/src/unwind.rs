//! Where functions begin and end, from `.eh_frame_hdr`.
//!
//! Instructions of x86-64 have no fixed length. The bytes of a PAUSE may be inside another
//! instruction, which only a decoder can tell that starts at a known instruction. Symbols are often
//! stripped. Unwind information is not, because exceptions and profilers need it. The linker sorts
//! it into a table that a binary search reads in place: nothing is parsed ahead, and only the pages
//! that the search touches are faulted in.
//!
//! ```text
//! .eh_frame_hdr: version 1 | encodings of: eh_frame pointer, count, table | eh_frame pointer | count
//!                (start - header: i32, FDE - header: i32)*   ascending by start
//! FDE: length | distance back to its CIE | start | size | …
//! CIE: length | 0 | version | augmentation "zR…" | alignments | … | encoding of start and size
//! ```
//!
//! Everything that is read is checked, and unknown forms are refused. If a function is not found,
//! one PAUSE is left alone. A wrong function could break the program.
//!
//! 1. A range returned comes from one FDE, holds the address asked for, is not empty, and starts
//!    where the search table says that it does.

use crate::image::Image;
use alloc::collections::BTreeSet;
use core::cmp::Ordering;
use core::ops::Range;

/// `DW_EH_PE_*`: the low four bits are the format, the next three what the value is relative to.
const ABSOLUTE: u8 = 0x00;
const ULEB128: u8 = 0x01;
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

    /// Whether the function that starts at `start` handles exceptions, or may for all that can be
    /// read.
    pub(crate) fn has_landing_pads(&self, start: u64) -> bool {
        self.at(start).is_none_or(|description| description.handlers.is_some())
    }

    /// What the FDE says whose range starts at `start`.
    fn at(&self, start: u64) -> Option<Description<'a>> {
        let (at, entry) = self.entry(self.after(start).checked_sub(1)?)?;
        self.describe(entry).filter(|_| at == start)
    }

    /// The landing pads of the function that starts at `start`: where threads go on behind an
    /// exception. `None` if the table of them cannot be read.
    ///
    /// ```text
    /// table: encoding of the base | base, or the function's start | encoding of types | their offset
    ///        | encoding of call sites | bytes of call sites | call sites
    /// call site: start | size | landing pad, or 0 | action
    /// ```
    pub(crate) fn landing_pads(&self, start: u64) -> Option<BTreeSet<u64>> {
        let mut pads = BTreeSet::new();
        let Some(address) = self.at(start)?.handlers else { return Some(pads) };
        let mut table = Cursor { bytes: self.image.at(address), address };
        let base = match table.take()? {
            [OMITTED] => start,
            [encoding] => table.number(encoding)?,
        };
        if table.take()? != [OMITTED] {
            table.unsigned()?;
        }
        let [encoding] = table.take()?;
        let mut sites = table.block()?;
        while !sites.bytes.is_empty() {
            sites.number(encoding & 0x0f)?;
            sites.number(encoding & 0x0f)?;
            let pad = sites.number(encoding & 0x0f)?;
            sites.unsigned()?;
            if pad != 0 {
                pads.insert(base.wrapping_add(pad));
            }
        }
        Some(pads)
    }

    /// The range that the FDE at `address` describes.
    fn range_of(&self, address: u64) -> Option<Range<u64>> {
        Some(self.describe(address)?.range)
    }

    /// What the FDE says whose range holds `address`.
    pub(crate) fn description(&self, address: u64) -> Option<Description<'a>> {
        let (start, entry) = self.entry(self.after(address).checked_sub(1)?)?;
        let found = self.describe(entry)?;
        (found.range.start == start && found.range.contains(&address)).then_some(found)
    }

    /// What the FDE at `address` says.
    fn describe(&self, address: u64) -> Option<Description<'a>> {
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
        let mut handlers = None;
        if common.is_augmented {
            let mut data = entry.block()?;
            if let Some(encoding) = common.handlers {
                // Zero means none, before it is made relative to anything.
                let is_some = Cursor { ..data }.value(encoding & 0x0f, 0)? != 0;
                handlers = is_some.then(|| data.value(encoding & !INDIRECT, self.header)).flatten();
                (handlers.is_some() == is_some).then_some(())?;
            }
        }
        let range = start..start.checked_add(size)?;
        Some(Description { range, handlers, common, instructions: entry.bytes })
    }

    /// What the CIE at `address` gives its FDEs.
    fn common(&self, address: u64) -> Option<Common<'a>> {
        let mut entry = Cursor { bytes: self.image.at(address), address }.record()?;
        let ([0, 0, 0, 0], [version @ (1 | 3)]) = (entry.take()?, entry.take()?) else { return None };
        let end = entry.bytes.iter().take(16).position(|&byte| byte == 0)?;
        let augmentation = entry.bytes.get(..end)?;
        entry.skip(end + 1)?;
        let (code_align, data_align) = (entry.unsigned()?, entry.signed()?);
        let return_register = match version {
            1 => entry.take().map(|[register]| u64::from(register))?,
            _ => entry.unsigned()?,
        };
        let mut common = Common {
            encoding: ABSOLUTE,
            handlers: None,
            is_augmented: augmentation.first() == Some(&b'z'),
            is_signal: false,
            code_align,
            data_align,
            return_register,
            instructions: entry.bytes,
        };
        let Some(letters) = augmentation.strip_prefix(b"z") else {
            return augmentation.is_empty().then_some(common);
        };
        let mut data = entry.block()?;
        common.instructions = entry.bytes;
        for letter in letters {
            match letter {
                b'R' => [common.encoding] = data.take()?,
                b'L' => {
                    common.handlers =
                        data.take().map(|[encoding]| encoding).filter(|&encoding| encoding != OMITTED)
                }
                b'P' => {
                    let [personality] = data.take()?;
                    // The personality's address is skipped: whether it is indirect does not matter
                    // here.
                    data.value(personality & !INDIRECT, self.header)?;
                }
                b'S' => common.is_signal = true,
                b'B' | b'G' => {}
                _ => return None,
            }
        }
        Some(common)
    }
}

/// What an FDE says.
pub(crate) struct Description<'a> {
    /// The code that it is about.
    pub(crate) range: Range<u64>,
    /// The address of the table of its landing pads, if it has any.
    handlers: Option<u64>,
    /// What its CIE says.
    pub(crate) common: Common<'a>,
    /// Its call frame instructions, which go on where those of the CIE end.
    pub(crate) instructions: &'a [u8],
}

/// What a CIE gives its FDEs.
pub(crate) struct Common<'a> {
    /// Of addresses.
    encoding: u8,
    /// Of the pointer to a table of landing pads, if the FDEs have any.
    handlers: Option<u8>,
    /// The FDEs have augmentation data.
    is_augmented: bool,
    /// The frames are those of signals.
    pub(crate) is_signal: bool,
    /// The unit of distances in code.
    pub(crate) code_align: u64,
    /// The unit of distances on the stack.
    pub(crate) data_align: i64,
    /// The number of the column that holds the return address.
    pub(crate) return_register: u64,
    /// The call frame instructions with which each FDE begins.
    pub(crate) instructions: &'a [u8],
}

/// Bytes that are read from the front, and where they stand.
pub(crate) struct Cursor<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) address: u64,
}

impl<'a> Cursor<'a> {
    fn skip(&mut self, count: usize) -> Option<()> {
        self.bytes = self.bytes.get(count..)?;
        self.address = self.address.checked_add(count as u64)?;
        Some(())
    }

    pub(crate) fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
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

    /// A LEB128 number without a sign; bits beyond the 64th are lost.
    pub(crate) fn unsigned(&mut self) -> Option<u64> {
        Some(self.leb128()?.0)
    }

    /// A LEB128 number with a sign.
    pub(crate) fn signed(&mut self) -> Option<i64> {
        let (value, bits, last) = self.leb128()?;
        let negative = last & 0x40 != 0 && bits < 64;
        Some((if negative { value | u64::MAX << bits } else { value }) as i64)
    }

    /// A LEB128 number: its value, how many bits were given, and its last byte.
    fn leb128(&mut self) -> Option<(u64, u32, u8)> {
        let length = self.bytes.iter().take(10).position(|byte| byte & 0x80 == 0)? + 1;
        let (mut value, mut bits, mut last) = (0, 0, 0);
        for &byte in self.bytes.iter().take(length) {
            value |= u64::from(byte & 0x7f).checked_shl(bits).unwrap_or(0);
            (bits, last) = (bits + 7, byte);
        }
        self.skip(length)?;
        Some((value, bits, last))
    }

    /// What follows a LEB128 length, limited to it.
    pub(crate) fn block(&mut self) -> Option<Cursor<'a>> {
        let length = usize::try_from(self.unsigned()?).ok()?;
        let block = Cursor { bytes: self.bytes.get(..length)?, address: self.address };
        self.skip(length)?;
        Some(block)
    }

    /// An encoded pointer, or a LEB128 number.
    fn number(&mut self, encoding: u8) -> Option<u64> {
        if encoding & 0x0f == ULEB128 { self.unsigned() } else { self.value(encoding, 0) }
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
