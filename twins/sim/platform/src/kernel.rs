//! The machine while it runs: virtual time, CPUs, threads that run, wait and sleep.
//!
//! Nothing here knows how a thread is run: `simulation.rs` does that. A thread does one step after
//! the other, and each step takes time. The kernel says which thread makes the next step.
//!
//! 1. Steps are made in the order of time. Before a thread makes a step, everything that happens
//!    earlier on other CPUs has happened. If two things happen at one time, timers come first, then
//!    the CPU with the lower number. So a run is the same each time.
//! 2. Each CPU has at most one current thread, and a thread is current on one CPU at most.
//! 3. A thread that loses its CPU in the middle of something has `left_ns` of it left, and does
//!    that first when it runs again.
//! 4. `horizon` is when something happens at the earliest that is no step of the running thread. It
//!    is computed when a thread begins to run, and again after each step that may change it.
//!
//! | file | what |
//! | --- | --- |
//! | `processor.rs` | a CPU |
//! | `task.rs` | a thread |
//! | `placement.rs` | on which CPU a thread runs |
//! | `timers.rs`, `waiters.rs` | what ends sleeps |

use crate::chance::Chance;
use crate::eevdf::{Entity, Id, WEIGHT};
use crate::lines::{Access, Lines};
use crate::machine::Machine;
use crate::placement::{self, Move};
use crate::processor::Processor;
use crate::task::{Awake, State, Task, Times};
use crate::timers::{NEVER, Timers};
use crate::waiters::{Waiter, Waiters};

/// What happens next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// This thread makes its next step.
    Step(Id),
    /// All threads have ended.
    Ended,
    /// Threads are asleep, and nothing will ever wake them.
    Deadlock,
}

/// The machine while it runs.
#[derive(Debug)]
pub struct Kernel {
    machine: Machine,
    processors: Vec<Processor>,
    tasks: Vec<Task>,
    timers: Timers,
    waiters: Waiters,
    lines: Lines,
    chance: Chance,
    hash: u64,
    steps: u64,
    /// The CPU whose thread makes a step, and when it does.
    running: usize,
    now: u64,
    horizon: u64,
    balance_at: u64,
    balanced: u64,
}

impl Kernel {
    /// The machine before anything runs.
    pub fn new(machine: &Machine, seed: u64) -> Kernel {
        Kernel {
            processors: machine.cpus().into_iter().map(Processor::new).collect(),
            tasks: Vec::new(),
            timers: Timers::default(),
            waiters: Waiters::default(),
            lines: Lines::new(machine),
            chance: Chance::new(seed),
            hash: 0xcbf2_9ce4_8422_2325,
            steps: 0,
            running: 0,
            now: 0,
            horizon: 0,
            balance_at: machine.scheduler.balance_ns,
            balanced: 0,
            machine: machine.clone(),
        }
    }

    /// The thread that makes a step.
    pub fn current(&self) -> Id {
        self.processors[self.running].current.expect("a thread runs")
    }

    /// The CPU on which it runs.
    pub fn current_cpu(&self) -> usize {
        self.running
    }

    /// When the running thread makes its next step.
    pub fn now_ns(&self) -> u64 {
        self.processors
            .get(self.running)
            .map_or(self.now, |processor| if processor.at == NEVER { self.now } else { processor.at })
    }

    /// How many CPUs a thread may run on.
    pub fn allowed(&self, id: Id) -> usize {
        self.tasks[id].allowed.iter().filter(|is| **is).count()
    }

    /// What a thread has got and lost until now.
    pub fn times(&self, id: Id) -> Times {
        let task = &self.tasks[id];
        let processor = &self.processors[task.cpu];
        let running =
            if processor.current == Some(id) { self.now_ns().saturating_sub(processor.began) } else { 0 };
        Times { run_ns: task.times.run_ns + running, ..task.times }
    }

    /// A number that is the same for two runs only if the same has happened in both.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// How many steps were made.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// A new thread, which may run on these CPUs; on all if there are none.
    pub fn start(&mut self, cpus: &[usize]) -> Id {
        let id = self.tasks.len();
        let allowed = (0..self.processors.len()).map(|cpu| cpus.is_empty() || cpus.contains(&cpu)).collect();
        self.tasks.push(Task::new(id, &self.machine, self.running, allowed));
        let cpu = placement::of_new(&self.processors, &self.tasks[id]);
        self.place(id, cpu, self.now_ns());
        id
    }

