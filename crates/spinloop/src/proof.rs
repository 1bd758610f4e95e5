//! Does a round of a loop change anything that lasts? And if only a counter, which one, and what bounds it?
//!
//! A loop waits if a round of it changes nothing that lasts, except a counter or its reading of a clock: what ends
//! it must come from another thread. This file proves that, for one loop and one *pivot*, an instruction that every
//! round passes. Each way from the pivot around the loop and back is followed with symbols in the place of
//! values. A value is known as what a register or a stack slot held at the pivot, plus a constant; or as a
//! constant; or as a load from memory; or not at all.
//!
//! 1. *Nothing lasts.* A location that some way changes, and that some way reads before writing it, carries something
//!    from round to round. There is at most one: the counter.
//! 2. *A counter* grows by the same constant on every way. Its value is copied, compared with the bound, and
//!    nothing else: it forms no address and no other value, and no other jump depends on it. It is a register
//!    or a slot. A copy of it that lasts until the next round may be compared in its place, and nothing else:
//!    after a whole round it is as far ahead of the counter as ever.
//! 3. *A bound* stays the same from round to round: a constant, a register or slot that no way writes, or a word in
//!    memory, which every way reads. One jump compares it with the counter, and that jump leaves the loop.
//! 4. No round calls, writes memory other than the function's own slots, or moves the stack pointer. Every round
//!    passes the pivot, and reads no flag that it did not write.
//! 5. *A slot* is a part of the function's stack frame that is addressed by the stack or frame pointer. A slot that
//!    a round writes is in a function that takes no address of its frame at all: an address of one variable may
//!    lead to its neighbour, when both are members of one structure.
//!
//! From 1 to 5 follows what [`Counter::missing`] stands on: to run more rounds that find the same memory, and to add as
//! many steps to the counter, comes to the same. No other thread can see the counter, and a program must
//! expect to run that fast. Two things are left to the waiter, and to [`Counter::after`]:
//!
//! 6. *The last round is one of these.* The thread has come from the pivot to the pivot in the copy. Whether the next
//!    round does is a matter of memory and of what the loop does not change, so memory as it was will lead it the same
//!    way. Of a thread that has just come, nothing is known: its rounds may all lead past the copy, and do work.
//! 7. *One whole round is left to run.* What a round leaves behind for the code after the loop (a copy of the
//!    counter, the last value read) is then what the last round leaves.
//!
//! What cannot be followed is refused. Only x86-64 is followed.

use crate::counter::{Bound, Condition, Counter, Place};
use crate::frame::{self, decoded};
use crate::graph::{Edge, Graph};
use crate::image::Image;
use crate::instruction::{Flow, Instruction};
use crate::rounds::Region;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use iced_x86::{
    ConditionCode, CpuidFeature, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register, RflagsBits,
    UsedMemory,
};

/// More ways around a loop than this are not followed, and none of more blocks or instructions.
const WAYS_MAX: usize = 64;
const BLOCKS_MAX: usize = 64;
const STEPS_MAX: usize = 256;
/// The flags that operations set.
const STATUS: u32 =
    RflagsBits::OF | RflagsBits::SF | RflagsBits::ZF | RflagsBits::AF | RflagsBits::CF | RflagsBits::PF;

/// What was proven of a loop: see the file's text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Proof {
    /// The counter, and the address to which the loop is left when it meets its bound.
    pub(crate) counter: Option<(Counter, u64)>,
}

/// Where a value can be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Location {
    /// A register, whole, by its number among iced's.
    Register(u16),
    /// A slot of the function's frame: whether it is addressed by `rbp`, and its displacement.
    Slot(bool, i64),
}

/// What is known of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    /// What this location held at the pivot, plus a constant, cut off to so many bits.
    Was(Location, i64, u32),
    Constant(u64),
    /// Read from a place in memory that stays where it is.
    Loaded(Option<(u16, i64)>, u64, u32),
    Unknown,
}

