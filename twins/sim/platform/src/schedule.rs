//! Which thread runs on which CPU, and since when: what happens when a thread wakes up, sleeps,
//! yields or ends, and at ticks.
//!
//! A CPU *looks* when something has happened that may give it another thread: at a tick, or at once
//! when a thread has come that preempts the current one. Then it *chooses* by its queue.
//!
//! 1. Each CPU has at most one current thread, and a thread is current on one CPU at most.
//! 2. A runnable thread is in the queue of its CPU, or parked there until the next period of the
//!    quota (`bandwidth.rs`).
//! 3. A thread that loses its CPU in the middle of something has `left_ns` of it left, and does
//!    that first when it runs again.
//! 4. `events` has the next event of each CPU, but for the one whose thread makes steps, which is
//!    set when it stops. After each other change `horizon` is 0: see `kernel.rs`.
//! 5. `able` is the number of threads of the program that are runnable or sleep with a timer, and
//!    `live` the number of those that have not ended. So it is known when the program has ended or
//!    can never go on, whatever neighbours do.

use crate::bandwidth::Bandwidth;
use crate::chance::Chance;
use crate::events::Events;
use crate::fair::{Class, Entity, Id};
use crate::interruption::Interruptions;
use crate::machine::Machine;
use crate::placement::{self, Move};
use crate::processor::Processor;
use crate::task::{Awake, NEIGHBOUR, State, Task, Tasks};
use crate::timers::NEVER;
use crate::trace::{Does, Trace};

/// CPUs and threads.
#[derive(Debug)]
pub struct Schedule {
    /// The machine's file
    pub machine: Machine,
    /// The CPUs
    pub processors: Vec<Processor>,
    /// The threads
    pub tasks: Tasks,
    /// The next event of each CPU
    pub events: Events,
    /// Until when the running thread may make steps
    pub horizon: u64,
    /// Threads of the program that have not ended
    pub live: usize,
    /// Those of them that something will wake, or that are awake
    pub able: usize,
    /// What threads do, if that is wanted
    pub trace: Trace,
    bandwidth: Option<Bandwidth>,
    interruptions: Interruptions,
    chance: Chance,
    hash: u64,
    balance_at: u64,
    balanced: u64,
    moved: usize,
}

impl Schedule {
    /// The machine before anything runs, but for neighbours.
    pub fn new(machine: &Machine, seed: u64) -> Schedule {
        let cpus = machine.cpus();
        let count = cpus.len();
        let mut schedule = Schedule {
            machine: machine.clone(),
            processors: Processor::all(cpus, &machine.scheduler),
            tasks: Tasks::default(),
            events: Events::new(count),
            horizon: 0,
            live: 0,
            able: 0,
            trace: Trace::default(),
            bandwidth: machine.quota.map(|quota| Bandwidth::new(quota, count)),
            interruptions: Interruptions::new(&machine.noise, count, seed),
            chance: Chance::new(seed.rotate_left(32)),
            hash: 0xcbf2_9ce4_8422_2325,
            balance_at: machine.scheduler.balance_ns,
            balanced: 0,
            moved: 0,
        };
        for neighbour in &machine.neighbour {
            let process = schedule.tasks.processes.begin();
            for _ in 0..neighbour.count {
                let id = NEIGHBOUR + schedule.tasks.neighbours.len();
                let allowed = schedule.allowed(&neighbour.cpus);
                let task = Task { process, ..Task::of_neighbour(id, neighbour, allowed) };
                schedule.tasks.neighbours.push(task);
                schedule.tasks.processes.add(process, id);
                let cpu = placement::of_new(&schedule.processors, &schedule.tasks[id]);
                schedule.place(id, cpu, 0);
            }
        }
        (0..count).for_each(|cpu| schedule.touch(cpu));
        schedule
    }

    /// For each CPU, whether it is one of these; all are if there are none.
    pub fn allowed(&self, cpus: &[usize]) -> Vec<bool> {
        (0..self.processors.len()).map(|cpu| cpus.is_empty() || cpus.contains(&cpu)).collect()
    }

