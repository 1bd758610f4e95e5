//! Symbolic execution: what instructions do to values that are known only by their origin.
//!
//! A value is known as what a register or a stack slot held at the pivot, plus a constant; or as a
//! constant; or as a load from memory; or not at all. Flags are known by the operation that has set
//! them. A value that goes where it can no longer be followed (into another value, an address, a
//! flag that is kept) is *used*.
//!
//! 1. What an instruction changes besides its registers, flags and memory is not followed: such an
//!    instruction is refused.
//! 2. Memory that is written is a slot: a part of the function's frame that is addressed by the
//!    stack or frame pointer, always with the same size. Slots do not overlap.
//! 3. A flag is read only where one operation has set it, in the same round.

use crate::x86::{STATUS, access, flags_written, holds, is_high_byte, is_one_register};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use iced_x86::{
    ConditionCode, CpuidFeature, InstructionInfoFactory, Mnemonic, OpKind, Register, RflagsBits, UsedMemory,
};

/// Where a value can be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Location {
    /// A register, whole, by its number among iced's.
    Register(u16),
    /// A slot of the function's frame: whether it is addressed by `rbp`, and its displacement.
    Slot(bool, i64),
}

/// What is known of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    /// What this location held at the pivot, plus a constant, cut off to a number of bits.
    Was(Location, i64, u32),
    Constant(u64),
    /// Read from a place in memory that stays where it is.
    Loaded(Option<(u16, i64)>, u64, u32),
    Unknown,
}

/// What is known of the flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flags {
    /// The flags of an operation on a number of bits.
    Of(Operation, u32),
    /// None of them depends on a location of the pivot's time.
    Unknown,
    /// Some are those of before: of an instruction that a later one has overwritten in part, or of
    /// the round before.
    Stale,
}

/// What has set the flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Operation {
    /// These two were compared.
    pub(crate) compared: Option<(Value, Value)>,
    /// This is the result: zero or not, negative or not.
    pub(crate) result: Value,
    /// The carry flag is of this operation, too.
    pub(crate) carry: bool,
}

impl Flags {
    /// After a comparison of two values of `bits` bits.
    fn compared(one: Value, other: Value, bits: u32) -> Flags {
        let result = if other == Value::Constant(0) { one } else { Value::Unknown };
        Flags::Of(Operation { compared: Some((one, other)), result, carry: true }, bits)
    }

    /// The values that they depend on.
    pub(crate) fn values(self) -> impl Iterator<Item = Value> {
        let values = match self {
            Flags::Of(Operation { compared: Some((one, other)), result, .. }, _) => [one, other, result],
            Flags::Of(Operation { compared: None, result, .. }, _) => [result; 3],
            Flags::Unknown | Flags::Stale => [Value::Unknown; 3],
        };
        values.into_iter()
    }

    /// Whether a condition holds, if constants decide it.
    pub(crate) fn decide(self, condition: ConditionCode) -> Option<bool> {
        let Flags::Of(Operation { compared, .. }, bits) = self else { return None };
        let Some((Value::Constant(one), Value::Constant(other))) = compared else { return None };
        holds(condition, one, other, bits)
    }
}

#[derive(Clone, PartialEq)]
pub(crate) struct State {
    pub(crate) values: BTreeMap<Location, Value>,
    pub(crate) flags: Flags,
    /// The conditional jumps that were passed.
    pub(crate) jumps: BTreeSet<u32>,
}

/// What the instructions that were followed have done, on all paths together.
pub(crate) struct Followed {
    /// `rbp` is a frame pointer.
    pub(crate) framed: bool,
    /// Locations whose value at the pivot was read.
    pub(crate) read: BTreeSet<Location>,
    /// Locations whose value at the pivot was used for more than a counter's is.
    pub(crate) used: BTreeSet<Location>,
    /// Slots that were written.
    pub(crate) stored: BTreeSet<Location>,
    /// All slots, with the bytes of each.
    slots: BTreeMap<(bool, i64), u64>,
}

impl Followed {
    pub(crate) fn new(framed: bool) -> Self {
        let (read, used, stored, slots) = Default::default();
        Followed { framed, read, used, stored, slots }
    }

    fn value(&mut self, state: &State, location: Location) -> Value {
        state.values.get(&location).copied().unwrap_or_else(|| {
            self.read.insert(location);
            Value::Was(location, 0, 64)
        })
    }