/// What is known of the flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flags {
    /// Of an operation on so many bits.
    Of(Operation, u32),
    /// None of them depends on a location of the pivot's time.
    Unknown,
    /// Some are those of before: of an instruction that a later one has overwritten in part, or of the round before.
    Stale,
}

/// What has set the flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Operation {
    /// These two were compared.
    compared: Option<(Value, Value)>,
    /// This is the result: zero or not, negative or not.
    result: Value,
    /// The carry flag is of this operation, too.
    carry: bool,
}

impl Flags {
    /// The values that they depend on.
    fn values(self) -> impl Iterator<Item = Value> {
        let values = match self {
            Flags::Of(Operation { compared: Some((one, other)), result, .. }, _) => [one, other, result],
            Flags::Of(Operation { compared: None, result, .. }, _) => [result; 3],
            Flags::Unknown | Flags::Stale => [Value::Unknown; 3],
        };
        values.into_iter()
    }
}

/// A jump that depends on a location of the pivot's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Decision {
    at: u32,
    flags: Flags,
    condition: ConditionCode,
    /// Where it leads out of the loop, and whether it does so when the condition holds.
    exit: Option<(u64, bool)>,
}

#[derive(Clone)]
struct State {
    values: BTreeMap<Location, Value>,
    flags: Flags,
    /// The conditional jumps that were passed.
    jumps: BTreeSet<u32>,
}

struct Prover<'a> {
    image: &'a dyn Image,
    instructions: &'a [Instruction],
    graph: &'a Graph,
    region: &'a Region,
    pivot: u32,
    framed: bool,
    /// Locations whose value at the pivot was read.
    read: BTreeSet<Location>,
    /// Locations whose value at the pivot was used for more than a counter's is.
    used: BTreeSet<Location>,
    /// Slots, with the bytes of each: they must not overlap.
    slots: BTreeMap<(bool, i64), u64>,
    stored: BTreeSet<Location>,
    decisions: Vec<Decision>,
    /// The ends of all ways.
    ends: Vec<State>,
    steps: usize,
}

/// Proves what the file's text says of the loop of `region`, or refuses. `pivot` is the index of an instruction.
pub(crate) fn prove(
    image: &dyn Image,
    instructions: &[Instruction],
    graph: &Graph,
    region: &Region,
    pivot: u32,
) -> Option<Proof> {
    let mut prover = Prover {
        image,
        instructions,
        graph,
        region,
        pivot,
        framed: frame::has_pointer(image, instructions),
        read: BTreeSet::new(),
        used: BTreeSet::new(),
        slots: BTreeMap::new(),
        stored: BTreeSet::new(),
        decisions: Vec::new(),
        ends: Vec::new(),
        steps: 0,
    };
    let block = graph.block_of(pivot as usize)?;
    let state = State { values: BTreeMap::new(), flags: Flags::Stale, jumps: BTreeSet::new() };
    prover.follow(block, pivot, state, &mut Vec::new())?;
    prover.conclude()
}

