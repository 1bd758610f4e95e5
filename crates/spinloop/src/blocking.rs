//! Does an exit of a loop lead to something that blocks for what the loop waits for?
//!
//! A bounded spin that gives up in order to sleep does so at once: within a few blocks there is a
//! system call, or a call of a function that blocks. A bound that is a timeout leads to an error
//! instead: a message, a return. The difference decides whether a wait may be cut short, or has to
//! last as long as its author meant. But what follows a timeout may block as well: it takes a lock
//! to count the error, sleeps before it is told, writes a message. So it counts only
//!
//! 1. if it sleeps *until another thread wakes it* ([`Blocks::Event`]): a futex, a condition
//!    variable, a semaphore. That is what bounded spins are written in front of;
//! 2. or if *the wait goes on behind it* ([`Blocks::Turn`]): the thread sleeps for a time, yields,
//!    or takes a lock, and then comes back to the loop, or to the same call. On its way nothing
//!    changes that lasts: no memory but the function's own is written, and no other function is
//!    called. And no counter ends that: a number of tries is a timeout, too.
//!
//! In doubt nothing blocks, and the author's time is kept.
//!
//! The search covers the blocks behind the exit, and the straight code of the functions that these
//! blocks call or end in. Both may call functions through the module's table of imports, directly
//! or by a stub. The caller says which slots of that table belong to functions that block.

use crate::exits;
use crate::frame;
use crate::graph::{Graph, index_of};
use crate::instruction::Flow;
use crate::rounds::{Region, Rounds};
use crate::source::Source;
use crate::x86;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use iced_x86::{FlowControl, InstructionInfoFactory, Mnemonic, OpKind, Register};

/// The most blocks behind the exit that are searched.
const BLOCKS_MAX: usize = 12;
/// The most instructions of a called function that are searched.
const CALLED_MAX: usize = 64;

/// What a function that is called through the table of imports means for a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Blocks {
    /// Sleeps until another thread wakes it.
    Event,
    /// Lets other threads run: for a time, or at once.
    Turn,
    /// As long as a lock is held. Functions that report errors take locks as well.
    Lock,
    /// Releases a lock: it does not block, and nothing of it lasts.
    Release,
    /// Takes a lock if it is free.
    Try,
    /// Tells the time.
    Clock,
    /// It is the module's own function at this address, unless another module takes its place.
    Own(u64),
    /// The C library's `syscall`: its first argument says which.
    SystemCall,
}

/// How a function of the C or the C++ library with this name blocks, or ends what blocked.
///
/// ```
/// assert_eq!(spinloop::blocking("pthread_cond_wait"), Some(spinloop::Blocks::Event));
/// assert_eq!(spinloop::blocking("sched_yield"), Some(spinloop::Blocks::Turn));
/// assert_eq!(spinloop::blocking("pthread_mutex_lock"), Some(spinloop::Blocks::Lock));
/// assert_eq!(spinloop::blocking("memcpy"), None);
/// ```
pub fn blocking(name: &str) -> Option<Blocks> {
    let lists: [(&[&str], Blocks); 7] = [
        (&EVENTS, Blocks::Event),
        (&TURNS, Blocks::Turn),
        (&LOCKS, Blocks::Lock),
        (&RELEASES, Blocks::Release),
        (&TRIES, Blocks::Try),
        (&CLOCKS, Blocks::Clock),
        (&SYSTEM_CALL, Blocks::SystemCall),
    ];
    lists.into_iter().find(|(names, _)| names.contains(&name)).map(|(_, blocks)| blocks)
}

const EVENTS: [&str; 11] = [
    "_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE",
    "__pthread_cond_wait",
    "cnd_timedwait",
    "cnd_wait",
    "futex",
    "pthread_cond_clockwait",
    "pthread_cond_timedwait",
    "pthread_cond_wait",
    "sem_clockwait",
    "sem_timedwait",
    "sem_wait",
];