    /// A number that is the same for two runs only if the same has happened in both.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// Something has happened.
    #[inline]
    pub fn mix(&mut self, what: u64) {
        self.hash = (self.hash.rotate_left(5) ^ what).wrapping_mul(0x517c_c1b7_2722_0a95);
    }

    /// The next event of a CPU is another one (rule 4).
    #[inline]
    pub fn touch(&mut self, cpu: usize) {
        let at = self.processors[cpu].event().min(self.interruptions.next_ns(cpu));
        self.events.set(cpu, at);
        self.horizon = 0;
    }

    /// What comes to a CPU before its thread makes a step.
    pub fn before_step(&self, cpu: usize) -> u64 {
        self.processors[cpu].tick_at.min(self.interruptions.next_ns(cpu))
    }

    /// A new thread of this process of the program, started from the CPU `from` by a thread of this
    /// class.
    pub fn start(&mut self, process: u32, class: Class, from: usize, allowed: Vec<bool>, now: u64) -> Id {
        let id = self.tasks.program.len();
        let task = Task::new(id, class, from, allowed, self.machine.cost.slack_ns);
        self.tasks.program.push(Task { process, ..task });
        self.tasks.processes.add(process, id);
        self.live += 1;
        let cpu = placement::of_new(&self.processors, &self.tasks[id]);
        self.place(id, cpu, now);
        id
    }

    /// Wakes a thread that sleeps, from this CPU. Returns whether another CPU, which was idle, is
    /// to run it.
    pub fn wake(&mut self, id: Id, awake: Awake, waker: usize, now: u64) -> bool {
        if self.tasks[id].state != State::Asleep {
            return false;
        }
        self.tasks[id].awake = awake;
        let cpu = placement::of_woken(&self.processors, &self.tasks[id], waker);
        let is_kicked = cpu != waker && self.processors[cpu].is_idle();
        self.place(id, cpu, now);
        is_kicked
    }

    /// The current thread of a CPU falls asleep. Returns it, and which of its sleeps this is.
    pub fn sleep(&mut self, cpu: usize, is_timed: bool, now: u64) -> (Id, u64) {
        self.count(cpu, now);
        let id = self.processors[cpu].current.take().expect("a thread runs");
        let entity = self.processors[cpu].queue.sleep(id);
        let task = &mut self.tasks[id];
        task.state = State::Asleep;
        task.sleeps += 1;
        task.is_timed = is_timed;
        task.times.voluntary += 1;
        task.ran_at = now;
        task.entity = entity;
        let sleep = (id, task.sleeps);
        self.trace.add(now, id, Does::Sleeps);
        self.able -= usize::from(id < NEIGHBOUR && !is_timed);
        self.choose(cpu, now);
        sleep
    }

    /// A neighbour has worked. Returns the sleep that follows, and when it ends.
    pub fn rest(&mut self, cpu: usize, now: u64) -> (u64, Id, u64) {
        let (id, sleep) = self.sleep(cpu, true, now);
        let (busy_ns, idle_ns) = self.tasks[id].duty_ns;
        let mut around = |ns: u64| (ns as f64 * (0.5 + self.chance.unit())) as u64;
        self.tasks[id].left_ns = around(busy_ns);
        (now + around(idle_ns), id, sleep)
    }

    /// The current thread of a CPU ends. Returns those that wait for it.
    pub fn end(&mut self, cpu: usize, now: u64) -> Vec<Id> {
        self.count(cpu, now);
        let id = self.processors[cpu].current.take().expect("a thread runs");
        self.processors[cpu].queue.leave(id);
        debug_assert!(self.tasks[id].state == State::Runnable, "a thread ends once");
        self.tasks[id].state = State::Ended;
        self.trace.add(now, id, Does::Ended);
        (self.live, self.able) = (self.live - 1, self.able - 1);
        std::mem::take(&mut self.tasks[id].joiners)
    }

    /// The current thread of a CPU yields.
    pub fn yields(&mut self, cpu: usize, now: u64) {
        self.count(cpu, now);
        self.processors[cpu].queue.yields();
        self.look_now(cpu, now);
    }

