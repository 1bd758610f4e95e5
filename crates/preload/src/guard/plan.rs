//! What is to become of a module's waits, in bytes that do not depend on the process.
//!
//! The finder's work ([`super::analysis`]) ends in a list of these plans, and the repair
//! ([`super::repair`]) begins with one. Between the two the list may be kept in a file and read by
//! another process ([`super::cache`]): so the second start of a program does with a library what
//! the first one did, by the same code.
//!
//! Numbers are little-endian. Addresses in the module are distances from its bias.
//!
//! | bytes | what |
//! | --- | --- |
//! | 8 | the number of plans; then each plan: |
//! | 1, 8 | the verdict, the pivot |
//! | 1, and as many | for a wait that is left alone: the length of the reason, and the reason |
//! | | for a wait that is repaired: |
//! | 1, and more | how its waits end ([`Kind`]) |
//! | 1, and more, 8 | the form of the jump; the landing and the hops of a short jump; where the jump stands |
//! | 1, then 8, 2 and more each | what has to stand in the module: how many pieces; of each its address, length and bytes |
//! | 2, 1, 2 | where the copy is entered, whether its first rounds need no visit, where its unwind data are |
//! | 2, and as many | the copy's length, and the copy as for [`Bases::NOWHERE`] |
//! | 2, then 3 each | how many relocations the copy has, and these |
//!
//! Invariants:
//! 1. [`read`] takes any bytes, and all that it returns lies within them. If the bytes are not a
//!    list that was written, no process may rely on the result. The checksum of the file tells
//!    whether they are.
//! 2. [`Repairable::fits`] says whether all that is written stands in the place of bytes that the
//!    finder saw.

use alloc::vec::Vec;
use core::ops::Range;
use spinloop::relocation::{Bases, Refers, Relocation, relocate};
use spinloop::{Bound, Condition, Counter, Image, Kind, MAX_HOPS, Place};

/// Why a wait is refused: its loop cannot be copied.
pub const NOT_COPIED: &str = "it cannot be copied";
/// Why a wait is refused: the jump would replace several instructions.
pub const NO_ROW: &str = "no jump fits while threads run";

/// What the finder says of one seed, and what the guard is to do there.
pub struct Plan<'a> {
    /// The address where the waiter looks, from the module's bias.
    pub pivot: usize,
    /// What is to become of it.
    pub verdict: Verdict<'a>,
}

/// What is to become of a seed.
#[allow(
    clippy::large_enum_variant,
    reason = "nearly all are repairs, and a box for each would cost more than it saves"
)]
pub enum Verdict<'a> {
    /// The seed is no wait, for this reason.
    NoWait(&'a str),
    /// The seed is a wait that cannot be repaired, for this reason.
    Refused(&'a str),
    /// The seed is a wait, and this is its repair.
    Repair(Repairable<'a>),
}

/// The jump into a copy. Addresses are distances from the module's bias.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entrance {
    /// Where the jump stands.
    pub at: usize,
    /// Its form.
    pub form: Form,
}

/// As [`spinloop::Jump`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Five bytes in the place of one instruction.
    Whole,
    /// Five bytes in the place of several.
    Row,
    /// The distance of a call, four bytes behind its first one.
    Call,
    /// Two bytes, and on through dead ones.
    Short {
        /// The short jumps on the way, as many as there are.
        hops: [Option<usize>; MAX_HOPS],
        /// The five dead bytes.
        landing: usize,
    },
}

/// A wait and its repair.
pub struct Repairable<'a> {
    /// How its waits end. An address of a bound's is a distance from the module's bias: see
    /// [`Repairable::kind`].
    kind: Kind,
    /// How threads get into the copy.
    pub entrance: Entrance,
    /// What stands in the module: the loop, and the dead bytes.
    originals: Originals<'a>,
    /// The offset in the copy at which threads enter it.
    pub entry: usize,
    /// Whether the first rounds of a wait are spun without a visit.
    pub spins: bool,
    /// The offset in the copy at which its unwind data begin, if it has any.
    pub frame: Option<usize>,
    code: &'a [u8],
    relocations: &'a [[u8; 3]],
}

