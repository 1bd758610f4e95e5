//! What is proven of loops, checked by running them: loops made up at random, on the processor itself.
//!
//! A loop runs in this process with a stack and memory of its own. A breakpoint in the place of the pivot and undefined
//! instructions behind the ways out hand every state of the registers, the stack and the memory to the test.
//!
//! - Of a counter: to run `missing` more rounds, and to set the counter to [`Counter::after`] and run one round, leads to the
//!   same state, and to the same way out at the same state.
//! - Of a wait without a bound: after one round, every round leaves everything as it was.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]
// A list of one range is meant as such.
#![allow(clippy::single_range_in_vec_init)]

mod common;

use common::assemble;
use proptest::prelude::*;
use spinloop::{Bound, Condition, Counter, Finder, Finding, Kind, Machine, Module, Place, Seed, Segments};
use std::cell::RefCell;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Where loops run.
const TEXT: u64 = 0x2000_0000;
/// Words of memory below and above the address in `rdi`.
const WORDS: usize = 512;
/// Bytes of stack below and above the stack pointer that are compared.
const AROUND: usize = 256;
const ROUNDS_MAX: usize = 72;

const RCX: u8 = 1;
const RSP: u8 = 4;
const RDI: u8 = 7;

/// An instruction. Registers by number; `w` says 64 bits in place of 32.
#[derive(Clone, Debug, PartialEq)]
enum Op {
    Pivot,
    MovRr {
        w: bool,
        to: u8,
        from: u8,
    },
    MovImm {
        to: u8,
        imm: i32,
    },
    Part8 {
        to: u8,
        from: u8,
    },
    Part16 {
        to: u8,
        from: u8,
    },
    /// ADD, OR, ADC, SBB, AND, SUB, XOR, CMP by their numbers, with a small constant.
    Imm {
        w: bool,
        kind: u8,
        to: u8,
        imm: i8,
    },
    Imm32 {
        w: bool,
        kind: u8,
        to: u8,
        imm: i32,
    },
    Rr {
        w: bool,
        kind: u8,
        to: u8,
        from: u8,
    },
    Inc {
        w: bool,
        to: u8,
    },
    Dec {
        w: bool,
        to: u8,
    },
    Neg {
        w: bool,
        to: u8,
    },
    Lea {
        w: bool,
        to: u8,
        base: u8,
        add: i8,
    },
    LeaIndexed {
        to: u8,
        base: u8,
        index: u8,
    },
    Test {
        w: bool,
        to: u8,
        from: u8,
    },
    Setcc {
        cc: u8,
        to: u8,
    },
    Cmov {
        w: bool,
        cc: u8,
        to: u8,
        from: u8,
    },
    Bt {
        to: u8,
        bit: u8,
    },
    Rol {
        to: u8,
    },
    ShlCl {
        to: u8,
    },
    Carry {
        kind: u8,
    },
    Movzx8 {
        to: u8,
        from: u8,
    },
    Movsxd {
        to: u8,
        from: u8,
    },
    Xchg {
        w: bool,
        to: u8,
        from: u8,
    },
    Xadd {
        w: bool,
        to: u8,
        from: u8,
    },
    Load {
        w: bool,
        to: u8,
        word: i8,
    },
    Load8 {
        to: u8,
        word: i8,
    },
    CmpMem {
        w: bool,
        to: u8,
        word: i8,
    },
    CmpMemImm {
        w: bool,
        word: i8,
        imm: i8,
    },
    Store {
        w: bool,
        word: i8,
        from: u8,
    },
    SlotStore {
        w: bool,
        at: i8,
        from: u8,
    },
    SlotLoad {
        w: bool,
        to: u8,
        at: i8,
    },
    SlotImm {
        w: bool,
        kind: u8,
        at: i8,
        imm: i8,
    },
    SlotCmp {
        w: bool,
        to: u8,
        at: i8,
    },
    SlotLea {
        to: u8,
        at: i8,
    },
    StoreVia {
        to: u8,
        from: u8,
    },
    Lods,
    PushPop {
        from: u8,
        to: u8,
    },
    /// Over so many instructions.
    Skip {
        cc: u8,
        over: u8,
    },
    /// Out of the loop.
    Leave {
        cc: u8,
    },
}

fn rex(w: bool, reg: u8, rm: u8, force: bool) -> Vec<u8> {
    let byte = 0x40 | u8::from(w) << 3 | (reg >> 3) << 2 | rm >> 3;
    if byte != 0x40 || force { vec![byte] } else { Vec::new() }
}

fn rr(w: bool, opcode: &[u8], reg: u8, rm: u8) -> Vec<u8> {
    [&rex(w, reg, rm, false), opcode, &[0xc0 | (reg & 7) << 3 | rm & 7]].concat()
}

/// With the memory at a register and a distance.
fn mem(w: bool, opcode: &[u8], reg: u8, base: u8, add: i8) -> Vec<u8> {
    let mut code = [&rex(w, reg, base, false), opcode, &[0x40 | (reg & 7) << 3 | base & 7]].concat();
    if base & 7 == RSP {
        code.push(0x24);
    }
    code.push(add as u8);
    code
}