    /// Limits the running thread to these CPUs. Returns whether it has left its CPU.
    pub fn allow(&mut self, cpus: &[usize]) -> bool {
        let id = self.current();
        let allowed: Vec<bool> = (0..self.processors.len()).map(|cpu| cpus.contains(&cpu)).collect();
        assert!(allowed.contains(&true), "a thread may run on a CPU of the machine");
        self.tasks[id].allowed = allowed;
        let (from, now) = (self.running, self.now_ns());
        if self.tasks[id].allowed[from] {
            return false;
        }
        let to = placement::of_moved(&self.processors, &self.tasks[id]);
        self.count(from, now);
        self.tasks[id].entity = self.processors[from].queue.leave(id);
        self.tasks[id].times.migrations += 1;
        self.tasks[id].left_ns = 0;
        self.processors[from].current = None;
        self.choose(from, now);
        self.place(id, to, now);
        true
    }

    /// Time passes while the running thread does something that takes so long at speed 1.
    pub fn work(&mut self, ns: f64) {
        // Two runs that differ in nothing else than the seed must be able to go different ways.
        let jitter = 0.95 + 0.1 * self.chance.unit();
        self.processors[self.running].work(ns * jitter);
    }

    /// The running thread accesses memory.
    pub fn access(&mut self, address: usize, access: Access) {
        let (now, cost) = (self.processors[self.running].at, self.machine.cost);
        self.processors[self.running].at = self.lines.access(now, self.running, address, access);
        self.work(cost.step_ns + if access == Access::Change { cost.change_ns } else { cost.hit_ns });
    }

    /// The running thread waits until its stores have reached their lines.
    pub fn fence(&mut self) {
        let processor = &mut self.processors[self.running];
        processor.at = self.lines.stored(self.running).max(processor.at);
        self.work(self.machine.cost.change_ns);
    }

    /// How many threads were started.
    pub fn threads(&self) -> usize {
        self.tasks.len()
    }

    /// Whether the running thread may make its next step; otherwise something else comes before.
    pub fn may_step(&mut self) -> bool {
        let at = self.processors[self.running].at;
        if at >= self.horizon {
            return false;
        }
        self.steps += 1;
        self.now = at;
        self.mix(at ^ (self.running as u64) << 56);
        true
    }

    /// What happens next, in the order of time.
    pub fn advance(&mut self) -> Next {
        loop {
            let timer = self.timers.next_ns();
            let soonest = (0..self.processors.len()).min_by_key(|cpu| self.processors[*cpu].event());
            let cpu = soonest.expect("a machine has a CPU");
            let at = self.processors[cpu].event();
            if timer == NEVER && at == NEVER {
                let is_over = self.tasks.iter().all(|task| task.state == State::Ended);
                return if is_over { Next::Ended } else { Next::Deadlock };
            }
            if timer <= at {
                self.now = timer;
                self.ring();
            } else if self.processors[cpu].tick_at <= self.processors[cpu].at {
                self.now = at;
                self.tick(cpu, at);
            } else {
                self.running = cpu;
                let others = (0..self.processors.len()).filter(|other| *other != cpu);
                // Of two at one time, the lower number is first.
                let ends =
                    others.map(|other| self.processors[other].event().saturating_add(u64::from(other > cpu)));
                self.horizon = ends.min().unwrap_or(NEVER).min(timer).min(self.processors[cpu].tick_at);
                return Next::Step(self.current());
            }
        }
    }

    /// The running thread falls asleep, until it is woken, or until `until_ns` and what its timer
    /// slack allows.
    pub fn sleep(&mut self, until_ns: u64) {
        let (cpu, now, id) = (self.running, self.now_ns(), self.current());
        self.count(cpu, now);
        let task = &mut self.tasks[id];
        task.state = State::Asleep;
        task.sleeps += 1;
        task.times.voluntary += 1;
        task.ran_at = now;
        if until_ns != NEVER {
            let late_ns = until_ns.max(now).saturating_add(task.slack_ns);
            self.timers.set(late_ns, id, task.sleeps);
        }
        let entity = self.processors[cpu].queue.sleep(id);
        self.tasks[id].entity = entity;
        self.processors[cpu].current = None;
        self.choose(cpu, now);
    }

    /// How the last sleep of the running thread ended.
    pub fn awake(&self) -> Awake {
        self.tasks[self.current()].awake
    }