/// Addresses and bytes, one behind the other.
#[derive(Clone)]
struct Originals<'a>(Reader<'a>);

impl<'a> Iterator for Originals<'a> {
    type Item = (usize, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (address, length) = (self.0.word()?, self.0.half()?);
        Some((address, self.0.take(length)?))
    }
}

impl Repairable<'_> {
    /// Whether the jump replaces several instructions.
    pub fn is_row(&self) -> bool {
        matches!(self.entrance.form, Form::Row)
    }

    /// How long the copy is.
    pub fn bytes(&self) -> usize {
        self.code.len()
    }

    /// Adds the copy for these addresses at the end of `into`.
    pub fn copy(&self, into: &mut Vec<u8>, to: &Bases) -> Option<()> {
        let begin = into.len();
        into.extend_from_slice(self.code);
        relocate(into.get_mut(begin..)?, relocations(self.relocations), &Bases::NOWHERE, to)
    }

    /// How its waits end, in a module with this bias.
    pub fn kind(&self, bias: usize) -> Kind {
        with_bias(self.kind, bias)
    }

    /// Whether all that its repair is about stands in `text`, with `bias`, as the finder saw it.
    ///
    /// # Safety
    /// `text` must be mapped and readable.
    pub unsafe fn fits(&self, text: &[Range<usize>], bias: usize) -> bool {
        let stands = |(at, bytes): (usize, &[u8])| {
            let start = bias.wrapping_add(at);
            start.checked_add(bytes.len()).is_some_and(|end| {
                // SAFETY: what is read lies in one of the caller's ranges.
                text.iter().any(|range| range.start <= start && end <= range.end)
                    && unsafe { core::slice::from_raw_parts(start as *const u8, bytes.len()) } == bytes
            })
        };
        let known = |at: usize, length: usize| {
            let holds = |(start, bytes): (usize, &[u8])| {
                at.checked_sub(start).is_some_and(|skip| skip + length <= bytes.len())
            };
            self.originals.clone().any(holds)
        };
        let written = match self.entrance.form {
            Form::Whole | Form::Row | Form::Call => known(self.entrance.at, 5),
            Form::Short { hops, landing } => {
                known(self.entrance.at, 2)
                    && known(landing, 5)
                    && hops.into_iter().flatten().all(|hop| known(hop, 2))
            }
        };
        written && self.originals.clone().all(stands)
    }
}

fn relocations(packed: &[[u8; 3]]) -> impl Iterator<Item = Relocation> {
    packed.iter().map(|&[low, high, refers]| Relocation {
        at: u16::from_le_bytes([low, high]),
        // `read` has seen that there is one.
        refers: Refers::ALL.get(usize::from(refers)).copied().unwrap_or(Refers::Copy),
    })
}

fn with_bias(kind: Kind, bias: usize) -> Kind {
    match kind {
        Kind::Counted(counter @ Counter { bound: Bound::Memory(None, at), .. }) => {
            let bound = Bound::Memory(None, at.wrapping_add(bias as u64));
            Kind::Counted(Counter { bound, ..counter })
        }
        _ => kind,
    }
}

/// A list that is being made, of a module with this bias.
pub struct Writer {
    bytes: Vec<u8>,
    count: u64,
    bias: usize,
}

const NO_WAIT: u8 = 0;
const REFUSED: u8 = 1;
const REPAIR: u8 = 2;

const WHOLE: u8 = 0;
const ROW: u8 = 1;
const SHORT: u8 = 2;
const CALL: u8 = 3;

const NO_FRAME: usize = 0xffff;