    /// What is known where a loop inside the round may begin any of its own rounds: of its states
    /// so far, and of one more. A value that is the same in both stays known. If they differ, the
    /// value may still be the pivot's, so it counts as read.
    pub(crate) fn join(&mut self, known: &State, more: &State) -> State {
        let both: BTreeSet<Location> = known.values.keys().chain(more.values.keys()).copied().collect();
        let mut joined = known.clone();
        for location in both {
            let [one, other] = [known, more]
                .map(|state| state.values.get(&location).copied().unwrap_or(Value::Was(location, 0, 64)));
            if one == other {
                continue;
            }
            for value in [one, other] {
                if let Value::Was(of, ..) = value {
                    self.read.insert(of);
                }
                self.escape(value);
            }
            joined.values.insert(location, Value::Unknown);
        }
        if known.flags != more.flags {
            known.flags.values().chain(more.flags.values()).for_each(|value| self.escape(value));
            joined.flags = Flags::Stale;
        }
        joined
    }

    fn register(&mut self, state: &State, register: Register) -> Value {
        let value = self.value(state, Location::Register(register.full_register() as u16));
        cut(value, register.size() as u32 * 8)
    }

    /// A value goes where nothing is known of it.
    fn escape(&mut self, value: Value) {
        if let Value::Was(location, ..) = value {
            self.used.insert(location);
        }
    }

    /// The slot of `bytes` bytes that a memory operand names; `None` in `Some`: it is other
    /// memory.
    fn slot(&mut self, instruction: &iced_x86::Instruction, bytes: u64) -> Option<Option<Location>> {
        let base = instruction.memory_base();
        self.slot_at(
            base,
            instruction.memory_index(),
            instruction.segment_prefix(),
            instruction.memory_displacement64() as i64,
            bytes,
        )
    }

    fn slot_at(
        &mut self,
        base: Register,
        index: Register,
        segment: Register,
        displacement: i64,
        bytes: u64,
    ) -> Option<Option<Location>> {
        let by_frame = match base {
            Register::RSP => false,
            Register::RBP if self.framed => true,
            _ => return Some(None),
        };
        if index != Register::None || segment != Register::None {
            return None;
        }
        let key = (by_frame, displacement);
        if bytes == 0 {
            return None;
        }
        if self.slots.insert(key, bytes).is_some_and(|before| before != bytes) {
            return None;
        }
        // A frame that is addressed by both pointers could name one slot twice.
        let overlaps = self.slots.iter().any(|(&(frame, at), &size)| {
            (frame, at) != key
                && (frame != by_frame || at < displacement + bytes as i64 && displacement < at + size as i64)
        });
        (!overlaps).then_some(Some(Location::Slot(by_frame, displacement)))
    }

    /// What an operand's value is; loses nothing. Only operands of four and eight bytes.
    fn operand(
        &mut self,
        instruction: &iced_x86::Instruction,
        n: u32,
        state: &State,
    ) -> Option<(Value, u32)> {
        match instruction.op_kind(n) {
            OpKind::Register => {
                let register = instruction.op_register(n);
                let bits = register.size() as u32 * 8;
                if !register.is_gpr32() && !register.is_gpr64() {
                    return Some((Value::Unknown, bits)).filter(|_| !register.is_gpr());
                }
                Some((self.register(state, register), bits))
            }
            OpKind::Memory => {
                let bytes = instruction.memory_size().size() as u64;
                if bytes != 4 && bytes != 8 {
                    return None;
                }
                let bits = bytes as u32 * 8;
                if let Some(slot) = self.slot(instruction, bytes)? {
                    let value = self.value(state, slot);
                    return Some((cut(value, bits), bits));
                }
                Some((self.load(instruction, bits, state), bits))
            }
            _ => instruction.try_immediate(n).ok().map(|constant| (Value::Constant(constant), 64)),
        }
    }

    /// A word of other memory.
    fn load(&mut self, instruction: &iced_x86::Instruction, bits: u32, state: &State) -> Value {
        let (base, index) = (instruction.memory_base(), instruction.memory_index());
        for register in [base, index] {
            if register.is_gpr() {
                let value = self.register(state, register);
                self.escape(value);
            }
        }
        let displacement = instruction.memory_displacement64();
        if index != Register::None || instruction.segment_prefix() != Register::None {
            return Value::Unknown;
        }
        match base {
            Register::RIP | Register::None => Value::Loaded(None, displacement, bits),
            base if base.is_gpr64() => match self.register(state, base) {
                Value::Was(Location::Register(of), add, 64) if of == base as u16 => {
                    Value::Loaded(Some((of, add)), displacement, bits)
                }
                _ => Value::Unknown,
            },
            _ => Value::Unknown,
        }
    }

