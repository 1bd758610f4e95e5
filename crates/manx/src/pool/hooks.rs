//! Functions of the program's that the pool's threads call: as a worker starts and ends, and after
//! a panic.
//!
//! No panic of these functions leaves this file: it is reported, and dropped. So a function that
//! panics ends no worker and loses no job.

use super::error::{drop_quietly, panic_message};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Called with the message of a panic.
type PanicHandler = Box<dyn Fn(&str) + Send + Sync>;
/// Called with the index of a worker.
type ThreadHandler = Box<dyn Fn(usize) + Send + Sync>;
/// Returns the name of a worker's thread, from the index of the worker.
type ThreadName = Box<dyn Fn(usize) -> String + Send + Sync>;

#[derive(Default)]
pub(super) struct Hooks {
    pub(super) panic_handler: Option<PanicHandler>,
    pub(super) start_handler: Option<ThreadHandler>,
    pub(super) exit_handler: Option<ThreadHandler>,
    pub(super) thread_name: Option<ThreadName>,
}

impl Hooks {
    /// A job or a function of the program's has panicked with this.
    pub(super) fn report(&self, payload: Box<dyn Any + Send>) {
        if let Some(handler) = &self.panic_handler
            // A handler that panics itself is not reported.
            && let Err(own) = catch_unwind(AssertUnwindSafe(|| handler(panic_message(&*payload))))
        {
            drop_quietly(own);
        }
        drop_quietly(payload);
    }

    /// The calling thread is the worker of this index, and begins.
    pub(super) fn started(&self, index: usize) {
        self.call(self.start_handler.as_ref(), index);
    }

    /// The calling thread is the worker of this index, and does nothing for the pool from now on.
    pub(super) fn exited(&self, index: usize) {
        self.call(self.exit_handler.as_ref(), index);
    }

    fn call(&self, handler: Option<&ThreadHandler>, index: usize) {
        if let Some(handler) = handler
            && let Err(payload) = catch_unwind(AssertUnwindSafe(|| handler(index)))
        {
            self.report(payload);
        }
    }

    /// The name for the thread of the worker of this index, if the program names it.
    pub(super) fn name_thread(&self, index: usize) -> Option<String> {
        let name = self.thread_name.as_ref()?;
        catch_unwind(AssertUnwindSafe(|| name(index))).map_err(|payload| self.report(payload)).ok()
    }
}