impl Prover<'_> {
    /// Follows all ways from the instruction `from` of `block` to the pivot or out of the loop. `None`: refused.
    fn follow(&mut self, block: u32, from: u32, mut state: State, passed: &mut Vec<u32>) -> Option<()> {
        let home = self.graph.blocks[block as usize].clone();
        if home.after_call || self.ends.len() >= WAYS_MAX || passed.len() >= BLOCKS_MAX {
            return None;
        }
        for n in from..home.instructions.end {
            if n == self.pivot && (from != self.pivot || !passed.is_empty()) {
                self.ends.push(state);
                return Some(());
            }
            self.steps += 1;
            if self.steps > WAYS_MAX * STEPS_MAX {
                return None;
            }
            let instruction = decoded(self.image, &self.instructions[n as usize]);
            if matches!(self.instructions[n as usize].flow, Flow::Next) {
                self.step(&instruction, &mut state)?;
            } else if matches!(self.instructions[n as usize].flow, Flow::Branch(_)) {
                self.decide(n, &instruction, &home.edges, &state)?;
                state.jumps.insert(n);
            }
        }
        for edge in home.edges {
            let Edge::To(next) = edge else { continue };
            if !self.region.contains(next) {
                continue;
            }
            // Once around without the pivot: then it is not in every round.
            if passed.contains(&next) {
                return None;
            }
            passed.push(next);
            let first = self.graph.blocks[next as usize].instructions.start;
            self.follow(next, first, state.clone(), passed)?;
            passed.pop();
        }
        Some(())
    }

    fn value(&mut self, state: &State, location: Location) -> Value {
        state.values.get(&location).copied().unwrap_or_else(|| {
            self.read.insert(location);
            Value::Was(location, 0, 64)
        })
    }

    fn register(&mut self, state: &State, register: Register) -> Value {
        let value = self.value(state, Location::Register(register.full_register() as u16));
        cut(value, register.size() as u32 * 8)
    }

    /// A value goes where nothing is known of it.
    fn lose(&mut self, value: Value) {
        if let Value::Was(location, ..) = value {
            self.used.insert(location);
        }
    }

    /// The slot that a memory operand names, of so many bytes; `None` in `Some`: it is other memory.
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
                self.lose(value);
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
    fn step(&mut self, instruction: &iced_x86::Instruction, state: &mut State) -> Option<()> {
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
            Mnemonic::Xor | Mnemonic::Sub
                if two
                    && instruction.op0_kind() == OpKind::Register
                    && instruction.op1_kind() == OpKind::Register
                    && instruction.op0_register() == instruction.op1_register() =>
            {
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
                let other = cut(other, bits);
                let result = if other == Value::Constant(0) { one } else { Value::Unknown };
                let compared = Some((one, other));
                state.flags = Flags::Of(Operation { compared, result, carry: true }, bits);
                return Some(());
            }
            Mnemonic::Test
                if two
                    && instruction.op0_kind() == OpKind::Register
                    && instruction.op1_kind() == OpKind::Register
                    && instruction.op0_register() == instruction.op1_register() =>
            {
                let (result, bits) = self.operand(instruction, 0, state)?;
                let compared = Some((result, Value::Constant(0)));
                state.flags = Flags::Of(Operation { compared, result, carry: true }, bits);
                return Some(());
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

    /// The sum of a value of so many bits and a constant.
    fn add(&mut self, value: Value, constant: i64, bits: u32) -> Value {
        match value {
            Value::Was(location, before, width) if width == bits => {
                Value::Was(location, before.wrapping_add(constant), width)
            }
            Value::Constant(other) => cut(Value::Constant(other.wrapping_add(constant as u64)), bits),
            other => {
                self.lose(other);
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
            state.flags.values().for_each(|value| self.lose(value));
        }
        let mut factory = InstructionInfoFactory::new();
        let info = factory.info(instruction);
        let mut written = Vec::new();
        let mut refused = false;
        for used in info.used_registers() {
            let full = used.register().full_register();
            if full.is_segment_register() {
                refused |= writes(used.access());
                continue;
            }
            if matches!(full, Register::RIP | Register::None) {
                continue;
            }
            let location = Location::Register(full as u16);
            if reads(used.access()) {
                let value = self.value(state, location);
                if full != Register::RSP {
                    self.lose(value);
                }
            }
            if writes(used.access()) {
                refused |= full == Register::RSP || self.framed && full == Register::RBP;
                // Part of a register: what is left of it lasts.
                if used.register().is_gpr8() || used.register().is_gpr16() {
                    let value = self.value(state, location);
                    self.lose(value);
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
        // A shift by a count of zero, or a string instruction repeated zero times, changes none.
        let may_not_write = instruction.has_rep_prefix()
            || instruction.has_repne_prefix()
            || (0..instruction.op_count()).any(|n| {
                instruction.op_kind(n) == OpKind::Register && instruction.op_register(n) == Register::CL
            });
        if modified == STATUS && !may_not_write || modified != 0 && state.flags == Flags::Unknown {
            state.flags = Flags::Unknown;
        } else if modified != 0 {
            state.flags = Flags::Stale;
        }
        Some(())
    }

    fn memory(&mut self, used: &UsedMemory, state: &State, written: &mut Vec<Location>) -> Option<()> {
        let (reading, writing) = (reads(used.access()), writes(used.access()));
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
                    self.lose(value);
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

    /// A conditional jump.
    fn decide(
        &mut self,
        at: u32,
        instruction: &iced_x86::Instruction,
        edges: &[Edge; 2],
        state: &State,
    ) -> Option<()> {
        let condition = instruction.condition_code();
        if condition == ConditionCode::None {
            // JRCXZ, LOOP: they read a register, and the latter counts.
            return None;
        }
        may_read(instruction.rflags_read(), state.flags)?;
        let leaves = edges.map(|edge| !self.region.holds(edge));
        let exit = match leaves {
            [true, false] => Some((instruction.next_ip(), false)),
            [false, true] => Some((instruction.near_branch_target(), true)),
            _ => None,
        };
        let decision = Decision { at, flags: state.flags, condition, exit };
        if !self.decisions.contains(&decision) {
            self.decisions.push(decision);
        }
        Some(())
    }

    /// Puts together what all ways have shown.
    fn conclude(mut self) -> Option<Proof> {
        if self.ends.is_empty() {
            return None;
        }
        let changed: BTreeSet<Location> = self
            .ends
            .iter()
            .flat_map(|end| {
                end.values.iter().filter(|(at, value)| **value != Value::Was(**at, 0, 64)).map(|(at, _)| *at)
            })
            .collect();
        // By 5.
        if !self.stored.is_empty() && frame::address_taken(self.image, self.instructions) {
            return None;
        }
        // By 1: what lasts.
        let lasting: BTreeSet<Location> = changed.intersection(&self.read).copied().collect();
        if lasting.is_empty() {
            return Some(Proof { counter: None });
        }
        // By 2: the same step on every way, and no other use.
        let steps_of = |location: Location, of: Location| {
            let mut steps = self.ends.iter().map(|end| match end.values.get(&location) {
                Some(&Value::Was(from, step, bits)) if from == of => Some((step, bits)),
                _ => None,
            });
            let first = steps.next()??;
            steps.all(|other| other == Some(first)).then_some(first)
        };
        let counts = |&counter: &Location| steps_of(counter, counter).is_some_and(|(step, _)| step != 0);
        let counter = lasting.iter().copied().find(counts)?;
        let (step, bits) = steps_of(counter, counter)?;
        // How far each copy is ahead of the counter, at the pivot.
        let mut ahead_of = BTreeMap::from([(counter, 0)]);
        for &copy in lasting.iter().filter(|&&location| location != counter) {
            let (of_last, copy_bits) = steps_of(copy, counter)?;
            if copy_bits != bits {
                return None;
            }
            ahead_of.insert(copy, of_last.wrapping_sub(step));
        }
        // A copy of a copy is one whole round behind it.
        let of_copy =
            |value: &Value| matches!(value, Value::Was(of, ..) if *of != counter && lasting.contains(of));
        if self.ends.iter().any(|end| end.values.values().any(of_copy)) {
            return None;
        }
        if lasting.intersection(&self.used).next().is_some() {
            return None;
        }
        // By 3: one jump decides, and it leaves.
        let of_counter = |value: Value| matches!(value, Value::Was(of, ..) if lasting.contains(&of));
        let decisions = core::mem::take(&mut self.decisions);
        let mut deciding = decisions.iter().filter(|decision| decision.flags.values().any(of_counter));
        let decision = deciding.next()?;
        if deciding.next().is_some() {
            return None;
        }
        let (exit, leaves_if) = decision.exit?;
        let Flags::Of(operation, compared_bits) = decision.flags else { return None };
        let by_sign = matches!(decision.condition, ConditionCode::s | ConditionCode::ns);
        let (one, other) =
            operation.compared.filter(|_| !by_sign).unwrap_or((operation.result, Value::Constant(0)));
        let (value, bound, swapped) = if of_counter(one) { (one, other, false) } else { (other, one, true) };
        let Value::Was(of, add, seen_bits) = value else { return None };
        if of_counter(bound) || seen_bits != bits || bits != compared_bits {
            return None;
        }
        let ahead = ahead_of.get(&of)?.wrapping_add(add);
        let bound = match bound {
            Value::Constant(constant) => Bound::Constant(constant),
            Value::Was(location, add, width) if !changed.contains(&location) && width >= bits => {
                Bound::Place(place(location)?, add)
            }
            // The word is there if every round reads it.
            Value::Loaded(base, displacement, width)
                if width >= bits && self.ends.iter().all(|end| end.jumps.contains(&decision.at)) =>
            {
                match base {
                    None => Bound::Memory(None, displacement),
                    Some((base, add)) if !changed.contains(&Location::Register(base)) => {
                        let Place::Register(base) = place(Location::Register(base))? else { return None };
                        Bound::Memory(Some(base), displacement.wrapping_add(add as u64))
                    }
                    Some(_) => return None,
                }
            }
            _ => return None,
        };
        let sign_only = by_sign || operation.compared.is_none();
        let goes_on = Condition::of(decision.condition, leaves_if, sign_only)?;
        let goes_on = if swapped { goes_on.swapped() } else { goes_on };
        let (step, ahead) = (signed(step, bits), signed(ahead, bits));
        let counter = Counter { place: place(counter)?, bits, step, ahead, bound, goes_on, blocks: false };
        (counter.is_bounded() && !self.pauses_elsewhere()).then_some(Proof { counter: Some((counter, exit)) })
    }

    /// Whether the loop has a PAUSE that is not the pivot: there the waiter looks as well, and the counter may have
    /// taken its step already.
    fn pauses_elsewhere(&self) -> bool {
        let blocks = self.region.blocks.iter().map(|&block| &self.graph.blocks[block as usize]);
        blocks
            .flat_map(|block| block.instructions.clone())
            .any(|n| n != self.pivot && self.instructions[n as usize].spin)
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

/// Whether these flags may be read: none of before.
fn may_read(read: u32, flags: Flags) -> Option<()> {
    match flags {
        Flags::Of(operation, _) => operation.carry || read & RflagsBits::CF == 0,
        Flags::Unknown => true,
        Flags::Stale => false,
    }
    .then_some(())
}

/// A constant of so many bits with its sign.
fn signed(constant: i64, bits: u32) -> i64 {
    if bits == 32 { i64::from(constant as i32) } else { constant }
}

fn reads(access: OpAccess) -> bool {
    matches!(
        access,
        OpAccess::Read
            | OpAccess::CondRead
            | OpAccess::ReadWrite
            | OpAccess::ReadCondWrite
            | OpAccess::CondWrite
    )
}

fn writes(access: OpAccess) -> bool {
    matches!(access, OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite)
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

fn place(location: Location) -> Option<Place> {
    match location {
        Location::Register(number) => {
            let number = number.checked_sub(Register::RAX as u16).filter(|&number| number < 16)?;
            Some(Place::Register(number as u8))
        }
        Location::Slot(by_frame, displacement) => {
            let base = if by_frame { Register::RBP } else { Register::RSP };
            Some(Place::Stack((base as u16 - Register::RAX as u16) as u8, displacement))
        }
    }
}
