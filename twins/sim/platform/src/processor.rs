//! A CPU: the thread that it runs, its queue, and when something happens there next.
//!
//! 1. `current` makes its next step at `at`, which is `NEVER` if there is none.
//! 2. The scheduler looks at the CPU at `tick_at`: at the next tick, while more than one thread is
//!    queued, or at once if it is to choose anew.
//! 3. Nothing happens before `stopped_until`: the CPU was taken from its threads.
//!
//! The CPUs of one core share it: while another one of them runs a thread, the work of each takes
//! longer by the factor `1 / smt_share`. This is simpler than a real core: all threads take the
//! same part of it. But in a PAUSE a thread issues nothing: PAUSE takes as long as ever, and a
//! thread that spends a part of its time in it (of about the last `PAUSED_NS`) takes that much less
//! from the others. How much that is at the beginning of a piece of work holds until its end.

use crate::fair::Id;
use crate::machine::{Cpu, Scheduler};
use crate::queue::Queue;
use crate::timers::NEVER;
use std::ops::Range;

/// The time constant of the moving average that says how much of its time a thread is in PAUSE.
const PAUSED_NS: f64 = 1_000.0;

/// A CPU.
#[derive(Debug)]
pub struct Processor {
    /// Where it is, and how fast
    pub cpu: Cpu,
    /// The CPUs of its core, with itself
    pub core: Range<usize>,
    /// The threads that are runnable here
    pub queue: Queue,
    /// The thread that runs
    pub current: Option<Id>,
    /// When it makes its next step
    pub at: u64,
    /// Parts of a nanosecond that were not counted yet
    fraction: f64,
    /// The part of its core that it has
    pub share: f64,
    /// The part of its time that its thread has lately spent in PAUSE
    pub paused: f64,
    /// When the scheduler looks at this CPU next
    pub tick_at: u64,
    /// Whether it then chooses anew
    pub reschedule: bool,
    /// Since when the run time of the current thread is not counted
    pub began: u64,
    /// How long it has run threads, as far as that is counted
    counted_ns: u64,
    /// The thread that ran last
    pub last: Option<Id>,
    /// When the CPU comes back that was taken from its threads
    pub stopped_until: u64,
}

impl Processor {
    /// The CPUs of a machine, which run nothing.
    pub fn all(cpus: Vec<Cpu>, scheduler: &Scheduler) -> Vec<Processor> {
        let core = |own: &Cpu| {
            let of_core = |cpu: &Cpu| cpu.core == own.core;
            let first = cpus.iter().position(of_core).unwrap_or(0);
            first..first + cpus.iter().filter(|cpu| of_core(cpu)).count()
        };
        let processor = |cpu: &Cpu| Processor {
            cpu: *cpu,
            core: core(cpu),
            queue: Queue::new(scheduler),
            current: None,
            at: NEVER,
            fraction: 0.0,
            share: 1.0,
            paused: 0.0,
            tick_at: NEVER,
            reschedule: false,
            began: 0,
            counted_ns: 0,
            last: None,
            stopped_until: 0,
        };
        cpus.iter().map(processor).collect()
    }

    /// Whether it runs nothing.
    pub fn is_idle(&self) -> bool {
        self.current.is_none()
    }

    /// When something happens here next, but for interruptions.
    pub fn event(&self) -> u64 {
        self.at.min(self.tick_at)
    }

    /// Sets the part of its core that it has. What its thread is in the middle of takes longer or
    /// shorter from now on.
    pub fn set_share(&mut self, now: u64, share: f64) {
        if share != self.share {
            let left = self.left(now);
            self.share = share;
            self.at = if left > 0 { self.resumed(now, left) } else { self.at };
        }
    }

    /// How long a CPU of speed 1 takes for what its thread is in the middle of.
    pub fn left(&self, now: u64) -> u64 {
        if self.at == NEVER {
            0
        } else {
            self.scaled(self.at.saturating_sub(now), self.cpu.speed * self.share)
        }
    }

    /// When something is done that a CPU of speed 1 takes `left` for, if it goes on at `start`.
    pub fn resumed(&self, start: u64, left: u64) -> u64 {
        start + self.scaled(left, 1.0 / (self.cpu.speed * self.share))
    }

    fn scaled(&self, ns: u64, factor: f64) -> u64 {
        if factor == 1.0 { ns } else { (ns as f64 * factor) as u64 }
    }

    /// Its thread calculates for so long at speed 1.
    pub fn work(&mut self, ns: f64) {
        self.pass(ns / (self.cpu.speed * self.share), 0.0);
    }

    /// Its thread executes instructions that do nothing for so long at speed 1.
    pub fn work_nops(&mut self, ns: f64) {
        self.pass(ns / (self.cpu.nop_speed * self.share), 0.0);
    }

    /// Its thread executes a PAUSE that takes so long at speed 1.
    pub fn pause(&mut self, ns: f64) {
        self.pass(ns / self.cpu.speed, 1.0);
    }

    fn pass(&mut self, ns: f64, paused: f64) {
        self.paused += (paused - self.paused) * ns / (ns + PAUSED_NS);
        let all = ns + self.fraction;
        self.at += all as u64;
        self.fraction = all.fract();
    }

    /// Counts until now what its thread has run: the thread, and how long.
    pub fn count(&mut self, now: u64) -> Option<(Id, u64)> {
        let id = self.current?;
        let ns = now.saturating_sub(self.began);
        self.began = self.began.max(now);
        self.counted_ns += ns;
        self.queue.ran(ns);
        Some((id, ns))
    }

    /// How long it has run threads.
    pub fn busy_ns(&self, now: u64) -> u64 {
        self.counted_ns + self.current.map_or(0, |_| now.saturating_sub(self.began))
    }

    /// The CPU is taken from its threads for so long. `is_counted`: this is run time of its thread.
    pub fn stop(&mut self, now: u64, ns: u64, is_counted: bool) {
        self.stopped_until = self.stopped_until.max(now) + ns;
        if self.current.is_some() {
            self.at += ns;
            self.began += if is_counted { 0 } else { ns };
        }
        if self.tick_at != NEVER {
            self.tick_at = self.tick_at.max(self.stopped_until);
        }
    }

    /// The scheduler is to choose anew before the thread makes a step.
    pub fn look_now(&mut self, now: u64) {
        (self.reschedule, self.tick_at) = (true, now.max(self.stopped_until));
    }

    /// Sets the next tick, if there is anything to decide then: if more than one thread is queued,
    /// or if what the thread runs `is_limited`. All CPUs tick at the same time.
    pub fn set_tick(&mut self, now: u64, period_ns: u64, is_limited: bool) {
        if !self.reschedule {
            let ticks = !self.is_idle() && (is_limited || self.queue.queued() > 1);
            let next = ((now / period_ns + 1) * period_ns).max(self.stopped_until);
            self.tick_at = if ticks { next } else { NEVER };
        }
    }
}
