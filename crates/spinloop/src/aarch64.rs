//! Instructions of aarch64, as the rest of the crate sees them.
//!
//! All instructions are four bytes, so there is nothing to lose one's place in, and only the
//! classes that a loop's control and data flow go through are told apart: branches, loads and
//! stores, compares. Of all others it is assumed that they read and write the registers in the
//! usual fields. The classes follow the encoding index of the Arm Architecture Reference Manual
//! (DDI 0487, section C4.1).
//!
//! YIELD is what PAUSE is on x86-64; because it does nothing on most cores, ISB has taken its place
//! in many programs. Any four bytes can be replaced by a [`branch`] in one store.

use crate::instruction::{Effect, Flow, Instruction, Place, Registers};
use alloc::vec;
use alloc::vec::Vec;

/// `yield`.
pub const YIELD: u32 = 0xd503_203f;
/// `isb sy`.
pub const ISB: u32 = 0xd503_3fdf;
/// `nop`.
const NOP: u32 = 0xd503_201f;
/// `b to` at `from`, if it reaches: 128 MiB to either side.
///
/// ```
/// assert_eq!(spinloop::aarch64::branch(0x1000, 0x1000), Some(0x1400_0000));
/// assert_eq!(spinloop::aarch64::branch(0x1000, 0x1002), None);
/// ```
pub fn branch(from: u64, to: u64) -> Option<u32> {
    let relative = to.wrapping_sub(from) as i64;
    let reaches = relative % 4 == 0 && (-(1 << 27)..1 << 27).contains(&relative);
    reaches.then_some(0x1400_0000 | (relative >> 2) as u32 & 0x03ff_ffff)
}

/// Offsets in `chunk` at which a YIELD or an ISB stands, in ascending order. `chunk` starts at an
/// instruction.
pub fn candidates(chunk: &[u8]) -> impl Iterator<Item = usize> + '_ {
    let (words, _) = chunk.as_chunks::<4>();
    let spins = |&(_, word): &(usize, &[u8; 4])| matches!(u32::from_le_bytes(*word), YIELD | ISB);
    words.iter().enumerate().filter(spins).map(|(n, _)| n * 4)
}

/// The field of `width` bits from `low`.
const fn field(word: u32, low: u32, width: u32) -> u32 {
    word >> low & ((1 << width) - 1)
}

/// The same as a signed number.
const fn signed(word: u32, low: u32, width: u32) -> i64 {
    ((field(word, low, width) << (32 - width)) as i32 >> (32 - width)) as i64
}

/// See [`Machine::decode`](crate::Machine::decode).
pub(crate) fn decode(bytes: &[u8], address: u64) -> Option<Vec<Instruction>> {
    let (words, rest) = bytes.as_chunks::<4>();
    if !rest.is_empty() || !address.is_multiple_of(4) {
        return None;
    }
    let instructions = (0u64..).zip(words).map(|(n, word)| {
        let word = u32::from_le_bytes(*word);
        let address = address.wrapping_add(n * 4);
        let (spin, idle) = (matches!(word, YIELD | ISB), word == NOP);
        Instruction { address, length: 4, spin, idle, flow: flow(word, address) }
    });
    Some(instructions.collect())
}

fn flow(word: u32, address: u64) -> Flow {
    let to = |low, width| address.wrapping_add_signed(signed(word, low, width) * 4);
    match word {
        _ if word & 0xfc00_0000 == 0x1400_0000 => Flow::Jump(to(0, 26)),
        _ if word & 0xfc00_0000 == 0x9400_0000 => Flow::Call, // bl
        _ if word & 0xff00_0000 == 0x5400_0000 => match field(word, 0, 4) {
            14 | 15 => Flow::Jump(to(5, 19)), // b.al
            _ => Flow::Branch(to(5, 19)),
        },
        _ if word & 0x7e00_0000 == 0x3400_0000 => Flow::Branch(to(5, 19)), // cbz, cbnz
        _ if word & 0x7e00_0000 == 0x3600_0000 => Flow::Branch(to(5, 14)), // tbz, tbnz
        _ if word & 0xfe00_0000 == 0xd600_0000 => match field(word, 21, 3) {
            // br, blr, ret, and their authenticated forms
            0 => Flow::Indirect,
            1 => Flow::Call,
            _ => Flow::Stop,
        },
        _ if word & 0xff00_0000 == 0xd400_0000 => Flow::Call, // svc, hvc, smc, brk, hlt
        _ if word & 0xffff_0000 == 0 => Flow::Stop,           // udf
        _ => Flow::Next,
    }
}

/// A register's bit; 31 is the zero register or the stack pointer, neither of which carries a
/// value.
fn bit(number: u32) -> Registers {
    if number == 31 { Registers::NONE } else { Registers::one(number) }
}