    /// The running thread ends.
    pub fn end(&mut self) {
        let (cpu, now, id) = (self.running, self.now_ns(), self.current());
        self.count(cpu, now);
        self.tasks[id].state = State::Ended;
        self.processors[cpu].queue.leave(id);
        self.processors[cpu].current = None;
        for joiner in std::mem::take(&mut self.tasks[id].joiners) {
            self.wake(joiner, Awake::Woken, cpu, now);
        }
        self.choose(cpu, now);
    }

    /// The running thread falls asleep until another one has ended; `false` if it has.
    pub fn join(&mut self, id: Id) -> bool {
        if self.tasks[id].state == State::Ended {
            return false;
        }
        let own = self.current();
        self.tasks[id].joiners.push(own);
        self.sleep(NEVER);
        true
    }

    /// The running thread yields.
    pub fn yield_now(&mut self) {
        let (cpu, now) = (self.running, self.now_ns());
        self.count(cpu, now);
        self.processors[cpu].queue.yields(self.machine.scheduler.yield_forfeits);
        self.look_now(cpu, now);
    }

    /// The running thread waits at an address, until it is woken there or the time has come.
    pub fn wait(&mut self, address: usize, expected: u32, set: u32, until_ns: u64) {
        let id = self.current();
        self.waiters.add(address, Waiter { id, set, expected });
        self.sleep(until_ns);
    }

    /// Takes at most `count` waiters at an address that are wanted, the first ones first, and wakes
    /// them. How many there were.
    pub fn wake_waiters(&mut self, address: usize, count: u32, wanted: impl Fn(&Waiter) -> bool) -> usize {
        let woken = self.waiters.take(address, count, wanted);
        for id in &woken {
            self.work(self.machine.cost.wake_ns);
            self.wake(*id, Awake::Woken, self.running, self.now_ns());
        }
        woken.len()
    }

    /// Sets how late the sleeps of the running thread may end.
    pub fn set_slack_ns(&mut self, slack_ns: u64) {
        let id = self.current();
        self.tasks[id].slack_ns = slack_ns;
    }

    /// How late the sleeps of the running thread may end.
    pub fn slack_ns(&self) -> u64 {
        self.tasks[self.current()].slack_ns
    }

    /// The running thread makes a system call.
    pub fn call(&mut self) {
        self.work(self.machine.cost.call_ns);
    }

    /// What things cost here.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// The first timer ends.
    fn ring(&mut self) {
        let Some((id, sleep)) = self.timers.take() else { return };
        let task = &self.tasks[id];
        if task.state == State::Asleep && task.sleeps == sleep {
            // It may wait at an address.
            self.waiters.forget(id);
            self.wake(id, Awake::Late, self.tasks[id].cpu, self.now);
        }
    }

    /// Wakes a thread, from this CPU.
    fn wake(&mut self, id: Id, awake: Awake, waker: usize, now: u64) {
        if self.tasks[id].state != State::Asleep {
            return;
        }
        self.tasks[id].awake = awake;
        let cpu = placement::of_woken(&self.processors, &self.tasks[id], waker);
        self.place(id, cpu, now);
    }

    /// Puts a thread that becomes runnable into the queue of a CPU.
    fn place(&mut self, id: Id, cpu: usize, now: u64) {
        let task = &mut self.tasks[id];
        if task.cpu != cpu && task.state == State::Asleep && task.times.run_ns > 0 {
            task.times.migrations += 1;
        }
        (task.state, task.cpu, task.ready_at) = (State::Runnable, cpu, now);
        let slice_ns = self.machine.scheduler.slice_ns;
        let entity = task.entity.take().unwrap_or(Entity::new(id, WEIGHT, slice_ns));
        self.count(cpu, now);
        self.processors[cpu].queue.add(entity);
        self.arrived(id, cpu, now);
    }

    /// A thread has come into the queue of a CPU.
    fn arrived(&mut self, id: Id, cpu: usize, now: u64) {
        self.horizon = 0;
        if self.processors[cpu].is_idle() {
            self.choose(cpu, now + self.machine.cost.idle_wake_ns);
        } else if self.processors[cpu].queue.preempts(id) {
            self.look_now(cpu, now);
        } else {
            self.set_tick(cpu, now);
        }
    }

    /// The scheduler chooses anew on this CPU before its thread makes a step.
    fn look_now(&mut self, cpu: usize, now: u64) {
        self.processors[cpu].look_now(now);
        self.horizon = 0;
    }

