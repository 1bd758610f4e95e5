//! The cases: the work of threads in and between their critical sections, and CPU hogs beside them.

/// A case, and the thread counts at which it is measured.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// The name on the command line and in tables.
    pub name: &'static str,
    /// A description for readers of the table.
    pub about: &'static str,
    /// The default thread counts.
    pub threads: &'static [usize],
    /// The work of a thread.
    pub work: Work,
    /// The number of processes that run beside it and never sleep.
    pub hogs: usize,
}

/// The work of a thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct Work {
    /// Only the first thread locks and unlocks, without other work, while the main
    /// thread sleeps.
    pub uncontended: bool,
    /// Busy time between epochs, the 600 NOPs included. It is wall time, not CPU time.
    pub think_ns: u64,
    /// Busy time in each critical section, its cache lines included.
    pub hold_ns: u64,
    /// The factor by which a little thread's sections and busy time take longer. Every second
    /// thread is little, unless the factor is 1.
    pub dilation: f64,
}

const PLAIN: Work = Work { uncontended: false, think_ns: 0, hold_ns: 0, dilation: 1.0 };

/// All cases, in the order in which they run.
pub const CASES: &[Case] = &[
    Case {
        name: "uncontended",
        about: "one lock and unlock while a second thread sleeps",
        threads: &[2],
        work: Work { uncontended: true, ..PLAIN },
        hogs: 0,
    },
    Case {
        name: "scaling",
        about: "4 critical sections over 2 locks, 64 cache lines, 600 NOPs between epochs",
        threads: &[1, 2, 4, 8, 16, 32, 64],
        work: PLAIN,
        hogs: 0,
    },
    Case { name: "hogs", about: "scaling beside 2 CPU hogs", threads: &[8, 16], work: PLAIN, hogs: 2 },
    Case {
        name: "parallel",
        about: "20 µs of private work between epochs",
        threads: &[16],
        work: Work { think_ns: 20_000, ..PLAIN },
        hogs: 0,
    },
    Case {
        name: "long",
        about: "128 µs in each critical section",
        threads: &[32],
        work: Work { hold_ns: 128_000, ..PLAIN },
        hogs: 0,
    },
    Case {
        name: "dilated-1.8",
        about: "4 µs of critical sections an epoch; every second thread takes 1.8 times as long",
        threads: &[2, 8],
        work: Work { think_ns: 150, hold_ns: 930, dilation: 1.8, ..PLAIN },
        hogs: 0,
    },
    Case {
        name: "dilated-3.75",
        about: "4 µs of critical sections an epoch; every second thread takes 3.75 times as long",
        threads: &[2, 8],
        work: Work { think_ns: 150, hold_ns: 930, dilation: 3.75, ..PLAIN },
        hogs: 0,
    },
];
