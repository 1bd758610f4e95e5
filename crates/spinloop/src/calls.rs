//! Loops that poll by calls of functions that are known: `while (!try_pop(queue, &item));`.
//!
//! A round of such a loop calls functions that look, find nothing and return. What they write on
//! the way that finds nothing is mostly little: a count of tries, a lock that is taken and
//! released. This file follows each path of a round through the loop and the functions that it
//! calls, with little more than constants in the place of values, and takes the loop for a wait if
//!
//! 1. *no path that leads back to the loop's head works*. What works is told below. A path that
//!    works may leave the loop: the function has found something, and says so by a constant.
//! 2. *Nothing but memory leads to the next round.* Each register, and each slot of the function's
//!    frame, that a round reads before it writes it, is the same at the round's end. So a loop that
//!    goes through a list or an array is none.
//! 3. *A round reads memory* that other threads can write. So does each round of a loop inside the
//!    functions: a loop that does not computes. What a function reads that also tells the time does
//!    not count, since that may be when a delay is to end.
//! 4. *What counts is not read.* No path reads a place whose count a path changes, and nothing
//!    depends on such a change. Places are compared by their address, or by their base and the
//!    distance from it. A pointer that was loaded from memory, or computed, may lead to any place
//!    of the same size.
//! 5. *A loop that counts ends by what its calls return*, and by nothing else: one that ends when
//!    it is told to counts what it has done, and measures how fast that is.
//!
//! | a path works if it | and does not if it |
//! | --- | --- |
//! | writes to memory what is not known | writes a constant, or what lasts, which the next round writes again, or to its own frame |
//! | changes it in one atomic step to what is not known, or tells that it has | does so with a constant: a lock |
//! | | adds a constant to memory: a count |
//! | calls a function that is not known, or through a pointer | takes a lock of the C library, tries to, or releases it; reads a clock |
//! | computes with floating-point numbers or vectors | |
//!
//! A system call, a PAUSE, or more code than [`STEPS_MAX`] instructions end the search: the loop is
//! left alone.
//!
//! This is weaker than the proof of a loop without calls (`proof`): a constant may say that an
//! event was consumed, or how far some steps have come. So such a loop is a [`Kind::Poll`], whose
//! cure never makes a row of rounds take more than twice as long, and which the running program has
//! to ask for.
//!
//! [`Kind::Poll`]: crate::Kind::Poll

mod memory;

use crate::blocking::{Blocks, Slots};
use crate::source::Source;
use crate::x86::{access, computes_vectors, decoder, holds, is_high_byte, is_one_register, near, stub};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::ops::Range;
use iced_x86::{
    ConditionCode, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpKind, Register, UsedMemory,
};

use memory::Value::{Constant, Stack, Unknown, Was};
use memory::{Location, Memory, Place, Used, Value, may_be_one};

/// The most instructions of one function that are followed, on all paths together.
const STEPS_MAX: usize = 1000;
/// The most states in which a jump's target is reached.
const STATES_MAX: usize = 64;
/// How deep calls may lie in each other.
const DEPTH_MAX: usize = 5;

/// What is known between two instructions.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct State {
    registers: [Value; 16],
    /// Slots that were written, and the bytes of each.
    slots: BTreeMap<i64, (Value, u64)>,
    /// The constants that were compared last, and their bits.
    compared: Option<(u64, u64, u32)>,
    /// The path works.
    works: bool,
    /// An address of the frame was taken: functions that are called may write there.
    escaped: bool,
    /// The flags are those of a count in memory.
    counted: bool,
    /// The flags tell whether this register, with an unknown value, is this constant.
    tested: Option<(u8, u64)>,
    /// The flags tell whether memory was changed to what is not known.
    swaps: bool,
    /// The first register for results holds what a call returned.
    answer: bool,
    /// The flags are those of what a call returned.
    told: bool,
    /// The first call of the path that a jump can take the place of.
    call: Option<(u64, u64)>,
}

