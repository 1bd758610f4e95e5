//! What the simulated kernel says in its files: `/proc` and `/sys`, as far as Manx reads them.
//!
//! | file | what it says |
//! | --- | --- |
//! | `/proc/loadavg` | the threads that are queued on all CPUs, and all threads; no averages |
//! | `/proc/stat` | for how long each CPU was busy, in ticks; no idle time |
//! | `/proc/self/task/N/schedstat`, `/proc/thread-self/schedstat` | what a thread has got and lost |
//! | `/proc/self/mountinfo`, `/proc/*/cgroup`, `/sys/fs/cgroup/all/cpu.max` | the quota |
//! | `/sys/devices/system/cpu/online` | the CPUs |
//! | `/proc/N`, `/proc/N/task/N/stat` | neighbours: processes, and the states of their threads |
//!
//! The program is process 1, and each `[[neighbour]]` of the machine's file is a process.
//!
//! **Groups.** The program and its neighbours are in one group, because the scheduler of this
//! machine divides a CPU among threads and knows no groups. The limit of the group is that of the
//! program alone.

use crate::fair::Id;
use crate::kernel::Kernel;
use crate::machine::Quota;
use crate::task::{NEIGHBOUR, State};
use std::fmt::Write;

/// The number of the program's process.
pub const OWN_PROCESS: u32 = 1;
/// That of the first neighbour.
const FIRST_PROCESS: u32 = 2;
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
    /// The state of a thread of a neighbour
    State(Id),
    /// The CPUs
    Online,
    /// How much CPU time the program may use
    Quota(Quota),
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
            let id = thread.parse::<usize>().ok()?.checked_sub(1)?;
            (id < kernel.threads()).then_some(Content::Times(id))
        }
        ["proc", process, "cgroup"] => {
            let process: u32 = process.parse().ok()?;
            (process == OWN_PROCESS || threads_of(kernel, process).is_some()).then_some(Content::Group)
        }
        ["proc", process, "task", thread, "stat"] => {
            let at = thread.parse::<u32>().ok()?.checked_sub(FIRST_THREAD)?;
            let id = NEIGHBOUR + at as usize;
            threads_of(kernel, process.parse().ok()?)?.contains(&id).then_some(Content::State(id))
        }
        ["sys", "devices", "system", "cpu", "online"] => Some(Content::Online),
        ["sys", "fs", "cgroup", "all", "cpu.max"] => kernel.machine().quota.map(Content::Quota),
        _ => None,
    }
}

/// The text of a file; `None` if what it is about has ended.
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
        Content::Times(id) if kernel.state(id) == State::Ended => return None,
        Content::Times(id) => {
            let times = kernel.times(id);
            format!("{} {} {}\n", times.run_ns, times.wait_ns, times.voluntary + times.involuntary + 1)
        }
        Content::State(id) => {
            let state = if kernel.state(id) == State::Runnable { 'R' } else { 'S' };
            format!("{} (neighbour) {state} 1\n", thread_number(id))
        }
        Content::Online => format!("0-{}\n", kernel.busy_ns().count() - 1),
        Content::Quota(quota) => format!("{} {}\n", quota.quota_ns / 1_000, quota.period_ns / 1_000),
    })
}

/// The names of the folders in a folder, if there is such a folder.
pub fn folders(kernel: &Kernel, path: &[u8]) -> Option<Vec<String>> {
    let parts: Vec<&str> = std::str::from_utf8(path).ok()?.split('/').skip(1).collect();
    match parts[..] {
        ["proc"] => {
            let neighbours = FIRST_PROCESS..FIRST_PROCESS + kernel.machine().neighbour.len() as u32;
            Some([OWN_PROCESS].into_iter().chain(neighbours).map(|process| process.to_string()).collect())
        }
        ["proc", process, "task"] => {
            let threads = threads_of(kernel, process.parse().ok()?)?;
            Some(threads.map(|id| thread_number(id).to_string()).collect())
        }
        _ => None,
    }
}

/// The CPU time that a neighbour has used, if there is such a process.
pub fn process_ns(kernel: &Kernel, process: u32) -> Option<u64> {
    Some(threads_of(kernel, process)?.map(|id| kernel.times(id).run_ns).sum())
}

fn thread_number(id: Id) -> u32 {
    FIRST_THREAD + (id - NEIGHBOUR) as u32
}

/// The threads of a neighbour.
fn threads_of(kernel: &Kernel, process: u32) -> Option<std::ops::Range<Id>> {
    let (before, from) =
        kernel.machine().neighbour.split_at_checked(process.checked_sub(FIRST_PROCESS)? as usize)?;
    let first = NEIGHBOUR + before.iter().map(|neighbour| neighbour.count as usize).sum::<usize>();
    Some(first..first + from.first()?.count as usize)
}
