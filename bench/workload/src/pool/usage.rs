//! What this process' threads used: CPU time, time in the run queue, switches.
//!
//! By `/proc/self/task/T/schedstat`, in nanoseconds, where the kernel has it; otherwise CPU time by
//! `stat`, in ticks, and no time in the run queue. The thread's name says what the time was used
//! for: the control thread of a pool has it in its name, the first thread submits the jobs, all
//! others are workers. Threads that have ended are not counted.

use platform::clock;
use procfs::process::Process;

/// A thread with one of these in its name steers a pool.
const CONTROL: [&str; 2] = ["control", "gate"];

/// The usage up to some moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// CPU time of the whole process, in nanoseconds
    pub cpu_ns: f64,
    /// … of the threads of the pool: all but the first
    pub pool_ns: f64,
    /// … of the threads among these that steer the pool
    pub control_ns: f64,
    /// Time in the run queue of all threads but the first
    pub wait_ns: f64,
    /// How many times a thread of the pool went to sleep
    pub sleeps: f64,
    /// How many times a thread of the pool was preempted
    pub preemptions: f64,
}

impl Usage {
    /// Until now.
    pub fn now() -> Usage {
        let mut sum = Usage { cpu_ns: clock::process_cpu_ns() as f64, ..Usage::default() };
        let first = std::process::id() as i32;
        let own = Process::myself().and_then(|process| process.tasks());
        for task in own.into_iter().flatten().flatten().filter(|task| task.tid != first) {
            // A thread that ends meanwhile is not counted.
            let (Ok(stat), Ok(status)) = (task.stat(), task.status()) else { continue };
            let (cpu_ns, wait_ns) = task.schedstat().map_or_else(
                |_| ((stat.utime + stat.stime) as f64 * 1e9 / procfs::ticks_per_second() as f64, 0.0),
                |times| (times.sum_exec_runtime as f64, times.run_delay as f64),
            );
            sum.pool_ns += cpu_ns;
            if CONTROL.iter().any(|word| stat.comm.contains(word)) {
                sum.control_ns += cpu_ns;
            }
            sum.wait_ns += wait_ns;
            sum.sleeps += status.voluntary_ctxt_switches.unwrap_or(0) as f64;
            sum.preemptions += status.nonvoluntary_ctxt_switches.unwrap_or(0) as f64;
        }
        sum
    }

    /// Since an earlier moment.
    pub fn since(self, before: Usage) -> Usage {
        Usage {
            cpu_ns: self.cpu_ns - before.cpu_ns,
            pool_ns: self.pool_ns - before.pool_ns,
            control_ns: self.control_ns - before.control_ns,
            wait_ns: self.wait_ns - before.wait_ns,
            sleeps: self.sleeps - before.sleeps,
            preemptions: self.preemptions - before.preemptions,
        }
    }

    /// As figures by name.
    pub fn values(self) -> [(&'static str, f64); 6] {
        [
            ("cpu_ns", self.cpu_ns),
            ("pool_ns", self.pool_ns),
            ("control_ns", self.control_ns),
            ("wait_ns", self.wait_ns),
            ("sleeps", self.sleeps),
            ("preemptions", self.preemptions),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn a_thread_that_computes_is_seen() {
        let (over, before) = (AtomicBool::new(false), Usage::now());
        std::thread::scope(|scope| {
            let works = || {
                while !over.load(Ordering::Relaxed) {
                    super::super::work::compute();
                }
            };
            std::thread::Builder::new().name("a) gate".into()).spawn_scoped(scope, works).unwrap();
            // Its time shows when the kernel next looks at it.
            while Usage::now().control_ns <= before.control_ns {
                std::thread::yield_now();
            }
            over.store(true, Ordering::Relaxed);
        });
        assert!(clock::process_cpu_ns() as f64 > before.cpu_ns);
    }
}