impl State {
    fn new() -> State {
        let mut registers: [Value; 16] = core::array::from_fn(|n| Was(Location::Register(n as u8)));
        registers[RSP] = Stack(0);
        let (slots, compared, tested, call) = Default::default();
        let (works, escaped, counted, swaps, answer, told) = Default::default();
        State { registers, slots, compared, tested, works, escaped, counted, swaps, answer, told, call }
    }

    /// The registers that hold what they held at the start, a bit for each.
    fn kept(&self) -> u16 {
        let is_kept = |n: &u8| self.registers[usize::from(*n)] == Was(Location::Register(*n));
        (0..16).filter(is_kept).fold(0, |all, n| all | 1 << n)
    }

    /// What a function that returns leaves behind.
    fn returned(&mut self, kept: u16, result: Value) {
        for volatile in VOLATILE.into_iter().filter(|n| kept & 1 << n == 0) {
            self.registers[volatile] = Unknown;
        }
        if result != Unknown {
            self.registers[RAX] = result;
        }
        self.compared = None;
        self.tested = None;
        self.counted = false;
        self.told = false;
        self.answer = true;
    }

    /// Whatever does not leave it to a jump whether memory was changed.
    fn settle(&mut self) {
        self.works |= core::mem::take(&mut self.swaps);
    }

    fn store(&mut self, at: i64, value: Value, bytes: u64) {
        self.slots.retain(|&slot, &mut (_, size)| slot + size as i64 <= at || at + bytes as i64 <= slot);
        self.slots.insert(at, (value, bytes));
    }

    fn load(&self, at: i64, bytes: u64) -> Value {
        let overlaps =
            |(&slot, &(_, size)): (&i64, &(Value, u64))| slot < at + bytes as i64 && at < slot + size as i64;
        match self.slots.get(&at) {
            Some(&(value, size)) if size == bytes => value,
            _ if self.escaped || self.slots.iter().any(overlaps) => Unknown,
            _ => Was(Location::Slot(at)),
        }
    }
}

const RAX: usize = 0;
const RSP: usize = 4;
const RBP: usize = 5;
const FRAME: u8 = RBP as u8;
/// rax, rcx, rdx, rsi, rdi, r8 to r11.
const VOLATILE: [usize; 9] = [0, 1, 2, 6, 7, 8, 9, 10, 11];

/// What a function may do.
#[derive(Clone, Debug, Default)]
pub(crate) struct Called {
    /// Whether it has worked, and what it returns.
    outcomes: BTreeSet<(bool, Value)>,
    /// The locations of its start that it reads.
    read: BTreeSet<Location>,
    /// The registers that it leaves as they were, besides those that all functions do: compilers
    /// know that of functions of the same file.
    kept: u16,
    memory: Memory,
}

impl Called {
    fn known(works: bool) -> Called {
        Called { outcomes: BTreeSet::from([(works, Unknown)]), ..Called::default() }
    }
}

/// A way of a function that works, and says nothing of it.
const WORKS: (bool, Value) = (true, Unknown);

/// What is known of a module's functions. `None`: the search ends there, or has not come back yet.
pub(crate) type Functions = BTreeMap<u64, Option<Called>>;

struct Walk<'a> {
    source: Source<'a>,
    imports: &'a Slots,
    known: &'a mut Functions,
    memory: Memory,
    factory: InstructionInfoFactory,
}

/// The code that is followed: a loop's round or a function, and what was seen of it.
struct Code {
    range: Range<u64>,
    /// For a loop: the ends of all rounds that lead back to its head.
    ends: Option<Vec<State>>,
    /// For a loop: whether it ends by what a call returns, and by something else.
    exits: (bool, bool),
    called: Called,
}

/// A path that is followed.
#[derive(Clone)]
struct Path {
    /// Where it goes on.
    at: u64,
    state: State,
    /// The code that it has come through.
    passed: Vec<Range<u64>>,
}

