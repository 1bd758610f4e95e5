//! What this process' threads used: CPU time, time in the run queue, switches.
//!
//! By `/proc/self/task/T/schedstat`, in nanoseconds, where the kernel has it; otherwise CPU time by
//! `stat`, in ticks, and no time in the run queue. The thread's name says what the time was used
//! for: the control thread of a pool has it in its name, the first thread submits the jobs, all
//! others are workers. Threads that have ended are not counted.

use std::fs;
use std::path::Path;

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
        let mut sum = Usage { cpu_ns: process_ns(), ..Usage::default() };
        let first = std::process::id().to_string();
        for task in fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
            let folder = task.path();
            if task.file_name().to_str() == Some(&first) {
                continue;
            }
            let name = fs::read_to_string(folder.join("comm")).unwrap_or_default();
            let (cpu_ns, wait_ns) = times(&folder);
            sum.pool_ns += cpu_ns;
            if CONTROL.iter().any(|word| name.contains(word)) {
                sum.control_ns += cpu_ns;
            }
            sum.wait_ns += wait_ns;
            let status = fs::read_to_string(folder.join("status")).unwrap_or_default();
            sum.sleeps += field(&status, "voluntary_ctxt_switches:");
            sum.preemptions += field(&status, "nonvoluntary_ctxt_switches:");
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

/// The CPU time of all threads, also of ended ones.
fn process_ns() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes the time that is given to it, and nothing else.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// A thread's CPU time and its time in the run queue, in nanoseconds.
fn times(folder: &Path) -> (f64, f64) {
    if let Ok(text) = fs::read_to_string(folder.join("schedstat")) {
        let mut fields = text.split_whitespace().map(|field| field.parse().unwrap_or(0.0));
        return (fields.next().unwrap_or(0.0), fields.next().unwrap_or(0.0));
    }
    let text = fs::read_to_string(folder.join("stat")).unwrap_or_default();
    (cpu_ticks(&text) * tick_ns(), 0.0)
}

/// CPU time in a line of `stat`: its 14th and 15th field, counted behind the name, which may hold
/// anything.
fn cpu_ticks(stat: &str) -> f64 {
    let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
    let times = fields.split(' ').skip(11).take(2);
    times.map(|field| field.parse::<f64>().unwrap_or(0.0)).sum()
}

fn tick_ns() -> f64 {
    // SAFETY: the call reads a constant of the system.
    let per_s = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    1e9 / per_s.max(1) as f64
}

fn field(status: &str, name: &str) -> f64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|value| value.trim().parse().ok()).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_blanks_and_brackets_moves_no_field() {
        let stat = "12 (a) b) c) S 1 2 3 4 5 6 7 8 9 10 70 30 5 6 20 0";
        assert_eq!(cpu_ticks(stat), 100.0);
        assert_eq!(cpu_ticks("nonsense"), 0.0);
    }

    #[test]
    fn voluntary_and_other_switches_have_their_own_figures() {
        let status = "Name:\tx\nvoluntary_ctxt_switches:\t7\nnonvoluntary_ctxt_switches:\t9\n";
        assert_eq!(field(status, "voluntary_ctxt_switches:"), 7.0);
        assert_eq!(field(status, "nonvoluntary_ctxt_switches:"), 9.0);
        assert_eq!(field(status, "absent:"), 0.0);
    }

    #[test]
    fn a_thread_that_computes_is_seen() {
        // The link says PROCESS/task/THREAD.
        let folder = Path::new("/proc").join(fs::read_link("/proc/thread-self").unwrap());
        let (process_before, (before, _)) = (process_ns(), times(&folder));
        // Its time shows when the kernel next looks at it.
        while times(&folder).0 <= before {
            super::super::work::compute();
        }
        assert!(process_ns() > process_before);
    }
}
