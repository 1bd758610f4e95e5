//! A copy of a busy-wait loop in which every round, every way in and every way out is known.
//!
//! A jump in the loop shows that a thread spins. It does not show when the thread stops. A thread
//! that comes back to the same jump a moment later may still be in the same wait. Or the wait has
//! ended, the thread has done its work, and a new wait has begun. Two threads that take turns do so
//! thousands of times in a millisecond. A thread that sleeps because all its waits together were
//! long is slowed down a thousandfold. The time between visits cannot tell the two cases apart. So
//! the loop goes on in a copy:
//!
//! ```text
//! loop:  ...                     entry:   waiting = 0            (no wait goes on: the next visit begins one)
//!        here ───────────────────────┐    rounds = the site's
//!        pivot                       └──> jmp here'
//!        jcc loop                copy:    ...
//!        behind                  here':   ...
//!                                pivot':  rounds = rounds - 1; if it was 0: step over the red zone, push, jump
//!                                            to the trampoline, come back behind this
//!                                         pivot
//!                                         jcc copy
//!                                exit:    waiting = 0
//!                                         jmp behind
//! ```
//!
//! A visit comes before the pivot, and before each other PAUSE of a loop without a counter. It
//! takes the place of a PAUSE; any other pivot runs behind it. A counter is known at the pivot
//! only: at another PAUSE of an unrolled loop it may have taken its step already.
//!
//! The first rounds of a wait spin without a visit, as in the original loop, so that short waits
//! stay short. The word `rounds` of the thread counts them down. To count changes the flags, so it
//! is done only where every flag is written before it is read behind the visit
//! ([`flags_are_dead`]). Elsewhere, every round is a visit.
//!
//! A *hint* is not a loop: its copy holds only the instructions that the jump replaces. It does not
//! know when a wait begins or ends, so `rounds` is the only word that it changes.
//!
//! Instructions are copied whole. Their jumps, and their operands relative to the instruction
//! pointer, are encoded again. The original stays unchanged, so jumps into its middle still work,
//! and other paths through it are not in the copy. What the copy adds changes two words of the
//! thread's own storage, and no register.
//!
//! The bytes, from the address that the caller gives:
//!
//! | what | bytes |
//! | --- | --- |
//! | the trampoline's address, the site's | 16 |
//! | for each visit: where it stands in the original, and where it comes back to in the copy | 16 |
//! | entry, copy, exits | the rest |

use crate::image::Image;
use crate::relocation::{self, Hooks, Refers, Relocation};
use crate::x86::{STATUS, decoder, flags_written, near};
use alloc::vec::Vec;
use core::ops::Range;
use iced_x86::{
    BlockEncoder, BlockEncoderOptions, Code, FlowControl, Instruction, InstructionBlock, MemoryOperand,
    Register,
};

/// The largest copy, in bytes.
pub const COPY_BYTES_MAX: usize = 4096;

/// What is copied.
#[derive(Clone, Copy, Debug)]
pub struct Original<'a> {
    /// Its code: ascending, not touching, free of calls. Or one call, which the copy is called by,
    /// and takes the place of.
    pub parts: &'a [Range<u64>],
    /// The instruction before which a visit happens.
    pub pivot: u64,
    /// The instruction that the jump replaces.
    pub entered_at: u64,
    /// It is a whole loop. False for a hint.
    pub is_loop: bool,
    /// Only the pivot is visited. Other PAUSEs are not.
    pub only_pivot: bool,
}

/// A copied loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copy {
    /// The bytes, for the address that was given.
    pub bytes: Vec<u8>,
    /// The address that the jump leads to.
    pub entry: u64,
    /// Whether the first rounds are spun without a visit, as many as the site says.
    pub spins: bool,
    /// Offsets in the copy, each with how far the stack pointer is below that of the loop from
    /// there on. Before the first offset it is not below.
    pub depths: Vec<(u64, i64)>,
    /// The fields that depend on addresses: see [`crate::relocation`].
    pub relocations: Vec<Relocation>,
}

/// Instructions that the copy adds get made-up addresses above this one. No program has code there.
const ADDED: u64 = 0xffff_e000_0000_0000;