const TURNS: [&str; 15] = [
    "__clock_nanosleep",
    "__nanosleep",
    "clock_nanosleep",
    "epoll_pwait",
    "epoll_wait",
    "nanosleep",
    "poll",
    "ppoll",
    "pselect",
    "sched_yield",
    "select",
    "sleep",
    "thrd_sleep",
    "thrd_yield",
    "usleep",
];

const LOCKS: [&str; 8] = [
    "__pthread_mutex_lock",
    "mtx_lock",
    "pthread_mutex_clocklock",
    "pthread_mutex_lock",
    "pthread_mutex_timedlock",
    "pthread_rwlock_rdlock",
    "pthread_rwlock_wrlock",
    "pthread_spin_lock",
];

const RELEASES: [&str; 5] = [
    "__pthread_mutex_unlock",
    "mtx_unlock",
    "pthread_mutex_unlock",
    "pthread_rwlock_unlock",
    "pthread_spin_unlock",
];

const TRIES: [&str; 6] = [
    "__pthread_mutex_trylock",
    "mtx_trylock",
    "pthread_mutex_trylock",
    "pthread_rwlock_tryrdlock",
    "pthread_rwlock_trywrlock",
    "pthread_spin_trylock",
];

const CLOCKS: [&str; 6] = [
    "_ZNSt6chrono3_V212steady_clock3nowEv",
    "_ZNSt6chrono3_V212system_clock3nowEv",
    "clock_gettime",
    "gettimeofday",
    "time",
    "timespec_get",
];

// In two halves: this is the C library's function, and no system call of ours.
const SYSTEM_CALL: [&str; 1] = [concat!("sys", "call")];

/// What a system call of x86-64 with this number and this second argument means for a wait.
fn system_call(number: Option<u64>, operation: Option<u64>) -> Step {
    /// poll, select, sched_yield, nanosleep, clock_nanosleep, epoll_wait, pselect6, ppoll,
    /// epoll_pwait.
    const TURNS: [u64; 9] = [7, 23, 24, 35, 230, 232, 270, 271, 281];
    const FUTEX: u64 = 202;
    /// futex_waitv, futex_wait.
    const WAITS: [u64; 2] = [449, 455];
    /// FUTEX_WAIT, FUTEX_LOCK_PI, FUTEX_WAIT_BITSET, FUTEX_WAIT_REQUEUE_PI, FUTEX_LOCK_PI2, without
    /// the flags that are set in an operation.
    const SLEEPS: [u64; 5] = [0, 6, 9, 11, 13];
    match number {
        Some(FUTEX) if operation.is_none_or(|operation| SLEEPS.contains(&(operation & 0x7f))) => Step::Event,
        Some(number) if WAITS.contains(&number) => Step::Event,
        Some(number) if TURNS.contains(&number) => Step::Turn,
        _ => Step::Lasts,
    }
}

/// The words of a module that lead to functions that block, in ascending order.
pub(crate) type Slots = [(u64, Blocks)];

/// What some code does, as far as a wait is concerned.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Changes nothing that lasts.
    Plain,
    /// Lets other threads run, and changes nothing that lasts.
    Turn,
    /// Sleeps until another thread wakes it, whatever it has done before.
    Event,
    /// May change something that lasts, or do anything.
    Lasts,
}