impl Op {
    fn bytes(&self) -> Vec<u8> {
        match *self {
            Op::Pivot | Op::Skip { .. } | Op::Leave { .. } => Vec::new(),
            Op::MovRr { w, to, from } => rr(w, &[0x89], from, to),
            Op::MovImm { to, imm } => {
                [&rex(false, 0, to, false)[..], &[0xb8 | to & 7], &imm.to_le_bytes()].concat()
            }
            Op::Part8 { to, from } => {
                [&rex(false, from, to, true)[..], &[0x88, 0xc0 | (from & 7) << 3 | to & 7]].concat()
            }
            Op::Part16 { to, from } => [vec![0x66], rr(false, &[0x89], from, to)].concat(),
            Op::Imm { w, kind, to, imm } => [rr(w, &[0x83], kind, to), vec![imm as u8]].concat(),
            Op::Imm32 { w, kind, to, imm } => [rr(w, &[0x81], kind, to), imm.to_le_bytes().to_vec()].concat(),
            Op::Rr { w, kind, to, from } => rr(w, &[kind << 3 | 1], from, to),
            Op::Inc { w, to } => rr(w, &[0xff], 0, to),
            Op::Dec { w, to } => rr(w, &[0xff], 1, to),
            Op::Neg { w, to } => rr(w, &[0xf7], 3, to),
            Op::Lea { w, to, base, add } => mem(w, &[0x8d], to, base, add),
            Op::LeaIndexed { to, base, index } => {
                let byte = 0x48 | (to >> 3) << 2 | (index >> 3) << 1 | base >> 3;
                vec![byte, 0x8d, 0x44 | (to & 7) << 3, (index & 7) << 3 | base & 7, 3]
            }
            Op::Test { w, to, from } => rr(w, &[0x85], from, to),
            Op::Setcc { cc, to } => {
                [&rex(false, 0, to, true)[..], &[0x0f, 0x90 | cc, 0xc0 | to & 7]].concat()
            }
            Op::Cmov { w, cc, to, from } => rr(w, &[0x0f, 0x40 | cc], to, from),
            Op::Bt { to, bit } => [rr(true, &[0x0f, 0xba], 4, to), vec![bit]].concat(),
            Op::Rol { to } => [rr(true, &[0xc1], 0, to), vec![5]].concat(),
            Op::ShlCl { to } => rr(true, &[0xd3], 4, to),
            Op::Carry { kind } => vec![[0xf5, 0xf8, 0xf9][usize::from(kind % 3)]],
            Op::Movzx8 { to, from } => {
                [&rex(false, to, from, true)[..], &[0x0f, 0xb6, 0xc0 | (to & 7) << 3 | from & 7]].concat()
            }
            Op::Movsxd { to, from } => rr(true, &[0x63], to, from),
            Op::Xchg { w, to, from } => rr(w, &[0x87], from, to),
            Op::Xadd { w, to, from } => rr(w, &[0x0f, 0xc1], from, to),
            Op::Load { w, to, word } => mem(w, &[0x8b], to, RDI, word * 8),
            Op::Load8 { to, word } => {
                let code = [0x8a, 0x40 | (to & 7) << 3 | RDI, (word * 8) as u8];
                [&rex(false, to, RDI, true)[..], &code].concat()
            }
            Op::CmpMem { w, to, word } => mem(w, &[0x3b], to, RDI, word * 8),
            Op::CmpMemImm { w, word, imm } => [mem(w, &[0x83], 7, RDI, word * 8), vec![imm as u8]].concat(),
            Op::Store { w, word, from } => mem(w, &[0x89], from, RDI, word * 8),
            Op::SlotStore { w, at, from } => mem(w, &[0x89], from, RSP, at),
            Op::SlotLoad { w, to, at } => mem(w, &[0x8b], to, RSP, at),
            Op::SlotImm { w, kind, at, imm } => [mem(w, &[0x83], kind, RSP, at), vec![imm as u8]].concat(),
            Op::SlotCmp { w, to, at } => mem(w, &[0x3b], to, RSP, at),
            Op::SlotLea { to, at } => mem(true, &[0x8d], to, RSP, at),
            Op::StoreVia { to, from } => mem(true, &[0x89], from, to, 0),
            Op::Lods => vec![0x48, 0xad],
            Op::PushPop { from, to } => {
                let one = |op: u8, r: u8| [rex(false, 0, r, false), vec![op | r & 7]].concat();
                [one(0x50, from), one(0x58, to)].concat()
            }
        }
    }
}

/// A loop's code, and where its pivot is. Its end is a jump back with the condition, or without one.
fn build(body: &[Op], pivot: &[u8], end: Option<u8>) -> (Vec<u8>, u64) {
    // An instruction that nothing jumps back to, so that the loop's head is not the function's start.
    let head = 1u64;
    let long = |op: &Op| match op {
        Op::Pivot => pivot.len(),
        Op::Skip { .. } | Op::Leave { .. } => 6,
        other => other.bytes().len(),
    };
    let mut at = vec![head];
    for op in body {
        at.push(at[at.len() - 1] + long(op) as u64);
    }
    let behind = at[body.len()];
    let close = if end.is_some() { 6 } else { 5 };
    let first_exit = behind + close;
    let mut code = vec![0xf5];
    let mut pivot_at = 0;
    let mut exits = 1u64;
    for (n, op) in body.iter().enumerate() {
        let jump = |cc: u8, to: u64| {
            [&[0x0f, 0x80 | cc][..], &(to.wrapping_sub(at[n] + 6) as u32).to_le_bytes()].concat()
        };
        match *op {
            Op::Pivot => {
                pivot_at = at[n];
                code.extend(pivot);
            }
            Op::Skip { cc, over } => {
                code.extend(jump(cc, at[(n + 1 + usize::from(over)).min(body.len())]));
            }
            Op::Leave { cc } => {
                code.extend(jump(cc, first_exit + 2 * exits));
                exits += 1;
            }
            ref other => code.extend(other.bytes()),
        }
    }
    let back = head.wrapping_sub(first_exit) as u32;
    match end {
        Some(cc) => code.extend([&[0x0f, 0x80 | cc][..], &back.to_le_bytes()].concat()),
        None => code.extend([&[0xe9][..], &back.to_le_bytes()].concat()),
    }
    code.extend([0x0f, 0x0b].repeat(exits as usize));
    (code, pivot_at)
}

