//! Threads, as the kernel knows them: those of the program, and those of neighbours.

use crate::fair::{Class, Entity, Id};
use crate::machine::Neighbour;
use crate::processes::{FIRST_PROCESS, Processes};
use std::ops::{Index, IndexMut};

/// Neighbours have numbers from this one on; threads of the program have 0, 1, 2, …
pub const NEIGHBOUR: Id = 1 << 31;

/// How long a neighbour works that never sleeps: 52 days.
const FOREVER_NS: u64 = 1 << 52;

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
    /// It is on a CPU, or in its queue, or waits for the program's next period.
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
    /// The number of its process
    pub process: u32,
    /// What it does
    pub state: State,
    /// The CPU on which it is or was last
    pub cpu: usize,
    /// For each CPU, whether it may run there
    pub allowed: Vec<bool>,
    /// How the scheduler treats it
    pub class: Class,
    /// What the scheduler knows of it, while it is in no queue
    pub entity: Option<Entity>,
    /// What is left of something in whose middle it lost its CPU: how long a CPU of speed 1 takes
    pub left_ns: u64,
    /// How often it fell asleep, so that an old timer ends no other sleep
    pub sleeps: u64,
    /// Whether a timer ends its sleep
    pub is_timed: bool,
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
    /// A neighbour: how long a CPU of speed 1 works, and how long it sleeps then, on average
    pub duty_ns: (u64, u64),
    /// What it has got and lost
    pub times: Times,
}

impl Task {
    /// A thread of the program's first process that has not begun.
    ///
    /// # Panics
    /// If it may run on no CPU.
    pub fn new(id: Id, class: Class, cpu: usize, allowed: Vec<bool>, slack_ns: u64) -> Task {
        assert!(allowed.contains(&true), "a thread may run on a CPU of the machine");
        Task {
            process: FIRST_PROCESS,
            state: State::Asleep,
            cpu,
            allowed,
            class,
            entity: Some(Entity::new(id, class)),
            left_ns: 0,
            sleeps: 0,
            is_timed: false,
            awake: Awake::Woken,
            slack_ns,
            ready_at: 0,
            ran_at: 0,
            joiners: Vec::new(),
            duty_ns: (0, 0),
            times: Times::default(),
        }
    }

    /// A thread of a neighbour.
    pub fn of_neighbour(id: Id, neighbour: &Neighbour, allowed: Vec<bool>) -> Task {
        let class = Class { nice: neighbour.nice, priority: 0 };
        let busy_ns = if neighbour.busy_ns == 0 { FOREVER_NS } else { neighbour.busy_ns };
        let task = Task::new(id, class, 0, allowed, 0);
        Task { left_ns: busy_ns, duty_ns: (busy_ns, neighbour.idle_ns), ..task }
    }

    /// The CPUs on which it may run.
    pub fn cpus(&self) -> impl Iterator<Item = usize> + '_ {
        self.allowed.iter().enumerate().filter(|(_, is)| **is).map(|(cpu, _)| cpu)
    }
}

/// All threads, by their numbers.
#[derive(Debug, Default)]
pub struct Tasks {
    /// Those of the program
    pub program: Vec<Task>,
    /// Those of neighbours
    pub neighbours: Vec<Task>,
    /// The processes whose threads these are
    pub processes: Processes,
}

impl Index<Id> for Tasks {
    type Output = Task;

    #[inline]
    fn index(&self, id: Id) -> &Task {
        if id < NEIGHBOUR { &self.program[id] } else { &self.neighbours[id - NEIGHBOUR] }
    }
}

impl IndexMut<Id> for Tasks {
    #[inline]
    fn index_mut(&mut self, id: Id) -> &mut Task {
        if id < NEIGHBOUR { &mut self.program[id] } else { &mut self.neighbours[id - NEIGHBOUR] }
    }
}
