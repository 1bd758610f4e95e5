//! The machine while it runs: virtual time, CPUs, threads that run, wait and sleep.
//!
//! Nothing here knows how a thread is run: `simulation.rs` does that. A thread does one step after
//! the other, and each step takes time. The kernel says which thread makes the next step.
//!
//! 1. Steps are made in the order of time. Before a thread makes a step, everything that happens
//!    earlier on other CPUs has happened. If two things happen at one time, timers come first, then
//!    the CPU with the lower number. So a run is the same each time.
//! 2. Each CPU has at most one current thread, and a thread is current on one CPU at most. `at` is
//!    when it makes its next step, [`NEVER`] of a CPU that has none.
//! 3. A thread that loses its CPU in the middle of something has `left_ns` of it left, and does
//!    that first when it runs again.
//! 4. `horizon` is when something happens at the earliest that is no step of the running thread. It
//!    is computed when a thread begins to run, and again after each step that may change it.
//!
//! Where Linux decides by more than is modelled here, the simplest rule that does the same in the
//! usual case stands for it:
//!
//! | Linux | here |
//! | --- | --- |
//! | a thread that wakes up runs on its last CPU, if that is idle, or on an idle CPU that shares its cache, or where it was woken, or where it was, whichever has fewer threads | the same |
//! | a CPU that has nothing to run takes a thread from the fullest one, unless it ran there just now (`hot_ns`) | the same |
//! | busy CPUs are balanced now and then | each `balance_ns` one thread goes from the fullest to the emptiest; if the difference is one thread, every second time |
//! | a new thread begins on the idlest CPU | the same |

use crate::chance::Chance;
use crate::eevdf::{Entity, Id, Queue, WEIGHT};
use crate::lines::{Access, Lines};
use crate::machine::{Cpu, Machine};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

/// No time at all.
pub const NEVER: u64 = u64::MAX;

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

/// How a sleep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awake {
    /// By another thread.
    Woken,
    /// By a timer.
    Late,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// On a CPU, or in its queue
    Runnable,
    Asleep,
    Ended,
}

#[derive(Debug)]
struct Thread {
    state: State,
    /// The CPU on which it is or was last.
    cpu: usize,
    /// On which CPUs it may run.
    allowed: Vec<bool>,
    /// What the scheduler knows, while it is in no queue.
    entity: Option<Entity>,
    left_ns: u64,
    /// Counts its sleeps, so that an old timer ends none.
    sleeps: u64,
    awake: Awake,
    slack_ns: u64,
    /// Since when it is runnable without a CPU, and when it ran last.
    ready_at: u64,
    ran_at: u64,
    joiners: Vec<Id>,
    times: Times,
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

#[derive(Debug)]
struct Core {
    cpu: Cpu,
    queue: Queue,
    current: Option<Id>,
    at: u64,
    /// Parts of a nanosecond that were not counted yet.
    fraction: f64,
    /// When the scheduler looks at this CPU next.
    tick_at: u64,
    /// … and then chooses anew.
    reschedule: bool,
    /// Since when the run time of the current thread is not counted.
    began: u64,
    last: Option<Id>,
}

/// A thread that waits at an address.
#[derive(Clone, Copy, Debug)]
pub struct Waiter {
    /// The thread
    pub id: Id,
    /// Which sets it is in
    pub set: u32,
    /// The value that it has seen
    pub expected: u32,
}

/// The machine while it runs.
#[derive(Debug)]
pub struct Kernel {
    machine: Machine,
    cores: Vec<Core>,
    threads: Vec<Thread>,
    timers: BinaryHeap<Reverse<(u64, u64, Id, u64)>>,
    /// Counts timers, so that those of one time end in the order in which they were set.
    timers_set: u64,
    waiters: BTreeMap<usize, VecDeque<Waiter>>,
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
        let core = |cpu| Core {
            cpu,
            queue: Queue::default(),
            current: None,
            at: NEVER,
            fraction: 0.0,
            tick_at: NEVER,
            reschedule: false,
            began: 0,
            last: None,
        };
        Kernel {
            cores: machine.cpus().into_iter().map(core).collect(),
            threads: Vec::new(),
            timers: BinaryHeap::new(),
            timers_set: 0,
            waiters: BTreeMap::new(),
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
        self.cores[self.running].current.expect("a thread runs")
    }

    /// The CPU on which it runs.
    pub fn current_cpu(&self) -> usize {
        self.running
    }