/// What a loop sees and leaves: sixteen registers, the stack around the stack pointer, the memory around `rdi`.
#[derive(Clone, Debug, PartialEq)]
struct State {
    registers: [u64; 16],
    stack: Vec<u8>,
    memory: Vec<u64>,
}

#[derive(Clone, Debug, PartialEq)]
enum End {
    Left(u64, State),
    TooLong,
    Fault,
}

struct Run {
    pivot: u64,
    /// If the loop lies in parts: these. Then it runs step by step.
    parts: Vec<Range<u64>>,
    /// Whether the thread has not left the parts since the last visit.
    inside: bool,
    /// Of each visit, the same.
    rounds: Vec<bool>,
    visits: Vec<State>,
    /// At which visit the counter gets which value.
    set: Option<(usize, Counter, u64)>,
    end: Option<End>,
    stack: u64,
    memory: u64,
}

thread_local! {
    static RUN: RefCell<Option<Run>> = const { RefCell::new(None) };
}

core::arch::global_asm!(
    "proven_enter:",
    "push rbx", "push rbp", "push r12", "push r13", "push r14", "push r15",
    "mov [rip + {back}], rsp",
    "mov [rip + {target}], rsi",
    "mov rax, [rdi]", "mov rcx, [rdi + 8]", "mov rdx, [rdi + 16]", "mov rbx, [rdi + 24]",
    "mov rsp, [rdi + 32]", "mov rbp, [rdi + 40]", "mov rsi, [rdi + 48]",
    "mov r8, [rdi + 64]", "mov r9, [rdi + 72]", "mov r10, [rdi + 80]", "mov r11, [rdi + 88]",
    "mov r12, [rdi + 96]", "mov r13, [rdi + 104]", "mov r14, [rdi + 112]", "mov r15, [rdi + 120]",
    "mov rdi, [rdi + 56]",
    "jmp [rip + {target}]",
    "proven_leave:",
    "cld",
    "mov rsp, [rip + {back}]",
    "pop r15", "pop r14", "pop r13", "pop r12", "pop rbp", "pop rbx",
    "ret",
    back = sym BACK,
    target = sym TARGET,
);
static BACK: AtomicU64 = AtomicU64::new(0);
static TARGET: AtomicU64 = AtomicU64::new(0);
static LEAVE: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C" {
    fn proven_enter(registers: *const [u64; 16], target: u64);
    fn proven_leave();
}

/// The registers in the order of their numbers.
const ORDER: [i32; 16] = [
    libc::REG_RAX,
    libc::REG_RCX,
    libc::REG_RDX,
    libc::REG_RBX,
    libc::REG_RSP,
    libc::REG_RBP,
    libc::REG_RSI,
    libc::REG_RDI,
    libc::REG_R8,
    libc::REG_R9,
    libc::REG_R10,
    libc::REG_R11,
    libc::REG_R12,
    libc::REG_R13,
    libc::REG_R14,
    libc::REG_R15,
];

extern "C" fn trapped(signal: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes the context, valid until the handler returns.
    let registers = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    let rip = registers[libc::REG_RIP as usize] as u64;
    /// The trap flag.
    const STEP: i64 = 0x100;
    if signal == libc::SIGTRAP && rip == LEAVE.load(Ordering::Relaxed) as u64 {
        registers[libc::REG_EFL as usize] &= !STEP;
        return;
    }
    if !(TEXT..TEXT + 4096).contains(&rip) {
        std::process::abort();
    }
    RUN.with_borrow_mut(|run| {
        let Some(run) = run else { std::process::abort() };
        if signal == libc::SIGTRAP && rip != run.pivot + 1 {
            run.inside &= run.parts.iter().any(|part| part.contains(&rip));
            return;
        }
        // SAFETY: the loop's own stack and memory, of these sizes, which outlive the run.
        let (stack, memory) = unsafe {
            let stack = (run.stack - AROUND as u64) as *const u8;
            (
                std::slice::from_raw_parts(stack, 2 * AROUND).to_vec(),
                std::slice::from_raw_parts(run.memory as *const u64, 2 * WORDS).to_vec(),
            )
        };
        let state = State { registers: ORDER.map(|n| registers[n as usize] as u64), stack, memory };
        if signal == libc::SIGTRAP && rip == run.pivot + 1 {
            let visit = run.visits.len();
            run.visits.push(state);
            run.rounds.push(std::mem::replace(&mut run.inside, true));
            if !run.parts.is_empty() {
                registers[libc::REG_EFL as usize] |= STEP;
            }
            if let Some((at, counter, value)) = run.set
                && at == visit
            {
                match counter.place {
                    Place::Register(number) => registers[ORDER[usize::from(number)] as usize] = value as i64,
                    Place::Stack(base, distance) => {
                        let at = registers[ORDER[usize::from(base)] as usize].wrapping_add(distance);
                        // SAFETY: a slot of the loop's own stack.
                        unsafe {
                            match counter.bits {
                                32 => (at as *mut u32).write_unaligned(value as u32),
                                _ => (at as *mut u64).write_unaligned(value),
                            }
                        }
                    }
                }
            }
            if run.visits.len() < ROUNDS_MAX {
                return;
            }
            run.end = Some(End::TooLong);
        } else if signal == libc::SIGILL {
            run.end = Some(End::Left(rip, state));
        } else {
            run.end = Some(End::Fault);
        }
        registers[libc::REG_RIP as usize] = LEAVE.load(Ordering::Relaxed) as i64;
        registers[libc::REG_EFL as usize] &= !STEP;
    });
}

