//! Starting threads and processes of the program, and waiting for their ends.

use crate::simulation;
use crate::task::State;
use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError};

/// A thread that was started.
#[derive(Debug)]
pub struct JoinHandle<T> {
    id: usize,
    value: Arc<Mutex<Option<T>>>,
}

impl<T> JoinHandle<T> {
    /// The thread's number.
    pub(crate) fn id(&self) -> usize {
        self.id
    }

    /// Whether the thread has ended.
    pub fn is_finished(&self) -> bool {
        simulation::make(|kernel| kernel.state(self.id) == State::Ended)
    }

    /// Sleeps until the thread has ended.
    ///
    /// # Errors
    /// None: a thread that panics ends the run.
    pub fn join(self) -> Result<T, Box<dyn Any + Send>> {
        await_end(self.id);
        let value = self.value.lock().unwrap_or_else(PoisonError::into_inner).take();
        Ok(value.expect("it has ended"))
    }
}

/// Sleeps until a thread has ended.
pub(crate) fn await_end(id: usize) {
    simulation::make_and_stop(|kernel| kernel.join(id));
}

/// Starts a thread.
pub fn spawn<F, T>(run: F) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    spawn_on(&[], run)
}

/// Starts a thread that runs on these CPUs only; on all if there are none.
pub fn spawn_on<F, T>(cpus: &[usize], run: F) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    // SAFETY: the thread borrows nothing.
    unsafe { spawn_unchecked(cpus, run) }
}

/// Starts a process: a number, statics and a CPU clock of its own, and one thread, which runs this.
/// It ends with the last of its threads.
pub fn spawn_process<F, T>(run: F) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let (body, value) = returning(run);
    simulation::make(|kernel| kernel.call());
    JoinHandle { id: simulation::start_process(Box::new(body)), value }
}

/// The function of a thread that is to leave its value, and the place of that value.
fn returning<'a, T: 'a>(run: impl FnOnce() -> T + 'a) -> (impl FnOnce() + 'a, Arc<Mutex<Option<T>>>) {
    let value = Arc::new(Mutex::new(None));
    let place = Arc::clone(&value);
    let body = move || {
        let value = run();
        *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
    };
    (body, value)
}

/// As [`spawn_on`], for what borrows.
///
/// # Safety
/// The thread makes no step after what it borrows has ended.
pub(crate) unsafe fn spawn_unchecked<'a, F, T>(cpus: &[usize], run: F) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send + 'a,
    T: Send + 'a,
{
    let (body, value) = returning(run);
    let body: Box<dyn FnOnce() + 'a> = Box::new(body);
    // SAFETY: by the caller's promise, the body is not used after what it borrows has ended.
    let body = unsafe { std::mem::transmute::<Box<dyn FnOnce() + 'a>, Box<dyn FnOnce()>>(body) };
    simulation::make(|kernel| kernel.call());
    JoinHandle { id: simulation::start(cpus, body), value }
}
