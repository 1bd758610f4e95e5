//! A thread that asks a watch again and again, for programs in which no other thread does so.
//!
//! Manx starts no thread unasked: a pool asks its watch when it looks at its workers anyway. This
//! is for a program that has its own pool and wants to be called when its budget is another one.

use super::{BudgetWatch, CpuBudget};
use platform::atomic::{AtomicU32, Ordering};
use platform::thread::{JoinHandle, spawn_named};
use platform::{clock, futex};
use std::sync::Arc;
use std::time::Duration;

const RUNS: u32 = 0;
const STOPPED: u32 = 1;

/// A thread that watches the budget, until this is dropped.
///
/// ```
/// use manx::cpu::BudgetWatch;
/// use std::time::Duration;
///
/// let background = BudgetWatch::new().in_background(Duration::from_millis(200), |budget| {
///     println!("now {budget}");
/// })?;
/// drop(background); // the thread has ended
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "the thread ends when this is dropped"]
pub struct BackgroundWatch {
    state: Arc<AtomicU32>,
    /// Empty only while it is dropped.
    thread: Option<JoinHandle<()>>,
    process: u32,
}

impl BudgetWatch {
    /// Starts a thread that reads the budget each time that so much time has passed, and calls
    /// `announce` whenever it is another one. What `announce` panics with ends the thread.
    ///
    /// A fork's child does not have the thread.
    ///
    /// # Errors
    /// The system has no thread, or no memory for one.
    pub fn in_background(
        mut self,
        every: Duration,
        mut announce: impl FnMut(&CpuBudget) + Send + 'static,
    ) -> std::io::Result<BackgroundWatch> {
        let state = Arc::new(AtomicU32::new(RUNS));
        let word = Arc::clone(&state);
        let every_ns = clock::duration_ns(every).min(i64::MAX as u64 / 2);
        let thread = spawn_named("manx-budget", 0, move || {
            let mut next_ns = clock::now_ns().saturating_add(every_ns);
            // Relaxed, here and below: the word is all there is to see.
            while word.load(Ordering::Relaxed) == RUNS {
                if clock::now_ns() < next_ns {
                    let _ = futex::wait_until(&word, RUNS, next_ns);
                    continue;
                }
                next_ns = clock::now_ns().saturating_add(every_ns);
                if let Some(budget) = self.changed() {
                    announce(&budget);
                }
            }
        })?;
        Ok(BackgroundWatch { state, thread: Some(thread), process: std::process::id() })
    }
}

impl Drop for BackgroundWatch {
    fn drop(&mut self) {
        self.state.store(STOPPED, Ordering::Relaxed);
        futex::wake_all(&*self.state);
        match self.thread.take() {
            // Its panic has been reported when it happened.
            Some(thread) if self.process == std::process::id() => drop(thread.join()),
            // A fork's child: there is no such thread, and no thread would ever end the wait for
            // it.
            thread => std::mem::forget(thread),
        }
    }
}