/// The loop whose last instruction, a short jump back, stands at `latch`, if it polls by calls; and
/// a call in each of its rounds that a jump can take the place of.
pub(crate) fn polling(
    source: &Source<'_>,
    imports: &Slots,
    known: &mut Functions,
    latch: u64,
) -> Option<(Range<u64>, Range<u64>)> {
    let jump = decoder(source.image.at(latch), latch).decode();
    let head = near(&jump).then(|| jump.near_branch_target()).filter(|&head| head < latch)?;
    if !may_poll(source, head, latch) {
        return None;
    }
    let (memory, factory) = (Memory::default(), InstructionInfoFactory::new());
    let mut walk = Walk { source: *source, imports, known, memory, factory };
    let (range, exits) = (head..jump.next_ip(), (false, false));
    let mut round = Code { range, ends: Some(Vec::new()), exits, called: Called::default() };
    walk.follow(&mut round, head, 0)?;
    walk.memory.finish();
    let ends = round.ends.filter(|ends| !ends.is_empty())?;
    // By 3, 4 and 5. What counts through a pointer may count in the frame, which the round reads.
    let Memory { is_read, read, counts, stored, .. } = &walk.memory;
    let by_pointer = counts.iter().any(|(place, _)| matches!(place, Place::Distance(..)));
    let of_frame = |(place, _): &Used| matches!(place, Place::Distance(Was(Location::Register(FRAME)), _));
    let reads_frame = round.called.read.iter().any(|location| matches!(location, Location::Slot(_)))
        || read.iter().any(of_frame);
    let is_count_read = counts.iter().any(|count| read.iter().any(|read| may_be_one(count, read)));
    let measures = !counts.is_empty() && round.exits != (true, false);
    if !is_read || is_count_read || by_pointer && reads_frame || measures {
        return None;
    }
    // By 2.
    let lasts = |end: &State, location: &Location| match *location {
        Location::Register(number) => end.registers[usize::from(number)] == Was(*location),
        Location::Slot(at) => {
            let holds = |slot: i64, size: u64| (slot..slot + size as i64).contains(&at);
            let mut written = end.slots.iter().filter(|&(&slot, &(_, size))| holds(slot, size));
            written.all(|(&slot, &(value, _))| slot == at && value == Was(*location))
        }
    };
    let same = |end: &State| {
        let mut used = round.called.read.iter().chain(stored);
        end.registers[RSP] == Stack(0) && used.all(|location| lasts(end, location))
    };
    let (start, end) = ends[0].call?;
    let calls = |one: &State| one.call == Some((start, end));
    ends.iter().all(|end| same(end) && calls(end)).then_some((head..jump.next_ip(), start..end))
}

/// A cheap look at the instructions of a loop: most count, or go through something.
fn may_poll(source: &Source<'_>, head: u64, latch: u64) -> bool {
    let mut at = head;
    while at < latch {
        let one = decoder(source.image.at(at), at).decode();
        let to = one.op0_register();
        let lasts = number(to).is_some_and(|number| number != RSP && !VOLATILE.contains(&number));
        let counts = match one.mnemonic() {
            Mnemonic::Add | Mnemonic::Sub | Mnemonic::Inc | Mnemonic::Dec => true,
            Mnemonic::Lea => one.memory_base() == to || one.memory_index() == to,
            _ => false,
        };
        if one.is_invalid() || lasts && counts || computes_vectors(&one) {
            return false;
        }
        at = one.next_ip();
    }
    at == latch
}

