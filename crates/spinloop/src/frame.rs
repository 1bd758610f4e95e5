//! A function's stack frame: which registers point into it, and whether any other thread can.
//!
//! Other threads reach a frame only by an address that the function has taken. Any will do: the
//! address of one member of a structure leads to the others, and the stack pointer may have been
//! moved by a `push` when it was taken, so distances say nothing.

use crate::image::Image;
use crate::instruction::Instruction;
use crate::x86;
use iced_x86::{Code, Mnemonic, OpKind, Register};

/// The instruction again, with its operands.
pub(crate) fn decoded(image: &dyn Image, instruction: &Instruction) -> iced_x86::Instruction {
    x86::decoder(instruction.bytes(image), instruction.address).decode()
}

/// Whether the function begins by making `rbp` its frame pointer: one of its parts does, and a cold
/// part may stand before the one that is entered.
pub(crate) fn has_pointer(image: &dyn Image, instructions: &[Instruction]) -> bool {
    let begins = |&n: &usize| n == 0 || instructions[n - 1].end() != instructions[n].address;
    (0..instructions.len()).filter(begins).any(|n| makes_pointer(image, &instructions[n..]))
}

fn makes_pointer(image: &dyn Image, instructions: &[Instruction]) -> bool {
    let mut first =
        instructions.iter().map(|one| decoded(image, one)).filter(|one| one.code() != Code::Endbr64);
    let pushes = first.next().is_some_and(|one| {
        one.mnemonic() == Mnemonic::Push
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

/// Whether the function takes an address of its own frame.
pub(crate) fn address_taken(image: &dyn Image, instructions: &[Instruction]) -> bool {
    let framed = has_pointer(image, instructions);
    let frame = |register: Register| register == Register::RSP || framed && register == Register::RBP;
    instructions.iter().map(|one| decoded(image, one)).any(|one| {
        let is_frame =
            |n: u32| one.op_kind(n) == OpKind::Register && frame(one.op_register(n).full_register());
        match one.mnemonic() {
            // What begins and ends a function moves the pointers themselves.
            Mnemonic::Lea => frame(one.memory_base().full_register()) && !is_frame(0),
            Mnemonic::Push | Mnemonic::Pop => is_frame(0) && one.op_register(0) != Register::RBP,
            _ => !is_frame(0) && (1..one.op_count()).any(is_frame),
        }
    })
}