const FLAGS: Registers = Registers(Registers::CARRY.0 | Registers::FLAGS.0);

/// See [`Machine::effect`](crate::Machine::effect).
pub(crate) fn effect(bytes: &[u8], address: u64) -> Effect {
    let Some(&word) = bytes.first_chunk::<4>() else { return Effect::default() };
    let word = u32::from_le_bytes(word);
    match field(word, 25, 4) {
        0b0100 | 0b0110 | 0b1100 | 0b1110 => memory(word, address),
        0b1000 | 0b1001 => immediate(word),
        0b0101 | 0b1101 => register(word),
        0b1010 | 0b1011 => system(word),
        _ => floating(word),
    }
}

/// Branches and system instructions.
fn system(word: u32) -> Effect {
    let mut effect = Effect::default();
    match word {
        _ if word & 0xff00_0000 == 0x5400_0000 => effect.reads = FLAGS,
        _ if word & 0x7c00_0000 == 0x3400_0000 => effect.reads = bit(field(word, 0, 5)),
        _ if word & 0xfff0_0000 == 0xd530_0000 => {
            // mrs; CNTPCT_EL0, CNTVCT_EL0 and their self-synchronised forms tell the time.
            effect.writes = bit(field(word, 0, 5));
            effect.clock = field(word, 8, 12) == 0xbe0 && matches!(field(word, 5, 3), 1 | 2 | 5 | 6);
        }
        _ => {}
    }
    effect
}

/// Data processing with a constant.
fn immediate(word: u32) -> Effect {
    let (d, n) = (bit(field(word, 0, 5)), bit(field(word, 5, 5)));
    let mut effect = Effect { writes: d, reads: n, ..Effect::default() };
    match field(word, 23, 3) {
        0 | 1 => effect.reads = Registers::NONE, // adr, adrp
        2 | 3 => {
            effect.arithmetic = true; // add, sub
            if field(word, 29, 1) == 1 {
                effect.writes |= FLAGS;
            }
        }
        4 if field(word, 29, 2) == 3 => effect.writes |= FLAGS, // ands
        // movn, movz, movk: the last keeps the other bits
        5 => effect.reads = if field(word, 29, 2) == 3 { d } else { Registers::NONE },
        6 => {
            // Shifts by a constant are written as bitfield moves; bfm keeps the other bits.
            effect.arithmetic = true;
            if field(word, 29, 2) == 1 {
                effect.reads |= d;
            }
        }
        _ => effect.reads |= bit(field(word, 16, 5)), // extr
    }
    effect
}

/// Data processing with registers only.
fn register(word: u32) -> Effect {
    let (d, n, m) = (bit(field(word, 0, 5)), bit(field(word, 5, 5)), bit(field(word, 16, 5)));
    let mut effect = Effect { writes: d, reads: n | m, ..Effect::default() };
    let sets_flags = field(word, 29, 1) == 1;
    match (field(word, 28, 1), field(word, 21, 4)) {
        (0, op) if op & 0b1000 == 0 => {
            // and, orr, eor, ands
            if field(word, 29, 2) == 3 {
                effect.writes |= FLAGS;
            }
        }
        (0, _) => {
            effect.arithmetic = true; // add, sub
            if sets_flags {
                effect.writes |= FLAGS;
            }
        }
        (_, 0) => {
            effect.arithmetic = true; // adc, sbc
            effect.reads |= FLAGS;
            if sets_flags {
                effect.writes |= FLAGS;
            }
        }
        (_, 0b0010) => {
            // ccmp, ccmn: a constant stands in the second register's place
            let second = if field(word, 11, 1) == 1 { Registers::NONE } else { m };
            effect = Effect { reads: n | second | FLAGS, writes: FLAGS, ..Effect::default() };
        }
        (_, 0b0100) => effect.reads |= FLAGS, // csel, csinc, csinv, csneg
        (_, 0b0110) => {
            // Two sources (divide, shift), or one (reverse, count), where the second field is an
            // operation.
            effect.arithmetic = true;
            if field(word, 30, 1) == 1 {
                effect.reads = n;
                effect.arithmetic = false;
            }
        }
        _ => {
            effect.arithmetic = true; // multiply and add
            effect.reads |= bit(field(word, 10, 5));
        }
    }
    effect
}

/// Floating point and vectors: vector registers are bits 32 to 63; whether a field is a vector or a
/// general register is not told apart, both are taken to be used. Nothing that a busy-wait loop
/// decides by.
fn floating(word: u32) -> Effect {
    let both = |number| bit(number) | Registers::one(32 + number);
    let reads = both(field(word, 5, 5)) | both(field(word, 16, 5));
    Effect { reads, writes: both(field(word, 0, 5)) | FLAGS, ..Effect::default() }
}

