//! What runs in the trampoline touches nothing that the trampoline does not save.
//!
//! The trampoline saves the flags, the general registers and xmm0 to xmm15, and enters Rust code in
//! the middle of somebody else's loop. Whether that code keeps to those registers is a property of
//! machine code, so it is checked there: from `manx_trampoline` on, every instruction that can be
//! reached in the built library is decoded, calls are followed, and anything that leaves the known
//! (an indirect call, a call out of the library's text, a vector instruction with a VEX or EVEX
//! prefix, x87, MMX or mask registers, xmm16 and above) fails the test with its address. A `match`
//! may become a jump table: its entries are followed, as many as lead into the function of the
//! jump. A call of a function of our own may go through a word of the table of imports: the
//! loader's entry for that word says where it leads.
#![cfg(target_arch = "x86_64")]

use iced_x86::{
    Code, Decoder, DecoderOptions, EncodingKind, FlowControl, Instruction, Mnemonic, OpKind, Register,
};
use object::elf::R_X86_64_RELATIVE;
use object::{Object, ObjectSection, ObjectSymbol};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

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

/// The function around an address, and where it lies.
fn around(elf: &object::File<'_>, at: u64) -> (String, Range<u64>) {
    let range = |symbol: &object::Symbol<'_, '_>| symbol.address()..symbol.address() + symbol.size();
    let found = elf.symbols().find(|symbol| range(symbol).contains(&at));
    let name = |symbol: &object::Symbol<'_, '_>| symbol.name().unwrap_or_default().to_owned();
    found.map_or_else(|| (String::new(), 0..0), |symbol| (name(&symbol), range(&symbol)))
}

/// Where the jump at the end of `before` may lead, if it is one through a table of distances from
/// the table's start: `lea base, [rip + table]; movsxd to, [base + 4 * n]; add to, base; jmp to`.
fn through_a_table(elf: &object::File<'_>, before: &[Instruction]) -> Option<Vec<u64>> {
    let [.., jump] = before else { return None };
    let to = (jump.op0_kind() == OpKind::Register).then(|| jump.op0_register())?;
    let last = |mnemonic, register| {
        before.iter().rev().find(|one| one.mnemonic() == mnemonic && one.op0_register() == register)
    };
    let base = last(Mnemonic::Add, to)?.op1_register();
    let load = last(Mnemonic::Movsxd, to)?;
    let table =
        last(Mnemonic::Lea, base).filter(|lea| lea.is_ip_rel_memory_operand())?.ip_rel_memory_address();
    if (load.memory_base(), load.memory_index_scale()) != (base, 4) {
        return None;
    }
    let section = elf.sections().find(|one| (one.address()..one.address() + one.size()).contains(&table))?;
    let bytes = section.data().ok()?.get((table - section.address()) as usize..)?;
    let (_, function) = around(elf, jump.ip());
    let entries = bytes.as_chunks::<4>().0.iter().map(|&entry| i64::from(i32::from_le_bytes(entry)));
    let targets: Vec<_> = entries
        .map(|entry| table.wrapping_add_signed(entry))
        .take_while(|to| function.contains(to))
        .collect();
    (!targets.is_empty()).then_some(targets)
}

/// Where a call through a word leads that the loader sets to an address in the library itself.
fn through_a_word(words: &BTreeMap<u64, u64>, call: &Instruction) -> Option<u64> {
    let word = call.is_ip_rel_memory_operand().then(|| call.ip_rel_memory_address())?;
    words.get(&word).copied()
}

#[test]
fn the_waiter_stays_within_what_the_trampoline_saves() {
    let path = library();
    let file = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let elf = object::File::parse(&*file).expect("an ELF file");
    let section = elf.section_by_name(".text").expect("text");
    let text = Text { address: section.address(), bytes: section.data().expect("bytes") };
    let start = elf.symbols().find(|s| s.name() == Ok("manx_trampoline")).expect("the trampoline").address();

    let relative =
        |one: &object::Relocation| one.flags() == object::RelocationFlags::Elf { r_type: R_X86_64_RELATIVE };
    let relocations = elf.dynamic_relocations().into_iter().flatten().filter(|(_, one)| relative(one));
    let words: BTreeMap<u64, u64> = relocations.map(|(word, one)| (word, one.addend() as u64)).collect();

    let (mut todo, mut seen) = (vec![start], BTreeSet::new());
    // Functions, and where each was called first.
    let (mut functions, mut system_calls) = (BTreeMap::from([(start, start)]), 0);
    let way_to = |functions: &BTreeMap<u64, u64>, at: u64| {
        let (mut way, mut at) = (format!("{at:#x}"), at);
        for _ in 0..20 {
            let Some((&function, &from)) = functions.range(..=at).next_back() else { break };
            way += &format!(" in {}", around(&elf, function).0);
            if function == from {
                break;
            }
            way += &format!(", called at {from:#x}");
            at = from;
        }
        way
    };
    while let Some(mut at) = todo.pop() {
        let mut row = Vec::new();
        while seen.insert(at) {
            let instruction = text.decode(at).unwrap_or_else(|| panic!("{at:#x}: not in our text"));
            if let Some(why) = objection(&instruction) {
                panic!("{}: {:?}: {why}", way_to(&functions, at), instruction.code());
            }
            row.push(instruction);
            let target = instruction.near_branch_target();
            match instruction.flow_control() {
                FlowControl::Next => {}
                FlowControl::Call if instruction.code() == Code::Syscall => system_calls += 1,
                FlowControl::Call => {
                    functions.entry(target).or_insert(at);
                    todo.push(target);
                }
                FlowControl::IndirectCall if let Some(target) = through_a_word(&words, &instruction) => {
                    functions.entry(target).or_insert(at);
                    todo.push(target);
                }
                FlowControl::ConditionalBranch => todo.push(target),
                FlowControl::UnconditionalBranch => {
                    at = target;
                    continue;
                }
                FlowControl::Return => break,
                FlowControl::IndirectBranch if let Some(targets) = through_a_table(&elf, &row) => {
                    todo.extend(targets);
                    break;
                }
                // A bug would stop the program here, as `ud2` does; nothing is changed before it
                // does.
                FlowControl::Exception if instruction.mnemonic() == Mnemonic::Ud2 => break,
                other => panic!(
                    "{}: {:?} leads nobody knows where ({other:?})",
                    way_to(&functions, at),
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