fn prepare() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        LEAVE.store(proven_leave as *const () as usize, Ordering::Relaxed);
        let rights = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
        // SAFETY: a new mapping, which replaces none; the handler changes the place to go on from, and the registers.
        unsafe {
            assert_eq!(libc::mmap(TEXT as *mut _, 4096, rights, flags, -1, 0) as u64, TEXT);
            let mut action: libc::sigaction = core::mem::zeroed();
            action.sa_sigaction = trapped as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            for signal in [libc::SIGTRAP, libc::SIGILL, libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE] {
                assert_eq!(libc::sigaction(signal, &raw const action, core::ptr::null_mut()), 0);
            }
        }
    });
    // The loop's stack pointer may be anything.
    thread_local! {
        static STACK: Box<[u8]> = {
            let stack = vec![0u8; 1 << 17].into_boxed_slice();
            let new = libc::stack_t { ss_sp: stack.as_ptr() as *mut _, ss_flags: 0, ss_size: stack.len() };
            // SAFETY: the memory lives as long as the thread.
            assert_eq!(unsafe { libc::sigaltstack(&raw const new, core::ptr::null_mut()) }, 0);
            stack
        };
    }
    STACK.with(|_| ());
}

/// What is given to a loop.
#[derive(Clone, Debug)]
struct Start {
    registers: [u64; 16],
    /// Above the stack pointer and below it, and then from `rdi` on.
    stack: [u64; 8],
    memory: [u64; 4],
}

/// Runs a loop. Returns the state at each visit, of each whether the thread has come there in the `parts` alone, and the end.
fn run(
    code: &[u8],
    pivot: u64,
    start: &Start,
    parts: &[Range<u64>],
    set: Option<(usize, Counter, u64)>,
) -> (Vec<State>, Vec<bool>, End) {
    prepare();
    let mut stack = vec![0u64; 4096];
    let middle = stack.as_mut_ptr() as u64 + 16384;
    let mut memory = vec![0u64; 2 * WORDS];
    memory[WORDS..WORDS + 4].copy_from_slice(&start.memory);
    stack[2048 - 4..2048 + 4].copy_from_slice(&start.stack);
    let mut registers = start.registers;
    registers[usize::from(RSP)] = middle;
    registers[usize::from(RDI)] = memory.as_ptr() as u64 + 8 * WORDS as u64;
    // SAFETY: the stack is 32 KiB, its pointer in the middle; the text is ours, and nobody else runs it.
    unsafe {
        core::ptr::copy_nonoverlapping(code.as_ptr(), TEXT as *mut u8, code.len());
        (TEXT as *mut u8).add(pivot as usize).write(0xcc);
    }
    let place = Run {
        pivot: TEXT + pivot,
        parts: parts.to_vec(),
        inside: false,
        rounds: Vec::with_capacity(ROUNDS_MAX),
        visits: Vec::with_capacity(ROUNDS_MAX),
        set,
        end: None,
        stack: middle,
        memory: memory.as_ptr() as u64,
    };
    RUN.set(Some(place));
    // SAFETY: the loop ends at an undefined instruction, at a fault, or at its last visit, each of which leads back.
    unsafe { proven_enter(&raw const registers, TEXT) };
    let run = RUN.take().expect("the run");
    // Addresses that differ from run to run do not differ in meaning.
    let relative = |mut state: State| {
        for register in &mut state.registers {
            if register.abs_diff(middle) < 16384 {
                *register = register.wrapping_sub(middle).wrapping_add(0x5_0000_0000);
            } else if register.abs_diff(memory.as_ptr() as u64) < 16384 {
                *register = register.wrapping_sub(memory.as_ptr() as u64).wrapping_add(0x6_0000_0000);
            }
        }
        state
    };
    let end = match run.end.expect("an end") {
        End::Left(at, state) => End::Left(at, relative(state)),
        other => other,
    };
    (run.visits.into_iter().map(relative).collect(), run.rounds, end)
}

fn analyse(code: &[u8], pivot: u64, seed: Seed) -> Finding {
    let built = assemble(TEXT, code, &[TEXT..TEXT + code.len() as u64]);
    let slices = built.slices();
    let image = Segments(&slices);
    Finder::new(Module::new(Machine::X86_64, &image, &built.text, Some(built.header)))
        .analyse(TEXT + pivot, seed)
}

/// What a place holds.
fn read(state: &State, place: Place, bits: u32) -> u64 {
    let value = match place {
        Place::Register(number) => state.registers[usize::from(number)],
        Place::Stack(_, distance) => word(&state.stack, AROUND as i64 + distance),
    };
    if bits == 32 { value & 0xffff_ffff } else { value }
}

fn word(bytes: &[u8], at: i64) -> u64 {
    u64::from_le_bytes(bytes[at as usize..][..8].try_into().expect("eight bytes"))
}

/// What differs between two states.
fn difference(one: &State, other: &State) -> String {
    let registers: Vec<_> = (0..16)
        .filter(|&n| one.registers[n] != other.registers[n])
        .map(|n| (n, one.registers[n], other.registers[n]))
        .collect();
    let stack: Vec<_> = (0..2 * AROUND).filter(|&n| one.stack[n] != other.stack[n]).collect();
    format!("registers {registers:x?}, stack at {stack:?}, memory {}", one.memory != other.memory)
}