    /// When the running thread makes its next step.
    pub fn now_ns(&self) -> u64 {
        self.cores
            .get(self.running)
            .map_or(self.now, |core| if core.at == NEVER { self.now } else { core.at })
    }

    /// How many CPUs a thread may run on.
    pub fn allowed(&self, id: Id) -> usize {
        self.threads[id].allowed.iter().filter(|is| **is).count()
    }

    /// What a thread has got and lost until now.
    pub fn times(&self, id: Id) -> Times {
        let thread = &self.threads[id];
        let core = &self.cores[thread.cpu];
        let running = if core.current == Some(id) { self.now_ns().saturating_sub(core.began) } else { 0 };
        Times { run_ns: thread.times.run_ns + running, ..thread.times }
    }

    /// A number that is the same for two runs only if the same has happened in both.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// How many steps were made.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Random numbers.
    pub fn chance(&mut self) -> &mut Chance {
        &mut self.chance
    }

    /// A new thread, which may run on these CPUs; on all if there are none.
    pub fn start(&mut self, cpus: &[usize]) -> Id {
        let id = self.threads.len();
        let allowed: Vec<bool> =
            (0..self.cores.len()).map(|cpu| cpus.is_empty() || cpus.contains(&cpu)).collect();
        assert!(allowed.contains(&true), "a thread may run on a CPU of the machine");
        let slice_ns = self.machine.scheduler.slice_ns;
        self.threads.push(Thread {
            state: State::Asleep,
            cpu: self.running,
            allowed,
            entity: Some(Entity::new(id, WEIGHT, slice_ns)),
            left_ns: 0,
            sleeps: 0,
            awake: Awake::Woken,
            slack_ns: self.machine.cost.slack_ns,
            ready_at: 0,
            ran_at: 0,
            joiners: Vec::new(),
            times: Times::default(),
        });
        let load = |cpu: &usize| {
            (self.cores[*cpu].queue.runnable(), -(1e6 * self.cores[*cpu].cpu.speed) as i64, *cpu)
        };
        let cpu = self.allowed_cpus(id).min_by_key(load).expect("a CPU");
        self.place(id, cpu, self.now_ns());
        id
    }

    /// Limits the running thread to these CPUs. Returns whether it has left its CPU.
    pub fn allow(&mut self, cpus: &[usize]) -> bool {
        let id = self.current();
        let allowed: Vec<bool> = (0..self.cores.len()).map(|cpu| cpus.contains(&cpu)).collect();
        assert!(allowed.contains(&true), "a thread may run on a CPU of the machine");
        self.threads[id].allowed = allowed;
        let (from, now) = (self.running, self.now_ns());
        if self.threads[id].allowed[from] {
            return false;
        }
        let load = |cpu: &usize| (self.cores[*cpu].queue.runnable(), *cpu);
        let to = self.allowed_cpus(id).min_by_key(load).expect("a CPU");
        self.count(from, now);
        self.threads[id].entity = self.cores[from].queue.leave(id);
        self.threads[id].times.migrations += 1;
        self.threads[id].left_ns = 0;
        self.cores[from].current = None;
        self.choose(from, now);
        self.place(id, to, now);
        true
    }

    /// Time passes while the running thread does something that takes so long at speed 1.
    pub fn work(&mut self, ns: f64) {
        // Two runs that differ in nothing else than the seed must be able to go different ways.
        let jitter = 0.95 + 0.1 * self.chance.unit();
        let core = &mut self.cores[self.running];
        let all = ns * jitter / core.cpu.speed + core.fraction;
        core.at += all as u64;
        core.fraction = all.fract();
    }

    /// The running thread accesses memory.
    pub fn access(&mut self, address: usize, access: Access) {
        let (now, cost) = (self.cores[self.running].at, self.machine.cost);
        self.cores[self.running].at = self.lines.access(now, self.running, address, access);
        self.work(cost.step_ns + if access == Access::Change { cost.change_ns } else { cost.hit_ns });
    }

    /// The running thread waits until its stores have reached their lines.
    pub fn fence(&mut self) {
        let core = &mut self.cores[self.running];
        core.at = self.lines.stored(self.running).max(core.at);
        self.work(self.machine.cost.change_ns);
    }

    /// How many threads were started.
    pub fn threads(&self) -> usize {
        self.threads.len()
    }

