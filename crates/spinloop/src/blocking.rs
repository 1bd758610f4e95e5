//! Does an exit of a loop lead to something that blocks?
//!
//! A bounded spin that gives up in order to sleep does so at once: within a few blocks there is a
//! system call, or a call of a function that blocks. A bound that is a timeout leads to an error
//! instead: a message, a return. The difference decides whether a wait may be cut short, or has to
//! last as long as its author meant. A function that reports an error may take a lock, so the
//! taking of a lock counts only in the loop's own function.
//!
//! The search covers the blocks behind the exit, and the straight code of the functions that these
//! blocks call or end in. Both may call functions through the module's table of imports, directly
//! or by a stub. The caller says which slots of that table belong to functions that block.

use crate::frame;
use crate::function::Source;
use crate::graph::{Graph, index_of};
use crate::instruction::{Flow, Instruction};
use crate::x86;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use iced_x86::{FlowControl, Mnemonic, OpKind, Register};

/// The most blocks behind the exit that are searched.
const BLOCKS_MAX: usize = 12;
/// The most instructions of a called function that are searched.
const CALLED_MAX: usize = 64;

/// How a function of another library lets other threads run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Blocks {
    /// Until something happens, or at once.
    Waits,
    /// As long as a lock is held. Functions that report errors take locks as well.
    Locks,
}

/// How a function of the C or the C++ library with this name blocks, if it does.
///
/// ```
/// assert_eq!(spinloop::blocking("pthread_cond_wait"), Some(spinloop::Blocks::Waits));
/// assert_eq!(spinloop::blocking("pthread_mutex_lock"), Some(spinloop::Blocks::Locks));
/// assert_eq!(spinloop::blocking("memcpy"), None);
/// ```
pub fn blocking(name: &str) -> Option<Blocks> {
    if WAITING.contains(&name) {
        Some(Blocks::Waits)
    } else {
        LOCKING.contains(&name).then_some(Blocks::Locks)
    }
}

const LOCKING: [&str; 7] = [
    "__pthread_mutex_lock",
    "mtx_lock",
    "pthread_mutex_clocklock",
    "pthread_mutex_lock",
    "pthread_mutex_timedlock",
    "pthread_rwlock_rdlock",
    "pthread_rwlock_wrlock",
];

const WAITING: [&str; 29] = [
    "_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE",
    "__clock_nanosleep",
    "__nanosleep",
    "__pthread_cond_wait",
    "_ZNSt6thread4joinEv",
    "clock_nanosleep",
    "cnd_timedwait",
    "cnd_wait",
    "epoll_pwait",
    "epoll_wait",
    "futex",
    "nanosleep",
    "poll",
    "ppoll",
    "pselect",
    "pthread_barrier_wait",
    "pthread_cond_clockwait",
    "pthread_cond_timedwait",
    "pthread_cond_wait",
    "sched_yield",
    "select",
    "sem_clockwait",
    "sem_timedwait",
    "sem_wait",
    "sleep",
    // In two halves: this is the C library's function, and no system call of ours.
    concat!("sys", "call"),
    "thrd_sleep",
    "thrd_yield",
    "usleep",
];

/// System calls of x86-64 that let other threads run: poll, select, sched_yield, nanosleep, futex,
/// clock_nanosleep, epoll_wait, pselect6, ppoll, epoll_pwait, futex_waitv, futex_wait.
const CALLS: [u64; 12] = [7, 23, 24, 35, 202, 230, 232, 270, 271, 281, 449, 455];

/// The words of a module that lead to functions that block, in ascending order.
pub(crate) type Slots = [(u64, Blocks)];