/// The bound's value; none if it lies somewhere else than this test knows.
fn bound_of(state: &State, counter: &Counter) -> Option<u64> {
    Some(match counter.bound {
        Bound::Constant(constant) => constant,
        Bound::Place(place, add) => read(state, place, 64).wrapping_add(add as u64),
        Bound::Memory(base, add) => {
            let address = state.registers[usize::from(base?)].wrapping_add(add);
            let at = address.wrapping_sub(0x6_0000_0000);
            let bytes: Vec<u8> = state.memory.iter().flat_map(|word| word.to_le_bytes()).collect();
            if at as usize > bytes.len() - 8 {
                return None;
            }
            word(&bytes, at as i64)
        }
    })
}

/// Checks what was found of a loop, and says what it was.
fn check(code: &[u8], pivot: u64, seed: Seed, start: &Start) -> Result<&'static str, TestCaseError> {
    let Finding::Wait(found) = analyse(code, pivot, seed) else { return Ok("left") };
    if found.pivot != TEXT + pivot {
        return Ok("left");
    }
    // All of the code is a loop, but for the first instruction and the ways out; or only a part of it.
    let exits = code.chunks(2).rev().take_while(|chunk| chunk == &[0x0f, 0x0b]).count() as u64;
    let all: u64 = found.parts.iter().map(|part| part.end - part.start).sum();
    let whole = all + 1 + 2 * exits >= code.len() as u64;
    let parts = if whole { &[][..] } else { &found.parts };
    match found.kind {
        Kind::Unbounded if seed != Seed::Pause => {
            let (visits, rounds, _) = run(code, pivot, start, parts, None);
            for (two, inside) in visits.windows(2).zip(rounds.windows(2)).skip(1) {
                prop_assert!(
                    inside != [true, true] || two[0] == two[1],
                    "a round changed something: {}",
                    difference(&two[0], &two[1])
                );
            }
            Ok(match (visits.len(), whole) {
                (0..=3, _) => "short",
                (_, true) => "unbounded",
                (_, false) => "unbounded, of a part",
            })
        }
        Kind::Counted(counter) => {
            let (visits, rounds, end) = run(code, pivot, start, parts, None);
            let mut kind = "short";
            for at in [1, (visits.len() / 2).max(1)] {
                let Some(state) = visits.get(at).filter(|_| whole || rounds[at]) else { continue };
                let Some(bound) = bound_of(state, &counter) else { continue };
                let value = read(state, counter.place, counter.bits);
                let Some(missing) = counter.missing(value, bound).filter(|&missing| missing > 1) else {
                    continue;
                };
                let set = Some((at, counter, counter.after(value, missing)));
                let (moved, _, moved_end) = run(code, pivot, start, &[], set);
                kind = if whole { "moved" } else { "moved, of a part" };
                let told = format!("{counter:?} at visit {at}: {value} to {bound}, {missing} missing");
                let later = at as u64 + missing;
                if later >= ROUNDS_MAX as u64 {
                    continue;
                }
                prop_assert!(later < visits.len() as u64, "{}: only {} visits", told, visits.len());
                let expected = &visits[later as usize];
                prop_assert!(moved.len() > at + 1, "{}: it left at once", told);
                prop_assert!(
                    *expected == moved[at + 1],
                    "{}: another state: {}",
                    told,
                    difference(expected, &moved[at + 1])
                );
                if end != End::TooLong {
                    // Out of a part, a thread may come back.
                    prop_assert!(!whole || visits.len() as u64 == later + 1, "{}: it went on", told);
                    let (left, moved_left) = (visits.len() - later as usize, moved.len() - (at + 1));
                    prop_assert_eq!(left, moved_left, "{}: another number of rounds", told);
                    prop_assert!(end == moved_end, "{}: another end", told);
                }
            }
            Ok(kind)
        }
        _ => Ok("other"),
    }
}

fn register() -> impl Strategy<Value = u8> {
    prop_oneof![8 => prop::sample::select(vec![0u8, 1, 2, 6, 8]), 2 => prop::sample::select(vec![3u8, 5, 7, 9, 12, 15])]
}

fn slot() -> impl Strategy<Value = i8> {
    prop_oneof![4 => Just(8i8), 2 => Just(16), 1 => Just(12), 1 => Just(-8), 1 => Just(10)]
}

/// Of comparisons of all kinds.
fn cc() -> impl Strategy<Value = u8> {
    prop::sample::select(vec![2u8, 3, 4, 5, 6, 7, 8, 9, 12, 13, 14, 15])
}

