//! What runs in the trampoline touches nothing that the trampoline does not save.
//!
//! The trampoline saves the flags, the general registers and xmm0 to xmm15, and enters Rust code in the
//! middle of somebody else's loop. Whether that code keeps to those registers is a property of machine
//! code, so it is checked there: from `manx_trampoline` on, every instruction that can be reached in the
//! built library is decoded, calls are followed, and anything that leaves the known (an indirect call, a
//! call out of the library's text, a vector instruction with a VEX or EVEX prefix, x87, MMX or mask
//! registers, xmm16 and above) fails the test with its address.
#![cfg(target_arch = "x86_64")]

use iced_x86::{
    Code, Decoder, DecoderOptions, EncodingKind, FlowControl, Instruction, Mnemonic, OpKind, Register,
};
use object::{Object, ObjectSection, ObjectSymbol};
use std::collections::BTreeSet;

fn library() -> std::path::PathBuf {
    let test = std::env::current_exe().expect("the test's own path");
    test.with_file_name("libmanx_preload.so")
}

struct Text<'a> {
    address: u64,
    bytes: &'a [u8],
}

impl Text<'_> {
    fn decode(&self, at: u64) -> Option<Instruction> {
        let bytes = self.bytes.get(usize::try_from(at.checked_sub(self.address)?).ok()?..)?;
        let mut decoder = Decoder::with_ip(64, bytes, at, DecoderOptions::NONE);
        let instruction = decoder.decode();
        (instruction.code() != Code::INVALID).then_some(instruction)
    }
}

/// Why an instruction may not run there, if so.
fn objection(instruction: &Instruction) -> Option<&'static str> {
    if instruction.encoding() != EncodingKind::Legacy {
        return Some("a VEX or EVEX instruction may change more than xmm registers");
    }
    let registers = (0..instruction.op_count())
        .filter(|&n| instruction.op_kind(n) == OpKind::Register)
        .map(|n| instruction.op_register(n));
    for register in registers {
        if register.is_st() || register.is_mm() || register.is_k() || register.is_ymm() || register.is_zmm() {
            return Some("a register that the trampoline does not save");
        }
        if register.is_xmm() && register as u32 > Register::XMM15 as u32 {
            return Some("a register that the trampoline does not save");
        }
    }
    match instruction.mnemonic() {
        Mnemonic::Fxsave
        | Mnemonic::Fxrstor
        | Mnemonic::Ldmxcsr
        | Mnemonic::Emms
        | Mnemonic::Fninit
        | Mnemonic::Std => Some("floating-point state or the direction flag changes"),
        _ => None,
    }
}

/// The function around an address.
fn around(elf: &object::File<'_>, at: u64) -> String {
    let holds =
        |symbol: &object::Symbol<'_, '_>| (symbol.address()..symbol.address() + symbol.size()).contains(&at);
    elf.symbols().find(holds).and_then(|symbol| symbol.name().ok().map(str::to_owned)).unwrap_or_default()
}

#[test]
fn the_waiter_stays_within_what_the_trampoline_saves() {
    let path = library();
    let file = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let elf = object::File::parse(&*file).expect("an ELF file");
    let section = elf.section_by_name(".text").expect("text");
    let text = Text { address: section.address(), bytes: section.data().expect("bytes") };
    let start = elf.symbols().find(|s| s.name() == Ok("manx_trampoline")).expect("the trampoline").address();

    let (mut todo, mut seen) = (vec![start], BTreeSet::new());
    let (mut functions, mut system_calls) = (BTreeSet::from([start]), 0);
    while let Some(mut at) = todo.pop() {
        while seen.insert(at) {
            let instruction = text.decode(at).unwrap_or_else(|| panic!("{at:#x}: not in our text"));
            if let Some(why) = objection(&instruction) {
                panic!("{at:#x} in {}: {:?}: {why}", around(&elf, at), instruction.code());
            }
            let target = instruction.near_branch_target();
            match instruction.flow_control() {
                FlowControl::Next => {}
                FlowControl::Call if instruction.code() == Code::Syscall => system_calls += 1,
                FlowControl::Call => {
                    functions.insert(target);
                    todo.push(target);
                }
                FlowControl::ConditionalBranch => todo.push(target),
                FlowControl::UnconditionalBranch => {
                    at = target;
                    continue;
                }
                FlowControl::Return => break,
                // A bug would stop the program here, as `ud2` does; nothing is changed before it does.
                FlowControl::Exception if instruction.mnemonic() == Mnemonic::Ud2 => break,
                other => panic!(
                    "{at:#x} in {}: {:?} leads nobody knows where ({other:?})",
                    around(&elf, at),
                    instruction.code()
                ),
            }
            at = instruction.next_ip();
        }
    }
    // The walk is worth something only if it went where waiting happens.
    assert!(functions.len() >= 2, "the waiter was not found from the trampoline");
    assert!(system_calls >= 3, "yielding, sleeping and asking for the class are system calls");
    println!("{} instructions, {} functions, {system_calls} system calls", seen.len(), functions.len());
}