/// Whether the code of a function from the address `exit` on blocks soon.
pub(crate) fn blocks(
    source: &Source<'_>,
    instructions: &[Instruction],
    graph: &Graph,
    exit: u64,
    slots: &Slots,
) -> bool {
    let Some(first) = index_of(instructions, exit).and_then(|n| graph.block_of(n)) else {
        return straight(source, exit, slots, true);
    };
    let mut seen = BTreeSet::from([first]);
    let mut open = Vec::from([first]);
    let mut next = 0;
    while let Some(&block) = open.get(next) {
        next += 1;
        let block = &graph.blocks[block as usize];
        let mut path = CodePath { source, slots, own: true, number: None };
        for n in block.instructions.clone() {
            let one = &instructions[n as usize];
            let decoded = frame::decoded(source.image, one);
            // A jump out of the function is its last call.
            let stays = matches!(one.flow, Flow::Jump(target) if index_of(instructions, target).is_some());
            if !stays && path.blocks(&decoded) {
                return true;
            }
        }
        for successor in block.successors() {
            if seen.len() < BLOCKS_MAX && seen.insert(successor) {
                open.push(successor);
            }
        }
    }
    false
}

/// A path through code that is followed, instruction by instruction.
struct CodePath<'a> {
    source: &'a Source<'a>,
    slots: &'a Slots,
    /// The path is in the loop's own function. A function that it calls may report an error, and
    /// take a lock for that.
    own: bool,
    /// The number that was loaded last for a system call, if it is known.
    number: Option<u64>,
}

impl CodePath<'_> {
    /// Whether an instruction blocks, or calls a function that does.
    fn blocks(&mut self, instruction: &iced_x86::Instruction) -> bool {
        if instruction.mnemonic() == Mnemonic::Mov
            && instruction.op0_kind() == OpKind::Register
            && matches!(instruction.op0_register(), Register::EAX | Register::RAX)
        {
            self.number = instruction.try_immediate(1).ok();
        }
        match instruction.flow_control() {
            _ if instruction.mnemonic() == Mnemonic::Syscall => {
                self.number.is_none_or(|number| CALLS.contains(&number))
            }
            FlowControl::IndirectCall | FlowControl::IndirectBranch => {
                instruction.op0_kind() == OpKind::Memory
                    && instruction.is_ip_rel_memory_operand()
                    && self.is_blocking(instruction.ip_rel_memory_address())
            }
            FlowControl::Call | FlowControl::UnconditionalBranch if x86::near(instruction) => {
                let target = instruction.near_branch_target();
                self.is_stub(target) || self.own && straight(self.source, target, self.slots, false)
            }
            _ => false,
        }
    }

    /// Whether the slot belongs to a function that blocks.
    fn is_blocking(&self, slot: u64) -> bool {
        let found = self.slots.binary_search_by_key(&slot, |&(slot, _)| slot);
        found.is_ok_and(|n| self.own || self.slots[n].1 == Blocks::Waits)
    }

    /// Whether the code at an address is the stub of an imported function that blocks.
    fn is_stub(&self, address: u64) -> bool {
        self.source.text.contains(address)
            && x86::decoder(self.source.image.at(address), address)
                .into_iter()
                .take(2)
                .find(|one| one.mnemonic() != Mnemonic::Endbr64)
                .is_some_and(|one| {
                    one.flow_control() == FlowControl::IndirectBranch
                        && one.op0_kind() == OpKind::Memory
                        && one.is_ip_rel_memory_operand()
                        && self.is_blocking(one.ip_rel_memory_address())
                })
    }
}

/// Whether the straight code from an address on blocks. `own`: it belongs to the loop's own
/// function.
fn straight(source: &Source<'_>, address: u64, slots: &Slots, own: bool) -> bool {
    if !source.text.contains(address) {
        return false;
    }
    let mut path = CodePath { source, slots, own, number: None };
    for instruction in x86::decoder(source.image.at(address), address).into_iter().take(CALLED_MAX) {
        if path.blocks(&instruction) {
            return true;
        }
        let ends = !matches!(
            instruction.flow_control(),
            FlowControl::Next
                | FlowControl::ConditionalBranch
                | FlowControl::Call
                | FlowControl::IndirectCall
        );
        if instruction.is_invalid() || ends {
            return false;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::{LOCKING, WAITING};

    #[test]
    fn no_name_stands_twice() {
        let mut names = [LOCKING.as_slice(), &WAITING].concat();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), LOCKING.len() + WAITING.len());
    }
}
