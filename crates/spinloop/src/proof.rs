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
//!    nothing else: it forms no address and no other value, and no other jump depends on it. It is a register,
//!    or a slot of the function's own stack frame whose address the function never takes.
//! 3. *A bound* stays the same from round to round: a constant, a register or slot that no way writes, or a word in
//!    memory. One jump compares it with the counter, and that jump leaves the loop.
//! 4. No round calls, writes memory other than the function's own slots, or moves the stack pointer. Every round
//!    passes the pivot.
//!
//! From 1 to 4 follows what [`Counter::missing`] stands on: to add the steps that are missing for the bound is
//! the same as if these rounds had been run at once and had found memory as the last round did. No other thread
//! can see the counter, and a program must expect to run that fast.
//!
//! What cannot be followed is refused. Only x86-64 is followed.

use crate::counter::{Bound, Condition, Counter, Place};
use crate::graph::{Edge, Graph};
use crate::image::Image;
use crate::instruction::{Flow, Instruction};
use crate::rounds::Region;
use crate::x86;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use iced_x86::{
    Code, ConditionCode, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register, UsedMemory,
};

/// More ways around a loop than this are not followed, and none of more instructions.
const WAYS_MAX: usize = 64;
const STEPS_MAX: usize = 256;

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
    /// Of comparing two values of so many bits.
    Compared(Value, Value, u32),
    /// Of a result of so many bits: whether it is zero or negative, and nothing else.
    Result(Value, u32),
    Unknown,
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
    ends: Vec<BTreeMap<Location, Value>>,
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
        framed: has_frame_pointer(image, instructions),
        read: BTreeSet::new(),
        used: BTreeSet::new(),
        slots: BTreeMap::new(),
        stored: BTreeSet::new(),
        decisions: Vec::new(),
        ends: Vec::new(),
        steps: 0,
    };
    let block = graph.block_of(pivot as usize)?;
    let state = State { values: BTreeMap::new(), flags: Flags::Unknown };
    prover.follow(block, pivot, state, &mut Vec::new())?;
    prover.conclude()
}

fn decoded(image: &dyn Image, instruction: &Instruction) -> iced_x86::Instruction {
    let bytes = image.at(instruction.address);
    let bytes = bytes.get(..usize::from(instruction.length)).unwrap_or(bytes);
    x86::decoder(bytes, instruction.address).decode()
}

/// Whether the function begins by making `rbp` its frame pointer.
fn has_frame_pointer(image: &dyn Image, instructions: &[Instruction]) -> bool {
    let mut first =
        instructions.iter().map(|one| decoded(image, one)).filter(|one| one.code() != Code::Endbr64);
    let pushes = first.next().is_some_and(|one| {
        one.mnemonic() == Mnemonic::Push
            && one.op_count() == 1
            && one.op0_kind() == OpKind::Register
            && one.op0_register() == Register::RBP
    });
    pushes
        && first.next().is_some_and(|one| {
            one.mnemonic() == Mnemonic::Mov
                && one.op0_kind() == OpKind::Register
                && one.op1_kind() == OpKind::Register
                && one.op0_register() == Register::RBP
                && one.op1_register() == Register::RSP
        })
}

