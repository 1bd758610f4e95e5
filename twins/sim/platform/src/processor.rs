//! A CPU: the thread that it runs, its queue, and when something happens there next.
//!
//! 1. `current` makes its next step at `at`, which is `NEVER` if there is none.
//! 2. The scheduler looks at the CPU at `tick_at`: at the next tick, while more than one thread is
//!    queued, or at once if it is to choose anew.

use crate::eevdf::{Id, Queue};
use crate::machine::Cpu;
use crate::timers::NEVER;

/// A CPU.
#[derive(Debug)]
pub struct Processor {
    /// Where it is, and how fast
    pub cpu: Cpu,
    /// The threads that are runnable here
    pub queue: Queue,
    /// The thread that runs
    pub current: Option<Id>,
    /// When it makes its next step
    pub at: u64,
    /// Parts of a nanosecond that were not counted yet
    fraction: f64,
    /// When the scheduler looks at this CPU next
    pub tick_at: u64,
    /// Whether it then chooses anew
    pub reschedule: bool,
    /// Since when the run time of the current thread is not counted
    pub began: u64,
    /// The thread that ran last
    pub last: Option<Id>,
}

impl Processor {
    /// A CPU that runs nothing.
    pub fn new(cpu: Cpu) -> Processor {
        Processor {
            cpu,
            queue: Queue::default(),
            current: None,
            at: NEVER,
            fraction: 0.0,
            tick_at: NEVER,
            reschedule: false,
            began: 0,
            last: None,
        }
    }

    /// Whether it runs nothing.
    pub fn is_idle(&self) -> bool {
        self.current.is_none()
    }

    /// When something happens here next.
    pub fn event(&self) -> u64 {
        self.at.min(self.tick_at)
    }

    /// Its thread does something that takes so long at speed 1.
    pub fn work(&mut self, ns: f64) {
        let all = ns / self.cpu.speed + self.fraction;
        self.at += all as u64;
        self.fraction = all.fract();
    }

    /// Counts until now what its thread has run: the thread, and how long.
    pub fn count(&mut self, now: u64) -> Option<(Id, u64)> {
        let id = self.current?;
        let ns = now.saturating_sub(self.began);
        self.began = self.began.max(now);
        self.queue.ran(ns);
        Some((id, ns))
    }

    /// The scheduler is to choose anew before the thread makes a step.
    pub fn look_now(&mut self, now: u64) {
        (self.reschedule, self.tick_at) = (true, now);
    }

    /// Sets the next tick, if there is anything to decide then. All CPUs tick at the same time.
    pub fn set_tick(&mut self, now: u64, period_ns: u64) {
        if !self.reschedule {
            let is_crowded = !self.is_idle() && self.queue.queued() > 1;
            self.tick_at = if is_crowded { (now / period_ns + 1) * period_ns } else { NEVER };
        }
    }
}
