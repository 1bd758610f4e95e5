//! Runs loops in this process, on a stack and memory of their own.

use proptest::prelude::*;
use spinloop::{Counter, Place};
use std::cell::RefCell;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Where loops run.
pub const TEXT: u64 = 0x2000_0000;
const RSP: u8 = 4;
const RDI: u8 = 7;
/// The mapping: a page of text, the stack, the memory.
const BYTES: usize = 0x10000;
/// The stack pointer.
const STACK: u64 = TEXT + 0x6000;
/// The address in `rdi`.
pub const MEMORY: u64 = TEXT + 0xc000;
/// Words of memory below and above the address in `rdi`.
pub const WORDS: usize = 512;
/// Bytes of stack below and above the stack pointer that are compared.
pub const AROUND: usize = 256;
pub const ROUNDS_MAX: usize = 72;

/// What a loop sees and leaves: sixteen registers, the stack around the stack pointer, the memory
/// around `rdi`.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    pub registers: [u64; 16],
    pub stack: Vec<u8>,
    pub memory: Vec<u64>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum End {
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
}

thread_local! {
    static RUN: RefCell<Option<Run>> = const { RefCell::new(None) };
}

core::arch::global_asm!(
    // Global: what calls it may be compiled into another object file.
    ".globl proven_enter", ".globl proven_leave",
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
            let stack = (STACK - AROUND as u64) as *const u8;
            (
                std::slice::from_raw_parts(stack, 2 * AROUND).to_vec(),
                std::slice::from_raw_parts((MEMORY - 8 * WORDS as u64) as *const u64, 2 * WORDS).to_vec(),
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
        // SAFETY: a new mapping, which replaces none; the handler changes the place to go on from,
        // and the registers.
        unsafe {
            assert_eq!(libc::mmap(TEXT as *mut _, BYTES, rights, flags, -1, 0) as u64, TEXT);
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
pub struct Start {
    pub registers: [u64; 16],
    /// Above the stack pointer and below it, and then from `rdi` on.
    stack: [u64; 8],
    memory: [u64; 4],
}

/// Runs a loop. Returns the state at each visit, of each whether the thread has come there in the
/// `parts` alone, and the end.
pub fn run(
    code: &[u8],
    pivot: u64,
    start: &Start,
    parts: &[Range<u64>],
    set: Option<(usize, Counter, u64)>,
) -> (Vec<State>, Vec<bool>, End) {
    prepare();
    let mut registers = start.registers;
    registers[usize::from(RSP)] = STACK;
    registers[usize::from(RDI)] = MEMORY;
    // SAFETY: the mapping is ours, and no other thread uses it. All runs see the same addresses.
    unsafe {
        (TEXT as *mut u8).write_bytes(0, BYTES);
        core::ptr::copy_nonoverlapping(start.stack.as_ptr(), (STACK - 32) as *mut u64, start.stack.len());
        core::ptr::copy_nonoverlapping(start.memory.as_ptr(), MEMORY as *mut u64, start.memory.len());
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
    };
    RUN.set(Some(place));
    // SAFETY: the loop ends at an undefined instruction, at a fault, or at its last visit, each of
    // which leads back.
    unsafe { proven_enter(&raw const registers, TEXT) };
    let run = RUN.take().expect("the run");
    (run.visits, run.rounds, run.end.expect("an end"))
}

pub fn start() -> impl Strategy<Value = Start> {
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
