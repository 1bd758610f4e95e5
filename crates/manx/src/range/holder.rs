//! The identity of a range's holder or waiter: 28 bits that fit beside a slot's flags.
//!
//! A guard's range belongs to the thread that took it, or to the task that this thread polled
//! (`task.rs`). An owner's range belongs to the owner. The number has three uses: people read it in
//! a dump, the wait-for graph needs it, and it serves one courtesy: a holder of something does not
//! queue behind a waiter for it. Exclusion never depends on the number, so numbers may repeat after
//! 134 million owners or 67 million tasks.
//!
//! | bit 27 | bit 26 | the other bits |
//! | --- | --- | --- |
//! | 1 | of the number | an owner's number |
//! | 0 | 1 | a task's number |
//! | 0 | 0 | a thread's number in the kernel, which is below 2^22; 0: no identity |
//!
//! Each thread has one word: the identity for which it runs. That is its own, or that of the task
//! that it polls.

use platform::atomic::{AtomicU32, Ordering};
use std::cell::Cell;
use std::fmt;

/// Owners have this bit.
const OWNER: u32 = 1 << 27;
/// Tasks have this bit, and not that of owners.
const TASK: u32 = 1 << 26;
/// The number of bits of an identity.
pub(super) const BITS: u32 = 28;

/// The identity of a range's holder or waiter.
///
/// ```
/// use manx::range::Holder;
///
/// assert_eq!(Holder::NOBODY.to_string(), "somebody");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Holder(u32);

impl Holder {
    /// No identity: a future that no [`task`](super::task()) polls may run on this thread now and
    /// on another one later.
    pub const NOBODY: Holder = Holder(0);

    /// The owner with this number.
    pub(super) const fn owner(number: u32) -> Holder {
        Holder(OWNER | (number & (OWNER - 1)))
    }

    /// A task with a number of its own.
    pub(super) fn new_task() -> Holder {
        // Relaxed: the numbers only have to differ.
        Holder(TASK | (TASKS.fetch_add(1, Ordering::Relaxed) & (TASK - 1)))
    }

    pub(super) const fn to_bits(self) -> u32 {
        self.0
    }

    pub(super) const fn from_bits(bits: u32) -> Holder {
        Holder(bits & ((1 << BITS) - 1))
    }

    /// Returns whether the identity is known.
    pub const fn is_known(self) -> bool {
        self.0 != 0
    }

    /// The thread's number in the kernel, if it is a thread.
    pub const fn thread(self) -> Option<u32> {
        if self.0 != 0 && self.0 & (OWNER | TASK) == 0 { Some(self.0) } else { None }
    }

    /// The task's number, if it is a task: see [`task`](super::task()).
    pub const fn task_number(self) -> Option<u32> {
        if self.0 & (OWNER | TASK) == TASK { Some(self.0 & (TASK - 1)) } else { None }
    }

    /// The owner's number, if it is an owner.
    pub const fn owner_number(self) -> Option<u32> {
        if self.0 & OWNER != 0 { Some(self.0 & (OWNER - 1)) } else { None }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.thread(), self.task_number(), self.owner_number()) {
            (Some(thread), ..) => write!(to, "thread {thread}"),
            (_, Some(task), _) => write!(to, "task {task}"),
            (.., Some(owner)) => write!(to, "owner {owner}"),
            _ => to.write_str("somebody"),
        }
    }
}

impl fmt::Debug for Holder {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, to)
    }
}

platform::global! {
    /// Tasks so far.
    static TASKS: AtomicU32 = AtomicU32::new(0);
}

platform::thread_local! {
    /// The identity for which this thread runs: a task's, or the thread's own; 0: itself, and its
    /// number was not asked for yet.
    static CURRENT: Cell<u32> = Cell::new(0);
}

impl Holder {
    /// The identity for which the calling thread runs: the innermost [`task`](super::task()) that
    /// it polls, or the thread itself. Guards that are taken now are this one's.
    ///
    /// ```
    /// use manx::range::{Holder, RangeLock};
    ///
    /// let lock: RangeLock<u64> = RangeLock::new();
    /// let guard = lock.lock(0..10)?;
    /// assert!(Holder::current().thread().is_some());
    /// assert_eq!(lock.dump().held[0].holder, Holder::current());
    /// # drop(guard);
    /// # Ok::<(), manx::range::LockError>(())
    /// ```
    #[inline(always)]
    pub fn current() -> Holder {
        CURRENT.with(|current| match current.get() {
            0 => Holder::ask(current),
            known => Holder(known),
        })
    }

    /// The innermost task that the calling thread polls, or no identity.
    pub(super) fn current_task() -> Holder {
        let current = Holder(CURRENT.with(Cell::get));
        if current.task_number().is_some() { current } else { Holder::NOBODY }
    }

    #[cold]
    fn ask(current: &Cell<u32>) -> Holder {
        current.set(tid() & (TASK - 1));
        Holder(current.get())
    }

    /// From now on the calling thread runs for this one, until the result is dropped.
    pub(super) fn enter(self) -> Entered {
        Entered { before: CURRENT.with(|current| current.replace(self.0)) }
    }
}

/// The thread runs for another identity. The drop, also by a panic, restores the identity for which
/// the thread ran before.
pub(super) struct Entered {
    before: u32,
}

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.with(|current| current.set(self.before));
    }
}

platform::os_only! {
    fn tid() -> u32 {
        platform::thread::id()
    }
}

platform::twins_only! {
    /// Threads have no numbers there.
    fn tid() -> u32 {
        0
    }
}