/// A copy as it is written down: see [`Repairable`].
pub struct Made<'a> {
    /// The bytes, as for [`Bases::NOWHERE`].
    pub code: &'a [u8],
    /// The offset in `code` at which threads enter the copy.
    pub entry: usize,
    /// Whether the first rounds of a wait are spun without a visit.
    pub spins: bool,
    /// The offset in `code` at which the unwind data begin.
    pub frame: Option<usize>,
    /// Its fields that depend on addresses.
    pub relocations: &'a [Relocation],
}

impl Writer {
    /// An empty list.
    pub fn new(bias: usize) -> Writer {
        Writer { bytes: Vec::from([0; 8]), count: 0, bias }
    }

    /// The bytes of the list.
    pub fn finish(mut self) -> Vec<u8> {
        self.bytes[..8].copy_from_slice(&self.count.to_le_bytes());
        self.bytes
    }

    /// Notes a seed that is no wait.
    pub fn no_wait(&mut self, pivot: usize, reason: &str) {
        self.reason(NO_WAIT, pivot, reason);
    }

    /// Notes a wait that cannot be repaired.
    pub fn refused(&mut self, pivot: usize, reason: &str) {
        self.reason(REFUSED, pivot, reason);
    }

    /// Notes a wait and its repair; `parts` are what the loop consists of. Nothing if it is too
    /// large to be written down.
    pub fn repair(
        &mut self,
        image: &dyn Image,
        found: &spinloop::Loop,
        parts: &[Range<u64>],
        jump_site: &spinloop::JumpSite,
        made: &Made<'_>,
    ) -> Option<()> {
        self.whole(|list| {
            list.begin(REPAIR, found.pivot as usize);
            list.kind(with_bias(found.kind, list.bias.wrapping_neg()));
            let at = jump_site.replaced.start;
            let mut dead = Vec::new();
            match &jump_site.jump {
                spinloop::Jump::Whole => list.bytes.push(WHOLE),
                spinloop::Jump::Row => list.bytes.push(ROW),
                spinloop::Jump::Call => list.bytes.push(CALL),
                spinloop::Jump::Short(route) => {
                    list.bytes.extend([SHORT, route.hops().len() as u8]);
                    list.address(route.landing);
                    dead.push(route.landing..route.landing + 5);
                    for &hop in route.hops() {
                        list.address(hop);
                        dead.push(hop..hop + 2);
                    }
                }
            }
            list.address(at);
            let originals = parts.iter().chain(&dead);
            list.bytes.push(u8::try_from(originals.clone().count()).ok()?);
            for range in originals {
                let length = range.end.checked_sub(range.start)? as usize;
                list.address(range.start);
                list.half(length)?;
                list.bytes.extend_from_slice(image.at(range.start).get(..length)?);
            }
            list.half(made.entry)?;
            list.bytes.push(made.spins.into());
            list.half(made.frame.unwrap_or(NO_FRAME))?;
            list.half(made.code.len())?;
            list.bytes.extend_from_slice(made.code);
            list.half(made.relocations.len())?;
            for relocation in made.relocations {
                let [low, high] = relocation.at.to_le_bytes();
                let number = Refers::ALL.iter().position(|refers| *refers == relocation.refers)?;
                list.bytes.extend([low, high, number as u8]);
            }
            Some(())
        })
    }

    /// Adds what `write` writes as one entry, or nothing.
    fn whole(&mut self, write: impl FnOnce(&mut Writer) -> Option<()>) -> Option<()> {
        let begin = self.bytes.len();
        let written = write(self);
        match written {
            Some(()) => self.count += 1,
            None => self.bytes.truncate(begin),
        }
        written
    }

    fn reason(&mut self, verdict: u8, pivot: usize, reason: &str) {
        self.count += 1;
        self.begin(verdict, pivot);
        let reason = &reason[..reason.floor_char_boundary(255)];
        self.bytes.push(reason.len() as u8);
        self.bytes.extend_from_slice(reason.as_bytes());
    }

    fn begin(&mut self, verdict: u8, pivot: usize) {
        self.bytes.push(verdict);
        self.address(pivot as u64);
    }

