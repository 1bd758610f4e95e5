//! Instructions of x86-64, as the rest of the crate sees them.
//!
//! A real decoder does the work; this file only sorts its answers. Three of them need care:
//!
//! - a register that forms an address is "read", but the result does not depend on its value in the
//!   sense that matters here: `while (slots[i].busy)` depends on memory, not on `i`;
//! - `cmpxchg` reads the new value without its results depending on it, or every loop that
//!   increments by compare-and-swap would seem to count;
//! - `xor r, r` and its like read nothing.

use crate::instruction::{Effect, Flow, Instruction, Place, Registers};
use alloc::vec::Vec;
use iced_x86::{
    Code, ConditionCode, CpuidFeature, Decoder, DecoderOptions, FlowControl, InstructionInfoFactory,
    Mnemonic, OpAccess, OpKind, Register, RflagsBits,
};

/// A decoder for code at `address`.
pub(crate) fn decoder(bytes: &[u8], address: u64) -> Decoder<'_> {
    Decoder::with_ip(64, bytes, address, DecoderOptions::NONE)
}

/// The flow of an instruction; none if it is not one.
pub(crate) fn flow(instruction: &iced_x86::Instruction) -> Option<Flow> {
    if instruction.is_invalid() {
        return None;
    }
    Some(match instruction.flow_control() {
        FlowControl::Next if instruction.mnemonic() == Mnemonic::Hlt => Flow::Stop,
        FlowControl::Next => Flow::Next,
        FlowControl::UnconditionalBranch if near(instruction) => Flow::Jump(instruction.near_branch_target()),
        FlowControl::UnconditionalBranch | FlowControl::IndirectBranch => Flow::Indirect,
        FlowControl::ConditionalBranch => Flow::Branch(instruction.near_branch_target()),
        FlowControl::Return | FlowControl::Exception => Flow::Stop,
        FlowControl::Call | FlowControl::IndirectCall | FlowControl::Interrupt => Flow::Call,
        FlowControl::XbeginXabortXend if near(instruction) => Flow::Branch(instruction.near_branch_target()),
        FlowControl::XbeginXabortXend => Flow::Next,
    })
}

/// Whether the instruction names a place to go to.
pub(crate) fn near(instruction: &iced_x86::Instruction) -> bool {
    matches!(instruction.op0_kind(), OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64)
}

/// The word through which the code at the start of `bytes` jumps and does nothing else: the stub of
/// an imported function.
pub(crate) fn stub(bytes: &[u8], address: u64) -> Option<u64> {
    let one = decoder(bytes, address).into_iter().take(2).find(|one| one.mnemonic() != Mnemonic::Endbr64)?;
    let is_stub = one.flow_control() == FlowControl::IndirectBranch
        && one.op0_kind() == OpKind::Memory
        && one.is_ip_rel_memory_operand();
    is_stub.then(|| one.ip_rel_memory_address())
}

/// Returns whether a condition holds behind the comparison of two values of `bits` bits; `None` for
/// conditions that are not decided here.
pub(crate) fn holds(condition: ConditionCode, one: u64, other: u64, bits: u32) -> Option<bool> {
    let sign = 1u64 << (bits - 1);
    let (signed, other_signed) = (one ^ sign, other ^ sign);
    Some(match condition {
        ConditionCode::e => one == other,
        ConditionCode::ne => one != other,
        ConditionCode::b => one < other,
        ConditionCode::ae => one >= other,
        ConditionCode::be => one <= other,
        ConditionCode::a => one > other,
        ConditionCode::l => signed < other_signed,
        ConditionCode::ge => signed >= other_signed,
        ConditionCode::le => signed <= other_signed,
        ConditionCode::g => signed > other_signed,
        ConditionCode::s if other == 0 => one & sign != 0,
        ConditionCode::ns if other == 0 => one & sign == 0,
        _ => return None,
    })
}

/// Returns whether it is the second byte of a general register.
pub(crate) fn is_high_byte(register: Register) -> bool {
    matches!(register, Register::AH | Register::BH | Register::CH | Register::DH)
}

