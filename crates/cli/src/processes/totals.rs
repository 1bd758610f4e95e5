//! The processes that run under Manx, and what each has counted since it began: one look, without
//! rates.

use super::counts::Between;
use super::row::Manx;
use super::text::{Stat, command_line};
use super::under_manx::UnderManx;
use host::image::Image;
use host::list::pids;
use serde::Serialize;

/// The longest command line that is kept, in bytes.
const COMMAND_BYTES_MAX: usize = 512;

/// What runs under Manx.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct UnderManxNow {
    /// The processes, in the order of their numbers
    pub processes: Vec<Total>,
    /// How many processes nobody may look at
    pub unseen: u32,
}

/// One process.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Total {
    /// The process id
    pub pid: u32,
    /// Its name, without control characters
    pub name: String,
    /// Its command line
    pub command: String,
    /// How many threads it has
    pub threads: u32,
    /// Its counts, if it keeps any
    pub counts: Option<TotalCounts>,
}

/// What it has counted since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct TotalCounts {
    /// Loops that are repaired
    pub sites: u32,
    /// Time that threads spent waiting in them, all together, in ns
    pub loops_waited_ns: u64,
    /// Locks that some thread waited for
    pub locks: u32,
    /// Waits for locks
    pub lock_waits: u64,
    /// 99 % of these waits took no longer, in ns
    pub p99_ns: Option<u64>,
    /// The longest of them, in ns
    pub longest_ns: Option<u64>,
}

/// Looks at all processes.
pub fn now() -> UnderManxNow {
    let mut image = Image::default();
    let mut found = UnderManxNow::default();
    let mut pids: Vec<u32> = pids().collect();
    pids.sort_unstable();
    for pid in pids {
        let read = |name: &str| std::fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
        let Some(stat) = Stat::parse(&read("stat")) else { continue };
        let mut process = UnderManx::default();
        let manx = process.look(pid, &stat.name, true);
        found.unseen += u32::from(manx == Manx::Unknown && !stat.is_kernel);
        if !manx.is_on() {
            continue;
        }
        let between = process.counts.and_then(|mut counts| counts.look(&mut image, 0));
        found.processes.push(Total {
            pid,
            name: stat.name,
            command: command_line(&read("cmdline"), COMMAND_BYTES_MAX),
            threads: stat.threads,
            counts: between.as_ref().map(total),
        });
    }
    found
}

/// A first reading is the difference from nothing.
fn total(between: &Between) -> TotalCounts {
    TotalCounts {
        sites: between.sites,
        loops_waited_ns: between.waited_ns,
        locks: between.contended,
        lock_waits: between.waits.count(),
        p99_ns: between.percentile(0.99),
        longest_ns: (between.contended > 0).then_some(between.longest_ns),
    }
}