/// Anything that may stand in a loop.
fn anything() -> impl Strategy<Value = Op> {
    let (w, r, s) = (any::<bool>, register, slot);
    let word = || 0i8..4;
    prop_oneof![
        prop_oneof![
            4 => (w(), r(), r()).prop_map(|(w, to, from)| Op::MovRr { w, to, from }),
            2 => (r(), -3i32..40).prop_map(|(to, imm)| Op::MovImm { to, imm }),
            1 => (r(), r()).prop_map(|(to, from)| Op::Part8 { to, from }),
            1 => (r(), r()).prop_map(|(to, from)| Op::Part16 { to, from }),
            3 => (w(), 0u8..8, r(), -4i8..9).prop_map(|(w, kind, to, imm)| Op::Imm { w, kind, to, imm }),
            3 => (w(), 0u8..8, r(), r()).prop_map(|(w, kind, to, from)| Op::Rr { w, kind, to, from }),
            2 => (w(), r()).prop_map(|(w, to)| Op::Inc { w, to }),
            2 => (w(), r()).prop_map(|(w, to)| Op::Dec { w, to }),
            1 => (w(), r()).prop_map(|(w, to)| Op::Neg { w, to }),
            3 => (w(), r(), r(), -4i8..9).prop_map(|(w, to, base, add)| Op::Lea { w, to, base, add }),
            1 => (r(), r(), r()).prop_map(|(to, base, index)| Op::LeaIndexed { to, base, index }),
            2 => (w(), r(), r()).prop_map(|(w, to, from)| Op::Test { w, to, from }),
            1 => (cc(), r()).prop_map(|(cc, to)| Op::Setcc { cc, to }),
            1 => (w(), cc(), r(), r()).prop_map(|(w, cc, to, from)| Op::Cmov { w, cc, to, from }),
            1 => (r(), 0u8..8).prop_map(|(to, bit)| Op::Bt { to, bit }),
            1 => r().prop_map(|to| Op::Rol { to }),
            1 => r().prop_map(|to| Op::ShlCl { to }),
            1 => (0u8..3).prop_map(|kind| Op::Carry { kind }),
        ],
        prop_oneof![
            1 => (r(), r()).prop_map(|(to, from)| Op::Movzx8 { to, from }),
            1 => (r(), r()).prop_map(|(to, from)| Op::Movsxd { to, from }),
            1 => (w(), r(), r()).prop_map(|(w, to, from)| Op::Xchg { w, to, from }),
            1 => (w(), r(), r()).prop_map(|(w, to, from)| Op::Xadd { w, to, from }),
            3 => (w(), r(), word()).prop_map(|(w, to, word)| Op::Load { w, to, word }),
            1 => (r(), word()).prop_map(|(to, word)| Op::Load8 { to, word }),
            2 => (w(), r(), word()).prop_map(|(w, to, word)| Op::CmpMem { w, to, word }),
            1 => (w(), word(), r()).prop_map(|(w, word, from)| Op::Store { w, word, from }),
            3 => (w(), s(), r()).prop_map(|(w, at, from)| Op::SlotStore { w, at, from }),
            3 => (w(), r(), s()).prop_map(|(w, to, at)| Op::SlotLoad { w, to, at }),
            2 => (w(), 0u8..8, s(), -2i8..5).prop_map(|(w, kind, at, imm)| Op::SlotImm { w, kind, at, imm }),
            1 => (r(), s()).prop_map(|(to, at)| Op::SlotLea { to, at }),
            1 => (r(), r()).prop_map(|(to, from)| Op::StoreVia { to, from }),
            1 => Just(Op::Lods),
            1 => (r(), r()).prop_map(|(from, to)| Op::PushPop { from, to }),
            3 => (cc(), 0u8..3).prop_map(|(cc, over)| Op::Skip { cc, over }),
            2 => cc().prop_map(|cc| Op::Leave { cc }),
        ],
    ]
}

/// A counter's step, and the comparison with its bound.
fn counting() -> impl Strategy<Value = (Vec<Op>, Vec<Op>)> {
    let step = || prop::sample::select(vec![1i8, 1, 1, -1, -1, -1, 2, 4, -4, 8]);
    let in_register = (any::<bool>(), register(), step(), 0u8..6, 0u8..8, register(), 0i8..4, -3i8..60)
        .prop_map(|(w, counter, step, how, compared, other, word, imm)| {
            let take = match how {
                0 => vec![Op::Inc { w, to: counter }],
                1 => vec![Op::Dec { w, to: counter }],
                2 => vec![Op::Imm { w, kind: 0, to: counter, imm: step }],
                3 => vec![Op::Imm { w, kind: 5, to: counter, imm: step }],
                4 => vec![Op::Lea { w, to: counter, base: counter, add: step }],
                _ => vec![
                    Op::MovRr { w, to: other, from: counter },
                    Op::Lea { w, to: counter, base: other, add: step },
                ],
            };
            let compare = match compared {
                0 | 1 => vec![Op::Rr { w, kind: 7, to: counter, from: other }],
                2 => vec![Op::Imm { w, kind: 7, to: counter, imm }],
                3 => vec![Op::Imm32 { w, kind: 7, to: counter, imm: i32::from(imm) * 1001 }],
                4 => vec![Op::CmpMem { w, to: counter, word }],
                5 => vec![Op::Test { w, to: counter, from: counter }],
                6 => vec![Op::Load { w, to: other, word }, Op::Rr { w, kind: 7, to: other, from: counter }],
                _ => vec![],
            };
            (take, compare)
        });
    let in_slot = (any::<bool>(), slot(), step(), register(), 0u8..3, 0i8..60).prop_map(
        |(w, at, step, other, how, imm)| {
            let take = match how {
                0 => vec![Op::SlotImm { w, kind: 0, at, imm: step }],
                1 => vec![Op::SlotImm { w, kind: 5, at, imm: step }],
                _ => vec![
                    Op::SlotLoad { w, to: other, at },
                    Op::Imm { w, kind: 0, to: other, imm: step },
                    Op::SlotStore { w, at, from: other },
                ],
            };
            let compare = match how {
                0 => vec![Op::SlotImm { w, kind: 7, at, imm }],
                1 => vec![Op::SlotCmp { w, to: other, at }],
                _ => vec![Op::Imm { w, kind: 7, to: other, imm }],
            };
            (take, compare)
        },
    );
    prop_oneof![3 => in_register, 1 => in_slot]
}

/// A loop: its body, and the condition to go back.
fn bounded() -> impl Strategy<Value = (Vec<Op>, Option<u8>)> {
    let extra = prop::collection::vec((any::<prop::sample::Index>(), anything()), 0..4);
    (counting(), any::<bool>(), 0u8..6, cc(), any::<bool>(), extra).prop_map(
        |((take, compare), seen, order, cc, back, extra)| {
            let check = if seen {
                vec![Op::CmpMemImm { w: false, word: 0, imm: 0 }, Op::Leave { cc: 5 }]
            } else {
                vec![
                    Op::Load { w: false, to: 9, word: 0 },
                    Op::Test { w: false, to: 9, from: 9 },
                    Op::Leave { cc: 5 },
                ]
            };
            let pivot = vec![Op::Pivot];
            let (tail, end) =
                if back { (compare, Some(cc)) } else { ([compare, vec![Op::Leave { cc }]].concat(), None) };
            let parts = match order {
                0 => vec![check, pivot, take, tail],
                1 => vec![pivot, check, take, tail],
                2 => vec![check, take, pivot, tail],
                3 => vec![take, check, pivot, tail],
                4 => vec![take, pivot, check, tail],
                _ => vec![pivot, take, check, tail],
            };
            let mut body = parts.concat();
            for (at, op) in extra {
                body.insert(at.index(body.len() + 1), op);
            }
            (body, end)
        },
    )
}