/// Whether both operands are the same register.
pub(crate) fn is_one_register(instruction: &iced_x86::Instruction) -> bool {
    instruction.op0_kind() == OpKind::Register
        && instruction.op1_kind() == OpKind::Register
        && instruction.op0_register() == instruction.op1_register()
}

/// The flags that arithmetic sets.
pub(crate) const STATUS: u32 =
    RflagsBits::OF | RflagsBits::SF | RflagsBits::ZF | RflagsBits::AF | RflagsBits::CF | RflagsBits::PF;

/// The flags that the instruction writes in any case. A shift by a count of zero, or a string
/// instruction that is repeated zero times, writes none.
pub(crate) fn flags_written(instruction: &iced_x86::Instruction) -> u32 {
    let may_not_write = instruction.has_rep_prefix()
        || instruction.has_repne_prefix()
        || (0..instruction.op_count()).any(|n| {
            instruction.op_kind(n) == OpKind::Register && instruction.op_register(n) == Register::CL
        });
    if may_not_write { 0 } else { instruction.rflags_modified() & STATUS }
}

/// See [`Machine::decode`](crate::Machine::decode).
pub(crate) fn decode(bytes: &[u8], address: u64) -> Option<Vec<Instruction>> {
    let mut decoder = decoder(bytes, address);
    let mut instructions = Vec::with_capacity(bytes.len() / 4 + 1);
    let mut instruction = iced_x86::Instruction::default();
    while decoder.can_decode() {
        decoder.decode_out(&mut instruction);
        instructions.push(Instruction {
            address: instruction.ip(),
            length: instruction.len() as u8,
            spin: instruction.code() == Code::Pause && instruction.len() == 2,
            idle: instruction.mnemonic() == Mnemonic::Nop,
            flow: flow(&instruction)?,
        });
    }
    Some(instructions)
}

/// Registers that a called function may change: all but rbx, rbp, rsp and r12 to r15.
const VOLATILE: Registers = {
    let general = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 6 | 1 << 7 | 0xf << 8;
    let vector = ((1 << 32) - 1) << 16;
    Registers(general | vector | Registers::CARRY.0 | Registers::FLAGS.0)
};

/// See [`Machine::effect`](crate::Machine::effect).
pub(crate) fn effect(bytes: &[u8], address: u64) -> Effect {
    let instruction = decoder(bytes, address).decode();
    let mut effect = Effect::default();
    if instruction.is_invalid() || instruction.code() == Code::Pause {
        return effect;
    }
    let mut factory = InstructionInfoFactory::new();
    let info = factory.info(&instruction);
    for used in info.used_registers() {
        let register = bit(used.register());
        let (reads, writes) = access(used.access());
        if reads {
            effect.reads |= register;
        }
        if writes {
            effect.writes |= register;
        }
    }
    let mut forms_address = Registers::NONE;
    for used in info.used_memory() {
        let (reads, writes) = access(used.access());
        if !reads && !writes {
            continue;
        }
        forms_address |= bit(used.base()) | bit(used.index());
        let place = place(used);
        if reads {
            effect.loads.push(place);
        }
        if writes {
            effect.stores.push(place);
        }
    }
    let mut by_value = Registers::NONE;
    for n in 0..instruction.op_count() {
        if instruction.op_kind(n) == OpKind::Register && access(info.op_access(n)).0 {
            by_value |= bit(instruction.op_register(n));
        }
    }
    let accumulator = bit(Register::RAX) | bit(Register::RDX);
    match instruction.mnemonic() {
        Mnemonic::Mul | Mnemonic::Imul | Mnemonic::Div | Mnemonic::Idiv => {
            by_value |= effect.reads & accumulator
        }
        Mnemonic::Cmpxchg | Mnemonic::Cmpxchg8b | Mnemonic::Cmpxchg16b => {
            effect.reads = effect.reads & accumulator;
            if instruction.mnemonic() == Mnemonic::Cmpxchg {
                effect.reads = bit(Register::RAX);
            }
            by_value = effect.reads;
        }
        _ => {}
    }
    effect.reads = effect.reads & (!forms_address | by_value);
    effect.reads |= flags(instruction.rflags_read());
    effect.writes |= flags(instruction.rflags_modified());
    effect.arithmetic = arithmetic(&instruction);
    effect.clock = matches!(instruction.mnemonic(), Mnemonic::Rdtsc | Mnemonic::Rdtscp | Mnemonic::Rdpru);
    let exchange = instruction.mnemonic() == Mnemonic::Xchg && !effect.loads.is_empty();
    effect.atomic = (instruction.has_lock_prefix() || exchange) && !effect.loads.is_empty();
    if exchange {
        // The register's new value comes from memory alone.
        effect.reads = Registers::NONE;
    }
    // What called code may leave in registers.
    match instruction.flow_control() {
        _ if instruction.mnemonic() == Mnemonic::Syscall => effect.writes |= bit(Register::RAX),
        FlowControl::Call | FlowControl::IndirectCall => effect.writes |= VOLATILE,
        FlowControl::Interrupt => effect.writes |= bit(Register::RAX),
        _ => {}
    }
    if clears(&instruction) {
        effect.reads = effect.reads & (Registers::CARRY | Registers::FLAGS);
    }
    effect
}