/// Copies `original`, to run at the address `at`, a multiple of 8.
///
/// `None` if it does not decode into whole instructions, or its copy would be too long or too far.
pub fn copy(image: &dyn Image, original: &Original<'_>, at: u64, hooks: &Hooks) -> Option<Copy> {
    let mut builder = Builder { is_loop: original.is_loop, ..Builder::default() };
    let all = decode(image, original.parts)?;
    let is_copied = |address: u64| all.binary_search_by_key(&address, Instruction::ip).is_ok();
    if !is_copied(original.pivot) || !is_copied(original.entered_at) {
        return None;
    }
    let is_visited =
        |one: &Instruction| one.ip() == original.pivot || one.code() == Code::Pause && !original.only_pivot;
    let pool = 16 + 16 * all.iter().filter(|one| is_visited(one)).count();

    // Entry: no wait goes on.
    let first = if original.is_loop {
        let first = builder.clear_waiting(hooks)?;
        builder.load_rounds(hooks)?;
        builder.jump(original.entered_at)?;
        first
    } else {
        builder.jump(original.entered_at)?
    };
    let mut seen = 0;
    let mut spins = true;
    for (n, instruction) in all.iter().enumerate() {
        let mut instruction = *instruction;
        if is_visited(&instruction) {
            let counted = flags_are_dead(image, &instruction);
            builder.place_visit(&instruction, at, at + 16 + 16 * seen, counted.then_some(hooks))?;
            spins &= counted;
            seen += 1;
        }
        if calls(&instruction) {
            // It was called in the place of the function, which goes on behind the visit.
            let to = instruction.near_branch_target();
            instruction = Instruction::with_branch(Code::Jmp_rel32_64, to).ok()?;
            instruction.set_ip(original.pivot);
            instruction.set_next_ip(original.pivot);
        }
        if !is_visited(&instruction) || instruction.code() != Code::Pause {
            let target = instruction.near_branch_target();
            if instruction.flow_control() != FlowControl::Next && target != 0 && !is_copied(target) {
                let exit = builder.exit_to(target);
                instruction.set_near_branch64(exit);
            }
            if is_visited(&instruction) {
                // Jumps to it lead to the visit before it.
                builder.push(instruction);
            } else {
                builder.instructions.push(instruction);
            }
        }
        let goes_on = !matches!(
            instruction.flow_control(),
            FlowControl::UnconditionalBranch | FlowControl::IndirectBranch | FlowControl::Return
        );
        let next = instruction.next_ip();
        if goes_on && all.get(n + 1).is_none_or(|following| following.ip() != next) {
            let to = if is_copied(next) { next } else { builder.exit_to(next) };
            builder.jump(to)?;
        }
    }
    builder.finish(hooks)?;

    let block = InstructionBlock::new(&builder.instructions, at + pool as u64);
    let options =
        BlockEncoderOptions::RETURN_NEW_INSTRUCTION_OFFSETS | BlockEncoderOptions::RETURN_CONSTANT_OFFSETS;
    let encoded = BlockEncoder::encode(64, block, options).ok()?;
    if pool + encoded.code_buffer.len() > COPY_BYTES_MAX {
        return None;
    }
    let place = |address: u64| {
        let index = builder.instructions.iter().position(|instruction| instruction.ip() == address)?;
        let offset = *encoded.new_instruction_offsets.get(index)?;
        (offset != u32::MAX).then(|| at + pool as u64 + u64::from(offset))
    };
    let mut words = Vec::from([hooks.trampoline, hooks.site]);
    for (address, behind) in &builder.visits {
        words.extend([*address, place(*behind)?]);
    }
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.extend_from_slice(&encoded.code_buffer);
    // A call has put the address to return to on the stack.
    let below = 8 * i64::from(all.iter().any(calls));
    let depths = depths(&builder.instructions, &encoded.new_instruction_offsets, pool as u64, below);
    let word = |n: usize, refers| Relocation { at: 8 * n as u16, refers };
    let mut relocations = Vec::from([word(0, Refers::Trampoline), word(1, Refers::Site)]);
    for n in (2..pool / 8).step_by(2) {
        relocations.extend([word(n, Refers::Module), word(n + 1, Refers::Copy)]);
    }
    let encoded = encoded.new_instruction_offsets.iter().zip(&encoded.constant_offsets);
    for (instruction, (&offset, fields)) in builder.instructions.iter().zip(encoded) {
        let target = instruction.near_branch_target();
        let jumps = instruction.flow_control() != FlowControl::Next && near(instruction);
        let outside = jumps && target < ADDED && !is_copied(target);
        if offset == u32::MAX {
            // Encoded as several: none of them may lead out of the copy.
            (!outside && !instruction.is_ip_rel_memory_operand()).then_some(())?;
            continue;
        }
        let begin = pool + offset as usize;
        relocation::of_instruction(&mut relocations, instruction, outside, begin, fields, at, hooks)?;
    }
    Some(Copy { bytes, entry: place(first)?, spins, depths, relocations })
}