    /// Lets a thread run on these CPUs only, whatever it does. If it may not stay where it is, it
    /// goes to one of them, and the next such thread to the next one, as in Linux
    /// (`cpumask_any_and_distribute`).
    pub fn allow(&mut self, id: Id, allowed: Vec<bool>, now: u64) {
        let (from, state) = (self.tasks[id].cpu, self.tasks[id].state);
        self.tasks[id].allowed = allowed;
        if self.tasks[id].allowed[from] || state == State::Ended {
            return;
        }
        self.count(from, now);
        let left_ns = self.processors[from].left(now);
        // One that sleeps may be queued; one that is throttled is not.
        let entity = self.processors[from].queue.leave(id);
        self.tasks[id].entity = entity.or(self.tasks[id].entity);
        if state == State::Asleep {
            return;
        }
        if let Some(bandwidth) = &mut self.bandwidth {
            bandwidth.unpark(from, id);
        }
        if self.processors[from].current == Some(id) {
            self.processors[from].current = None;
            (self.tasks[id].left_ns, self.tasks[id].ran_at) = (left_ns, now);
            self.choose(from, now);
        }
        let count = self.tasks[id].cpus().count();
        let to = self.tasks[id].cpus().nth(self.moved % count).expect("a CPU");
        self.moved += 1;
        self.tasks[id].times.migrations += 1;
        self.place(id, to, now);
    }

    /// Sets how a thread is treated, whatever it does.
    pub fn set_class(&mut self, id: Id, class: Class, now: u64) {
        let cpu = self.tasks[id].cpu;
        self.count(cpu, now);
        self.tasks[id].class = class;
        let queued = self.processors[cpu].queue.leave(id);
        let Some(mut entity) = queued.or(self.tasks[id].entity) else { return };
        entity.set(class);
        if self.processors[cpu].current == Some(id) {
            self.processors[cpu].queue.add(entity);
            self.look_now(cpu, now);
            return;
        }
        self.tasks[id].entity = Some(entity);
        if self.tasks[id].state == State::Runnable {
            if let Some(bandwidth) = &mut self.bandwidth {
                bandwidth.unpark(cpu, id);
            }
            self.enqueue(id, now);
        }
    }

    /// Puts a thread that becomes runnable on a CPU.
    fn place(&mut self, id: Id, cpu: usize, now: u64) {
        let task = &mut self.tasks[id];
        if task.cpu != cpu && task.state == State::Asleep && task.times.run_ns > 0 {
            task.times.migrations += 1;
        }
        if let Some(entity) = task.entity.as_mut().filter(|_| task.cpu != cpu) {
            self.processors[task.cpu].queue.release(entity);
        }
        self.able += usize::from(id < NEIGHBOUR && task.state == State::Asleep && !task.is_timed);
        (task.state, task.cpu, task.ready_at) = (State::Runnable, cpu, now);
        self.trace.add(now, id, Does::Waits);
        self.enqueue(id, now);
    }

    /// Queues a runnable thread on its CPU, if it may run there.
    fn enqueue(&mut self, id: Id, now: u64) {
        let cpu = self.tasks[id].cpu;
        if self.is_limited(id) && self.is_throttled(cpu, now) {
            self.park(cpu, id);
            return;
        }
        self.count(cpu, now);
        // A thread that has slept without leaving the queue is known there.
        let entity = self.tasks[id].entity.take();
        let class = self.tasks[id].class;
        self.processors[cpu].queue.add(entity.unwrap_or(Entity::new(id, class)));
        self.arrived(id, cpu, now);
    }

    /// A thread has come into the queue of a CPU.
    fn arrived(&mut self, id: Id, cpu: usize, now: u64) {
        if self.processors[cpu].is_idle() {
            self.choose(cpu, now + self.machine.cost.idle_wake_ns);
        } else if self.processors[cpu].queue.preempts(id) {
            self.look_now(cpu, now);
        } else {
            self.set_tick(cpu, now);
        }
    }

    /// A CPU chooses anew before its thread makes a step.
    fn look_now(&mut self, cpu: usize, now: u64) {
        self.processors[cpu].look_now(now);
        self.touch(cpu);
    }

