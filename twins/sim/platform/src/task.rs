//! A thread, as the kernel knows it.

use crate::eevdf::{Entity, Id, WEIGHT};
use crate::machine::Machine;

/// How a sleep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awake {
    /// By another thread.
    Woken,
    /// By a timer.
    Late,
}

/// What a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It is on a CPU, or in its queue.
    Runnable,
    /// It sleeps.
    Asleep,
    /// It has ended.
    Ended,
}

/// What a thread has got and lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// How long it ran
    pub run_ns: u64,
    /// How long it was runnable and had no CPU
    pub wait_ns: u64,
    /// How often it lost its CPU, yields included
    pub involuntary: u64,
    /// How often it fell asleep
    pub voluntary: u64,
    /// How often it was moved to another CPU
    pub migrations: u64,
}

/// A thread.
#[derive(Debug)]
pub struct Task {
    /// What it does
    pub state: State,
    /// The CPU on which it is or was last
    pub cpu: usize,
    /// For each CPU, whether it may run there
    pub allowed: Vec<bool>,
    /// What the scheduler knows of it, while it is in no queue
    pub entity: Option<Entity>,
    /// What is left of something in whose middle it lost its CPU. On a CPU of another speed it
    /// takes as long.
    pub left_ns: u64,
    /// How often it fell asleep, so that an old timer ends no other sleep
    pub sleeps: u64,
    /// How its last sleep ended
    pub awake: Awake,
    /// How late its sleeps may end
    pub slack_ns: u64,
    /// Since when it is runnable without a CPU
    pub ready_at: u64,
    /// When it ran last
    pub ran_at: u64,
    /// The threads that sleep until it has ended
    pub joiners: Vec<Id>,
    /// What it has got and lost
    pub times: Times,
}

impl Task {
    /// A thread that has not begun.
    ///
    /// # Panics
    /// If it may run on no CPU.
    pub fn new(id: Id, machine: &Machine, cpu: usize, allowed: Vec<bool>) -> Task {
        assert!(allowed.contains(&true), "a thread may run on a CPU of the machine");
        Task {
            state: State::Asleep,
            cpu,
            allowed,
            entity: Some(Entity::new(id, WEIGHT, machine.scheduler.slice_ns)),
            left_ns: 0,
            sleeps: 0,
            awake: Awake::Woken,
            slack_ns: machine.cost.slack_ns,
            ready_at: 0,
            ran_at: 0,
            joiners: Vec::new(),
            times: Times::default(),
        }
    }

    /// The CPUs on which it may run.
    pub fn cpus(&self) -> impl Iterator<Item = usize> + '_ {
        self.allowed.iter().enumerate().filter(|(_, is)| **is).map(|(cpu, _)| cpu)
    }
}