/// A loop without a counter of its own.
fn unbounded() -> impl Strategy<Value = (Vec<Op>, Option<u8>)> {
    let extra = prop::collection::vec((any::<prop::sample::Index>(), anything()), 0..5);
    (any::<bool>(), extra).prop_map(|(seen, extra)| {
        let mut body = vec![Op::Pivot];
        if seen {
            body.push(Op::CmpMemImm { w: false, word: 0, imm: 0 });
        } else {
            body.extend([Op::Load { w: true, to: 0, word: 0 }, Op::Test { w: true, to: 0, from: 0 }]);
        }
        body.push(Op::Leave { cc: 5 });
        for (at, op) in extra {
            body.insert(at.index(body.len() + 1), op);
        }
        (body, None)
    })
}

fn start() -> impl Strategy<Value = Start> {
    let value = || {
        prop_oneof![
            6 => 0u64..50,
            1 => (0u64..12).prop_map(|n| 0u64.wrapping_sub(n)),
            1 => (0u64..12).prop_map(|n| 0xffff_ffff - n),
            1 => (0u64..12).prop_map(|n| 0x7fff_ffff - n),
            1 => (0u64..60).prop_map(|n| n << 32 | n),
        ]
    };
    (prop::array::uniform16(value()), prop::array::uniform8(value()), prop::array::uniform4(value()))
        .prop_map(|(registers, stack, words)| Start {
            registers,
            stack,
            memory: [0, words[1], words[2], words[3]],
        })
}

const PAUSE: &[u8] = &[0xf3, 0x90];
const NOPS: &[u8] = &[0x90; 8];