impl Walk<'_> {
    /// The function at `target`. `None`: the search ends.
    fn call(&mut self, target: u64, depth: usize) -> Option<Called> {
        if let Some(known) = self.known.get(&target) {
            return known.clone();
        }
        if let Some(slot) = stub(self.source.image.at(target), target) {
            return self.import(slot, depth);
        }
        let Some(range) = self.source.part(target).ok().filter(|_| depth < DEPTH_MAX) else {
            return Some(Called::known(true));
        };
        self.known.insert(target, None);
        let called = Called { kept: u16::MAX, ..Called::default() };
        let mut code = Code { range, ends: None, exits: (false, false), called };
        let around = core::mem::take(&mut self.memory);
        let followed = self.follow(&mut code, target, depth);
        let mut memory = core::mem::replace(&mut self.memory, around);
        followed?;
        memory.finish();
        let works = code.called.outcomes.contains(&WORKS);
        let called = if works { Called::known(true) } else { Called { memory, ..code.called } };
        self.known.insert(target, Some(called.clone()));
        Some(called)
    }

    /// The function that a word of the table of imports leads to. `None`: the search ends.
    fn import(&mut self, slot: u64, depth: usize) -> Option<Called> {
        let found = self.imports.binary_search_by_key(&slot, |&(at, _)| at);
        let kind = found.ok().map(|n| self.imports[n].1);
        if let Some(Blocks::Own(target)) = kind {
            return self.call(target, depth + 1);
        }
        let works = !matches!(kind, Some(Blocks::Lock | Blocks::Release | Blocks::Try | Blocks::Clock));
        let memory = Memory { timed: kind == Some(Blocks::Clock), ..Memory::default() };
        Some(Called { memory, ..Called::known(works) })
    }

    /// Follows all paths of `code` from `start` on. `None`: the search ends.
    fn follow(&mut self, code: &mut Code, start: u64, depth: usize) -> Option<()> {
        // Before a loop, an address of the frame may have been taken.
        let state = State { escaped: code.ends.is_some(), ..State::new() };
        let mut open = Vec::from([Path { at: start, state, passed: Vec::new() }]);
        let (mut steps, mut seen) = (0, BTreeSet::new());
        while let Some(Path { mut at, mut state, mut passed }) = open.pop() {
            let from = at;
            if code.called.outcomes.contains(&WORKS) {
                // Worse cannot come.
                return Some(());
            }
            let mut first = passed.is_empty();
            loop {
                if at == code.range.start && !first && code.ends.is_some() {
                    state.settle();
                    // By 1.
                    if state.works {
                        return None;
                    }
                    code.ends.as_mut()?.push(state);
                    break;
                }
                first = false;
                if !code.range.contains(&at) {
                    if code.ends.is_none() {
                        // The last call of a function, or its cold part.
                        state.settle();
                        self.tail(code, &state, at, depth)?;
                    }
                    break;
                }
                steps += 1;
                let one = decoder(self.source.image.at(at), at).decode();
                if one.is_invalid() || steps > STEPS_MAX || seen.len() > STATES_MAX {
                    return None;
                }
                let next = one.next_ip();
                let jumps = matches!(
                    one.flow_control(),
                    FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch
                );
                let uses_flags = one.rflags_read() | one.rflags_modified() != 0;
                if !jumps && (uses_flags || one.flow_control() != FlowControl::Next) {
                    state.settle();
                }
                match one.flow_control() {
                    FlowControl::Next => {
                        // By 4. ADC carries a count on.
                        if state.counted && one.rflags_read() != 0 && one.mnemonic() != Mnemonic::Adc {
                            return None;
                        }
                        self.step(&one, &mut state, &mut code.called.read)?;
                        self.tells(&one, &mut state);
                        at = next;
                    }
                    FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch if near(&one) => {
                        let target = one.near_branch_target();
                        let conditional = one.flow_control() == FlowControl::ConditionalBranch;
                        if state.counted && conditional || one.is_jcx_short() || one.is_loop() {
                            return None;
                        }
                        // By 3.
                        passed.push(from..next);
                        let closes = code.ends.is_some() && target == code.range.start;
                        let is_again = target <= at && passed.iter().any(|range| range.contains(&target));
                        if is_again && !closes && !self.reads(target..next) {
                            return None;
                        }
                        let jumps =
                            if conditional { decide(&state, one.condition_code()) } else { Some(true) };
                        if conditional && !(code.range.contains(&target) && code.range.contains(&next)) {
                            // By 5.
                            code.exits.0 |= state.told;
                            code.exits.1 |= !state.told;
                        }
                        let mut on = state.clone();
                        if let Some((register, constant)) = state.tested.filter(|_| conditional) {
                            let equal = match one.condition_code() {
                                ConditionCode::e => Some(&mut state),
                                ConditionCode::ne => Some(&mut on),
                                _ => None,
                            };
                            if let Some(equal) = equal {
                                equal.registers[usize::from(register)] = Constant(constant);
                                equal.tested = None;
                            }
                        }
                        if conditional && core::mem::take(&mut state.swaps) {
                            on.swaps = false;
                            on.works |= one.condition_code() != ConditionCode::e;
                            state.works |= one.condition_code() != ConditionCode::ne;
                        }
                        if jumps != Some(true) && seen.insert((next, on.clone())) {
                            open.push(Path { at: next, state: on, passed: passed.clone() });
                        }
                        if jumps != Some(false) && seen.insert((target, state.clone())) {
                            open.push(Path { at: target, state, passed });
                        }
                        break;
                    }
                    FlowControl::Call if near(&one) => {
                        if depth == 0 && one.len() == 5 {
                            state.call = state.call.or(Some((at, next)));
                        }
                        let called = match state.works {
                            true => Called::known(true),
                            false => self.call(one.near_branch_target(), depth + 1)?,
                        };
                        // A call at the very end of a function does not return.
                        if code.ends.is_some() || next < code.range.end {
                            passed.push(from..next);
                            self.returns(code, &called, &Path { at: next, state, passed }, &mut open);
                        }
                        break;
                    }
                    FlowControl::IndirectCall => {
                        let by_word = one.op0_kind() == OpKind::Memory && one.is_ip_rel_memory_operand();
                        let called = match by_word {
                            true => self.import(one.ip_rel_memory_address(), depth)?,
                            false => Called::known(true),
                        };
                        passed.push(from..next);
                        self.returns(code, &called, &Path { at: next, state, passed }, &mut open);
                        break;
                    }
                    FlowControl::IndirectBranch if code.ends.is_none() => {
                        code.called.outcomes.insert((true, Unknown));
                        code.called.kept = 0;
                        break;
                    }
                    FlowControl::Return if code.ends.is_none() => {
                        let result = state.registers[RAX];
                        let constant = matches!(result, Constant(_));
                        code.called.kept &= state.kept();
                        code.called.outcomes.insert((state.works, if constant { result } else { Unknown }));
                        break;
                    }
                    FlowControl::Return | FlowControl::Exception => break,
                    _ => return None,
                }
            }
        }
        Some(())
    }

    /// A function goes on at `target`, which is not of its range, and returns from there.
    fn tail(&mut self, code: &mut Code, state: &State, target: u64, depth: usize) -> Option<()> {
        let called = self.call(target, depth + 1)?;
        let writes = self.memory.add(&called.memory, &state.registers);
        mark(&called, state, &mut code.called.read);
        code.called.kept &= state.kept() & called.kept;
        code.called
            .outcomes
            .extend(called.outcomes.iter().map(|&(works, value)| (state.works | writes | works, value)));
        Some(())
    }

    /// A function was called and has returned, in each of its ways, to where `path` goes on.
    fn returns(&mut self, code: &mut Code, called: &Called, path: &Path, open: &mut Vec<Path>) {
        let writes = self.memory.add(&called.memory, &path.state.registers);
        mark(called, &path.state, &mut code.called.read);
        for &(works, result) in &called.outcomes {
            let mut after = path.clone();
            after.state.works |= writes | works;
            if after.state.escaped {
                // The function may have written there.
                for (value, _) in after.state.slots.values_mut() {
                    mark_value(core::mem::replace(value, Unknown), &mut code.called.read);
                }
            }
            after.state.returned(called.kept, result);
            open.push(after);
        }
    }

    /// Whether some code, or a function that it calls, reads memory that is not addressed by the
    /// stack or frame pointer.
    fn reads(&mut self, range: Range<u64>) -> bool {
        let mut at = range.start;
        while at < range.end {
            let one = decoder(self.source.image.at(at), at).decode();
            if one.is_invalid() {
                return false;
            }
            let of_frame = |used: &UsedMemory| matches!(used.base(), Register::RSP | Register::RBP);
            let info = self.factory.info(&one);
            let called = self.known.get(&one.near_branch_target()).and_then(Option::as_ref);
            if called.is_some_and(|called| called.memory.is_read)
                || info.used_memory().iter().any(|used| access(used.access()).0 && !of_frame(used))
            {
                return true;
            }
            at = one.next_ip();
        }
        false
    }

    /// What the flags and a call's answer are behind an instruction.
    fn tells(&mut self, one: &Instruction, state: &mut State) {
        let (mut reads, mut writes) = (false, false);
        for used in self.factory.info(one).used_registers() {
            let (reading, writing) = access(used.access());
            let is_one = |other: usize| number(used.register()) == Some(other);
            if is_one(RAX) {
                (reads, writes) = (reads | reading, writes | writing);
            }
            if writing && state.tested.is_some_and(|(tested, _)| is_one(usize::from(tested))) {
                state.tested = None;
            }
        }
        if one.rflags_modified() != 0 {
            state.told = state.answer && reads;
            if !matches!(one.mnemonic(), Mnemonic::Cmp | Mnemonic::Test) {
                state.tested = None;
            }
        }
        state.answer &= reads || !writes;
    }

    /// An instruction that goes on behind itself. `None`: the search ends.
    fn step(&mut self, one: &Instruction, state: &mut State, read: &mut BTreeSet<Location>) -> Option<()> {
        let bytes_of = |n: u32| match one.op_kind(n) {
            OpKind::Register => one.op_register(n).size() as u64,
            _ => one.memory_size().size() as u64,
        };
        match one.mnemonic() {
            // A PAUSE is a seed of its own, and two visits in a round would hide each other's rows.
            Mnemonic::Syscall | Mnemonic::Cpuid | Mnemonic::Pause => return None,
            Mnemonic::Nop | Mnemonic::Endbr64 | Mnemonic::Lfence | Mnemonic::Mfence => {
                return Some(());
            }
            Mnemonic::Push => {
                let value = self.operand(one, 0, 8, state);
                let Stack(at) = state.registers[RSP] else { return None };
                state.registers[RSP] = Stack(at - 8);
                state.store(at - 8, value, 8);
                return Some(());
            }
            Mnemonic::Pop | Mnemonic::Leave => {
                let leaves = one.mnemonic() == Mnemonic::Leave;
                let Stack(at) = state.registers[if leaves { RBP } else { RSP }] else { return None };
                let to = if leaves { Register::RBP } else { one.op0_register() };
                state.registers[number(to)?] = state.load(at, 8);
                state.registers[RSP] = Stack(at + 8);
                return Some(());
            }
            Mnemonic::Add | Mnemonic::Sub | Mnemonic::And if one.op0_register() == Register::RSP => {
                let by = one.try_immediate(1).ok()? as i64;
                let Stack(at) = state.registers[RSP] else { return None };
                state.registers[RSP] = Stack(match one.mnemonic() {
                    Mnemonic::Add => at + by,
                    Mnemonic::Sub => at - by,
                    // A function begins eight bytes below a multiple of 16.
                    _ => ((at + 8) & by) - 8,
                });
                state.compared = None;
                return Some(());
            }
            Mnemonic::Lea if one.is_ip_rel_memory_operand() => {
                let address = Constant(one.ip_rel_memory_address());
                state.registers[number(one.op0_register())?] = address;
                return Some(());
            }
            Mnemonic::Lea if one.memory_index() == Register::None => {
                if let Some(Stack(base)) = number(one.memory_base()).map(|base| state.registers[base]) {
                    let at = Stack(base + one.memory_displacement64() as i64);
                    state.registers[number(one.op0_register())?] = at;
                    state.escaped |= one.op0_register() != Register::RSP;
                    return Some(());
                }
            }
            Mnemonic::Xor | Mnemonic::Sub if is_one_register(one) && one.op0_register().is_gpr() => {
                state.registers[number(one.op0_register())?] = Constant(0);
                state.compared = None;
                state.counted = false;
                return Some(());
            }
            Mnemonic::Mov if bytes_of(0) >= 4 => {
                let bytes = bytes_of(0);
                let value = cut(self.operand(one, 1, bytes, state), bytes);
                if one.op0_kind() == OpKind::Register && one.op0_register().is_gpr() {
                    self.forms(one, state, read);
                    state.registers[number(one.op0_register())?] = value;
                    return Some(());
                }
                if let Some(at) = frame_slot(one, state) {
                    state.store(at, value, bytes);
                    return Some(());
                }
            }
            Mnemonic::Cmp | Mnemonic::Test if matches!(bytes_of(0), 1 | 4 | 8) => {
                let bytes = bytes_of(0);
                let first = cut(self.operand(one, 0, bytes, state), bytes);
                let second = match one.mnemonic() {
                    Mnemonic::Test if is_one_register(one) => Constant(0),
                    Mnemonic::Test => Unknown,
                    _ => cut(self.operand(one, 1, bytes, state), bytes),
                };
                self.any(one, state, read)?;
                match (first, second) {
                    (Constant(first), Constant(second)) => {
                        state.compared = Some((first, second, bytes as u32 * 8));
                    }
                    (Unknown, Constant(second)) if bytes >= 4 && one.op0_kind() == OpKind::Register => {
                        state.tested = number(one.op0_register()).map(|number| (number as u8, second));
                    }
                    _ => {}
                }
                return Some(());
            }
            _ => {}
        }
        self.any(one, state, read)
    }

    /// Any other instruction.
    fn any(&mut self, one: &Instruction, state: &mut State, read: &mut BTreeSet<Location>) -> Option<()> {
        let mut factory = core::mem::replace(&mut self.factory, InstructionInfoFactory::new());
        let info = factory.info(one);
        let mut written = Vec::new();
        for used in info.used_registers() {
            let (reading, writing) = access(used.access());
            let Some(number) = number(used.register()) else { continue };
            if reading {
                mark_value(state.registers[number], read);
            }
            if writing {
                written.push(number);
            }
        }
        for used in info.used_memory() {
            self.memory(one, used, state, read);
        }
        self.factory = factory;
        for number in written {
            if number == RSP {
                return None;
            }
            state.registers[number] = Unknown;
        }
        state.works |= computes_vectors(one);
        self.memory.timed |= matches!(one.mnemonic(), Mnemonic::Rdtsc | Mnemonic::Rdtscp);
        if one.rflags_modified() != 0 {
            let counts = one.op0_kind() == OpKind::Memory && (!one.has_lock_prefix() || is_sum(one));
            state.compared = None;
            state.tested = None;
            state.counted = counts && !matches!(one.mnemonic(), Mnemonic::Cmp | Mnemonic::Test);
        }
        Some(())
    }

    /// A use of memory.
    fn memory(
        &mut self,
        one: &Instruction,
        used: &UsedMemory,
        state: &mut State,
        read: &mut BTreeSet<Location>,
    ) {
        let (reading, writing) = access(used.access());
        let bytes = used.memory_size().size() as u64;
        let base = number(used.base()).map_or(Unknown, |base| state.registers[base]);
        if let Stack(base) = base {
            if reading && used.index() == Register::None {
                let at = base + used.displacement() as i64;
                mark_value(state.load(at, bytes), read);
                if state.escaped && !state.slots.contains_key(&at) {
                    read.insert(Location::Slot(at));
                }
            }
            if writing && used.index() == Register::None {
                state.store(base + used.displacement() as i64, Unknown, bytes);
            } else if writing {
                state.escaped = true;
                state.slots.clear();
            }
            return;
        }
        let own = matches!(used.segment(), Register::FS | Register::GS);
        let place = match used.base() {
            _ if used.index() != Register::None => Place::Distance(Unknown, 0),
            Register::None | Register::RIP if !own => Place::Address(used.displacement()),
            _ => Place::at(base, used.displacement() as i64),
        };
        let value = |n: u32| match one.op_kind(n) {
            OpKind::Register => number(one.op_register(n)).map_or(Unknown, |number| state.registers[number]),
            _ => one.try_immediate(n).map_or(Unknown, Constant),
        };
        let atomic = one.has_lock_prefix() || one.mnemonic() == Mnemonic::Xchg;
        let operand = u32::from(one.op0_kind() == OpKind::Memory);
        if reading && (atomic || !writing) {
            self.memory.is_read_here |= !own;
        }
        if !writing {
            if reading {
                self.memory.read.insert((place, bytes));
            }
            return;
        }
        match one.mnemonic() {
            Mnemonic::Mov if self.memory.may_store(value(1)) => {}
            Mnemonic::Inc | Mnemonic::Dec => _ = self.memory.counts.insert((place, bytes)),
            Mnemonic::Add | Mnemonic::Sub | Mnemonic::Adc if matches!(value(1), Constant(_)) => {
                self.memory.counts.insert((place, bytes));
            }
            // A lock that is taken, or a flag that is set once more.
            Mnemonic::Xchg | Mnemonic::And | Mnemonic::Or | Mnemonic::Bts | Mnemonic::Btr
                if atomic && self.memory.may_store(value(operand)) =>
            {
                self.memory.read.insert((place, bytes));
            }
            Mnemonic::Cmpxchg if atomic => {
                state.swaps |= !self.memory.may_store(value(1));
                self.memory.read.insert((place, bytes));
            }
            _ => state.works = true,
        }
    }

    /// The registers that form the address of a load are read.
    fn forms(&mut self, one: &Instruction, state: &mut State, read: &mut BTreeSet<Location>) {
        if one.op1_kind() != OpKind::Memory {
            return;
        }
        for register in [one.memory_base(), one.memory_index()] {
            if let Some(number) = number(register) {
                mark_value(state.registers[number], read);
            }
        }
        let mut factory = core::mem::replace(&mut self.factory, InstructionInfoFactory::new());
        for used in factory.info(one).used_memory() {
            self.memory(one, used, state, read);
        }
        self.factory = factory;
    }

    /// The value of an operand.
    fn operand(&self, one: &Instruction, n: u32, bytes: u64, state: &State) -> Value {
        match one.op_kind(n) {
            OpKind::Register if is_high_byte(one.op_register(n)) => Unknown,
            OpKind::Register => number(one.op_register(n)).map_or(Unknown, |number| state.registers[number]),
            OpKind::Memory => frame_slot(one, state).map_or(Unknown, |at| state.load(at, bytes)),
            _ => one.try_immediate(n).map_or(Unknown, Constant),
        }
    }
}

