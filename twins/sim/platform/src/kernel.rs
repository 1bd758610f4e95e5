//! The machine while it runs: virtual time, CPUs, threads that run, wait and sleep.
//!
//! Nothing here knows how a thread is run: `simulation.rs` does that. A thread does one step after
//! the other, and each step takes time. The kernel says which thread makes the next step.
//!
//! 1. Steps are made in the order of time. Before a thread makes a step, everything that happens
//!    earlier on other CPUs has happened. If two things happen at one time, a new period of the
//!    quota comes first, then timers, then the CPU with the lower number, and on one CPU an
//!    interruption before a tick before a step. So a run is the same each time.
//! 2. `horizon` is when something happens at the earliest that is no step of the running thread. It
//!    is computed when a thread begins to run, and is 0 after each step that may change it.
//! 3. While `is_stepping`, the thread of the CPU `running` makes steps, at that CPU's time.
//!    Otherwise it is `now`.
//!
//! | file | what |
//! | --- | --- |
//! | `schedule.rs` | which thread runs on which CPU |
//! | `processor.rs`, `task.rs`, `processes.rs` | a CPU, a thread, the threads of a process |
//! | `queue.rs`: `realtime.rs`, `fair.rs` (`eevdf.rs`, `cfs.rs`) | which thread of a CPU runs next |
//! | `placement.rs` | on which CPU a thread runs |
//! | `bandwidth.rs` | how much CPU time the program may use |
//! | `interruption.rs` | what takes a CPU from all threads |
//! | `timers.rs`, `waiters.rs` | what ends sleeps |
//! | `events.rs` | on which CPU something happens next |

use crate::chance::Chance;
use crate::fair::{Class, Id};
use crate::lines::{Access, Lines};
use crate::machine::Machine;
use crate::processes::FIRST_PROCESS;
use crate::schedule::Schedule;
use crate::shared_files::SharedFiles;
use crate::task::{Awake, NEIGHBOUR, State, Times};
use crate::timers::{NEVER, Timers};
use crate::trace::{Does, Trace};
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
    schedule: Schedule,
    timers: Timers,
    waiters: Waiters,
    lines: Lines,
    /// Files that the program makes
    pub files: SharedFiles,
    chance: Chance,
    steps: u64,
    /// The CPU whose thread makes steps, or did last.
    running: usize,
    is_stepping: bool,
    now: u64,
}

impl Kernel {
    /// The machine before anything runs, but for neighbours.
    pub fn new(machine: &Machine, seed: u64) -> Kernel {
        Kernel {
            schedule: Schedule::new(machine, seed),
            timers: Timers::default(),
            waiters: Waiters::default(),
            lines: Lines::new(machine),
            files: SharedFiles::default(),
            chance: Chance::new(seed),
            steps: 0,
            running: 0,
            is_stepping: false,
            now: 0,
        }
    }

    /// The thread that makes a step.
    pub fn current(&self) -> Id {
        self.schedule.processors[self.running].current.expect("a thread runs")
    }

    /// The CPU on which it runs.
    pub fn current_cpu(&self) -> usize {
        self.running
    }

    /// When the running thread makes its next step.
    pub fn now_ns(&self) -> u64 {
        if self.is_stepping { self.schedule.processors[self.running].at } else { self.now }
    }