/// `xor r, r`, `sub r, r` and `sbb r, r`: the result does not depend on the register.
fn clears(instruction: &iced_x86::Instruction) -> bool {
    use Mnemonic::*;
    let same = |one: u32, other: u32| {
        instruction.op_kind(one) == OpKind::Register
            && instruction.op_kind(other) == OpKind::Register
            && instruction.op_register(one) == instruction.op_register(other)
    };
    match instruction.mnemonic() {
        Xor | Sub | Sbb | Pxor | Xorps | Xorpd => same(0, 1),
        Vpxor | Vpxord | Vpxorq | Vxorps | Vxorpd => same(1, 2),
        _ => false,
    }
}

/// Whether an instruction computes as a counter does: sums, differences, products, shifts. Of
/// vectors and floating-point numbers, all that does not only move or compare counts as that.
fn arithmetic(instruction: &iced_x86::Instruction) -> bool {
    use Mnemonic::*;
    match instruction.mnemonic() {
        Add | Sub | Inc | Dec | Adc | Sbb | Neg | Lea | Mul | Imul | Div | Idiv | Mulx | Adcx | Adox
        | Xadd | Shl | Sal | Shr | Sar | Shlx | Shrx | Sarx | Shld | Shrd | Rol | Ror | Rorx | Rcl | Rcr
        | Blsr | Loop | Loope | Loopne => true,
        _ => computes_vectors(instruction),
    }
}

/// Whether an instruction computes with vectors or floating-point numbers.
pub(crate) fn computes_vectors(instruction: &iced_x86::Instruction) -> bool {
    use CpuidFeature::*;
    let of_vectors = |feature: &CpuidFeature| {
        matches!(
            feature,
            FPU | FPU287
                | FPU387
                | FPU387SL_ONLY
                | MMX
                | SSE
                | SSE2
                | SSE3
                | SSSE3
                | SSE4_1
                | SSE4_2
                | SSE4A
                | AVX
                | AVX2
                | FMA
                | FMA4
                | F16C
                | AVX512F
                | AVX512VL
                | AVX512DQ
                | AVX512BW
                | AVX_VNNI
        )
    };
    instruction.cpuid_features().iter().any(of_vectors) && !moves_vectors(instruction.mnemonic())
}