    /// Writes an operand: a register of four or eight bytes, or a slot.
    fn write(
        &mut self,
        instruction: &iced_x86::Instruction,
        n: u32,
        value: Value,
        state: &mut State,
    ) -> Option<()> {
        let location = match instruction.op_kind(n) {
            OpKind::Register => {
                let register = instruction.op_register(n);
                if register.full_register() == Register::RSP
                    || (self.framed && register.full_register() == Register::RBP)
                {
                    return None;
                }
                let value = cut(value, register.size() as u32 * 8);
                state.values.insert(Location::Register(register.full_register() as u16), value);
                return Some(());
            }
            OpKind::Memory => self.slot(instruction, instruction.memory_size().size() as u64)??,
            _ => return None,
        };
        self.stored.insert(location);
        state.values.insert(location, cut(value, instruction.memory_size().size() as u32 * 8));
        Some(())
    }

    /// One instruction that goes on behind itself.
    pub(crate) fn step(&mut self, instruction: &iced_x86::Instruction, state: &mut State) -> Option<()> {
        let plain = |n: u32| match instruction.op_kind(n) {
            OpKind::Register => {
                instruction.op_register(n).is_gpr32() || instruction.op_register(n).is_gpr64()
            }
            OpKind::Memory => matches!(instruction.memory_size().size(), 4 | 8),
            _ => true,
        };
        let locked = instruction.has_lock_prefix();
        let two = instruction.op_count() == 2 && plain(0) && plain(1) && !locked;
        match instruction.mnemonic() {
            Mnemonic::Nop | Mnemonic::Pause | Mnemonic::Endbr64 | Mnemonic::Lfence | Mnemonic::Mfence => {
                return Some(());
            }
            Mnemonic::Mov if two => {
                let (value, _) = self.operand(instruction, 1, state)?;
                return self.write(instruction, 0, value, state);
            }
            Mnemonic::Lea if plain(0) && instruction.memory_index() == Register::None => {
                let base = instruction.memory_base();
                if base.is_gpr64() && base != Register::RSP && !(self.framed && base == Register::RBP) {
                    let bits = instruction.op0_register().size() as u32 * 8;
                    let value = cut(self.register(state, base), bits);
                    let value = self.add(value, instruction.memory_displacement64() as i64, bits);
                    return self.write(instruction, 0, value, state);
                }
            }
            Mnemonic::Xor | Mnemonic::Sub if two && is_one_register(instruction) => {
                state.flags = Flags::Unknown;
                return self.write(instruction, 0, Value::Constant(0), state);
            }
            Mnemonic::Add | Mnemonic::Sub if two => {
                if let Ok(constant) = instruction.try_immediate(1) {
                    return self.count(instruction, constant as i64, true, state);
                }
            }
            Mnemonic::Inc | Mnemonic::Dec if plain(0) && !locked => {
                return self.count(instruction, 1, false, state);
            }
            Mnemonic::Cmp if two => {
                let ((one, bits), (other, _)) =
                    (self.operand(instruction, 0, state)?, self.operand(instruction, 1, state)?);
                state.flags = Flags::compared(one, cut(other, bits), bits);
                return Some(());
            }
            Mnemonic::Test if two && is_one_register(instruction) => {
                let (value, bits) = self.operand(instruction, 0, state)?;
                state.flags = Flags::compared(value, Value::Constant(0), bits);
                return Some(());
            }
            // A truth value that the round itself has set.
            Mnemonic::Test if is_one_register(instruction) && is_low_byte(instruction.op0_register()) => {
                let full = Location::Register(instruction.op0_register().full_register() as u16);
                if let Some(&Value::Constant(whole)) = state.values.get(&full) {
                    state.flags = Flags::compared(cut(Value::Constant(whole), 8), Value::Constant(0), 8);
                    return Some(());
                }
            }
            _ => {}
        }
        self.any(instruction, state)
    }

    /// A constant is added to the first operand, or subtracted from it.
    fn count(
        &mut self,
        instruction: &iced_x86::Instruction,
        constant: i64,
        carry: bool,
        state: &mut State,
    ) -> Option<()> {
        let minus = matches!(instruction.mnemonic(), Mnemonic::Sub | Mnemonic::Dec);
        let (value, bits) = self.operand(instruction, 0, state)?;
        let sum = self.add(value, if minus { constant.wrapping_neg() } else { constant }, bits);
        // To subtract compares.
        let compared = minus.then(|| (value, cut(Value::Constant(constant as u64), bits)));
        state.flags = Flags::Of(Operation { compared, result: sum, carry }, bits);
        self.write(instruction, 0, sum, state)
    }

    /// The sum of a value of `bits` bits and a constant.
    fn add(&mut self, value: Value, constant: i64, bits: u32) -> Value {
        match value {
            Value::Was(location, before, width) if width == bits => {
                Value::Was(location, before.wrapping_add(constant), width)
            }
            Value::Constant(other) => cut(Value::Constant(other.wrapping_add(constant as u64)), bits),
            other => {
                self.escape(other);
                Value::Unknown
            }
        }
    }

