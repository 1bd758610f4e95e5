//! Threads that borrow from the function that starts them (`std::thread::scope`).
//!
//! 1. A thread of a scope has ended before the call of [`scope`] returns.
//! 2. If that call does not return because of a panic, the run has failed, and no thread of it
//!    makes a step any more: `simulation.rs` forgets their stacks. So none uses what it borrowed.

use crate::start::{self, JoinHandle};
use std::any::Any;
use std::cell::RefCell;
use std::marker::PhantomData;

/// Threads that end before the scope does.
#[derive(Debug)]
pub struct Scope<'scope, 'env: 'scope> {
    threads: RefCell<Vec<usize>>,
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

/// A thread of a scope.
#[derive(Debug)]
pub struct ScopedJoinHandle<'scope, T> {
    handle: JoinHandle<T>,
    scope: PhantomData<&'scope ()>,
}

/// Calls `of` with a scope, and returns when the scope's threads have ended.
pub fn scope<'env, F, T>(of: F) -> T
where
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T,
{
    let scope = Scope { threads: RefCell::default(), scope: PhantomData, env: PhantomData };
    let value = of(&scope);
    // A thread of the scope may have started another one.
    loop {
        let last = scope.threads.borrow_mut().pop();
        match last {
            Some(id) => start::await_end(id),
            None => return value,
        }
    }
}

impl<'scope> Scope<'scope, '_> {
    /// Starts a thread.
    pub fn spawn<F, T>(&'scope self, run: F) -> ScopedJoinHandle<'scope, T>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        // SAFETY: what it borrows is there until the call of `scope` returns, and the thread makes
        // no step after that (rules 1 and 2).
        let handle = unsafe { start::spawn_unchecked(&[], run) };
        self.threads.borrow_mut().push(handle.id());
        ScopedJoinHandle { handle, scope: PhantomData }
    }
}

impl<T> ScopedJoinHandle<'_, T> {
    /// Sleeps until the thread has ended.
    ///
    /// # Errors
    /// None: a thread that panics ends the run.
    pub fn join(self) -> Result<T, Box<dyn Any + Send>> {
        self.handle.join()
    }
}
