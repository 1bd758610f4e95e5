//! Tasks that borrow from the stack of the thread that waits for them.
//!
//! Invariants:
//! 1. `pending` is the number of tasks that were spawned and have not ended, and one for the
//!    closure that spawns them. [`Scope::run`] returns, or goes on to panic, after it has reached
//!    0; so no task outlives `'env`. Were it to unwind before, the stack would go that tasks borrow
//!    from: then the process aborts ([`NoUnwinding`]).
//! 2. A task of a scope is never dropped without being done: the pool keeps it when it discards
//!    others, and where it takes none, the spawning thread does it.

use super::error::drop_quietly;
use super::pool::FriendlyPool;
use super::worker;
use crate::lock::Mutex;
use crate::wait::{Event, Policy as _};
use platform::atomic::{AtomicUsize, Ordering};
use std::any::Any;
use std::fmt;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::Duration;

/// Spawns tasks that end before [`FriendlyPool::scope`] returns.
///
/// ```
/// use manx::pool::{FriendlyPool, Scope};
///
/// fn double<'scope>(numbers: &'scope mut [u32], scope: &'scope Scope<'scope, '_>) {
///     for number in numbers {
///         scope.spawn(move || *number *= 2);
///     }
/// }
/// let pool = FriendlyPool::builder().build()?;
/// let mut numbers = [1, 2, 3];
/// pool.scope(|scope| double(&mut numbers, scope));
/// assert_eq!(numbers, [2, 4, 6]);
/// # Ok::<(), manx::pool::BuildError>(())
/// ```
pub struct Scope<'scope, 'env: 'scope> {
    pool: &'env FriendlyPool,
    tasks: Arc<Tasks>,
    /// Neither lifetime may shrink or grow, as in the standard library's scoped threads.
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

/// What the tasks tell the thread that waits for them. It is theirs too, because the last one tells
/// when the scope may be gone.
struct Tasks {
    pending: AtomicUsize,
    ended: Event,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

impl FriendlyPool {
    /// Runs `spawn`, whose tasks may borrow from the caller's stack, and waits until all of them
    /// have ended. No task is dropped: if the pool has been shut down, the calling thread runs
    /// them.
    ///
    /// # Panics
    /// With the panic of `spawn`, or else with that of the first task that panicked, after all
    /// tasks have ended.
    ///
    /// ```
    /// let pool = manx::pool::FriendlyPool::builder().build()?;
    /// let mut numbers = [1, 2, 3, 4];
    /// let (low, high) = numbers.split_at_mut(2);
    /// pool.scope(|scope| {
    ///     scope.spawn(|| low.iter_mut().for_each(|n| *n *= 10));
    ///     scope.spawn(|| high.iter_mut().for_each(|n| *n *= 100));
    /// });
    /// assert_eq!(numbers, [10, 20, 300, 400]);
    /// # Ok::<(), manx::pool::BuildError>(())
    /// ```
    pub fn scope<'env, R>(&'env self, spawn: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> R) -> R {
        Scope::run(self, spawn)
    }
}

impl<'scope, 'env> Scope<'scope, 'env> {
    fn run<R>(pool: &'env FriendlyPool, spawn: impl for<'s> FnOnce(&'s Scope<'s, 'env>) -> R) -> R {
        Scope::run_until(pool, spawn, Tasks::wait)
    }

    fn run_until<R>(
        pool: &'env FriendlyPool,
        spawn: impl for<'s> FnOnce(&'s Scope<'s, 'env>) -> R,
        wait: impl FnOnce(&Tasks),
    ) -> R {
        let tasks =
            Arc::new(Tasks { pending: AtomicUsize::new(1), ended: Event::new(), panic: Mutex::new(None) });
        let scope = Scope { pool, tasks, scope: PhantomData, env: PhantomData };
        // Invariant 1: from the first task on, until none is left.
        let no_unwinding = NoUnwinding;
        let result = catch_unwind(AssertUnwindSafe(|| spawn(&scope)));
        let tasks = &scope.tasks;
        tasks.pending.fetch_sub(1, Ordering::Relaxed);
        wait(tasks);
        std::mem::forget(no_unwinding);
        match (result, tasks.panic.lock().take()) {
            (Err(own), _) => resume_unwind(own),
            (Ok(_), Some(panic)) => resume_unwind(panic),
            (Ok(result), None) => result,
        }
    }

    /// Spawns a task, which a worker runs before the scope ends. A task may spawn further tasks.
    pub fn spawn(&'scope self, task: impl FnOnce() + Send + 'scope) {
        // Relaxed: the closure or task that spawns is counted itself, so this is not 0.
        self.tasks.pending.fetch_add(1, Ordering::Relaxed);
        let tasks = self.tasks.clone();
        let run: Box<dyn FnOnce() + Send + 'scope> = Box::new(move || {
            let result = catch_unwind(AssertUnwindSafe(task));
            tasks.end(result.err());
        });
        // SAFETY: the task is done, and so consumed, before the scope ends, hence within 'scope, by
        // both invariants. The types differ in that lifetime only.
        let run: Box<dyn FnOnce() + Send + 'static> = unsafe { std::mem::transmute(run) };
        if let Err(run) = self.pool.queue_scoped(run) {
            run();
        }
    }
}

impl Tasks {
    /// Returns when none is left.
    fn wait(&self) {
        // Acquire: pairs with the release in `end`, so that what the tasks did is done.
        let is_done = || self.pending.load(Ordering::Acquire) == 0;
        worker::wait_until(worker::Help::First, is_done, |limit_ns| {
            self.ended.until_for(Duration::from_nanos(limit_ns), is_done)
        });
    }

    fn end(&self, panic: Option<Box<dyn Any + Send>>) {
        let mut panic = panic;
        {
            let mut first = self.panic.lock();
            if first.is_none() {
                *first = panic.take();
            }
        }
        // Release: what the task did happens before the scope's end.
        if self.pending.fetch_sub(1, Ordering::Release) == 1 {
            self.ended.signal_all();
        }
        // Last, because what a panic carries may panic itself when it is dropped.
        drop_quietly(panic);
    }
}

/// Aborts when it is dropped. What must not be unwound forgets it at its end.
struct NoUnwinding;

impl Drop for NoUnwinding {
    fn drop(&mut self) {
        eprintln!("manx: a scope of the pool unwinds while its tasks run, which may borrow from it");
        std::process::abort();
    }
}

impl fmt::Debug for Scope<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pending = self.tasks.pending.load(Ordering::Relaxed);
        f.debug_struct("Scope").field("pending", &pending).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    const SIGABRT: i32 = 6;
    /// Set in the process that is to abort.
    const CHILD: &str = "MANX_TEST_SCOPE_UNWINDS";

    #[test]
    fn a_scope_that_unwinds_while_its_tasks_run_aborts() {
        if std::env::var_os(CHILD).is_some() {
            let pool = FriendlyPool::builder().num_threads(1).build().expect("a pool");
            // Longer than any wait for a CPU: the process aborts meanwhile.
            let slow = || platform::thread::sleep_ns(60_000_000_000);
            Scope::run_until(&pool, |scope| scope.spawn(slow), |_| panic!("the wait unwinds"));
        }
        let child = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "pool::scope::tests::a_scope_that_unwinds_while_its_tasks_run_aborts"])
            .env(CHILD, "1")
            .output()
            .expect("this program runs again");
        assert_eq!(child.status.signal(), Some(SIGABRT), "{child:?}");
    }
}