    /// Whether the running thread may make its next step; otherwise something else comes before.
    pub fn may_step(&mut self) -> bool {
        let at = self.cores[self.running].at;
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
            let timer = self.timers.peek().map_or(NEVER, |Reverse((at, ..))| *at);
            let event = |core: &Core| core.at.min(core.tick_at);
            let soonest = (0..self.cores.len()).min_by_key(|cpu| event(&self.cores[*cpu]));
            let cpu = soonest.expect("a machine has a CPU");
            let at = event(&self.cores[cpu]);
            if timer == NEVER && at == NEVER {
                let is_over = self.threads.iter().all(|thread| thread.state == State::Ended);
                return if is_over { Next::Ended } else { Next::Deadlock };
            }
            if timer <= at {
                self.now = timer;
                self.ring();
            } else if self.cores[cpu].tick_at <= self.cores[cpu].at {
                self.now = at;
                self.tick(cpu, at);
            } else {
                self.running = cpu;
                let others = (0..self.cores.len()).filter(|other| *other != cpu);
                // Of two at one time, the lower number is first.
                let ends =
                    others.map(|other| event(&self.cores[other]).saturating_add(u64::from(other > cpu)));
                self.horizon = ends.min().unwrap_or(NEVER).min(timer).min(self.cores[cpu].tick_at);
                return Next::Step(self.current());
            }
        }
    }

    /// The running thread falls asleep, until it is woken, or until `until_ns` and what its timer
    /// slack allows.
    pub fn sleep(&mut self, until_ns: u64) {
        let (cpu, now, id) = (self.running, self.now_ns(), self.current());
        self.count(cpu, now);
        let thread = &mut self.threads[id];
        thread.state = State::Asleep;
        thread.sleeps += 1;
        thread.times.voluntary += 1;
        thread.ran_at = now;
        if until_ns != NEVER {
            let late_ns = until_ns.max(now).saturating_add(thread.slack_ns);
            self.timers_set += 1;
            self.timers.push(Reverse((late_ns, self.timers_set, id, thread.sleeps)));
        }
        let entity = self.cores[cpu].queue.sleep(id);
        self.threads[id].entity = entity;
        self.cores[cpu].current = None;
        self.choose(cpu, now);
    }

    /// How the last sleep of the running thread ended.
    pub fn awake(&self) -> Awake {
        self.threads[self.current()].awake
    }

    /// The running thread ends.
    pub fn end(&mut self) {
        let (cpu, now, id) = (self.running, self.now_ns(), self.current());
        self.count(cpu, now);
        self.threads[id].state = State::Ended;
        self.cores[cpu].queue.leave(id);
        self.cores[cpu].current = None;
        for joiner in std::mem::take(&mut self.threads[id].joiners) {
            self.wake(joiner, Awake::Woken, cpu, now);
        }
        self.choose(cpu, now);
    }

    /// The running thread falls asleep until another one has ended; `false` if it has.
    pub fn join(&mut self, id: Id) -> bool {
        if self.threads[id].state == State::Ended {
            return false;
        }
        let own = self.current();
        self.threads[id].joiners.push(own);
        self.sleep(NEVER);
        true
    }

    /// The running thread yields.
    pub fn yield_now(&mut self) {
        let (cpu, now) = (self.running, self.now_ns());
        self.count(cpu, now);
        self.cores[cpu].queue.yields(self.machine.scheduler.yield_forfeits);
        self.look_now(cpu, now);
    }

    /// The running thread waits at an address, until it is woken there or the time has come.
    pub fn wait(&mut self, address: usize, expected: u32, set: u32, until_ns: u64) {
        let id = self.current();
        self.waiters.entry(address).or_default().push_back(Waiter { id, set, expected });
        self.sleep(until_ns);
    }

    /// Takes at most `count` waiters at an address that are wanted, the first ones first, and wakes
    /// them. How many there were.
    pub fn wake_waiters(&mut self, address: usize, count: u32, wanted: impl Fn(&Waiter) -> bool) -> usize {
        let Some(queue) = self.waiters.get_mut(&address) else { return 0 };
        let mut woken = Vec::new();
        queue.retain(|waiter| {
            let is_woken = woken.len() < count as usize && wanted(waiter);
            if is_woken {
                woken.push(waiter.id);
            }
            !is_woken
        });
        if queue.is_empty() {
            self.waiters.remove(&address);
        }
        for id in &woken {
            self.work(self.machine.cost.wake_ns);
            self.wake(*id, Awake::Woken, self.running, self.now_ns());
        }
        woken.len()
    }

    /// Sets how late the sleeps of the running thread may end.
    pub fn set_slack_ns(&mut self, slack_ns: u64) {
        let id = self.current();
        self.threads[id].slack_ns = slack_ns;
    }

