//! Does a way out of a loop lead to something that blocks?
//!
//! A bounded spin that gives up in order to sleep does so at once: within a few blocks there is a system call, or
//! a call of a function that blocks. A bound that is a timeout leads to an error instead: a message, a return. The
//! difference decides whether a wait may be cut short or has to keep its author's time.
//!
//! Looked at are the blocks behind the way out, the straight code of functions that they call or end in, and the
//! names of functions that either of the two calls through the module's table of imports, directly or by a stub; the
//! caller says which slots of that table belong to functions that block.

use crate::function::Source;
use crate::graph::{Graph, index_of};
use crate::instruction::{Flow, Instruction};
use crate::x86;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use iced_x86::{FlowControl, Mnemonic, OpKind};

/// Blocks behind the way out that are looked at.
const BLOCKS_MAX: usize = 12;
/// Instructions of a called function that are looked at.
const CALLED_MAX: usize = 64;

/// Functions of the C and C++ libraries that let other threads run until something happens.
pub const BLOCKING: [&str; 36] = [
    "_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE",
    "__clock_nanosleep",
    "__nanosleep",
    "__pthread_cond_wait",
    "__pthread_mutex_lock",
    "_ZNSt6thread4joinEv",
    "clock_nanosleep",
    "cnd_timedwait",
    "cnd_wait",
    "epoll_pwait",
    "epoll_wait",
    "futex",
    "mtx_lock",
    "nanosleep",
    "poll",
    "ppoll",
    "pselect",
    "pthread_barrier_wait",
    "pthread_cond_clockwait",
    "pthread_cond_timedwait",
    "pthread_cond_wait",
    "pthread_mutex_clocklock",
    "pthread_mutex_lock",
    "pthread_mutex_timedlock",
    "pthread_rwlock_rdlock",
    "pthread_rwlock_wrlock",
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

/// Whether the code of a function from the address `exit` on blocks soon. `slots` are the addresses of the words
/// that lead to functions that block, in ascending order.
pub(crate) fn blocks(
    source: &Source<'_>,
    instructions: &[Instruction],
    graph: &Graph,
    exit: u64,
    slots: &[u64],
) -> bool {
    let Some(first) = index_of(instructions, exit).and_then(|n| graph.block_of(n)) else {
        return straight(source, exit, slots);
    };
    let mut seen = BTreeSet::from([first]);
    let mut open = Vec::from([first]);
    let mut next = 0;
    while let Some(&block) = open.get(next) {
        next += 1;
        let block = &graph.blocks[block as usize];
        for n in block.instructions.clone() {
            let one = &instructions[n as usize];
            let decoded = x86::decoder(source.image.at(one.address), one.address).decode();
            // A jump out of the function is its last call.
            let stays = matches!(one.flow, Flow::Jump(target) if index_of(instructions, target).is_some());
            if !stays && stops(source, &decoded, slots, true) {
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

/// Whether an instruction blocks, or calls a function that does; with `deep` the functions called directly are
/// looked into.
fn stops(source: &Source<'_>, instruction: &iced_x86::Instruction, slots: &[u64], deep: bool) -> bool {
    let leads = |slot: u64| slots.binary_search(&slot).is_ok();
    match instruction.flow_control() {
        _ if instruction.mnemonic() == Mnemonic::Syscall => true,
        FlowControl::IndirectCall | FlowControl::IndirectBranch => {
            instruction.op0_kind() == OpKind::Memory
                && instruction.is_ip_rel_memory_operand()
                && leads(instruction.ip_rel_memory_address())
        }
        FlowControl::Call | FlowControl::UnconditionalBranch if x86::near(instruction) => {
            let target = instruction.near_branch_target();
            is_stub(source, target, slots) || deep && straight(source, target, slots)
        }
        _ => false,
    }
}

/// Whether the code at an address is the stub of an imported function that blocks.
fn is_stub(source: &Source<'_>, address: u64, slots: &[u64]) -> bool {
    source.text.contains(address)
        && x86::decoder(source.image.at(address), address)
            .into_iter()
            .take(2)
            .find(|one| one.mnemonic() != Mnemonic::Endbr64)
            .is_some_and(|one| {
                one.flow_control() == FlowControl::IndirectBranch && stops(source, &one, slots, false)
            })
}

/// Whether the straight code from an address on blocks: the stub of an imported function, or a small function.
fn straight(source: &Source<'_>, address: u64, slots: &[u64]) -> bool {
    if !source.text.contains(address) {
        return false;
    }
    for instruction in x86::decoder(source.image.at(address), address).into_iter().take(CALLED_MAX) {
        if stops(source, &instruction, slots, false) {
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
    use super::BLOCKING;

    #[test]
    fn no_name_stands_twice() {
        let mut names = BLOCKING.to_vec();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), BLOCKING.len());
    }
}