    fn tick(&mut self, cpu: usize, now: u64) {
        self.count(cpu, now);
        self.balance(now);
        let processor = &mut self.processors[cpu];
        if std::mem::take(&mut processor.reschedule) || processor.queue.is_over() {
            self.choose(cpu, now);
        } else {
            self.set_tick(cpu, now);
        }
    }

    /// The next tick, if there is anything to decide then.
    fn set_tick(&mut self, cpu: usize, now: u64) {
        self.processors[cpu].set_tick(now, 1_000_000_000 / self.machine.scheduler.hz);
    }

    /// Counts what the current thread of a CPU has run.
    fn count(&mut self, cpu: usize, now: u64) {
        if let Some((id, ns)) = self.processors[cpu].count(now) {
            self.tasks[id].times.run_ns += ns;
        }
    }

    /// A CPU chooses the thread that it runs next, from `now` on.
    fn choose(&mut self, cpu: usize, now: u64) {
        let before = self.processors[cpu].current;
        if let Some(id) = before {
            let left_ns = self.processors[cpu].at.saturating_sub(now);
            self.tasks[id].left_ns = left_ns;
        }
        let mut next = self.pick(cpu);
        if next.is_none() {
            // It takes a thread from another CPU.
            let hot_ns = self.machine.scheduler.hot_ns;
            if let Some(it) = placement::to_idle(&self.processors, &self.tasks, cpu, now, hot_ns) {
                self.transfer(it, now);
                next = self.pick(cpu);
            }
        }
        self.mix(now ^ (cpu as u64) << 48 ^ next.map_or(0, |id| (id as u64 + 1) << 32));
        let processor = &mut self.processors[cpu];
        processor.reschedule = false;
        processor.current = next;
        if let Some(id) = next {
            let task = &mut self.tasks[id];
            if before != next {
                let switch_ns = if processor.last == next { 0 } else { self.machine.cost.switch_ns };
                processor.at = now + switch_ns + task.left_ns;
                processor.began = now;
                task.times.wait_ns += now.saturating_sub(task.ready_at);
            }
            processor.last = next;
        } else {
            processor.at = NEVER;
        }
        if let Some(id) = before.filter(|_| before != next) {
            let task = &mut self.tasks[id];
            (task.ready_at, task.ran_at) = (now, now);
            task.times.involuntary += 1;
        }
        self.set_tick(cpu, now);
        self.horizon = 0;
    }

    fn pick(&mut self, cpu: usize) -> Option<Id> {
        let tasks = &mut self.tasks;
        self.processors[cpu].queue.choose(|entity| {
            let id = entity.id();
            tasks[id].entity = Some(entity);
        })
    }

    /// Moves a waiting thread to the queue of another CPU.
    fn transfer(&mut self, Move { id, from, to }: Move, now: u64) {
        // What is owed depends on what all of them have run.
        self.count(from, now);
        self.count(to, now);
        let entity = self.processors[from].queue.leave(id).expect("it waits there");
        self.tasks[id].cpu = to;
        self.tasks[id].times.migrations += 1;
        self.processors[to].queue.add(entity);
        self.horizon = 0;
    }

    /// Moves a thread from the fullest CPU to the emptiest, if that is idle, or each `balance_ns`;
    /// if the difference is one thread, every second time.
    fn balance(&mut self, now: u64) {
        let (from, to) = placement::extremes(&self.processors);
        let load = |cpu: usize| self.processors[cpu].queue.runnable();
        let (difference, is_idle) = (load(from) - load(to), self.processors[to].is_idle());
        if !is_idle && now < self.balance_at || difference == 0 {
            return;
        }
        if !is_idle {
            // Not in step with the ticks.
            let balance_ns = self.machine.scheduler.balance_ns;
            self.balance_at = now + balance_ns / 2 + self.chance.below(balance_ns);
            self.balanced += 1;
            if difference == 1 && self.balanced % 2 == 1 {
                return;
            }
        }
        if let Some(it) = placement::to_balance(&self.processors, &self.tasks, from, to) {
            self.transfer(it, now);
            self.arrived(it.id, to, now);
        }
    }

    fn mix(&mut self, what: u64) {
        self.hash = (self.hash.rotate_left(5) ^ what).wrapping_mul(0x517c_c1b7_2722_0a95);
    }
}