/// Whether the code from the address `exit` on blocks soon for what the loop of `rounds` waits for.
pub(crate) fn blocks(source: &Source<'_>, rounds: Rounds<'_>, exit: u64, slots: &Slots) -> bool {
    let Rounds { image, instructions, graph, region, .. } = rounds;
    let Some(first) = index_of(instructions, exit).and_then(|n| graph.block_of(n)) else {
        return straight(source, exit, slots, Constants::default()) == Step::Event;
    };
    let framed = frame::has_pointer(image, instructions);
    let step = |block: u32| {
        let before = |register| constant_before(rounds, block, register);
        let mut path =
            CodePath { source, slots, own: true, framed, constants: Constants::default(), before: &before };
        let mut all = Step::Plain;
        for n in graph.blocks[block as usize].instructions.clone() {
            let one = &instructions[n as usize];
            // A jump out of the function is its last call.
            let stays = matches!(one.flow, Flow::Jump(target) if index_of(instructions, target).is_some());
            let step = if stays { Step::Plain } else { path.take(&frame::decoded(image, one)) };
            match step {
                Step::Event => return Step::Event,
                Step::Lasts => all = Step::Lasts,
                Step::Turn if all == Step::Plain => all = Step::Turn,
                Step::Turn | Step::Plain => {}
            }
        }
        all
    };
    let mut steps = BTreeMap::from([(first, step(first))]);
    let mut open = Vec::from([first]);
    let mut next = 0;
    while let Some(&block) = open.get(next) {
        next += 1;
        if steps[&block] == Step::Event {
            return true;
        }
        for successor in graph.blocks[block as usize].successors() {
            let is_new = !steps.contains_key(&successor) && !region.contains(successor);
            if steps.len() < BLOCKS_MAX && is_new {
                steps.insert(successor, step(successor));
                open.push(successor);
            }
        }
    }
    goes_on(source, rounds, first, &steps)
}

/// By 2 of the file's text: whether a way on which nothing lasts leads from the block `first` past
/// one that lets others run, and back to the loop or to that block; and no counter ends that.
fn goes_on(source: &Source<'_>, rounds: Rounds<'_>, first: u32, steps: &BTreeMap<u32, Step>) -> bool {
    let Rounds { graph, region, .. } = rounds;
    let is_plain = |block: u32| matches!(steps.get(&block), Some(Step::Plain | Step::Turn));
    let from = |start: u32, to: &dyn Fn(u32) -> bool| reaching(graph, start, &is_plain, to);
    let is_bounded = |round: &BTreeSet<u32>, inner: &[u32], pivot: u32| {
        let asked: Vec<u32> = round.iter().copied().collect();
        let blocks: BTreeSet<u32> = round.iter().chain(inner).copied().collect();
        let around = Region { blocks: blocks.into_iter().collect(), head: first, latch: first };
        exits::depend_on_rounds(source.machine, Rounds { region: &around, pivot, ..rounds }, &asked)
    };
    let back = from(first, &|block| region.contains(block));
    if back.iter().any(|block| steps[block] == Step::Turn) {
        return !is_bounded(&back, &region.blocks, rounds.pivot);
    }
    let reached = from(first, &is_plain);
    let turns = reached.iter().copied().filter(|block| steps[block] == Step::Turn);
    turns.into_iter().any(|turn| {
        let round = from(turn, &|block| block == turn);
        let call = graph.blocks[turn as usize].instructions.end - 1;
        !round.is_empty() && !is_bounded(&round, &[], call)
    })
}

/// The blocks that lie on a way from the block `start` to one of those that `to` tells, over blocks
/// that `may_pass` tells; `start` is one of these.
fn reaching(
    graph: &Graph,
    start: u32,
    may_pass: &dyn Fn(u32) -> bool,
    to: &dyn Fn(u32) -> bool,
) -> BTreeSet<u32> {
    let mut reached = BTreeSet::new();
    let mut open = Vec::from([start]);
    while let Some(block) = open.pop() {
        if may_pass(block) && reached.insert(block) {
            open.extend(graph.blocks[block as usize].successors());
        }
    }
    let mut found = BTreeSet::new();
    loop {
        let leads = |block: &u32| {
            graph.blocks[*block as usize].successors().any(|next| to(next) || found.contains(&next))
        };
        let more: Vec<u32> =
            reached.iter().copied().filter(|block| !found.contains(block) && leads(block)).collect();
        if more.is_empty() {
            return found;
        }
        found.extend(more);
    }
}

/// Registers that a path has written, each with its value if that is known.
type Constants = BTreeMap<Register, Option<u64>>;