    /// Any other instruction: what it reads is used, what it writes is not known.
    fn any(&mut self, instruction: &iced_x86::Instruction, state: &mut State) -> Option<()> {
        if !is_followed(instruction) {
            return None;
        }
        if instruction.rflags_read() & STATUS != 0 {
            may_read(instruction.rflags_read(), state.flags)?;
            state.flags.values().for_each(|value| self.escape(value));
        }
        let mut factory = InstructionInfoFactory::new();
        let info = factory.info(instruction);
        let mut written = Vec::new();
        let mut refused = false;
        for used in info.used_registers() {
            let full = used.register().full_register();
            let (reading, writing) = access(used.access());
            if full.is_segment_register() {
                refused |= writing;
                continue;
            }
            if matches!(full, Register::RIP | Register::None) {
                continue;
            }
            let location = Location::Register(full as u16);
            if reading {
                let value = self.value(state, location);
                if full != Register::RSP {
                    self.escape(value);
                }
            }
            if writing {
                refused |= full == Register::RSP || self.framed && full == Register::RBP;
                // Part of a register: what is left of it lasts.
                if used.register().is_gpr8() || used.register().is_gpr16() {
                    let value = self.value(state, location);
                    self.escape(value);
                }
                written.push(location);
            }
        }
        for used in info.used_memory() {
            refused |= self.memory(used, state, &mut written).is_none();
        }
        if refused {
            return None;
        }
        state.values.extend(written.into_iter().map(|location| (location, Value::Unknown)));
        let modified = instruction.rflags_modified() & STATUS;
        if flags_written(instruction) == STATUS || modified != 0 && state.flags == Flags::Unknown {
            state.flags = Flags::Unknown;
        } else if modified != 0 {
            state.flags = Flags::Stale;
        }
        Some(())
    }

    fn memory(&mut self, used: &UsedMemory, state: &State, written: &mut Vec<Location>) -> Option<()> {
        let (reading, writing) = access(used.access());
        if !reading && !writing {
            return Some(());
        }
        let segment = if matches!(used.segment(), Register::FS | Register::GS) {
            used.segment()
        } else {
            Register::None
        };
        let bytes = used.memory_size().size() as u64;
        match self.slot_at(used.base(), used.index(), segment, used.displacement() as i64, bytes)? {
            Some(slot) => {
                if reading {
                    let value = self.value(state, slot);
                    self.escape(value);
                }
                if writing {
                    self.stored.insert(slot);
                    written.push(slot);
                }
                Some(())
            }
            None => (!writing).then_some(()),
        }
    }
}

/// Whether an instruction does nothing but what its registers, its memory and its flags tell.
fn is_followed(instruction: &iced_x86::Instruction) -> bool {
    use CpuidFeature::*;
    let known = |feature: &CpuidFeature| {
        matches!(
            feature,
            INTEL8086
                | INTEL186
                | INTEL286
                | INTEL386
                | INTEL486
                | X64
                | CMOV
                | MULTIBYTENOP
                | PAUSE
                | TSC
                | RDTSCP
                | SSE
                | SSE2
                | SSE3
                | SSSE3
                | SSE4_1
                | SSE4_2
                | AVX
                | AVX2
                | BMI1
                | BMI2
                | LZCNT
                | POPCNT
                | MOVBE
                | PREFETCHW
                | WAITPKG
        )
    };
    let hidden = matches!(
        instruction.mnemonic(),
        Mnemonic::Ldmxcsr | Mnemonic::Vldmxcsr | Mnemonic::In | Mnemonic::Out | Mnemonic::Popfq
    );
    !hidden
        && !instruction.is_privileged()
        && instruction.rflags_modified() & !STATUS == 0
        && instruction.cpuid_features().iter().all(known)
}

/// Whether it is the lowest byte of a general register.
fn is_low_byte(register: Register) -> bool {
    register.is_gpr8() && !is_high_byte(register)
}

/// Whether these flags may be read: none of before.
pub(crate) fn may_read(read: u32, flags: Flags) -> Option<()> {
    match flags {
        Flags::Of(operation, _) => operation.carry || read & RflagsBits::CF == 0,
        Flags::Unknown => true,
        Flags::Stale => false,
    }
    .then_some(())
}

fn cut(value: Value, bits: u32) -> Value {
    let mask = if bits >= 64 { u64::MAX } else { (1 << bits) - 1 };
    match value {
        Value::Was(location, add, before) => Value::Was(location, add, before.min(bits)),
        Value::Constant(constant) => Value::Constant(constant & mask),
        Value::Loaded(base, address, before) if before > bits => Value::Loaded(base, address, bits),
        other => other,
    }
}