    fn address(&mut self, address: u64) {
        self.word(address.wrapping_sub(self.bias as u64));
    }

    fn word(&mut self, word: u64) {
        self.bytes.extend(word.to_le_bytes());
    }

    fn half(&mut self, number: usize) -> Option<()> {
        self.bytes.extend(u16::try_from(number).ok()?.to_le_bytes());
        Some(())
    }

    fn kind(&mut self, kind: Kind) {
        match kind {
            Kind::Unbounded => self.bytes.push(UNBOUNDED),
            Kind::Timed => self.bytes.push(TIMED),
            Kind::Hint => self.bytes.push(HINT),
            Kind::Poll => self.bytes.push(POLL),
            Kind::Counted(Counter { place, bits, step, ahead, bound, goes_on, blocks }) => {
                self.bytes.push(COUNTED);
                self.place(place);
                self.bytes.push(bits as u8);
                self.word(step as u64);
                self.word(ahead as u64);
                match bound {
                    Bound::Constant(constant) => {
                        self.bytes.push(CONSTANT);
                        self.word(constant);
                    }
                    Bound::Place(place, add) => {
                        self.bytes.push(PLACE);
                        self.place(place);
                        self.word(add as u64);
                    }
                    Bound::Memory(None, at) => {
                        self.bytes.push(FIXED);
                        self.word(at);
                    }
                    Bound::Memory(Some(register), distance) => {
                        self.bytes.extend([BY_REGISTER, register]);
                        self.word(distance);
                    }
                }
                let number = CONDITIONS.iter().position(|condition| *condition == goes_on);
                self.bytes.extend([number.unwrap_or(CONDITIONS.len()) as u8, blocks.into()]);
            }
        }
    }

    fn place(&mut self, place: Place) {
        let (number, register, distance) = match place {
            Place::Register(register) => (IN_REGISTER, register, 0),
            Place::Stack(register, distance) => (ON_STACK, register, distance),
        };
        self.bytes.extend([number, register]);
        self.word(distance as u64);
    }
}

/// Kinds of loops, by number.
const UNBOUNDED: u8 = 0;
const TIMED: u8 = 1;
const HINT: u8 = 2;
const COUNTED: u8 = 3;
const POLL: u8 = 4;
/// Where a counter's bound is, by number: in the plan, in a place, in memory at an address of the
/// module, or by a register.
const CONSTANT: u8 = 0;
const PLACE: u8 = 1;
const FIXED: u8 = 2;
const BY_REGISTER: u8 = 3;
/// Places, by number.
const IN_REGISTER: u8 = 0;
const ON_STACK: u8 = 1;

/// The conditions of a counter, by number.
const CONDITIONS: [Condition; 9] = [
    Condition::NotEqual,
    Condition::Below,
    Condition::BelowOrEqual,
    Condition::Above,
    Condition::AboveOrEqual,
    Condition::Less,
    Condition::LessOrEqual,
    Condition::Greater,
    Condition::GreaterOrEqual,
];

/// The plans of a list. `None` if the bytes are no list (Invariant 1).
pub fn read(bytes: &[u8]) -> Option<Vec<Plan<'_>>> {
    let mut reader = Reader(bytes);
    let count = reader.word()?;
    // Each plan has more than 8 bytes, so a wrong count reserves little memory.
    let mut plans = Vec::with_capacity(count.min(bytes.len() / 8));
    while !reader.0.is_empty() {
        plans.push(reader.plan()?);
    }
    (plans.len() == count).then_some(plans)
}

