//! What the simulated kernel says in its files: `/proc` and `/sys`, as far as Manx reads them.
//!
//! | file | what it says |
//! | --- | --- |
//! | `/proc/loadavg` | the threads that are queued on all CPUs, and all threads; no averages |
//! | `/proc/stat` | for how long each CPU was busy, in ticks; no idle time |
//! | `/proc/self/task/N/schedstat`, `/proc/thread-self/schedstat` | what a thread has got and lost |
//! | `/proc/self/mountinfo`, `/proc/*/cgroup`, `/sys/fs/cgroup/all/cpu.max` | the quota |
//! | `/sys/devices/system/cpu/online` | the CPUs |
//! | `/proc/N`, `/proc/N/task/N/stat` | processes (`processes.rs`), and the states of their threads |
//!
//! `self` is the process of the thread that opens the file.
//!
//! **Groups.** The program's processes and its neighbours are in one group, because the scheduler
//! of this machine divides a CPU among threads and knows no groups. The limit of the group is that
//! of the program alone: all its processes together.

use crate::fair::Id;
use crate::kernel::Kernel;
use crate::machine::Quota;
use crate::shared_files::Opening;
use crate::task::{NEIGHBOUR, State};
use std::fmt::Write;

/// The number of the first thread of a neighbour. Those of the program begin with 1.
const FIRST_THREAD: u32 = 1 << 16;
/// The time that a tick of `/proc/stat` stands for.
pub const TICK_NS: u64 = 10_000_000;

/// What an open file is about.
#[derive(Clone, Copy, Debug)]
pub enum Content {
    /// Runnable threads
    LoadAverage,
    /// How busy each CPU was
    Stat,
    /// Where control groups are mounted
    Mounts,
    /// The control group of all
    Group,
    /// The times of a thread of the program
    Times(Id),
    /// The state of a thread
    State(Id),
    /// The CPUs
    Online,
    /// How much CPU time the program may use
    Quota(Quota),
    /// Memory: a file that the program has made
    Shared(Opening),
}

/// The file with this path, if there is one.
pub fn find(kernel: &Kernel, path: &[u8]) -> Option<Content> {
    let parts: Vec<&str> = std::str::from_utf8(path).ok()?.split('/').skip(1).collect();
    match parts[..] {
        ["proc", "loadavg"] => Some(Content::LoadAverage),
        ["proc", "stat"] => Some(Content::Stat),
        ["proc", "self", "mountinfo"] => Some(Content::Mounts),
        ["proc", "self" | "thread-self", "cgroup"] => Some(Content::Group),
        ["proc", "thread-self", "schedstat"] => Some(Content::Times(kernel.current())),
        ["proc", "self", "task", thread, "schedstat"] => {
            thread_of(kernel, kernel.process(), thread).map(Content::Times)
        }
        ["proc", process, "cgroup"] => kernel.threads_of(process.parse().ok()?).map(|_| Content::Group),
        ["proc", process, "task", thread, "stat"] => {
            thread_of(kernel, process.parse().ok()?, thread).map(Content::State)
        }
        ["sys", "devices", "system", "cpu", "online"] => Some(Content::Online),
        ["sys", "fs", "cgroup", "all", "cpu.max"] => kernel.machine().quota.map(Content::Quota),
        _ => None,
    }
}

/// The text of a file; `None` if what it is about has ended, or if it is memory.
pub fn text(kernel: &Kernel, content: &Content) -> Option<String> {
    Some(match *content {
        Content::LoadAverage => {
            format!("0.00 0.00 0.00 {}/{} 1\n", kernel.queued(), kernel.threads() + kernel.neighbours())
        }
        Content::Stat => {
            let mut text = String::new();
            for (cpu, busy_ns) in kernel.busy_ns().enumerate() {
                let _ = writeln!(text, "cpu{cpu} {} 0 0 0 0 0 0 0 0 0", busy_ns / TICK_NS);
            }
            text
        }
        Content::Mounts => "20 1 0:20 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n".into(),
        Content::Group => "0::/all\n".into(),
        Content::Shared(_) => return None,
        Content::Times(id) | Content::State(id) if kernel.state(id) == State::Ended => return None,
        Content::Times(id) => {
            let times = kernel.times(id);
            format!("{} {} {}\n", times.run_ns, times.wait_ns, times.voluntary + times.involuntary + 1)
        }
        Content::State(id) => {
            let state = if kernel.state(id) == State::Runnable { 'R' } else { 'S' };
            format!("{} (thread) {state} 1\n", thread_number(id))
        }
        Content::Online => format!("0-{}\n", kernel.busy_ns().count() - 1),
        Content::Quota(quota) => format!("{} {}\n", quota.quota_ns / 1_000, quota.period_ns / 1_000),
    })
}

/// The names of the folders in a folder, if there is such a folder.
pub fn folders(kernel: &Kernel, path: &[u8]) -> Option<Vec<String>> {
    let parts: Vec<&str> = std::str::from_utf8(path).ok()?.split('/').skip(1).collect();
    match parts[..] {
        ["proc"] => Some(kernel.processes().map(|process| process.to_string()).collect()),
        ["proc", process, "task"] => {
            let threads = kernel.threads_of(process.parse().ok()?)?.iter();
            let live = threads.filter(|id| kernel.state(**id) != State::Ended);
            Some(live.map(|id| thread_number(*id).to_string()).collect())
        }
        _ => None,
    }
}

/// The number of a thread in `/proc`.
fn thread_number(id: Id) -> u32 {
    if id < NEIGHBOUR { id as u32 + 1 } else { FIRST_THREAD + (id - NEIGHBOUR) as u32 }
}

/// The thread of a process with this number in `/proc`, if it has not ended.
fn thread_of(kernel: &Kernel, process: u32, number: &str) -> Option<Id> {
    let number: u32 = number.parse().ok()?;
    let id = match number.checked_sub(FIRST_THREAD) {
        Some(at) => NEIGHBOUR + at as usize,
        None => (number as usize).checked_sub(1)?,
    };
    let is_there = kernel.threads_of(process)?.contains(&id) && kernel.state(id) != State::Ended;
    is_there.then_some(id)
}