/// See [`Copy::depths`]; the instructions' own offsets are counted from `code` on. At the start the
/// stack pointer is `below` that of the loop.
fn depths(instructions: &[Instruction], offsets: &[u32], code: u64, below: i64) -> Vec<(u64, i64)> {
    let (mut depth, mut last, mut depths) = (below, 0, Vec::new());
    for (instruction, &offset) in instructions.iter().zip(offsets) {
        if depth != last && offset != u32::MAX {
            depths.push((code + u64::from(offset), depth));
            last = depth;
        }
        let steps = instruction.code() == Code::Lea_r64_m
            && [instruction.op0_register(), instruction.memory_base()] == [Register::RSP; 2]
            && instruction.memory_index() == Register::None;
        depth -= match instruction.flow_control() {
            // What follows is not reached from here.
            FlowControl::UnconditionalBranch | FlowControl::IndirectBranch | FlowControl::Return => {
                depth - below
            }
            _ if steps => instruction.memory_displacement64() as i64,
            _ => i64::from(instruction.stack_pointer_increment()),
        };
    }
    depths
}

/// The instructions of the parts, in order.
fn decode(image: &dyn Image, parts: &[Range<u64>]) -> Option<Vec<Instruction>> {
    let mut all = Vec::new();
    if let [part] = parts {
        let call = decoder(image.at(part.start), part.start).decode();
        if calls(&call) && call.next_ip() == part.end {
            return Some(Vec::from([call]));
        }
    }
    for part in parts {
        let length = usize::try_from(part.end.checked_sub(part.start)?).ok()?;
        let bytes = image.at(part.start).get(..length)?;
        for instruction in decoder(bytes, part.start) {
            let fits = instruction.code() != Code::INVALID && instruction.next_ip() <= part.end;
            let stays = !matches!(
                instruction.flow_control(),
                FlowControl::Call | FlowControl::IndirectCall | FlowControl::Interrupt
            );
            if !fits || !stays || all.len() >= COPY_BYTES_MAX {
                return None;
            }
            all.push(instruction);
        }
    }
    Some(all)
}

/// Whether it calls a function at an address that it tells.
fn calls(instruction: &Instruction) -> bool {
    instruction.flow_control() == FlowControl::Call && near(instruction)
}

/// Whether every status flag is written before it is read from `first` on, along all paths that
/// lead from there: DEC keeps the carry flag past the jump that it decides. A function's caller and
/// a function that is called read none.
fn flags_are_dead(image: &dyn Image, first: &Instruction) -> bool {
    /// The most instructions followed on all paths together.
    const STEPS_MAX: usize = 64;
    let mut open = Vec::from([(*first, STATUS)]);
    for _ in 0..STEPS_MAX {
        let Some((instruction, mut live)) = open.pop() else { return true };
        if instruction.is_invalid() || instruction.rflags_read() & live != 0 {
            return false;
        }
        live &= !flags_written(&instruction);
        if live == 0 {
            continue;
        }
        let (next, target) = (instruction.next_ip(), instruction.near_branch_target());
        let mut go_on = |at: u64| open.push((decoder(image.at(at), at).decode(), live));
        match instruction.flow_control() {
            FlowControl::Next => go_on(next),
            FlowControl::UnconditionalBranch if near(&instruction) => go_on(target),
            FlowControl::ConditionalBranch => {
                go_on(next);
                go_on(target);
            }
            FlowControl::Return | FlowControl::Call | FlowControl::IndirectCall => {}
            _ => return false,
        }
    }
    open.is_empty()
}

#[derive(Default)]
struct Builder {
    instructions: Vec<Instruction>,
    /// Exits record that the wait has ended.
    is_loop: bool,
    /// How many addresses were made up.
    added: u64,
    /// Of each exit: its made-up address and where it leads.
    exits: Vec<(u64, u64)>,
    /// Of each visit: where it stands in the original, and the made-up address behind it.
    visits: Vec<(u64, u64)>,
    /// Of each visit that is written behind the loop: its made-up address, and the arguments of
    /// [`Builder::visit`].
    deferred: Vec<(u64, u64, u64)>,
}

/// A word of the thread's own storage.
fn of_thread(distance: i32) -> MemoryOperand {
    MemoryOperand::new(Register::None, Register::None, 1, i64::from(distance), 8, false, Register::FS)
}

impl Builder {
    fn fresh_address(&mut self) -> u64 {
        self.added += 1;
        ADDED + self.added * 16
    }

