//! On which CPU a thread runs.
//!
//! Linux decides by more than is modelled here. The simplest rule that does the same in the usual
//! case stands for it:
//!
//! | Linux | here |
//! | --- | --- |
//! | a new thread begins on the idlest CPU | the same: on one whose core is idle, too, if there is one; of equal ones on a fast one |
//! | a thread that wakes up runs on its last CPU if that is idle; or on an idle CPU that shares its cache, of a wholly idle core if there is one (`select_idle_core`); or where it was woken, or where it was, whichever has fewer threads | the same, but a wholly idle core is better than the last CPU; Linux moves one of two busy threads from a core later |
//! | a real-time thread preempts what runs on its last CPU, or goes where the lowest priority runs; Linux also moves those that wait at once (`push_rt_tasks`) | the same; those that wait are taken by CPUs that have nothing to run |
//! | a CPU that has nothing to run takes a thread from the fullest one, unless it ran there just now | the same |
//! | busy CPUs are balanced now and then, by weight | one thread goes from the fullest to the emptiest (`Schedule::balance`), by the number of threads |
//!
//! Of equal CPUs the one with the lowest number is taken, so that a run is the same each time.

use crate::fair::Id;
use crate::processor::Processor;
use crate::task::{Task, Tasks};
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
    if task.class.priority > 0 {
        return of_realtime(processors, task);
    }
    let load = |cpu: &usize| {
        let processor = &processors[*cpu];
        let is_shared = !has_idle_core(processors, *cpu);
        (processor.queue.runnable(), is_shared, -(1e6 * processor.cpu.speed) as i64)
    };
    task.cpus().min_by_key(load).expect("a CPU")
}

/// Where a thread goes that may not stay on its CPU.
fn of_moved(processors: &[Processor], task: &Task) -> usize {
    task.cpus().min_by_key(|cpu| processors[*cpu].queue.runnable()).expect("a CPU")
}

/// Where a thread runs that is woken from the CPU `waker`.
pub fn of_woken(processors: &[Processor], task: &Task, waker: usize) -> usize {
    let last = task.cpu;
    // It is still queued there, and burns what it was ahead.
    if task.entity.is_none() {
        return last;
    }
    if task.class.priority > 0 {
        return of_realtime(processors, task);
    }
    let is_near = |cpu: &usize| processors[*cpu].cpu.group == processors[last].cpu.group;
    let idle = task.cpus().filter(|cpu| processors[*cpu].is_idle() && is_near(cpu));
    let best = idle.min_by_key(|cpu| (!has_idle_core(processors, *cpu), *cpu != last));
    best.unwrap_or_else(|| {
        let two = [last, waker].into_iter().filter(|cpu| task.allowed[*cpu]);
        let least = two.min_by_key(|cpu| (processors[*cpu].queue.runnable(), *cpu != last));
        least.unwrap_or_else(|| of_moved(processors, task))
    })
}

/// Where a real-time thread runs: on its last CPU, if that runs a lower priority, or where the
/// lowest one runs.
fn of_realtime(processors: &[Processor], task: &Task) -> usize {
    let rank = |cpu: &usize| match processors[*cpu].is_idle() {
        true => 0,
        false => 1 + u32::from(processors[*cpu].queue.priority()),
    };
    if task.allowed[task.cpu] && rank(&task.cpu) <= u32::from(task.class.priority) {
        return task.cpu;
    }
    task.cpus().min_by_key(|cpu| (rank(cpu), *cpu != task.cpu)).expect("a CPU")
}

/// Whether no CPU of this one's core runs anything.
fn has_idle_core(processors: &[Processor], cpu: usize) -> bool {
    processors[processors[cpu].core.clone()].iter().all(Processor::is_idle)
}

/// The thread that a CPU takes that has nothing to run: one that has not run for `hot_ns`, or a
/// real-time one.
pub fn to_idle(
    processors: &[Processor],
    tasks: &Tasks,
    to: usize,
    now: u64,
    hot_ns: u64,
    is_welcome: impl Fn(Id) -> bool,
) -> Option<Move> {
    let is_cold = |task: &Task| task.class.priority > 0 || now.saturating_sub(task.ran_at) >= hot_ns;
    let is_fit = |id: &Id| tasks[*id].allowed[to] && is_cold(&tasks[*id]) && is_welcome(*id);
    let has_any = |from: &usize| processors[*from].queue.waiting().any(|id| is_fit(&id));
    let is_near = |from: &usize| processors[*from].cpu.group == processors[to].cpu.group;
    let full = (0..processors.len()).filter(|from| *from != to && has_any(from));
    let from = full.max_by_key(|from| (is_near(from), processors[*from].queue.runnable(), Reverse(*from)))?;
    longest(processors, tasks, from, is_fit).map(|id| Move { id, from, to })
}

/// The fullest CPU, and the emptiest of those on which a thread that waits there may run.
pub fn extremes(processors: &[Processor], tasks: &Tasks) -> (usize, usize) {
    let load = |cpu: &usize| processors[*cpu].queue.runnable();
    let cpus = 0..processors.len();
    let fullest = cpus.clone().max_by_key(|cpu| (load(cpu), Reverse(*cpu)));
    let from = fullest.unwrap_or(0);
    let may_run = |cpu: &usize| processors[from].queue.waiting().any(|id| tasks[id].allowed[*cpu]);
    (from, cpus.filter(may_run).min_by_key(load).unwrap_or(from))
}

/// The thread that goes from one CPU to another, if one may.
pub fn to_balance(
    processors: &[Processor],
    tasks: &Tasks,
    from: usize,
    to: usize,
    is_welcome: impl Fn(Id) -> bool,
) -> Option<Move> {
    let is_fit = |id: &Id| tasks[*id].allowed[to] && is_welcome(*id);
    longest(processors, tasks, from, is_fit).map(|id| Move { id, from, to })
}