fn cases(few: u32) -> ProptestConfig {
    let full = std::env::var_os("MANX_FULL").is_some();
    let cases = if full { few * 25 } else { few };
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

#[test]
fn what_is_proven_holds() {
    let mut seen = std::collections::BTreeMap::new();
    let mut runner = proptest::test_runner::TestRunner::new(cases(8_000));
    let counted = RefCell::new(&mut seen);
    let result = runner.run(
        &(prop_oneof![3 => bounded(), 1 => unbounded()], any::<bool>(), start()),
        |((body, end), nops, start)| {
            let (pivot, seed) = if nops { (NOPS, Seed::Nops) } else { (PAUSE, Seed::Pause) };
            if body.iter().any(|op| *op == Op::Pivot) {
                let (code, at) = build(&body, pivot, end);
                let kind = check(&code, at, seed, &start)?;
                *counted.borrow_mut().entry(kind).or_insert(0u32) += 1;
            }
            Ok(())
        },
    );
    if let Err(error) = result {
        panic!("{error}");
    }
    println!("{seen:?}");
    for (kind, least) in [("moved", 80), ("unbounded", 80)] {
        assert!(seen.get(kind).is_some_and(|&times| times >= least), "too few are {kind}: {seen:?}");
    }
}

/// Loops whose counters look like ones and are none, in the order: body, and the condition to go back.
fn impostors() -> Vec<(&'static str, Vec<Op>, Option<u8>)> {
    const RAX: u8 = 0;
    const R8: u8 = 8;
    let (below, not_equal, sign) = (2, 5, 8);
    let check = || vec![Op::CmpMemImm { w: false, word: 0, imm: 0 }, Op::Leave { cc: not_equal }];
    let cmp = |w| Op::Imm { w, kind: 7, to: RAX, imm: 40 };
    let inc = |to| Op::Inc { w: false, to };
    let zero = || Op::Rr { w: false, kind: 6, to: R8, from: R8 };
    let body = |parts: &[&[Op]]| parts.concat();
    vec![
        (
            "a second jump reads the carry flag that INC has kept",
            body(&[
                &check(),
                &[Op::Pivot, zero(), inc(RAX), cmp(false), inc(R8), Op::Skip { cc: below, over: 1 }],
                &[Op::MovImm { to: 6, imm: 1 }, cmp(false), Op::Leave { cc: 4 }],
            ]),
            None,
        ),
        (
            "a second jump reads a flag that BT has kept",
            body(&[
                &check(),
                &[Op::Pivot, inc(RAX), cmp(false), Op::Bt { to: 9, bit: 3 }],
                &[Op::Skip { cc: 4, over: 1 }, Op::MovImm { to: 6, imm: 1 }, cmp(false), Op::Leave { cc: 4 }],
            ]),
            None,
        ),
        (
            "flags of the round before decide",
            body(&[
                &[Op::Pivot, Op::Skip { cc: sign, over: 1 }, Op::MovImm { to: 6, imm: 1 }],
                &check(),
                &[inc(RAX), cmp(false)],
            ]),
            Some(not_equal),
        ),
        (
            "the bound has 32 bits, and the counter 64",
            body(&[
                &check(),
                &[Op::Pivot, Op::Load { w: false, to: 2, word: 2 }, Op::Inc { w: true, to: RAX }],
                &[Op::Rr { w: true, kind: 7, to: RAX, from: 2 }],
            ]),
            Some(below),
        ),
        (
            "the bound is a register of which 32 bits are compared as 64",
            body(&[
                &check(),
                &[Op::Pivot, Op::MovRr { w: false, to: 2, from: 6 }, Op::Inc { w: true, to: RAX }],
                &[Op::Rr { w: true, kind: 7, to: RAX, from: 2 }],
            ]),
            Some(below),
        ),
        (
            "the bound in memory is not read in every round",
            body(&[
                &check(),
                &[Op::Pivot, inc(RAX), Op::CmpMemImm { w: false, word: 1, imm: 0 }],
                &[
                    Op::Skip { cc: 4, over: 2 },
                    Op::CmpMem { w: false, to: RAX, word: 2 },
                    Op::Leave { cc: 4 },
                ],
            ]),
            None,
        ),
        (
            "a slot, and an address of the frame",
            body(&[
                &check(),
                &[Op::Pivot, Op::SlotLea { to: 2, at: 16 }, Op::SlotImm { w: false, kind: 0, at: 8, imm: 1 }],
                &[Op::SlotImm { w: false, kind: 7, at: 8, imm: 40 }],
            ]),
            Some(below),
        ),
        (
            "a copy of a copy",
            body(&[
                &[
                    Op::MovRr { w: false, to: R8, from: RAX },
                    Op::Lea { w: false, to: RAX, base: R8, add: 1 },
                    Op::Pivot,
                ],
                &[Op::SlotStore { w: false, at: 8, from: R8 }],
                &check(),
                &[cmp(false)],
            ]),
            Some(below),
        ),
        (
            "the step is a large number without a sign",
            body(&[&check(), &[Op::Pivot, Op::Imm32 { w: false, kind: 0, to: RAX, imm: -256 }, cmp(false)]]),
            Some(below),
        ),
    ]
}

#[test]
fn impostors_are_left_alone() {
    let real = [
        Op::CmpMemImm { w: false, word: 0, imm: 0 },
        Op::Leave { cc: 5 },
        Op::Pivot,
        Op::Inc { w: false, to: 0 },
        Op::Imm { w: false, kind: 7, to: 0, imm: 40 },
    ];
    let counted = |body: &[Op], end| {
        let (code, pivot) = build(body, PAUSE, end);
        let finding = analyse(&code, pivot, Seed::Pause);
        matches!(finding, Finding::Wait(found) if matches!(found.kind, Kind::Counted(_)))
    };
    assert!(counted(&real, Some(2)), "a counter");
    for (why, body, end) in impostors() {
        assert!(!counted(&body, end), "{why}");
    }
}

/// A counter that steps one by one until its comparison leaves; in it none if it wraps around, none if that takes too long.
fn one_by_one(counter: &Counter, value: u64, bound: u64) -> Option<Option<u64>> {
    use Condition::*;
    let cut = |value: u64| if counter.bits == 32 { value & 0xffff_ffff } else { value };
    let signed = |value: u64| if counter.bits == 32 { i64::from(value as i32) } else { value as i64 };
    let mut now = cut(value.wrapping_add(counter.ahead as u64));
    let bound = cut(bound);
    let is_signed = matches!(counter.goes_on, Less | LessOrEqual | Greater | GreaterOrEqual);
    for steps in 0..600 {
        let goes_on = match counter.goes_on {
            NotEqual => now != bound,
            Below => now < bound,
            BelowOrEqual => now <= bound,
            Above => now > bound,
            AboveOrEqual => now >= bound,
            Less => signed(now) < signed(bound),
            LessOrEqual => signed(now) <= signed(bound),
            Greater => signed(now) > signed(bound),
            GreaterOrEqual => signed(now) >= signed(bound),
        };
        if !goes_on {
            return Some(Some(steps));
        }
        let next = cut(now.wrapping_add(counter.step as u64));
        // Past the end of the numbers.
        let rose = if is_signed { signed(next) > signed(now) } else { next > now };
        if rose != (counter.step > 0) {
            return Some(None);
        }
        now = next;
    }
    None
}

proptest! {
    #![proptest_config(cases(20_000))]

    #[test]
    fn what_is_missing_is_what_steps_take(
        bits in prop::sample::select(vec![32u32, 64]),
        step in 1i64..6,
        ahead in -8i64..9,
        center in prop::sample::select(vec![0u64, 1 << 31, 1 << 32, 1 << 63]),
        value in -300i64..300,
        bound in -300i64..300,
        condition in 0usize..9,
    ) {
        use Condition::*;
        let goes_on =
            [NotEqual, Below, BelowOrEqual, Less, LessOrEqual, Above, AboveOrEqual, Greater, GreaterOrEqual][condition];
        let step = match condition {
            0 => if step % 2 == 0 { 1 } else { -1 },
            1..5 => step,
            _ => -step,
        };
        let cut = |value: u64| if bits == 32 { value & 0xffff_ffff } else { value };
        let (value, bound) = (cut(center.wrapping_add(value as u64)), cut(center.wrapping_add(bound as u64)));
        let counter = Counter {
            place: Place::Register(RCX), bits, step, ahead, bound: Bound::Constant(bound), goes_on, blocks: false,
        };
        let missing = counter.missing(value, bound);
        if let Some(expected) = one_by_one(&counter, value, bound) {
            prop_assert_eq!(missing, expected, "{:?} {} {}", counter, value, bound);
        }
        if let Some(missing) = missing {
            let set = counter.after(value, missing);
            prop_assert_eq!(counter.missing(set, bound), Some(missing.min(1)));
            if missing < 1000 {
                let steps = missing.saturating_sub(1);
                prop_assert_eq!(set, cut((0..steps).fold(value, |now, _| now.wrapping_add(step as u64))));
            }
        }
    }
}