impl Prover<'_> {
    /// Follows all ways from the instruction `from` of `block` to the pivot or out of the loop. `None`: refused.
    fn follow(&mut self, block: u32, from: u32, mut state: State, passed: &mut Vec<u32>) -> Option<()> {
        let home = self.graph.blocks[block as usize].clone();
        if home.after_call || self.ends.len() >= WAYS_MAX {
            return None;
        }
        for n in from..home.instructions.end {
            if n == self.pivot && (from != self.pivot || !passed.is_empty()) {
                self.ends.push(state.values);
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
                    let value =
                        add(self.register(state, base), instruction.memory_displacement64() as i64, 64);
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
                    let minus = instruction.mnemonic() == Mnemonic::Sub;
                    let constant = constant as i64;
                    return self.count(
                        instruction,
                        if minus { constant.wrapping_neg() } else { constant },
                        state,
                    );
                }
            }
            Mnemonic::Inc if plain(0) && !locked => return self.count(instruction, 1, state),
            Mnemonic::Dec if plain(0) && !locked => return self.count(instruction, -1, state),
            Mnemonic::Cmp if two => {
                let ((one, bits), (other, _)) =
                    (self.operand(instruction, 0, state)?, self.operand(instruction, 1, state)?);
                state.flags = Flags::Compared(one, cut(other, bits), bits);
                return Some(());
            }
            Mnemonic::Test
                if two
                    && instruction.op0_kind() == OpKind::Register
                    && instruction.op1_kind() == OpKind::Register
                    && instruction.op0_register() == instruction.op1_register() =>
            {
                let (value, bits) = self.operand(instruction, 0, state)?;
                state.flags = Flags::Result(value, bits);
                return Some(());
            }
            _ => {}
        }
        self.any(instruction, state)
    }

    /// A constant is added to the first operand.
    fn count(&mut self, instruction: &iced_x86::Instruction, constant: i64, state: &mut State) -> Option<()> {
        let (value, bits) = self.operand(instruction, 0, state)?;
        let sum = add(value, constant, bits);
        state.flags = Flags::Result(sum, bits);
        self.write(instruction, 0, sum, state)
    }

    /// Any other instruction: what it reads is used, what it writes is not known.
    fn any(&mut self, instruction: &iced_x86::Instruction, state: &mut State) -> Option<()> {
        if instruction.rflags_read() != 0 {
            self.lose_flags(state.flags);
        }
        let mut factory = InstructionInfoFactory::new();
        let info = factory.info(instruction);
        let mut written = Vec::new();
        let mut refused = false;
        for used in info.used_registers() {
            let full = used.register().full_register();
            if matches!(full, Register::RIP | Register::None) || full.is_segment_register() {
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
        if instruction.rflags_modified() != 0 {
            state.flags = Flags::Unknown;
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

    fn lose_flags(&mut self, flags: Flags) {
        match flags {
            Flags::Compared(one, other, _) => {
                self.lose(one);
                self.lose(other);
            }
            Flags::Result(value, _) => self.lose(value),
            Flags::Unknown => {}
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
                end.iter().filter(|(at, value)| **value != Value::Was(**at, 0, 64)).map(|(at, _)| *at)
            })
            .collect();
        for location in &self.stored {
            let &Location::Slot(by_frame, displacement) = location else { continue };
            if self.address_taken(by_frame, displacement) {
                return None;
            }
        }
        // By 1: what lasts.
        let mut lasting = changed.iter().copied().filter(|location| self.read.contains(location));
        let Some(counter) = lasting.next() else { return Some(Proof { counter: None }) };
        if lasting.next().is_some() {
            return None;
        }
        drop(lasting);
        // By 2: the same step on every way, and no other use.
        let mut steps = self.ends.iter().map(|end| match end.get(&counter) {
            Some(&Value::Was(of, step, bits)) if of == counter && step != 0 => Some((step, bits)),
            _ => None,
        });
        let (step, bits) = steps.next()??;
        if steps.any(|other| other != Some((step, bits))) || self.used.contains(&counter) {
            return None;
        }
        // By 3: one jump decides, and it leaves.
        let of_counter = |value: Value| matches!(value, Value::Was(of, ..) if of == counter);
        let decisions = core::mem::take(&mut self.decisions);
        let mut deciding = decisions.iter().filter(|decision| match decision.flags {
            Flags::Compared(one, other, _) => of_counter(one) || of_counter(other),
            Flags::Result(value, _) => of_counter(value),
            Flags::Unknown => false,
        });
        let decision = deciding.next()?;
        if deciding.next().is_some() {
            return None;
        }
        let (exit, leaves_if) = decision.exit?;
        let (value, bound, signs_only, swapped) = match decision.flags {
            Flags::Compared(one, other, _) if of_counter(one) => (one, other, false, false),
            Flags::Compared(one, other, _) => (other, one, false, true),
            Flags::Result(value, _) => (value, Value::Constant(0), true, false),
            Flags::Unknown => return None,
        };
        let Value::Was(_, ahead, seen_bits) = value else { return None };
        let compared_bits = match decision.flags {
            Flags::Compared(.., bits) | Flags::Result(_, bits) => bits,
            Flags::Unknown => return None,
        };
        if seen_bits != bits && seen_bits != compared_bits || bits != compared_bits {
            return None;
        }
        let bound = match bound {
            Value::Constant(constant) => Bound::Constant(constant),
            Value::Was(location, add, _) if !changed.contains(&location) && location != counter => {
                Bound::Place(place(location)?, add)
            }
            Value::Loaded(None, address, _) => Bound::Memory(None, address),
            Value::Loaded(Some((base, add)), displacement, _)
                if !changed.contains(&Location::Register(base)) =>
            {
                let Place::Register(base) = place(Location::Register(base))? else { return None };
                Bound::Memory(Some(base), displacement.wrapping_add(add as u64))
            }
            _ => return None,
        };
        let goes_on = Condition::of(decision.condition, leaves_if, signs_only)?;
        let goes_on = if swapped { goes_on.swapped() } else { goes_on };
        let counter = Counter { place: place(counter)?, bits, step, ahead, bound, goes_on, blocks: false };
        counter.is_bounded().then_some(Proof { counter: Some((counter, exit)) })
    }

    /// Whether the function takes an address from which this slot could be reached: that of a variable at it or
    /// below it.
    fn address_taken(&self, by_frame: bool, displacement: i64) -> bool {
        self.instructions.iter().map(|one| decoded(self.image, one)).any(|one| {
            let frame =
                |register: Register| register == Register::RSP || self.framed && register == Register::RBP;
            match one.mnemonic() {
                Mnemonic::Lea if frame(one.memory_base()) => {
                    // The function's end moves its stack pointer so.
                    let to = one.op0_register();
                    let moves = to == Register::RSP;
                    let same = (one.memory_base() == Register::RBP) == by_frame;
                    !moves && (!same || one.memory_displacement64() as i64 <= displacement)
                }
                Mnemonic::Mov if one.op1_kind() == OpKind::Register && frame(one.op1_register()) => {
                    let prologue = one.op0_kind() == OpKind::Register && frame(one.op0_register());
                    !prologue
                }
                _ => false,
            }
        })
    }
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

fn add(value: Value, constant: i64, bits: u32) -> Value {
    match value {
        Value::Was(location, before, width) => {
            Value::Was(location, before.wrapping_add(constant), width.min(bits))
        }
        Value::Constant(other) => cut(Value::Constant(other.wrapping_add(constant as u64)), bits),
        Value::Loaded(..) | Value::Unknown => Value::Unknown,
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