/// Reads a list; holds the bytes that are still to be read.
#[derive(Clone)]
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn plan(&mut self) -> Option<Plan<'a>> {
        let (verdict, pivot) = (self.byte()?, self.word()?);
        let verdict = match verdict {
            NO_WAIT => Verdict::NoWait(self.reason()?),
            REFUSED => Verdict::Refused(self.reason()?),
            REPAIR => Verdict::Repair(self.repair()?),
            _ => return None,
        };
        Some(Plan { pivot, verdict })
    }

    fn repair(&mut self) -> Option<Repairable<'a>> {
        let kind = self.kind()?;
        let form = match self.byte()? {
            WHOLE => Form::Whole,
            ROW => Form::Row,
            CALL => Form::Call,
            SHORT => {
                let count = usize::from(self.byte()?);
                let landing = self.word()?;
                let mut hops = [None; MAX_HOPS];
                for hop in hops.get_mut(..count)? {
                    *hop = Some(self.word()?);
                }
                Form::Short { hops, landing }
            }
            _ => return None,
        };
        let at = self.word()?;
        let count = self.byte()?;
        let begin = self.0;
        for _ in 0..count {
            self.word()?;
            let length = self.half()?;
            self.take(length)?;
        }
        let originals = Originals(Reader(begin.get(..begin.len() - self.0.len())?));
        let (entry, spins, frame) = (self.half()?, self.flag()?, self.half()?);
        let length = self.half()?;
        let code = self.take(length)?;
        let count = self.half()?;
        let (relocations, _) = self.take(3 * count)?.as_chunks::<3>();
        let frame = (frame != NO_FRAME).then_some(frame);
        let inside = |at: &usize| *at < code.len();
        let known = relocations.iter().all(|packed| usize::from(packed[2]) < Refers::ALL.len());
        (known && inside(&entry) && frame.iter().all(inside)).then_some(Repairable {
            kind,
            entrance: Entrance { at, form },
            originals,
            entry,
            spins,
            frame,
            code,
            relocations,
        })
    }

    fn kind(&mut self) -> Option<Kind> {
        Some(match self.byte()? {
            UNBOUNDED => Kind::Unbounded,
            TIMED => Kind::Timed,
            HINT => Kind::Hint,
            POLL => Kind::Poll,
            COUNTED => {
                let (place, bits) = (self.place()?, u32::from(self.byte()?));
                let (step, ahead) = (self.signed()?, self.signed()?);
                let bound = match self.byte()? {
                    CONSTANT => Bound::Constant(self.word()? as u64),
                    PLACE => Bound::Place(self.place()?, self.signed()?),
                    FIXED => Bound::Memory(None, self.word()? as u64),
                    BY_REGISTER => Bound::Memory(Some(self.byte()?), self.word()? as u64),
                    _ => return None,
                };
                let goes_on = *CONDITIONS.get(usize::from(self.byte()?))?;
                let blocks = self.flag()?;
                Kind::Counted(Counter { place, bits, step, ahead, bound, goes_on, blocks })
            }
            _ => return None,
        })
    }

    fn place(&mut self) -> Option<Place> {
        let (number, register, distance) = (self.byte()?, self.byte()?, self.signed()?);
        match number {
            0 => Some(Place::Register(register)),
            1 => Some(Place::Stack(register, distance)),
            _ => None,
        }
    }

    fn reason(&mut self) -> Option<&'a str> {
        let length = usize::from(self.byte()?);
        core::str::from_utf8(self.take(length)?).ok()
    }

    /// A byte that is 0 or 1.
    fn flag(&mut self) -> Option<bool> {
        match self.byte()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    /// A number of two bytes.
    fn half(&mut self) -> Option<usize> {
        Some(usize::from(u16::from_le_bytes(*self.take(2)?.first_chunk()?)))
    }

    /// A number of eight bytes without a sign, or an address.
    fn word(&mut self) -> Option<usize> {
        self.signed().map(|word| word as usize)
    }

    /// A number of eight bytes with a sign.
    fn signed(&mut self) -> Option<i64> {
        Some(i64::from_le_bytes(*self.take(8)?.first_chunk()?))
    }

    /// The next `bytes` bytes; `None` if fewer are left.
    fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(taken)
    }
}

#[cfg(test)]
mod tests;
