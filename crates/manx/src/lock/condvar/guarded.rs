//! The condition variable of programs in Rust, which have guards: unlocking and relocking is
//! `lock_api`'s.

use super::{Outcome, RawCondvar};
use lock_api::{MutexGuard, RawMutex};
use platform::clock::{self, duration_ns};
use platform::futex::{Clock, Deadline};
use std::time::{Duration, Instant};

/// Whether a timed wait ended by its timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    /// Returns whether the time was up, and no thread had notified this waiter.
    pub const fn timed_out(self) -> bool {
        self.0
    }
}

/// A condition variable for [`Mutex`](crate::lock::Mutex), or any other mutex of `lock_api`; it may
/// be used with several. There is no poisoning. A wait may end for no reason, though rarely: look
/// again, or use [`Condvar::wait_while`], which does. Eight bytes.
///
/// ```
/// use manx::lock::{Condvar, Mutex};
///
/// static READY: Mutex<bool> = Mutex::new(false);
/// static CHANGED: Condvar = Condvar::new();
///
/// let other = std::thread::spawn(|| {
///     *READY.lock() = true;
///     CHANGED.notify_one();
/// });
/// let mut ready = READY.lock();
/// while !*ready {
///     CHANGED.wait(&mut ready);
/// }
/// # drop(ready);
/// # other.join().unwrap();
/// ```
#[derive(Debug, Default)]
pub struct Condvar(RawCondvar);

impl Condvar {
    /// A condition variable that no thread waits for.
    pub const fn new() -> Condvar {
        Condvar(RawCondvar::new())
    }

    /// Unlocks the mutex, waits to be notified, and locks it again.
    #[track_caller]
    pub fn wait<R: RawMutex, T: ?Sized>(&self, guard: &mut MutexGuard<'_, R, T>) {
        self.sleep(guard, None);
    }

    /// As [`Condvar::wait`], but not longer than this.
    ///
    /// ```
    /// # use manx::lock::{Condvar, Mutex};
    /// # use std::time::Duration;
    /// let mutex = Mutex::new(0);
    /// let mut guard = mutex.lock();
    /// assert!(Condvar::new().wait_for(&mut guard, Duration::ZERO).timed_out());
    /// ```
    #[track_caller]
    pub fn wait_for<R: RawMutex, T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, R, T>,
        timeout: Duration,
    ) -> WaitTimeoutResult {
        self.sleep(guard, Some(after(timeout)))
    }

    /// As [`Condvar::wait`], but not after `end`.
    #[track_caller]
    pub fn wait_until<R: RawMutex, T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, R, T>,
        end: Instant,
    ) -> WaitTimeoutResult {
        self.wait_for(guard, end.saturating_duration_since(Instant::now()))
    }

    /// Waits as long as the condition is true.
    ///
    /// ```
    /// # use manx::lock::{Condvar, Mutex};
    /// let queue = Mutex::new(vec![1]);
    /// let changed = Condvar::new();
    /// let mut items = queue.lock();
    /// changed.wait_while(&mut items, |items| items.is_empty());
    /// assert_eq!(items.pop(), Some(1));
    /// ```
    #[track_caller]
    pub fn wait_while<R: RawMutex, T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, R, T>,
        mut condition: impl FnMut(&mut T) -> bool,
    ) {
        while condition(&mut **guard) {
            self.wait(guard);
        }
    }

    /// Waits as long as the condition is true, but not longer than this. It timed out if the
    /// condition is still true.
    #[track_caller]
    pub fn wait_while_for<R: RawMutex, T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, R, T>,
        mut condition: impl FnMut(&mut T) -> bool,
        timeout: Duration,
    ) -> WaitTimeoutResult {
        let deadline = after(timeout);
        while condition(&mut **guard) {
            if self.sleep(guard, Some(deadline)).timed_out() {
                return WaitTimeoutResult(condition(&mut **guard));
            }
        }
        WaitTimeoutResult(false)
    }

    /// As [`Condvar::wait_while_for`], but not after `end`.
    ///
    /// ```
    /// # use manx::lock::{Condvar, Mutex};
    /// # use std::time::Instant;
    /// let mutex = Mutex::new(0);
    /// let result = Condvar::new().wait_while_until(&mut mutex.lock(), |number| *number == 0, Instant::now());
    /// assert!(result.timed_out());
    /// ```
    #[track_caller]
    pub fn wait_while_until<R: RawMutex, T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, R, T>,
        condition: impl FnMut(&mut T) -> bool,
        end: Instant,
    ) -> WaitTimeoutResult {
        self.wait_while_for(guard, condition, end.saturating_duration_since(Instant::now()))
    }

    /// Wakes one waiter. Returns whether there was one. A waiter that is about to time out may
    /// count.
    pub fn notify_one(&self) -> bool {
        self.0.signal()
    }

    /// Wakes all waiters. Returns how many there were. Waiters that are about to time out may
    /// count.
    pub fn notify_all(&self) -> usize {
        self.0.broadcast()
    }

    #[track_caller]
    fn sleep<R: RawMutex, T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, R, T>,
        deadline: Option<Deadline>,
    ) -> WaitTimeoutResult {
        let ticket = self.0.enter();
        let outcome = MutexGuard::unlocked(guard, || {
            let outcome = self.0.sleep(&ticket, deadline);
            self.0.leave(ticket, outcome);
            outcome
        });
        WaitTimeoutResult(outcome == Outcome::TimedOut)
    }
}

/// Returns the time `timeout` from now; a time that never comes if that is beyond what the clock
/// can say.
fn after(timeout: Duration) -> Deadline {
    let ns = clock::now_ns().saturating_add(duration_ns(timeout));
    Deadline { clock: Clock::Monotonic, ns }
}
