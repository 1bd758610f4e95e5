//! A thread that tells a gate how many workers may be active: as many as the CPU budget has whole
//! CPUs, looked up again and again.

use crate::cpu::{BudgetWatch, Rounding};
use platform::atomic::{AtomicU32, Ordering};
use platform::thread::{JoinHandle, spawn_named};
use platform::{clock, futex};
use std::sync::Arc;
use std::time::Duration;

/// How often the budget is looked up, in milliseconds: as often as the kernel gives out quotas.
pub const FOLLOW_MS: u64 = 100;

/// How often while the process hardly runs, so that an idle program stays idle: a change is
/// followed that much later then.
pub const FOLLOW_IDLE_MS: u64 = 2_000;
/// A process that uses less than 1 / `IDLE_PART` of a CPU hardly runs.
const IDLE_PART: u64 = 100;

/// What keeps a gate at the budget. Dropped, it ends, and the gate stays as it is.
///
/// ```
/// use manx::pool::gate::{Follower, Gate};
/// use std::sync::Arc;
///
/// let gate = Arc::new(Gate::new(64));
/// let follower = Follower::of_budget({
///     let gate = Arc::clone(&gate);
///     move |cpus| { gate.set_active(cpus); }
/// })?;
/// assert!((1..=64).contains(&gate.active()));
/// drop(follower);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Follower {
    ended: Arc<AtomicU32>,
    thread: Option<JoinHandle<()>>,
}

impl Follower {
    /// Asks `count` each `every` (and down to each [`FOLLOW_IDLE_MS`] while the process hardly
    /// runs) how many workers may be active, and passes it on: to one gate or several. The first
    /// time is before this returns.
    ///
    /// # Errors
    /// The system has no thread for it.
    pub fn start(
        every: Duration,
        mut count: impl FnMut() -> usize + Send + 'static,
        mut pass_on: impl FnMut(usize) + Send + 'static,
    ) -> std::io::Result<Follower> {
        let ended = Arc::new(AtomicU32::new(0));
        let every_ns = clock::duration_ns(every).max(1_000_000);
        let idle_ns = every_ns.max(FOLLOW_IDLE_MS * 1_000_000);
        let mut last = count();
        pass_on(last);
        let thread = spawn_named("manx-gate", 128 << 10, {
            let ended = Arc::clone(&ended);
            move || {
                let mut pause_ns = every_ns;
                let mut used_ns = clock::process_cpu_ns();
                // Relaxed: nothing was written before the end that is read here.
                while ended.load(Ordering::Relaxed) == 0 {
                    futex::wait_for(&ended, 0, pause_ns);
                    let now_used_ns = clock::process_cpu_ns();
                    let idle = now_used_ns.saturating_sub(used_ns) < pause_ns / IDLE_PART;
                    used_ns = now_used_ns;
                    pause_ns = if idle { (2 * pause_ns).min(idle_ns) } else { every_ns };
                    let now = count();
                    if now != last {
                        last = now;
                        pass_on(now);
                    }
                }
            }
        })?;
        Ok(Follower { ended, thread: Some(thread) })
    }

    /// Passes on how many whole CPUs this process may use, each [`FOLLOW_MS`] milliseconds: at
    /// least 1.
    ///
    /// # Errors
    /// As [`Follower::start`].
    pub fn of_budget(pass_on: impl FnMut(usize) + Send + 'static) -> std::io::Result<Follower> {
        let mut watch = BudgetWatch::new();
        let count = move || Rounding::Floor.count(watch.cpus());
        Follower::start(Duration::from_millis(FOLLOW_MS), count, pass_on)
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        // Relaxed: as above.
        self.ended.store(1, Ordering::Relaxed);
        futex::wake_all(&*self.ended);
        if let Some(thread) = self.thread.take() {
            // It panics only if `count` or `pass_on` did, and then it has said so.
            let _ = thread.join();
        }
    }
}