    /// What comes before the step of a CPU's thread: a tick, or an interruption.
    pub fn interrupt(&mut self, cpu: usize, now: u64) {
        if self.interruptions.next_ns(cpu) > now {
            self.tick(cpu, now);
            return;
        }
        self.count(cpu, now);
        let interruption = self.interruptions.take(cpu);
        self.processors[cpu].stop(now, interruption.ns, interruption.is_counted);
        self.touch(cpu);
    }

    fn tick(&mut self, cpu: usize, now: u64) {
        self.count(cpu, now);
        self.balance(now);
        let limited = self.processors[cpu].current.filter(|id| self.is_limited(*id));
        let is_used_up = limited.is_some() && self.is_throttled(cpu, now);
        let processor = &mut self.processors[cpu];
        if std::mem::take(&mut processor.reschedule) || processor.queue.is_over() || is_used_up {
            self.choose(cpu, now);
        } else {
            self.set_tick(cpu, now);
        }
    }

    /// The next tick, if there is anything to decide then.
    fn set_tick(&mut self, cpu: usize, now: u64) {
        let is_limited = self.processors[cpu].current.is_some_and(|id| self.is_limited(id));
        self.processors[cpu].set_tick(now, 1_000_000_000 / self.machine.scheduler.hz, is_limited);
        self.touch(cpu);
    }

    /// Counts what the current thread of a CPU has run.
    fn count(&mut self, cpu: usize, now: u64) {
        if let Some((id, ns)) = self.processors[cpu].count(now) {
            self.tasks[id].times.run_ns += ns;
            let is_limited = self.is_limited(id);
            if let Some(bandwidth) = self.bandwidth.as_mut().filter(|_| is_limited) {
                bandwidth.used(cpu, ns);
            }
        }
    }

    /// A CPU chooses the thread that it runs next, from `now` on.
    pub fn choose(&mut self, cpu: usize, now: u64) {
        let (before, left_ns) = (self.processors[cpu].current, self.processors[cpu].left(now));
        self.throttle(cpu, now);
        let mut next = self.pick(cpu);
        if next.is_none() {
            // It takes a thread from another CPU.
            let hot_ns = self.machine.scheduler.hot_ns;
            let is_welcome = |id| self.is_welcome(id, cpu);
            let it = placement::to_idle(&self.processors, &self.tasks, cpu, now, hot_ns, is_welcome);
            if let Some(it) = it {
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
                processor.paused = 0.0;
                let switch_ns = if processor.last == next { 0 } else { self.machine.cost.switch_ns };
                let start = now.max(processor.stopped_until);
                processor.at = processor.resumed(start + switch_ns, std::mem::take(&mut task.left_ns));
                processor.began = start;
                task.times.wait_ns += start.saturating_sub(task.ready_at);
            }
            processor.last = next;
        } else {
            processor.at = NEVER;
        }
        if let Some(id) = before.filter(|_| before != next) {
            let task = &mut self.tasks[id];
            (task.ready_at, task.ran_at, task.left_ns) = (now, now, left_ns);
            task.times.involuntary += 1;
            self.trace.add(now, id, Does::Waits);
        }
        if let Some(id) = next.filter(|_| before != next) {
            self.trace.add(self.processors[cpu].began, id, Does::Runs(cpu));
        }
        self.share_core(cpu, now);
        self.set_tick(cpu, now);
    }

    fn pick(&mut self, cpu: usize) -> Option<Id> {
        let tasks = &mut self.tasks;
        self.processors[cpu].queue.choose(|entity| tasks[entity.id].entity = Some(entity))
    }

    /// Whether what other CPUs of its core do makes a CPU slow.
    fn has_siblings(&self, cpu: usize) -> bool {
        self.processors[cpu].core.len() > 1 && self.machine.smt_share < 1.0
    }

    /// The part that a CPU has of its core, now that the others do what they do.
    fn share(&self, cpu: usize) -> f64 {
        let others = self.processors[cpu].core.clone().filter(|other| *other != cpu);
        let busy = others.map(|other| &self.processors[other]).filter(|other| !other.is_idle());
        let taken = busy.map(|other| (1.0 - self.machine.smt_share) * (1.0 - other.paused));
        1.0 - taken.fold(0.0, f64::max)
    }

