//! What is measured of one CPU, or of two that are neighbours: its name, and which mechanism
//! measures it.

use super::topology::Topology;
use super::{chase, handover, instructions, samples, wake};
use crate::error::Error;
use crate::harness::Sample;
use Quantity::{
    Addition, Call, Change, FutexWait, FutexWake, Hit, Late, Memory, Now, Pause, Ticks, UntilRun,
    UntilRunLong, WakeBeside, WakeIdle,
};

contention::named! {
    /// What is measured on one CPU, or on two that are neighbours.
    pub enum Quantity {
        Addition = "addition",
        Hit = "load from the first cache",
        Change = "exchange of an owned line",
        Memory = "load from memory",
        Pause = "pause",
        Ticks = "clock: ticks",
        Now = "clock: the kernel's",
        Call = "system call",
        FutexWait = "futex wait: the word has changed",
        FutexWake = "futex wake: no thread waits",
        WakeBeside = "wake-up on the own CPU: the call",
        WakeIdle = "wake-up of an idle CPU: the call",
        UntilRun = "wake-up of an idle CPU: until it runs",
        UntilRunLong = "the same, idle for 2 ms",
        Turn = "turn of two threads on one CPU",
        Late = "sleep of 100 µs: late by",
    }
}

impl Quantity {
    /// Measures it once.
    ///
    /// # Errors
    /// If a thread may not run on one of the CPUs.
    pub fn measure(self, topology: &Topology) -> Result<Sample, Error> {
        let two = topology.neighbours();
        let alone = |measure: fn() -> samples::Samples| {
            samples::alone(two[0], measure).map(|samples| samples.summary())
        };
        match self {
            Addition => alone(instructions::addition),
            Hit => alone(chase::hit),
            Change => alone(instructions::change),
            Memory => samples::alone(two[0], || chase::miss(topology.cache_bytes)).map(|it| it.summary()),
            Pause => alone(instructions::pause),
            Ticks => alone(instructions::ticks),
            Now => alone(instructions::now),
            Call => alone(instructions::call),
            FutexWait => alone(instructions::futex_wait),
            FutexWake => alone(instructions::futex_wake),
            WakeBeside => wake::beside(two[0], 1_000).map(|wakes| wakes.call.summary()),
            WakeIdle => wake::of_idle(two, wake::SHORT_NS, 1_000).map(|wakes| wakes.call.summary()),
            UntilRun => wake::of_idle(two, wake::SHORT_NS, 1_000).map(|wakes| wakes.until_run.summary()),
            UntilRunLong => wake::of_idle(two, wake::LONG_NS, 100).map(|wakes| wakes.until_run.summary()),
            Quantity::Turn => handover::turns(two[0]),
            Late => alone(|| wake::sleeps(200)),
        }
    }
}
