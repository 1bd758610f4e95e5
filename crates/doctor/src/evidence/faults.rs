//! Page faults in functions in which threads also wait.
//!
//! A thread that writes to memory for the first time enters the kernel, which clears a page for it:
//! about a microsecond for 4 KiB, and a hundred and more for a huge page of 2 MiB. If it holds a
//! spin lock meanwhile, all others spin for that long.
//!
//! Nobody notes which thread holds a spin lock. But the function that takes a lock also does what
//! the lock is for. So a function counts in which threads were seen waiting, and in which others
//! had page faults, itself or in what it calls. A thread that was inside the kernel and has made no
//! system call has a page fault: only samples of the machine see that.
//!
//! Runtimes of thread pools do not count: their workers wait in one function for work that begins
//! in the same function, and no lock is held.

use super::modules::RUNTIMES;
use serde::Serialize;

/// A function in which threads wait and have page faults.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FaultSite {
    /// The file's name
    pub module: String,
    /// The function
    pub function: String,
    /// Number of times that threads were seen in it, or in what it calls, in a loop that waits
    pub waiting: u32,
    /// … and not in such a loop, page faults included
    pub working: u32,
    /// Number of these that were page faults
    pub faults: u32,
}

impl FaultSite {
    /// A function that has no samples yet.
    pub fn new(module: String, function: String) -> FaultSite {
        FaultSite { module, function, ..FaultSite::default() }
    }

    /// Adds samples.
    pub fn add(&mut self, is_waiting: bool, is_fault: bool, count: u32) {
        let counter = if is_waiting { &mut self.waiting } else { &mut self.working };
        *counter += count;
        self.faults += if is_fault { count } else { 0 };
    }

    /// The part of what the function does, but for waiting, that is page faults, from 0 to 1.
    ///
    /// ```
    /// # use doctor::evidence::faults::FaultSite;
    /// let site = FaultSite { waiting: 7, working: 8, faults: 6, ..FaultSite::default() };
    /// assert_eq!(site.faulting(), 0.75);
    /// ```
    pub fn faulting(&self) -> f64 {
        f64::from(self.faults) / f64::from(self.working.max(1))
    }
}

/// The function whose page faults most waits are for, and their part of all `waiting` samples, from
/// 0 to 1.
pub fn worst(sites: &[FaultSite], waiting: u32) -> Option<(&FaultSite, f64)> {
    let part =
        |site: &FaultSite| site.faulting() * (f64::from(site.waiting) / f64::from(waiting.max(1))).min(1.0);
    let is_pool = |site: &FaultSite| RUNTIMES.iter().any(|(name, _)| site.module.starts_with(name));
    let of_locks = sites.iter().filter(|site| !is_pool(site));
    of_locks.map(|site| (site, part(site))).max_by(|(_, one), (_, other)| one.total_cmp(other))
}