/// The constant that a register holds where the block begins, if all ways there give it the same:
/// the number of a system call may be loaded long before.
fn constant_before(rounds: Rounds<'_>, block: u32, register: Register) -> Option<u64> {
    let Rounds { image, instructions, graph, .. } = rounds;
    let mut constants = BTreeSet::new();
    let mut seen = BTreeSet::new();
    let mut open = graph.predecessors(block).to_vec();
    if open.is_empty() {
        return None;
    }
    while let Some(block) = open.pop() {
        if !seen.insert(block) {
            continue;
        }
        let own = graph.blocks[block as usize].instructions.clone();
        let writer = own
            .rev()
            .map(|n| &instructions[n as usize])
            .find(|one| x86::effect(one.bytes(image), one.address).writes.intersects(x86::bit(register)));
        match (writer.map(|one| frame::decoded(image, one)), graph.predecessors(block)) {
            (Some(writer), _) => {
                let is_load = writer.mnemonic() == Mnemonic::Mov && writer.op0_kind() == OpKind::Register;
                constants.insert(writer.try_immediate(1).ok().filter(|_| is_load)?);
            }
            (None, []) => return None,
            (None, before) => open.extend_from_slice(before),
        }
    }
    constants.pop_first().filter(|_| constants.is_empty())
}

/// Registers that a call may change.
const VOLATILE: [Register; 9] = [
    Register::RAX,
    Register::RCX,
    Register::RDX,
    Register::RSI,
    Register::RDI,
    Register::R8,
    Register::R9,
    Register::R10,
    Register::R11,
];

/// Registers that a system call may change.
const BY_SYSTEM_CALLS: [Register; 3] = [Register::RAX, Register::RCX, Register::R11];

/// A path through code that is followed, instruction by instruction.
struct CodePath<'a> {
    source: &'a Source<'a>,
    slots: &'a Slots,
    /// The path is in the loop's own function. A function that it calls may report an error, and
    /// take a lock for that.
    own: bool,
    /// `rbp` is a frame pointer.
    framed: bool,
    constants: Constants,
    /// What a register holds where the path begins.
    before: &'a dyn Fn(Register) -> Option<u64>,
}

