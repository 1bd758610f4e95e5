//! A gate for tokio's workers.
//!
//! A task that blocks its thread holds back one worker of tokio's multi-thread runtime, and the
//! runtime lives with that: what is in the worker's queue is stolen, and another worker takes over
//! the timers and the sockets. So a check is a task, and a worker that should park blocks in it.
//! Some of what a worker has is not stolen, though, and must not be left with a worker that parks:
//!
//! | what only this worker can run | how the check gets it out of the way |
//! | --- | --- |
//! | tasks that yielded, until the worker has looked at its sockets | `block_in_place` wakes them before it does anything |
//! | the task in the slot for the last woken task | `block_in_place` puts it into the queue |
//! | tasks in the queue, if all other workers sleep | a task spawned here pushes another one out of the slot, which wakes a worker that steals |
//!
//! `block_in_place` also offers the worker's place to another thread, and takes it back when it
//! ends, unless that thread was faster: nothing happens in between, so that is rare. A check that
//! has lost its place holds back no worker. It learns of it by the task that it left in the slot,
//! its *canary*: while the place is its own, no thread runs that task. If a thread does, the check
//! ends and sends another.
//!
//! Hooks (`on_thread_park`) would be the wrong place: there a worker may count as searching for
//! work, and while one worker searches no other is woken.
//!
//! Invariants:
//! 1. While too few are parked there are checks in queues or on their way, as many as are missing:
//!    `queued` is lowered before a check looks whether it should park, and read after the number of
//!    active workers was lowered.
//! 2. A worker that parks has nothing that another could not run, but tasks of the gate.
//! 3. When the runtime ends it drops the gate's *sentinel*, a task that waits for ever. That closes
//!    the gate, and the parked end with the others.

use super::{Follower, Gate, Rank, Stay};
use platform::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::fmt;
use std::future::pending;
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::task::{JoinHandle, block_in_place};

struct Shared {
    gate: Gate,
    runtime: Handle,
    /// Checks that are sent and not begun.
    queued: AtomicUsize,
}

/// The gate in front of a runtime's workers. Dropped, it opens.
///
/// The thread that a program is in when it calls `block_on` is no worker, and neither are those of
/// `spawn_blocking`.
///
/// ```
/// use manx::pool::gate::tokio::TokioGate;
///
/// let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).build()?;
/// let gate = TokioGate::new(runtime.handle());
/// gate.set_active(1);
/// let answer = runtime.block_on(async { tokio::spawn(async { 42 }).await })?;
/// assert_eq!(answer, 42);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct TokioGate {
    shared: Arc<Shared>,
    sentinel: JoinHandle<()>,
}

impl fmt::Debug for TokioGate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokioGate").field("gate", &self.shared.gate).finish_non_exhaustive()
    }
}

impl TokioGate {
    /// Returns a gate for this runtime; at first all its workers may be active. A runtime of one
    /// thread has one worker, which never parks.
    pub fn new(runtime: &Handle) -> TokioGate {
        let shared = Arc::new(Shared {
            gate: Gate::new(runtime.metrics().num_workers()),
            runtime: runtime.clone(),
            queued: AtomicUsize::new(0),
        });
        let end = End(Arc::clone(&shared));
        let sentinel = runtime.spawn(async move {
            let _end = end;
            pending().await
        });
        TokioGate { shared, sentinel }
    }

    /// Allows `workers` workers to be active, at least 1: the others park after their current task.
    pub fn set_active(&self, workers: usize) {
        self.shared.set_active(workers);
    }

    /// The count.
    pub fn gate(&self) -> &Gate {
        &self.shared.gate
    }

    /// Keeps as many workers active as this process may use whole CPUs, until what this returns is
    /// dropped.
    ///
    /// # Errors
    /// The system has no thread for it.
    pub fn follow_budget(&self) -> std::io::Result<Follower> {
        let shared = Arc::clone(&self.shared);
        Follower::of_budget(move |active| shared.set_active(active))
    }
}

impl Drop for TokioGate {
    fn drop(&mut self) {
        self.shared.gate.close();
        self.sentinel.abort();
    }
}

/// Dropped with the sentinel: when the runtime ends, or when the gate does.
struct End(Arc<Shared>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.gate.close();
    }
}

impl Shared {
    fn set_active(self: &Arc<Self>, workers: usize) {
        let missing = self.gate.set_active(workers);
        // SeqCst, and a change: by Invariant 1 (Dekker's pattern, with `try_park` on the other
        // side).
        let queued = self.queued.fetch_add(0, Ordering::SeqCst);
        for _ in queued..missing {
            self.send_check();
        }
    }

    fn send_check(self: &Arc<Self>) {
        self.queued.fetch_add(1, Ordering::SeqCst);
        let shared = Arc::clone(self);
        self.runtime.spawn(async move { shared.check() });
    }

    /// What a worker does that comes to a check. It blocks, in the middle of a poll: that is the
    /// purpose.
    fn check(self: &Arc<Self>) {
        self.queued.fetch_sub(1, Ordering::SeqCst);
        if !self.gate.try_park() {
            return;
        }
        block_in_place(|| ());
        self.runtime.spawn(async {});
        let canary = Arc::new(Canary::default());
        self.runtime.spawn({
            let (shared, canary) = (Arc::clone(self), Arc::clone(&canary));
            async move {
                // Relaxed: a flag alone; the nudge says when to look.
                if !canary.is_over.load(Ordering::Relaxed) {
                    canary.was_run.store(true, Ordering::Relaxed);
                    shared.gate.nudge();
                }
            }
        });
        let stay = self.gate.stay_unless(Rank::Free, None, || canary.was_run.load(Ordering::Relaxed));
        canary.is_over.store(true, Ordering::Relaxed);
        if stay == Stay::TimedOut {
            self.gate.step_out();
            self.send_check();
        }
    }
}

/// What a check and the task that it leaves behind tell each other.
#[derive(Default)]
struct Canary {
    was_run: AtomicBool,
    is_over: AtomicBool,
}