    /// The CPUs of a core have a part of it each while more than one runs a thread.
    fn share_core(&mut self, cpu: usize, now: u64) {
        if self.has_siblings(cpu) {
            for cpu in self.processors[cpu].core.clone() {
                let share = self.share(cpu);
                self.processors[cpu].set_share(now, share);
                self.touch(cpu);
            }
        }
    }

    /// The thread of a CPU begins a piece of work.
    #[inline]
    pub fn share_from_now(&mut self, cpu: usize) {
        if self.has_siblings(cpu) {
            self.processors[cpu].share = self.share(cpu);
        }
    }

    /// Moves a waiting thread to the queue of another CPU.
    fn transfer(&mut self, Move { id, from, to }: Move, now: u64) {
        // What is owed depends on what all of them have run.
        self.count(from, now);
        self.count(to, now);
        let entity = self.processors[from].queue.leave(id).expect("it waits there");
        self.tasks[id].cpu = to;
        self.tasks[id].times.migrations += 1;
        if self.is_limited(id) && self.is_throttled(to, now) {
            self.tasks[id].entity = Some(entity);
            self.park(to, id);
        } else {
            self.processors[to].queue.add(entity);
        }
        self.horizon = 0;
    }

    /// Moves a thread from the fullest CPU to the emptiest, if that is idle, or each `balance_ns`;
    /// if the difference is one thread, every second time.
    fn balance(&mut self, now: u64) {
        let (from, to) = placement::extremes(&self.processors, &self.tasks);
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
        let is_welcome = |id| self.is_welcome(id, to);
        if let Some(it) = placement::to_balance(&self.processors, &self.tasks, from, to, is_welcome) {
            self.transfer(it, now);
            self.arrived(it.id, to, now);
        }
    }

    /// Whether the quota is about this thread: real-time threads and neighbours have none.
    fn is_limited(&self, id: Id) -> bool {
        self.bandwidth.is_some() && id < NEIGHBOUR && self.tasks[id].class.priority == 0
    }

    /// Whether a CPU would let a thread run that another one offers.
    fn is_welcome(&self, id: Id, cpu: usize) -> bool {
        !self.is_limited(id) || self.bandwidth.as_ref().is_none_or(|bandwidth| !bandwidth.is_throttled(cpu))
    }

    /// Whether a CPU may not run threads of the program now.
    fn is_throttled(&mut self, cpu: usize, now: u64) -> bool {
        self.bandwidth.as_mut().is_some_and(|bandwidth| !bandwidth.may_run(cpu, now))
    }

    fn park(&mut self, cpu: usize, id: Id) {
        if let Some(bandwidth) = &mut self.bandwidth {
            bandwidth.park(cpu, id);
        }
    }

    /// Before a CPU chooses: parks the threads of the program if they have used up their time.
    fn throttle(&mut self, cpu: usize, now: u64) {
        if self.bandwidth.is_none() {
            return;
        }
        let Processor { current, queue, .. } = &self.processors[cpu];
        let limited: Vec<Id> = queue.waiting().chain(*current).filter(|id| self.is_limited(*id)).collect();
        if limited.is_empty() {
            self.bandwidth.iter_mut().for_each(|bandwidth| bandwidth.give_back(cpu));
        } else if self.is_throttled(cpu, now) {
            for id in limited {
                self.tasks[id].entity = self.processors[cpu].queue.leave(id);
                self.park(cpu, id);
            }
        }
    }

    /// For how long the quota has throttled CPUs, summed over CPUs.
    pub fn throttled_ns(&self, now: u64) -> u64 {
        self.bandwidth.as_ref().map_or(0, |bandwidth| bandwidth.throttled_ns(now))
    }

    /// When the next period of the quota begins.
    pub fn refill_at(&self) -> u64 {
        self.bandwidth.as_ref().map_or(NEVER, Bandwidth::refill_at)
    }

    /// The next period of the quota begins.
    pub fn refill(&mut self, now: u64) {
        for (_, id) in self.bandwidth.as_mut().map_or(Vec::new(), Bandwidth::refill) {
            self.enqueue(id, now);
        }
    }
}