    /// How late the sleeps of the running thread may end.
    pub fn slack_ns(&self) -> u64 {
        self.threads[self.current()].slack_ns
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
        let Some(Reverse((_, _, id, sleep))) = self.timers.pop() else { return };
        let thread = &self.threads[id];
        if thread.state != State::Asleep || thread.sleeps != sleep {
            return;
        }
        // It may wait at an address.
        self.waiters.retain(|_, queue| {
            queue.retain(|waiter| waiter.id != id);
            !queue.is_empty()
        });
        self.wake(id, Awake::Late, self.threads[id].cpu, self.now);
    }

    /// Wakes a thread, from this CPU.
    fn wake(&mut self, id: Id, awake: Awake, waker: usize, now: u64) {
        if self.threads[id].state != State::Asleep {
            return;
        }
        self.threads[id].awake = awake;
        let last = self.threads[id].cpu;
        let is_idle = |cpu: &usize| self.cores[*cpu].current.is_none();
        let is_near = |cpu: &usize| self.cores[*cpu].cpu.group == self.cores[last].cpu.group;
        let busy = || {
            let two = [last, waker].into_iter().filter(|cpu| self.threads[id].allowed[*cpu]);
            let least = two.min_by_key(|cpu| (self.cores[*cpu].queue.runnable(), *cpu != last));
            least
                .or_else(|| self.allowed_cpus(id).min_by_key(|cpu| (self.cores[*cpu].queue.runnable(), *cpu)))
        };
        let cpu = match () {
            // It burns there what it was ahead.
            () if self.threads[id].entity.is_none() => last,
            () if is_idle(&last) && self.threads[id].allowed[last] => last,
            () => {
                let idle = self.allowed_cpus(id).find(|cpu| is_idle(cpu) && is_near(cpu));
                idle.or_else(busy).expect("a CPU")
            }
        };
        self.place(id, cpu, now);
    }

    /// Puts a thread that becomes runnable into the queue of a CPU.
    fn place(&mut self, id: Id, cpu: usize, now: u64) {
        let thread = &mut self.threads[id];
        if thread.cpu != cpu && thread.state == State::Asleep && thread.times.run_ns > 0 {
            thread.times.migrations += 1;
        }
        (thread.state, thread.cpu, thread.ready_at) = (State::Runnable, cpu, now);
        let slice_ns = self.machine.scheduler.slice_ns;
        let entity = thread.entity.take().unwrap_or(Entity::new(id, WEIGHT, slice_ns));
        let was_idle = self.cores[cpu].current.is_none();
        self.count(cpu, now);
        self.cores[cpu].queue.add(entity);
        self.horizon = 0;
        if was_idle {
            self.choose(cpu, now + self.machine.cost.idle_wake_ns);
        } else if self.cores[cpu].queue.preempts(id) {
            self.look_now(cpu, now);
        } else {
            self.set_tick(cpu, now);
        }
    }

    /// The scheduler chooses anew on this CPU before its thread makes a step.
    fn look_now(&mut self, cpu: usize, now: u64) {
        self.cores[cpu].reschedule = true;
        self.cores[cpu].tick_at = now;
        self.horizon = 0;
    }

    fn tick(&mut self, cpu: usize, now: u64) {
        self.count(cpu, now);
        self.balance(now);
        let core = &mut self.cores[cpu];
        if std::mem::take(&mut core.reschedule) || core.queue.is_over() {
            self.choose(cpu, now);
        } else {
            self.set_tick(cpu, now);
        }
    }

    /// The next tick, if there is anything to decide then.
    fn set_tick(&mut self, cpu: usize, now: u64) {
        let period = 1_000_000_000 / self.machine.scheduler.hz;
        let core = &mut self.cores[cpu];
        if core.reschedule {
            return;
        }
        let is_crowded = core.current.is_some() && core.queue.queued() > 1;
        // All CPUs tick at the same time.
        let next = (now / period + 1) * period;
        core.tick_at = if is_crowded { next } else { NEVER };
    }

    /// Counts what the current thread of a CPU has run.
    fn count(&mut self, cpu: usize, now: u64) {
        let core = &mut self.cores[cpu];
        let Some(id) = core.current else { return };
        let ns = now.saturating_sub(core.began);
        core.began = core.began.max(now);
        core.queue.ran(ns);
        self.threads[id].times.run_ns += ns;
    }