/// Whether an instruction with vector or floating-point registers moves values, compares them, or
/// joins their bits.
fn moves_vectors(mnemonic: Mnemonic) -> bool {
    use Mnemonic::*;
    matches!(
        mnemonic,
        Movd | Movq
            | Movss
            | Movsd
            | Movaps
            | Movapd
            | Movups
            | Movupd
            | Movdqa
            | Movdqu
            | Movhps
            | Movlps
            | Movhpd
            | Movlpd
            | Movddup
            | Lddqu
            | Movntdqa
            | Vmovd
            | Vmovq
            | Vmovss
            | Vmovsd
            | Vmovaps
            | Vmovapd
            | Vmovups
            | Vmovupd
            | Vmovdqa
            | Vmovdqu
            | Vmovdqa32
            | Vmovdqa64
            | Vmovdqu8
            | Vmovdqu16
            | Vmovdqu32
            | Vmovdqu64
            | Vmovhps
            | Vmovlps
            | Vmovhpd
            | Vmovlpd
            | Vmovddup
            | Vlddqu
            | Vmovntdqa
            | Vzeroupper
            | Vzeroall
            | Pand
            | Pandn
            | Por
            | Pxor
            | Andps
            | Andpd
            | Andnps
            | Andnpd
            | Orps
            | Orpd
            | Xorps
            | Xorpd
            | Vpand
            | Vpandn
            | Vpor
            | Vpxor
            | Vandps
            | Vandpd
            | Vandnps
            | Vandnpd
            | Vorps
            | Vorpd
            | Vxorps
            | Vxorpd
            | Comiss
            | Comisd
            | Ucomiss
            | Ucomisd
            | Vcomiss
            | Vcomisd
            | Vucomiss
            | Vucomisd
            | Ptest
            | Vptest
            | Movmskps
            | Movmskpd
            | Pmovmskb
            | Vmovmskps
            | Vmovmskpd
            | Vpmovmskb
            | Pcmpeqb
            | Pcmpeqw
            | Pcmpeqd
            | Pcmpeqq
            | Vpcmpeqb
            | Vpcmpeqw
            | Vpcmpeqd
            | Vpcmpeqq
            | Vpbroadcastb
            | Vpbroadcastw
            | Vpbroadcastd
            | Vpbroadcastq
            | Vbroadcastss
            | Vbroadcastsd
            | Pause
            | Lfence
            | Mfence
            | Sfence
            | Prefetcht0
            | Prefetcht1
            | Prefetcht2
            | Prefetchnta
            | Cmpxchg16b
            | Clflush
            | Movnti
    )
}

/// Whether an access reads, and whether it writes. What is written only sometimes keeps its old
/// value otherwise, so its new value depends on the old one.
pub(crate) fn access(access: OpAccess) -> (bool, bool) {
    match access {
        OpAccess::None | OpAccess::NoMemAccess => (false, false),
        OpAccess::Read | OpAccess::CondRead => (true, false),
        OpAccess::Write => (false, true),
        OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite => (true, true),
    }
}

fn flags(bits: u32) -> Registers {
    let mut flags = Registers::NONE;
    if bits & RflagsBits::CF != 0 {
        flags |= Registers::CARRY;
    }
    if bits & !RflagsBits::CF != 0 {
        flags |= Registers::FLAGS;
    }
    flags
}

/// A register's bit. Parts of a register count as the whole: compilers do not rely on the other
/// part.
pub(crate) fn bit(register: Register) -> Registers {
    let full = register.full_register();
    let number = full.number() as u32;
    match full {
        Register::None | Register::RSP | Register::RIP | Register::EIP => Registers::NONE,
        _ if full.is_gpr64() => Registers::one(number),
        _ if full.is_zmm() => Registers::one(16 + number),
        _ if full.is_k() => Registers::one(48 + number),
        _ if full.is_mm() => Registers::one(56 + number),
        _ if full.is_st() => Registers::one(64 + number),
        _ if full.is_segment_register() => Registers::NONE,
        _ => Registers::one(72),
    }
}

fn place(memory: &iced_x86::UsedMemory) -> Place {
    let (base, index) = (memory.base().full_register(), memory.index().full_register());
    let segment = match memory.segment() {
        Register::FS => 1,
        Register::GS => 2,
        _ => 0,
    };
    Place {
        registers: bit(base) | bit(index),
        form: (base as u64) << 32 | (index as u64) << 16 | u64::from(memory.scale()) << 8 | segment,
        displacement: memory.displacement(),
        local: index == Register::None && (matches!(base, Register::RSP | Register::RBP)),
    }
}