    /// The CPUs that a thread may run on.
    pub fn allowed(&self, id: Id) -> impl Iterator<Item = usize> + '_ {
        self.schedule.tasks[id].cpus()
    }

    /// What a thread has got and lost until now.
    pub fn times(&self, id: Id) -> Times {
        let task = &self.schedule.tasks[id];
        let processor = &self.schedule.processors[task.cpu];
        let is_current = processor.current == Some(id);
        let running_ns = if is_current { self.now_ns().saturating_sub(processor.began) } else { 0 };
        Times { run_ns: task.times.run_ns + running_ns, ..task.times }
    }

    /// What a thread does.
    pub fn state(&self, id: Id) -> State {
        self.schedule.tasks[id].state
    }

    /// How many threads are in the queues of all CPUs, with those that run.
    pub fn queued(&self) -> usize {
        self.schedule.processors.iter().map(|processor| processor.queue.queued()).sum()
    }

    /// How many threads neighbours have.
    pub fn neighbours(&self) -> usize {
        self.schedule.tasks.neighbours.len()
    }

    /// For each CPU, how long it has run threads.
    pub fn busy_ns(&self) -> impl Iterator<Item = u64> + '_ {
        let now = self.now_ns();
        self.schedule.processors.iter().map(move |processor| processor.busy_ns(now))
    }

    /// A number that is the same for two runs only if the same has happened in both.
    pub fn hash(&self) -> u64 {
        self.schedule.hash()
    }

    /// How many steps were made.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// A new thread of the running one's process, which may run on these CPUs; on all if there are
    /// none. It is treated as the thread is that starts it.
    pub fn start(&mut self, cpus: &[usize]) -> Id {
        self.start_in(self.process(), cpus)
    }

    /// The same, in a process of its own.
    pub fn start_process(&mut self) -> Id {
        let process = self.schedule.tasks.processes.begin();
        self.start_in(process, &[])
    }

    fn start_in(&mut self, process: u32, cpus: &[usize]) -> Id {
        let class = if self.is_stepping { self.class(self.current()) } else { Class::default() };
        let allowed = self.schedule.allowed(cpus);
        self.schedule.start(process, class, self.running, allowed, self.now_ns())
    }

    /// The number of the running thread's process.
    pub fn process(&self) -> u32 {
        if self.is_stepping { self.schedule.tasks[self.current()].process } else { FIRST_PROCESS }
    }

    /// The threads of a process, those that have ended included; `None` if it has ended.
    pub fn threads_of(&self, process: u32) -> Option<&[Id]> {
        let threads = self.schedule.tasks.processes.threads(process);
        threads.iter().any(|id| self.state(*id) != State::Ended).then_some(threads)
    }

    /// The numbers of the processes that have not ended.
    pub fn processes(&self) -> impl Iterator<Item = u32> + '_ {
        self.schedule.tasks.processes.numbers().filter(|process| self.threads_of(*process).is_some())
    }

    /// The CPU time that all threads of a process have used; `None` if it has ended.
    pub fn process_ns(&self, process: u32) -> Option<u64> {
        Some(self.threads_of(process)?.iter().map(|id| self.times(*id).run_ns).sum())
    }

    /// How the scheduler treats a thread.
    pub fn class(&self, id: Id) -> Class {
        self.schedule.tasks[id].class
    }

    /// Sets the nice value of a thread: from -20 to 19.
    pub fn set_nice(&mut self, id: Id, nice: i32) {
        let class = Class { nice: nice.clamp(-20, 19), ..self.class(id) };
        self.schedule.set_class(id, class, self.now_ns());
    }

    /// Makes a thread a real-time one (`SCHED_FIFO`) of this priority, from 1 to 99; with 0 it is
    /// an ordinary one again.
    pub fn set_fifo(&mut self, id: Id, priority: u8) {
        let class = Class { priority: priority.min(99), ..self.class(id) };
        self.schedule.set_class(id, class, self.now_ns());
    }

    /// Limits the running thread to these CPUs. Returns whether it has left its CPU.
    pub fn allow(&mut self, cpus: &[usize]) -> bool {
        let (id, from, now) = (self.current(), self.running, self.now_ns());
        let leaves = !cpus.contains(&from);
        if leaves {
            self.stop(now);
        }
        self.limit(id, cpus, now);
        leaves
    }

    /// Limits another thread to these CPUs.
    pub fn allow_other(&mut self, id: Id, cpus: &[usize]) {
        assert_ne!(id, self.current(), "another thread");
        self.limit(id, cpus, self.now_ns());
    }

    fn limit(&mut self, id: Id, cpus: &[usize], now: u64) {
        assert!(!cpus.is_empty(), "a thread may run on a CPU of the machine");
        let allowed = self.schedule.allowed(cpus);
        assert!(allowed.contains(&true), "a thread may run on a CPU of the machine");
        self.schedule.allow(id, allowed, now);
    }

    /// For how long the quota has throttled CPUs, summed over CPUs.
    pub fn throttled_ns(&self) -> u64 {
        self.schedule.throttled_ns(self.now_ns())
    }

    /// The running thread calculates for as long as a CPU of speed 1 takes `ns` nanoseconds for.
    pub fn work(&mut self, ns: f64) {
        let ns = self.varied(ns);
        self.schedule.share_from_now(self.running);
        self.schedule.processors[self.running].work(ns);
    }

    /// As [`Kernel::work`], with instructions that do nothing: slow CPUs are less slow at it.
    pub fn work_nops(&mut self, ns: f64) {
        let ns = self.varied(ns);
        self.schedule.share_from_now(self.running);
        self.schedule.processors[self.running].work_nops(ns);
    }

    /// The running thread executes a PAUSE.
    pub fn pause(&mut self) {
        let ns = self.varied(self.schedule.machine.cost.pause_ns);
        self.schedule.processors[self.running].pause(ns);
    }

    /// Two runs that differ in nothing else than the seed must be able to go different ways.
    fn varied(&mut self, ns: f64) -> f64 {
        ns * (0.95 + 0.1 * self.chance.unit())
    }

    /// The running thread accesses memory.
    pub fn access(&mut self, address: usize, access: Access) {
        let (processor, cost) = (&mut self.schedule.processors[self.running], self.schedule.machine.cost);
        processor.at = self.lines.access(processor.at, self.running, address, access);
        self.work(cost.step_ns + if access == Access::Change { cost.change_ns } else { cost.hit_ns });
    }

    /// The running thread waits until its stores have reached their lines.
    pub fn fence(&mut self) {
        let processor = &mut self.schedule.processors[self.running];
        processor.at = self.lines.stored(self.running).max(processor.at);
        self.work(self.schedule.machine.cost.change_ns);
    }

    /// How many threads were started.
    pub fn threads(&self) -> usize {
        self.schedule.tasks.program.len()
    }

    /// Whether the running thread may make its next step; otherwise something else comes before.
    #[inline]
    pub fn may_step(&mut self) -> bool {
        let at = self.schedule.processors[self.running].at;
        if at >= self.schedule.horizon {
            return false;
        }
        self.steps += 1;
        self.now = at;
        self.schedule.mix(at ^ (self.running as u64) << 56);
        true
    }

    /// What happens next, in the order of time.
    pub fn advance(&mut self) -> Next {
        self.is_stepping = false;
        self.schedule.touch(self.running);
        loop {
            if self.schedule.able == 0 {
                return if self.schedule.live == 0 { Next::Ended } else { Next::Deadlock };
            }
            let (timer, refill_at) = (self.timers.next_ns(), self.schedule.refill_at());
            let (cpu, at) = self.schedule.events.first().unwrap_or((0, NEVER));
            if refill_at.min(timer) <= at {
                self.now = refill_at.min(timer);
                if refill_at <= timer { self.schedule.refill(self.now) } else { self.ring() }
            } else if self.schedule.before_step(cpu) <= at {
                self.now = at;
                self.schedule.interrupt(cpu, at);
            } else if self.schedule.processors[cpu].current >= Some(NEIGHBOUR) {
                self.now = at;
                let (until_ns, id, sleep) = self.schedule.rest(cpu, at);
                self.timers.set(until_ns, id, sleep);
            } else {
                (self.running, self.is_stepping) = (cpu, true);
                let others = self.schedule.events.until_others(cpu);
                self.schedule.horizon = others.min(timer).min(refill_at).min(self.schedule.before_step(cpu));
                return Next::Step(self.current());
            }
        }
    }

    /// The running thread makes no further step, from `now` on.
    fn stop(&mut self, now: u64) {
        (self.is_stepping, self.now) = (false, now);
    }

    /// The running thread falls asleep, until it is woken, or until `until_ns` and what its timer
    /// slack allows.
    pub fn sleep(&mut self, until_ns: u64) {
        let (now, slack_ns) = (self.now_ns(), self.slack_ns());
        self.stop(now);
        let is_timed = until_ns != NEVER;
        let (id, sleep) = self.schedule.sleep(self.running, is_timed, now);
        if is_timed {
            self.timers.set(until_ns.max(now).saturating_add(slack_ns), id, sleep);
        }
    }

    /// Keeps the first events of the run, at most this number.
    pub fn keep_trace(&mut self, most: usize) {
        self.schedule.trace = Trace::new(most);
    }

    /// What was kept.
    pub fn take_trace(&mut self) -> Trace {
        std::mem::take(&mut self.schedule.trace)
    }

    /// The program says what the running thread does.
    pub fn says(&mut self, words: &'static str) {
        let (now, id) = (self.now_ns(), self.current());
        self.schedule.trace.add(now, id, Does::Says(words));
    }

    /// How the last sleep of the running thread ended.
    pub fn awake(&self) -> Awake {
        self.schedule.tasks[self.current()].awake
    }

    /// The running thread ends.
    pub fn end(&mut self) {
        let (cpu, now) = (self.running, self.now_ns());
        self.stop(now);
        for joiner in self.schedule.end(cpu, now) {
            self.schedule.wake(joiner, Awake::Woken, cpu, now);
        }
        self.schedule.choose(cpu, now);
    }

    /// The running thread falls asleep until another one has ended; `false` if it has.
    pub fn join(&mut self, id: Id) -> bool {
        if self.schedule.tasks[id].state == State::Ended {
            return false;
        }
        let own = self.current();
        self.schedule.tasks[id].joiners.push(own);
        self.sleep(NEVER);
        true
    }

    /// The running thread yields.
    pub fn yield_now(&mut self) {
        self.schedule.yields(self.running, self.now_ns());
    }

    /// The running thread waits at an address, until it is woken there or the time has come.
    pub fn wait(&mut self, address: usize, expected: u32, set: u32, until_ns: u64) {
        let id = self.current();
        self.waiters.add(address, Waiter { id, set, expected });
        let now = self.now_ns();
        self.sleep(until_ns);
        self.schedule.trace.add(now, id, Does::SleepsAt(address));
    }

    /// Takes at most `count` waiters at an address that are wanted, the first ones first, and wakes
    /// them. How many there were.
    pub fn wake_waiters(&mut self, address: usize, count: u32, wanted: impl Fn(&Waiter) -> bool) -> usize {
        let woken = self.waiters.take(address, count, wanted);
        for id in &woken {
            let now = self.now_ns();
            self.schedule.trace.add(now, *id, Does::IsWoken);
            self.work(self.schedule.machine.cost.wake_ns);
            if self.schedule.wake(*id, Awake::Woken, self.running, self.now_ns()) {
                self.work(self.schedule.machine.cost.kick_ns);
            }
        }
        woken.len()
    }

    /// Sets how late the sleeps of the running thread may end.
    pub fn set_slack_ns(&mut self, slack_ns: u64) {
        let id = self.current();
        self.schedule.tasks[id].slack_ns = slack_ns;
    }

    /// How late the sleeps of the running thread may end.
    pub fn slack_ns(&self) -> u64 {
        self.schedule.tasks[self.current()].slack_ns
    }

    /// The running thread makes a system call.
    pub fn call(&mut self) {
        self.work(self.schedule.machine.cost.call_ns);
    }

    /// What things cost here.
    pub fn machine(&self) -> &Machine {
        &self.schedule.machine
    }

    /// The first timer ends.
    fn ring(&mut self) {
        let Some((id, sleep)) = self.timers.take() else { return };
        let task = &self.schedule.tasks[id];
        if task.state == State::Asleep && task.sleeps == sleep {
            // It may wait at an address.
            self.waiters.forget(id);
            self.schedule.wake(id, Awake::Late, self.schedule.tasks[id].cpu, self.now);
        }
    }
}