    /// A CPU chooses the thread that it runs next, from `now` on.
    fn choose(&mut self, cpu: usize, now: u64) {
        let before = self.cores[cpu].current;
        if let Some(id) = before {
            let left_ns = self.cores[cpu].at.saturating_sub(now);
            self.threads[id].left_ns = left_ns;
        }
        let mut next = self.pick(cpu);
        if next.is_none() && self.pull(cpu, now) {
            next = self.pick(cpu);
        }
        self.mix(now ^ (cpu as u64) << 48 ^ next.map_or(0, |id| (id as u64 + 1) << 32));
        let core = &mut self.cores[cpu];
        core.reschedule = false;
        core.current = next;
        if let Some(id) = next {
            let thread = &mut self.threads[id];
            if before != next {
                let switch_ns = if core.last == next { 0 } else { self.machine.cost.switch_ns };
                core.at = now + switch_ns + thread.left_ns;
                core.began = now;
                thread.times.wait_ns += now.saturating_sub(thread.ready_at);
            }
            core.last = next;
        } else {
            core.at = NEVER;
        }
        if let Some(id) = before.filter(|_| before != next) {
            let thread = &mut self.threads[id];
            (thread.ready_at, thread.ran_at) = (now, now);
            thread.times.involuntary += 1;
        }
        self.set_tick(cpu, now);
        self.horizon = 0;
    }

    fn pick(&mut self, cpu: usize) -> Option<Id> {
        let threads = &mut self.threads;
        self.cores[cpu].queue.choose(|entity| {
            let id = entity.id();
            threads[id].entity = Some(entity);
        })
    }

    /// A CPU that has nothing to run takes a thread from the fullest one.
    fn pull(&mut self, cpu: usize, now: u64) -> bool {
        let hot_ns = self.machine.scheduler.hot_ns;
        let is_cold = |id: &Id| {
            let thread = &self.threads[*id];
            thread.allowed[cpu] && now.saturating_sub(thread.ran_at) >= hot_ns
        };
        let waits = |from: &usize| self.cores[*from].queue.waiting().filter(is_cold).count();
        let near = |from: &usize| self.cores[*from].cpu.group == self.cores[cpu].cpu.group;
        let full = (0..self.cores.len()).filter(|from| *from != cpu && waits(from) > 0);
        let fullest =
            full.max_by_key(|from| (near(from), self.cores[*from].queue.runnable(), Reverse(*from)));
        let Some(from) = fullest else { return false };
        let longest =
            self.cores[from].queue.waiting().filter(is_cold).min_by_key(|id| self.threads[*id].ready_at);
        longest.is_some_and(|id| self.transfer(id, from, cpu, now))
    }

    /// Moves a waiting thread to the queue of another CPU.
    fn transfer(&mut self, id: Id, from: usize, to: usize, now: u64) -> bool {
        // What is owed depends on what all of them have run.
        self.count(from, now);
        self.count(to, now);
        let Some(entity) = self.cores[from].queue.leave(id) else { return false };
        self.threads[id].cpu = to;
        self.threads[id].times.migrations += 1;
        self.cores[to].queue.add(entity);
        self.horizon = 0;
        true
    }

    /// Moves a thread from the fullest CPU to the emptiest, if it is time.
    fn balance(&mut self, now: u64) {
        let load = |cpu: usize| self.cores[cpu].queue.runnable();
        let cpus = 0..self.cores.len();
        let fullest = cpus.clone().max_by_key(|cpu| (load(*cpu), Reverse(*cpu))).unwrap_or(0);
        let emptiest = cpus.min_by_key(|cpu| (load(*cpu), *cpu)).unwrap_or(0);
        let is_idle = self.cores[emptiest].current.is_none();
        let difference = load(fullest) - load(emptiest);
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
        let may = |id: &Id| self.threads[*id].allowed[emptiest];
        let longest =
            self.cores[fullest].queue.waiting().filter(may).min_by_key(|id| self.threads[*id].ready_at);
        let Some(id) = longest.filter(|id| self.transfer(*id, fullest, emptiest, now)) else { return };
        if is_idle {
            self.choose(emptiest, now + self.machine.cost.idle_wake_ns);
        } else if self.cores[emptiest].queue.preempts(id) {
            self.look_now(emptiest, now);
        } else {
            self.set_tick(emptiest, now);
        }
    }

    fn allowed_cpus(&self, id: Id) -> impl Iterator<Item = usize> + '_ {
        (0..self.cores.len()).filter(move |cpu| self.threads[id].allowed[*cpu])
    }

    fn mix(&mut self, what: u64) {
        self.hash = (self.hash.rotate_left(5) ^ what).wrapping_mul(0x517c_c1b7_2722_0a95);
    }
}