    fn push(&mut self, mut instruction: Instruction) -> u64 {
        let address = self.fresh_address();
        instruction.set_ip(address);
        self.instructions.push(instruction);
        address
    }

    /// No wait goes on.
    fn clear_waiting(&mut self, hooks: &Hooks) -> Option<u64> {
        let word = of_thread(hooks.waiting);
        Some(self.push(Instruction::with2(Code::Mov_rm64_imm32, word, 0).ok()?))
    }

    fn jump(&mut self, to: u64) -> Option<u64> {
        Some(self.push(Instruction::with_branch(Code::Jmp_rel32_64, to).ok()?))
    }

    /// Sets the rounds of the thread to those of the site. Changes no flag, and skips the red zone.
    fn load_rounds(&mut self, hooks: &Hooks) -> Option<()> {
        let site = MemoryOperand::with_base_displ(Register::RIP, hooks.site_rounds as i64);
        self.move_stack_pointer(-128)?;
        self.push(Instruction::with1(Code::Push_rm64, site).ok()?);
        self.push(Instruction::with1(Code::Pop_rm64, of_thread(hooks.rounds)).ok()?);
        self.move_stack_pointer(128)?;
        Some(())
    }

    /// Moves the stack pointer without touching a flag.
    fn move_stack_pointer(&mut self, bytes: i64) -> Option<u64> {
        let to = MemoryOperand::with_base_displ(Register::RSP, bytes);
        Some(self.push(Instruction::with2(Code::Lea_r64_m, Register::RSP, to).ok()?))
    }

    /// Writes a visit before an instruction, or in the place of a PAUSE. If rounds are `counted`,
    /// the visit happens when no round is left, and the PAUSE otherwise. `pool` is the address of
    /// the trampoline and the site, `own` that of the visit's two addresses.
    fn place_visit(&mut self, one: &Instruction, pool: u64, own: u64, counted: Option<&Hooks>) -> Option<()> {
        let begin = self.instructions.len();
        let pauses = one.code() == Code::Pause;
        let behind = match counted {
            Some(hooks) => {
                let rounds = of_thread(hooks.rounds);
                self.push(Instruction::with2(Code::Sub_rm64_imm8, rounds, 1).ok()?);
                let visit = self.fresh_address();
                self.push(Instruction::with_branch(Code::Jb_rel32_64, visit).ok()?);
                if pauses {
                    self.push(Instruction::with(Code::Pause));
                }
                let behind = self.push(Instruction::with(Code::Nopd));
                self.deferred.push((visit, pool, own));
                behind
            }
            None => {
                self.visit(pool, own)?;
                self.push(Instruction::with(Code::Nopd))
            }
        };
        self.instructions.get_mut(begin)?.set_ip(one.ip());
        let stands = match () {
            () if pauses => one.next_ip(),
            // As if the function had just been called.
            () if calls(one) => one.near_branch_target(),
            () => one.ip(),
        };
        self.visits.push((stands, behind));
        Some(())
    }

    /// A visit. It returns to the instruction behind it.
    fn visit(&mut self, pool: u64, own: u64) -> Option<u64> {
        let word = |at: u64| MemoryOperand::with_base_displ(Register::RIP, at as i64);
        let first = self.move_stack_pointer(-128)?;
        self.push(Instruction::with1(Code::Push_rm64, word(own)).ok()?);
        self.push(Instruction::with1(Code::Push_rm64, word(own + 8)).ok()?);
        self.push(Instruction::with1(Code::Push_rm64, word(pool + 8)).ok()?);
        self.push(Instruction::with1(Code::Jmp_rm64, word(pool)).ok()?);
        Some(first)
    }

    /// The address to which a jump out of the copy leads. From there the exit goes on to `target`.
    fn exit_to(&mut self, target: u64) -> u64 {
        if let Some((exit, _)) = self.exits.iter().find(|(_, to)| *to == target) {
            return *exit;
        }
        let exit = self.fresh_address();
        self.exits.push((exit, target));
        exit
    }

    /// Writes the visits that rounds were counted for, and the exits.
    fn finish(&mut self, hooks: &Hooks) -> Option<()> {
        for (visit, pool, own) in core::mem::take(&mut self.deferred) {
            let begin = self.instructions.len();
            self.visit(pool, own)?;
            self.instructions.get_mut(begin)?.set_ip(visit);
        }
        for (exit, target) in core::mem::take(&mut self.exits) {
            let begin = self.instructions.len();
            if self.is_loop {
                self.clear_waiting(hooks)?;
            }
            self.jump(target)?;
            self.instructions.get_mut(begin)?.set_ip(exit);
        }
        Some(())
    }
}
