//! For how long threads of this process wait for a CPU, by the kernel's own tracer (ftrace).
//!
//! The tracer notes each switch of threads and each wake-up, with the CPU's counter of cycles. So
//! what is measured does not depend on when the threads themselves look. An *instance* of the
//! tracer has buffers of its own, and disturbs no other user of it.
//!
//! | what happens | what begins |
//! | --- | --- |
//! | a switch away from a thread that could go on (`prev_state=R`) | a wait of a thread that has lost its CPU |
//! | a thread begins to wake another one (`sched_waking`; `sched_wakeup` comes only when the other one's CPU knows) | a wait of a thread that has slept |
//! | a switch to the thread | nothing: the wait is over |
//!
//! It needs root, and an x86 CPU.

use platform::clock::now_ns;
use platform_sim::trace::Waits;
use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Where the tracer is: its own mount, or that in the file system for debugging.
const FOLDERS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
/// What each CPU keeps; older events are lost.
const BUFFER_KIB: &str = "16384";

/// The tracer, which notes what happens until it ends.
#[derive(Debug)]
pub(super) struct Tracer {
    folder: PathBuf,
    began: (u64, u64),
}

/// The counter of cycles, and the clock.
fn now() -> Result<(u64, u64), String> {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 CPU has the instruction, and it only reads.
    return Ok((unsafe { core::arch::x86_64::_rdtsc() }, now_ns()));
    #[cfg(not(target_arch = "x86_64"))]
    Err("the kernel's tracer has no clock with nanoseconds here".into())
}

impl Tracer {
    /// Begins to note switches and wake-ups of all threads.
    ///
    /// # Errors
    /// In words, why it cannot.
    pub(super) fn begin() -> Result<Tracer, String> {
        let root = FOLDERS.iter().map(Path::new).find(|folder| folder.join("instances").is_dir());
        let root = root.ok_or("the kernel's tracer is not mounted, or may not be used by this user")?;
        let folder = root.join(format!("instances/manx-bench-{}", std::process::id()));
        fs::create_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let tracer = Tracer { folder, began: now()? };
        tracer.write("trace_clock", "x86-tsc")?;
        tracer.write("buffer_size_kb", BUFFER_KIB)?;
        tracer.write("events/sched/sched_switch/enable", "1")?;
        tracer.write("events/sched/sched_waking/enable", "1")?;
        Ok(tracer)
    }

    fn write(&self, file: &str, text: &str) -> Result<(), String> {
        let path = self.folder.join(file);
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Ends, and returns the waits of these threads.
    ///
    /// # Errors
    /// In words, which file cannot be read.
    pub(super) fn end(self, threads: &HashSet<u32>) -> Result<Waits, String> {
        self.write("tracing_on", "0")?;
        let (began, ended) = (self.began, now()?);
        let ns_per_cycle = (ended.1 - began.1) as f64 / (ended.0 - began.0).max(1) as f64;
        let path = self.folder.join("trace");
        let text = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(waits(&String::from_utf8_lossy(&text), ns_per_cycle, threads))
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        // What stays behind notes nothing once it is off.
        let _ = self.write("tracing_on", "0");
        let _ = fs::remove_dir(&self.folder);
    }
}

/// The number behind these words.
fn number(line: &str, words: &str) -> Option<u32> {
    let rest = &line[line.find(words)? + words.len()..];
    rest.split(' ').next()?.trim().parse().ok()
}

/// The waits in the tracer's text, whose lines are in the order of time.
fn waits(text: &str, ns_per_cycle: f64, threads: &HashSet<u32>) -> Waits {
    let mut waits = Waits::default();
    let mut lost: HashMap<u32, u64> = HashMap::new();
    let mut woken: HashMap<u32, u64> = HashMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let Some((head, what)) = line.split_once(": sched_") else { continue };
        let Some(at) = head.split(' ').next_back().and_then(|at| at.parse::<u64>().ok()) else { continue };
        let ns = |since: u64| (at.saturating_sub(since) as f64 * ns_per_cycle) as u64;
        let of = |words: &str| number(what, words).filter(|thread| threads.contains(thread));
        if what.starts_with("waking") {
            woken.extend(of(" pid=").map(|thread| (thread, at)));
        } else if what.starts_with("switch") {
            if let Some(thread) = of(" next_pid=") {
                waits.lost.extend(lost.remove(&thread).map(ns));
                waits.slept.extend(woken.remove(&thread).map(ns));
            }
            if let Some(thread) = of(" prev_pid=") {
                // A wake-up of a thread that runs is none.
                woken.remove(&thread);
                let is_able = what.contains(" prev_state=R");
                lost.extend(is_able.then_some((thread, at)));
            }
        }
    }
    waits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_read_from_the_tracers_text() {
        let text = "# tracer: nop\n\
            a b-7 [001] d..2. 1000: sched_switch: prev_comm=a b prev_pid=7 prev_prio=120 prev_state=R ==> next_comm=c next_pid=8 next_prio=120\n\
            c-8 [001] d..2. 1500: sched_switch: prev_comm=c prev_pid=8 prev_prio=120 prev_state=S ==> next_comm=a b next_pid=7 next_prio=120\n\
            a b-7 [001] d..4. 1600: sched_waking: comm=c pid=8 prio=120 target_cpu=000\n\
            a b-7 [001] d..4. 1650: sched_waking: comm=d pid=9 prio=120 target_cpu=000\n\
            <idle>-0 [000] d..2. 1700: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=c next_pid=8 next_prio=120\n";
        let found = waits(text, 0.5, &HashSet::from([7, 8]));
        assert_eq!(found, Waits { lost: vec![250], slept: vec![50] });
    }
}