/// The thread that has waited longest on a CPU, of those that are fit.
fn longest(processors: &[Processor], tasks: &Tasks, from: usize, is_fit: impl Fn(&Id) -> bool) -> Option<Id> {
    processors[from].queue.waiting().filter(is_fit).min_by_key(|id| tasks[*id].ready_at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fair::Class;
    use crate::machine::Machine;

    fn crowd(machine: &Machine, cpus: &[usize]) -> (Vec<Processor>, Tasks) {
        let mut processors = Processor::all(machine.cpus(), &machine.scheduler);
        let mut tasks = Tasks::default();
        for cpu in cpus {
            for _ in 0..2 {
                let id = tasks.program.len();
                let mut task = Task::new(id, Class::default(), *cpu, vec![true; processors.len()], 0);
                processors[*cpu].queue.add(task.entity.take().expect("an entity"));
                task.entity = None;
                tasks.program.push(task);
            }
            processors[*cpu].current = processors[*cpu].queue.choose(|_| ());
        }
        (processors, tasks)
    }

    /// Each of these CPUs of an M1 runs a thread, and has one that waits.
    fn crowded(cpus: &[usize]) -> (Vec<Processor>, Tasks) {
        crowd(&Machine::known("m1").expect("a machine"), cpus)
    }

    /// A thread that sleeps, and was last on a CPU.
    fn sleeper(cpu: usize, priority: u8) -> Task {
        Task::new(99, Class { nice: 0, priority }, cpu, vec![true; 40], 0)
    }

    #[test]
    fn a_woken_thread_prefers_its_last_cpu_then_an_idle_one_near_it() {
        let (processors, _) = crowded(&[0, 1]);
        let mut task = Task { allowed: vec![true; 8], ..sleeper(0, 0) };
        assert_eq!(of_woken(&processors, &task, 1), 2, "0 is busy, 2 shares its cache");
        task.cpu = 5;
        assert_eq!(of_woken(&processors, &task, 1), 5, "it is idle");
        (task.entity, task.cpu) = (None, 0);
        assert_eq!(of_woken(&processors, &task, 1), 0, "it is still queued there");
        let (processors, _) = crowded(&[0, 1, 2, 3]);
        let mut task = Task { allowed: vec![true; 8], ..sleeper(1, 0) };
        assert_eq!(of_woken(&processors, &task, 3), 1, "no idle CPU is near");
        task.allowed = vec![false, false, true, false, false, false, false, false];
        assert_eq!(of_woken(&processors, &task, 3), 2, "it may run nowhere else");
    }

    #[test]
    fn a_wholly_idle_core_is_better_than_an_idle_sibling() {
        let machine = Machine::known("xeon-40").expect("a machine");
        let (processors, _) = crowd(&machine, &[0, 2]);
        assert_eq!(of_new(&processors, &sleeper(0, 0)), 4);
        assert_eq!(of_woken(&processors, &sleeper(1, 0), 0), 4, "its last CPU has a busy sibling");
        let cores: Vec<usize> = (0..40).step_by(2).collect();
        let (processors, _) = crowd(&machine, &cores);
        assert_eq!(of_new(&processors, &sleeper(0, 0)), 1);
        assert_eq!(of_woken(&processors, &sleeper(5, 0), 0), 5, "no core is idle");
        assert_eq!(of_woken(&processors, &sleeper(4, 0), 0), 1);
    }

    #[test]
    fn a_real_time_thread_preempts_where_it_was_or_goes_where_the_lowest_priority_runs() {
        let (mut processors, _) = crowded(&[0, 1]);
        let task = |priority| Task { allowed: vec![true; 8], ..sleeper(0, priority) };
        assert_eq!(of_woken(&processors, &task(5), 1), 0);
        processors[0].queue.add(Task { ..sleeper(0, 7) }.entity.expect("an entity"));
        processors[0].current = processors[0].queue.choose(|_| ());
        assert_eq!(of_woken(&processors, &task(7), 1), 2, "one of its priority runs there");
        assert_eq!(of_new(&processors, &task(8)), 0);
    }

    #[test]
    fn an_idle_cpu_takes_what_is_cold_and_near() {
        let (processors, mut tasks) = crowded(&[0, 5]);
        let all = |_| true;
        assert_eq!(to_idle(&processors, &tasks, 6, 9, 5, all), Some(Move { id: 3, from: 5, to: 6 }));
        assert_eq!(to_idle(&processors, &tasks, 6, 9, 5, |id| id < 3), Some(Move { id: 1, from: 0, to: 6 }));
        tasks[3].ran_at = 7;
        let hot = to_idle(&processors, &tasks, 6, 9, 5, all);
        assert_eq!(hot, Some(Move { id: 1, from: 0, to: 6 }), "3 is hot");
        tasks[1].allowed[6] = false;
        assert_eq!(to_idle(&processors, &tasks, 6, 9, 5, all), None);
        assert_eq!(extremes(&processors, &tasks), (0, 1));
        assert_eq!(to_balance(&processors, &tasks, 0, 1, all), Some(Move { id: 1, from: 0, to: 1 }));
        assert_eq!(to_balance(&processors, &tasks, 0, 1, |_| false), None);
    }

    #[test]
    fn a_new_thread_begins_on_a_fast_idle_cpu() {
        let (processors, tasks) = crowded(&[0, 1, 2]);
        assert_eq!((of_new(&processors, &tasks[0]), of_moved(&processors, &tasks[0])), (3, 3));
        let (processors, tasks) = crowded(&[0, 1, 2, 3]);
        assert_eq!(of_new(&processors, &tasks[0]), 4);
    }
}