/// Loads, stores and atomics.
fn memory(word: u32, address: u64) -> Effect {
    let (t, n, s) = (field(word, 0, 5), field(word, 5, 5), field(word, 16, 5));
    let second = field(word, 10, 5);
    let size = field(word, 30, 2);
    let vector = field(word, 26, 1) == 1;
    let value = |number| if vector { Registers::one(32 + number) } else { bit(number) };
    let place = |registers, displacement: i64, form: u32| Place {
        registers: bit(n) | registers,
        form: u64::from(n) << 32 | u64::from(form),
        displacement: displacement as u64,
        local: registers == Registers::NONE && matches!(n, 29 | 31),
    };
    let plain = |load: bool, registers: Registers, place: Place| match load {
        true => Effect { writes: registers, loads: vec![place], ..Effect::default() },
        false => Effect { reads: registers, stores: vec![place], ..Effect::default() },
    };
    let atomic = |reads, writes| {
        let place = place(Registers::NONE, 0, 0);
        Effect { reads, writes, loads: vec![place], stores: vec![place], atomic: true, ..Effect::default() }
    };
    match word {
        _ if word & 0x3f00_0000 == 0x0800_0000 => {
            // Exclusive and ordered ones, and compare-and-swap.
            let (o2, load, o1) = (field(word, 23, 1) == 1, field(word, 22, 1) == 1, field(word, 21, 1) == 1);
            match (o2, o1, load) {
                (true, true, _) => atomic(bit(s), bit(s)), // cas
                (false, true, _) if size < 2 => {
                    atomic(bit(s) | bit((s + 1) & 31), bit(s) | bit((s + 1) & 31))
                } // casp
                (false, pair, true) => plain(
                    true,
                    bit(t) | if pair { bit(second) } else { Registers::NONE },
                    place(Registers::NONE, 0, 0),
                ),
                // A store's success depends on what others do to the memory.
                (false, _, false) => atomic(Registers::NONE, bit(s)),
                (true, false, load) => plain(load, bit(t), place(Registers::NONE, 0, 0)), // ldar, stlr
            }
        }
        // ldapr, and the atomics of the Large System Extensions: the register's new value comes
        // from memory.
        _ if word & 0x3f20_0c00 == 0x3820_0000 => match field(word, 12, 4) {
            0b1100 => plain(true, bit(t), place(Registers::NONE, 0, 0)),
            _ => atomic(Registers::NONE, bit(t)),
        },
        _ if word & 0x3f20_0c00 == 0x1900_0000 => {
            plain(field(word, 22, 2) != 0, bit(t), place(Registers::NONE, signed(word, 12, 9), 0))
        }
        _ if word & 0x3b00_0000 == 0x1800_0000 => {
            let at = address.wrapping_add_signed(signed(word, 5, 19) * 4);
            let place = Place { registers: Registers::NONE, form: 1, displacement: at, local: false };
            plain(true, value(t), place)
        }
        _ if word & 0x3a00_0000 == 0x2800_0000 => {
            let scale = if vector { 2 + size } else { 2 + (size >> 1) };
            let load = field(word, 22, 1) == 1;
            let mut effect = plain(
                load,
                value(t) | value(second),
                place(Registers::NONE, signed(word, 15, 7) << scale, 0),
            );
            moves(
                &mut effect,
                n,
                field(word, 23, 1) == 1 && field(word, 24, 1) == 1 || field(word, 23, 2) == 1,
            );
            effect
        }
        _ if word & 0x3b00_0000 == 0x3900_0000 => {
            let scale = if vector { size | field(word, 23, 1) << 2 } else { size };
            plain(
                loads(word, vector),
                value(t),
                place(Registers::NONE, i64::from(field(word, 10, 12)) << scale, 0),
            )
        }
        _ if word & 0x3b20_0000 == 0x3800_0000 => {
            let mut effect =
                plain(loads(word, vector), value(t), place(Registers::NONE, signed(word, 12, 9), 0));
            moves(&mut effect, n, field(word, 10, 1) == 1);
            effect
        }
        _ if word & 0x3b20_0c00 == 0x3820_0800 => {
            plain(loads(word, vector), value(t), place(bit(s), 0, field(word, 12, 9) << 1 | 1))
        }
        _ => Effect { loads: vec![place(Registers::NONE, 0, 2)], writes: value(t), ..Effect::default() },
    }
}

/// Whether a single-register access loads.
fn loads(word: u32, vector: bool) -> bool {
    if vector { field(word, 22, 1) == 1 } else { field(word, 22, 2) != 0 }
}

/// A base register that is moved along by the access.
fn moves(effect: &mut Effect, base: u32, moves: bool) {
    if moves {
        effect.writes |= bit(base);
        effect.reads |= bit(base);
        effect.arithmetic = true;
    }
}
