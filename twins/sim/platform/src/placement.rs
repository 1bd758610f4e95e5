//! On which CPU a thread runs.
//!
//! Linux decides by more than is modelled here. The simplest rule that does the same in the usual
//! case stands for it:
//!
//! | Linux | here |
//! | --- | --- |
//! | a new thread begins on the idlest CPU | the same; of equal ones on a fast one |
//! | a thread that wakes up runs on its last CPU, if that is idle, or on an idle CPU that shares its cache, or where it was woken, or where it was, whichever has fewer threads | the same |
//! | a CPU that has nothing to run takes a thread from the fullest one, unless it ran there just now | the same |
//! | busy CPUs are balanced now and then | one thread goes from the fullest to the emptiest (`Kernel::balance`) |
//!
//! Of equal CPUs the one with the lowest number is taken, so that a run is the same each time.

use crate::eevdf::Id;
use crate::processor::Processor;
use crate::task::Task;
use std::cmp::Reverse;

/// A thread that goes from one CPU to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// The thread
    pub id: Id,
    /// From this CPU
    pub from: usize,
    /// … to this one
    pub to: usize,
}

/// Where a thread begins.
pub fn of_new(processors: &[Processor], task: &Task) -> usize {
    let load = |cpu: &usize| (processors[*cpu].queue.runnable(), -(1e6 * processors[*cpu].cpu.speed) as i64);
    task.cpus().min_by_key(load).expect("a CPU")
}

/// Where a thread goes that may not stay on its CPU.
pub fn of_moved(processors: &[Processor], task: &Task) -> usize {
    task.cpus().min_by_key(|cpu| processors[*cpu].queue.runnable()).expect("a CPU")
}

/// Where a thread runs that is woken from the CPU `waker`.
pub fn of_woken(processors: &[Processor], task: &Task, waker: usize) -> usize {
    let last = task.cpu;
    // It is still queued there, and burns what it was ahead.
    if task.entity.is_none() || processors[last].is_idle() && task.allowed[last] {
        return last;
    }
    let is_near = |cpu: &usize| processors[*cpu].cpu.group == processors[last].cpu.group;
    let idle = task.cpus().find(|cpu| processors[*cpu].is_idle() && is_near(cpu));
    idle.unwrap_or_else(|| {
        let two = [last, waker].into_iter().filter(|cpu| task.allowed[*cpu]);
        let least = two.min_by_key(|cpu| (processors[*cpu].queue.runnable(), *cpu != last));
        least.unwrap_or_else(|| of_moved(processors, task))
    })
}

/// The thread that a CPU takes that has nothing to run: one that has not run for `hot_ns`.
pub fn to_idle(processors: &[Processor], tasks: &[Task], to: usize, now: u64, hot_ns: u64) -> Option<Move> {
    let is_cold = |task: &Task| now.saturating_sub(task.ran_at) >= hot_ns;
    let is_fit = |id: &Id| tasks[*id].allowed[to] && is_cold(&tasks[*id]);
    let has_any = |from: &usize| processors[*from].queue.waiting().any(|id| is_fit(&id));
    let is_near = |from: &usize| processors[*from].cpu.group == processors[to].cpu.group;
    let full = (0..processors.len()).filter(|from| *from != to && has_any(from));
    let from = full.max_by_key(|from| (is_near(from), processors[*from].queue.runnable(), Reverse(*from)))?;
    longest(processors, tasks, from, is_fit).map(|id| Move { id, from, to })
}

/// The fullest CPU and the emptiest.
pub fn extremes(processors: &[Processor]) -> (usize, usize) {
    let load = |cpu: &usize| processors[*cpu].queue.runnable();
    let cpus = 0..processors.len();
    let fullest = cpus.clone().max_by_key(|cpu| (load(cpu), Reverse(*cpu)));
    (fullest.unwrap_or(0), cpus.min_by_key(load).unwrap_or(0))
}

/// The thread that goes from one CPU to another, if one may.
pub fn to_balance(processors: &[Processor], tasks: &[Task], from: usize, to: usize) -> Option<Move> {
    longest(processors, tasks, from, |id| tasks[*id].allowed[to]).map(|id| Move { id, from, to })
}

/// The thread that has waited longest on a CPU, of those that are fit.
fn longest(
    processors: &[Processor],
    tasks: &[Task],
    from: usize,
    is_fit: impl Fn(&Id) -> bool,
) -> Option<Id> {
    processors[from].queue.waiting().filter(is_fit).min_by_key(|id| tasks[*id].ready_at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eevdf::{Entity, WEIGHT};
    use crate::machine::Machine;

    /// Each of these CPUs of an M1 runs a thread, and has one that waits.
    fn crowded(cpus: &[usize]) -> (Vec<Processor>, Vec<Task>) {
        let machine = Machine::known("m1").expect("a machine");
        let mut processors: Vec<Processor> = machine.cpus().into_iter().map(Processor::new).collect();
        let mut tasks = Vec::new();
        for cpu in cpus {
            for _ in 0..2 {
                let task = Task::new(tasks.len(), &machine, *cpu, vec![true; processors.len()]);
                processors[*cpu].queue.add(Entity::new(tasks.len(), WEIGHT, 1_000_000));
                tasks.push(task);
            }
            processors[*cpu].current = processors[*cpu].queue.choose(|_| ());
        }
        (processors, tasks)
    }

    #[test]
    fn a_woken_thread_prefers_its_last_cpu_then_an_idle_one_near_it() {
        let (processors, mut tasks) = crowded(&[0, 1]);
        assert_eq!(of_woken(&processors, &tasks[0], 1), 2, "0 is busy, 2 shares its cache");
        tasks[0].cpu = 5;
        assert_eq!(of_woken(&processors, &tasks[0], 1), 5, "it is idle");
        tasks[0].entity = None;
        tasks[0].cpu = 0;
        assert_eq!(of_woken(&processors, &tasks[0], 1), 0, "it is still queued there");
        let (processors, mut tasks) = crowded(&[0, 1, 2, 3]);
        assert_eq!(of_woken(&processors, &tasks[2], 3), 1, "no idle CPU is near");
        tasks[2].allowed = vec![false, false, true, false, false, false, false, false];
        assert_eq!(of_woken(&processors, &tasks[2], 3), 2, "it may run nowhere else");
    }

    #[test]
    fn an_idle_cpu_takes_what_is_cold_and_near() {
        let (processors, mut tasks) = crowded(&[0, 5]);
        assert_eq!(to_idle(&processors, &tasks, 6, 9, 5), Some(Move { id: 3, from: 5, to: 6 }));
        tasks[3].ran_at = 7;
        assert_eq!(to_idle(&processors, &tasks, 6, 9, 5), Some(Move { id: 1, from: 0, to: 6 }), "3 is hot");
        tasks[1].allowed[6] = false;
        assert_eq!(to_idle(&processors, &tasks, 6, 9, 5), None);
        assert_eq!(extremes(&processors), (0, 1));
        assert_eq!(to_balance(&processors, &tasks, 0, 1), Some(Move { id: 1, from: 0, to: 1 }));
    }

    #[test]
    fn a_new_thread_begins_on_a_fast_idle_cpu() {
        let (processors, tasks) = crowded(&[0, 1, 2]);
        assert_eq!((of_new(&processors, &tasks[0]), of_moved(&processors, &tasks[0])), (3, 3));
        let (processors, tasks) = crowded(&[0, 1, 2, 3]);
        assert_eq!(of_new(&processors, &tasks[0]), 4);
    }
}