impl CodePath<'_> {
    /// Takes the next instruction in.
    fn take(&mut self, instruction: &iced_x86::Instruction) -> Step {
        let step = self.step(instruction);
        let written: &[Register] = match instruction.flow_control() {
            _ if instruction.mnemonic() == Mnemonic::Syscall => &BY_SYSTEM_CALLS,
            FlowControl::Call | FlowControl::IndirectCall => &VOLATILE,
            _ => &[],
        };
        if !written.is_empty() {
            self.constants.extend(written.iter().map(|&register| (register, None)));
            return step;
        }
        let is_copy = instruction.mnemonic() == Mnemonic::Mov && instruction.op1_kind() == OpKind::Register;
        let copied = if is_copy { self.constant(instruction.op1_register()) } else { None };
        let mut lasts = false;
        let mut factory = InstructionInfoFactory::new();
        let info = factory.info(instruction);
        for used in info.used_registers().iter().filter(|used| x86::access(used.access()).1) {
            self.constants.insert(used.register().full_register(), None);
        }
        for used in info.used_memory().iter().filter(|used| x86::access(used.access()).1) {
            let base = used.base().full_register();
            let own = base == Register::RSP || self.framed && base == Register::RBP;
            lasts |= !own || used.index() != Register::None;
        }
        if instruction.op0_kind() == OpKind::Register {
            let register = instruction.op0_register().full_register();
            let value = match instruction.mnemonic() {
                Mnemonic::Mov => copied.or_else(|| instruction.try_immediate(1).ok()),
                Mnemonic::Xor if x86::is_one_register(instruction) => Some(0),
                _ => None,
            };
            self.constants.extend(value.map(|value| (register, Some(value))));
        }
        if step == Step::Plain && lasts { Step::Lasts } else { step }
    }

    fn constant(&self, register: Register) -> Option<u64> {
        let register = register.full_register();
        self.constants.get(&register).copied().unwrap_or_else(|| (self.before)(register))
    }

    /// What the instruction does, but for what it writes.
    fn step(&self, instruction: &iced_x86::Instruction) -> Step {
        match instruction.flow_control() {
            _ if instruction.mnemonic() == Mnemonic::Syscall => {
                system_call(self.constant(Register::RAX), self.constant(Register::RSI))
            }
            FlowControl::IndirectCall | FlowControl::IndirectBranch => {
                let slot = instruction.op0_kind() == OpKind::Memory && instruction.is_ip_rel_memory_operand();
                slot.then(|| self.imported(instruction.ip_rel_memory_address())).flatten()
            }
            .unwrap_or(Step::Lasts),
            FlowControl::Call | FlowControl::UnconditionalBranch if x86::near(instruction) => {
                let target = instruction.near_branch_target();
                match self.stub(target) {
                    Some(step) => step,
                    None if self.own => straight(self.source, target, self.slots, self.constants.clone()),
                    None => Step::Lasts,
                }
            }
            FlowControl::Call | FlowControl::Interrupt | FlowControl::Exception => Step::Lasts,
            _ => Step::Plain,
        }
    }

    /// What the imported function does to which this slot leads, if it is a known one.
    fn imported(&self, slot: u64) -> Option<Step> {
        let found = self.slots.binary_search_by_key(&slot, |&(slot, _)| slot).ok()?;
        Some(match self.slots[found].1 {
            Blocks::Event => Step::Event,
            Blocks::Turn => Step::Turn,
            Blocks::Lock if self.own => Step::Turn,
            Blocks::Release if self.own => Step::Plain,
            Blocks::Lock | Blocks::Release | Blocks::Try | Blocks::Clock | Blocks::Own(_) => Step::Lasts,
            Blocks::SystemCall => system_call(self.constant(Register::RDI), self.constant(Register::RDX)),
        })
    }

    /// The same, if the code at an address is the stub of an imported function.
    fn stub(&self, address: u64) -> Option<Step> {
        let slot = x86::stub(self.source.image.at(address), address);
        slot.filter(|_| self.source.text.contains(address)).and_then(|slot| self.imported(slot))
    }
}

/// What the straight code of another function does that is entered at an address with these
/// constants, up to the first call that blocks.
fn straight(source: &Source<'_>, address: u64, slots: &Slots, constants: Constants) -> Step {
    if !source.text.contains(address) {
        return Step::Lasts;
    }
    let mut path = CodePath { source, slots, own: false, framed: false, constants, before: &|_| None };
    let mut lasts = false;
    for instruction in x86::decoder(source.image.at(address), address).into_iter().take(CALLED_MAX) {
        path.framed |= instruction.mnemonic() == Mnemonic::Mov
            && instruction.op0_register() == Register::RBP
            && instruction.op1_register() == Register::RSP;
        match path.take(&instruction) {
            Step::Event => return Step::Event,
            Step::Turn if !lasts => return Step::Turn,
            Step::Turn | Step::Lasts => lasts = true,
            Step::Plain => {}
        }
        let ends = !matches!(
            instruction.flow_control(),
            FlowControl::Next
                | FlowControl::ConditionalBranch
                | FlowControl::Call
                | FlowControl::IndirectCall
        );
        if instruction.is_invalid() || ends {
            break;
        }
    }
    Step::Lasts
}

#[cfg(test)]
mod tests {
    use super::{EVENTS, LOCKS, RELEASES, SYSTEM_CALL, TURNS};

    #[test]
    fn no_name_stands_twice() {
        let all = [EVENTS.as_slice(), &TURNS, &LOCKS, &RELEASES, &SYSTEM_CALL].concat();
        let mut names = all.clone();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all.len());
    }
}
