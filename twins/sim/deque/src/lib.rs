//! What the pool uses of `crossbeam-deque`, on a simulated machine: queues whose operations take
//! the time of their accesses to shared lines.
//!
//! The crate itself would run here, but take no time. It also frees memory when it likes, by what
//! all runs of the process did before: objects would lie elsewhere in each run, and so would lines.
//!
//! | operation | the crate's access | here |
//! | --- | --- | --- |
//! | a push from outside | an exchange of the tail, which has a line of its own | a change of that line |
//! | a steal from outside | an exchange of the head, which has another one | a change of that line |
//! | a push of the owner | a store of the back | a store |
//! | a pop, or a steal from a worker | a change of the front, in the line of the back | a change of that line |
//! | a look whether there is anything | loads of both ends | loads |
//!
//! 1. An operation happens at its access, which may let other threads go first. After it the thread
//!    makes no step until the operation is done, so a queue is never seen in the middle of one.

use platform::atomic::{AtomicUsize, Ordering};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What came of an attempt to take something.
#[derive(Debug)]
pub enum Steal<T> {
    /// There is nothing.
    Empty,
    /// This was taken.
    Success(T),
    /// Another thread was faster: that is no outcome here, since an operation is one step.
    Retry,
}

/// A word in a cache line of its own. Its value means nothing.
#[derive(Debug)]
#[repr(align(128))]
struct Line(AtomicUsize);

impl Line {
    fn new() -> Line {
        Line(AtomicUsize::new(0))
    }

    fn change(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }

    fn write(&self) {
        self.0.store(0, Ordering::Release);
    }

    fn look(&self) {
        self.0.load(Ordering::Acquire);
    }
}

#[derive(Debug)]
struct Items<T>(Mutex<VecDeque<T>>);

impl<T> Items<T> {
    fn new() -> Items<T> {
        Items(Mutex::new(VecDeque::new()))
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A queue into which all threads push, and from which all take.
#[derive(Debug)]
pub struct Injector<T> {
    head: Line,
    tail: Line,
    items: Items<T>,
}

impl<T> Default for Injector<T> {
    fn default() -> Self {
        Injector::new()
    }
}

impl<T> Injector<T> {
    /// An empty queue.
    pub fn new() -> Injector<T> {
        Injector { head: Line::new(), tail: Line::new(), items: Items::new() }
    }

    /// Adds something at the end.
    pub fn push(&self, item: T) {
        self.tail.change();
        self.items.lock().push_back(item);
    }

    /// Takes what is first.
    pub fn steal(&self) -> Steal<T> {
        if self.is_empty() {
            return Steal::Empty;
        }
        self.head.change();
        self.items.lock().pop_front().map_or(Steal::Empty, Steal::Success)
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How much there is.
    pub fn len(&self) -> usize {
        self.head.look();
        self.tail.look();
        self.items.lock().len()
    }
}

#[derive(Debug)]
struct Own<T> {
    ends: Line,
    items: Items<T>,
}

impl<T> Own<T> {
    fn len(&self) -> usize {
        self.ends.look();
        self.items.lock().len()
    }

    fn take(&self) -> Option<T> {
        if self.len() == 0 {
            return None;
        }
        self.ends.change();
        self.items.lock().pop_front()
    }
}

/// The queue of a worker, which alone pushes.
#[derive(Debug)]
pub struct Worker<T>(Arc<Own<T>>);

impl<T> Worker<T> {
    /// An empty queue: first in, first out.
    pub fn new_fifo() -> Worker<T> {
        Worker(Arc::new(Own { ends: Line::new(), items: Items::new() }))
    }

    /// The end from which other threads take.
    pub fn stealer(&self) -> Stealer<T> {
        Stealer(Arc::clone(&self.0))
    }

    /// Adds something at the end.
    pub fn push(&self, item: T) {
        self.0.ends.write();
        self.0.items.lock().push_back(item);
    }

    /// Takes what is first.
    pub fn pop(&self) -> Option<T> {
        self.0.take()
    }
}

/// The end of a worker's queue from which other threads take.
#[derive(Debug)]
pub struct Stealer<T>(Arc<Own<T>>);

impl<T> Stealer<T> {
    /// Takes what is first.
    pub fn steal(&self) -> Steal<T> {
        self.0.take().map_or(Steal::Empty, Steal::Success)
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How much there is.
    pub fn len(&self) -> usize {
        self.0.len()
    }
}