/// The slot of the frame that the memory operand names.
fn frame_slot(one: &Instruction, state: &State) -> Option<i64> {
    let base = number(one.memory_base())?;
    match state.registers[base] {
        Stack(base) if one.memory_index() == Register::None => {
            Some(base + one.memory_displacement64() as i64)
        }
        _ => None,
    }
}

/// A value is used for more than to be kept elsewhere.
fn mark_value(value: Value, read: &mut BTreeSet<Location>) {
    if let Was(location) = value {
        read.insert(location);
    }
}

/// What a function reads of its start is read here.
fn mark(called: &Called, state: &State, read: &mut BTreeSet<Location>) {
    for location in &called.read {
        if let Location::Register(number) = *location {
            mark_value(state.registers[usize::from(number)], read);
        }
    }
}

/// Whether it adds to what was there.
fn is_sum(one: &Instruction) -> bool {
    matches!(one.mnemonic(), Mnemonic::Add | Mnemonic::Sub | Mnemonic::Inc | Mnemonic::Dec | Mnemonic::Adc)
}

/// Whether a condition holds, if constants decide it.
fn decide(state: &State, condition: ConditionCode) -> Option<bool> {
    let (one, other, bits) = state.compared?;
    holds(condition, one, other, bits)
}

/// A value of this number of bytes.
fn cut(value: Value, bytes: u64) -> Value {
    match value {
        _ if bytes >= 8 => value,
        Constant(constant) => Constant(constant & ((1 << (8 * bytes)) - 1)),
        // The upper half of a location that does not change does not either.
        Was(_) if bytes == 4 => value,
        _ => Unknown,
    }
}

/// The number of a general register, whole or in part.
fn number(register: Register) -> Option<usize> {
    let full = register.full_register();
    full.is_gpr64().then(|| full as usize - Register::RAX as usize)
}
