//! Threads of the program that is run.

pub use crate::scheduling_class::SchedulingClass;
use crate::simulation;
use std::any::Any;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

/// The timer slack of threads started by [`spawn_punctual`].
pub const PUNCTUAL_SLACK_NS: u64 = 1_000;

/// A thread that was started.
#[derive(Debug)]
pub struct JoinHandle<T> {
    id: usize,
    value: Arc<Mutex<Option<T>>>,
}

impl<T> JoinHandle<T> {
    /// Sleeps until the thread has ended.
    ///
    /// # Errors
    /// None: a thread that panics ends the run.
    pub fn join(self) -> Result<T, Box<dyn Any + Send>> {
        simulation::make_and_stop(|kernel| kernel.join(self.id));
        let value = self.value.lock().unwrap_or_else(PoisonError::into_inner).take();
        Ok(value.expect("it has ended"))
    }
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
    let value = Arc::new(Mutex::new(None));
    let place = Arc::clone(&value);
    let body = move || {
        let value = run();
        *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
    };
    simulation::make(|kernel| kernel.call());
    JoinHandle { id: simulation::start(cpus, Box::new(body)), value }
}

/// Starts a thread whose sleeps end on time.
pub fn spawn_punctual<F, T>(run: F) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    spawn(|| {
        set_timer_slack_ns(PUNCTUAL_SLACK_NS);
        run()
    })
}

/// Lets other threads go first, as far as the scheduler thinks that it is their turn.
pub fn yield_now() {
    simulation::make(|kernel| {
        kernel.call();
        kernel.yield_now();
    });
}

/// Sleeps for `ns` nanoseconds, and what the timer slack allows.
pub fn sleep_ns(ns: u64) {
    simulation::make(|kernel| kernel.call());
    simulation::make_and_stop(|kernel| {
        kernel.sleep(kernel.now_ns().saturating_add(ns));
        true
    });
}

/// The calling thread's class.
pub fn scheduling_class() -> SchedulingClass {
    SchedulingClass::Normal
}

/// Sets how late sleeps may end.
pub fn set_timer_slack_ns(slack_ns: u64) {
    simulation::make(|kernel| {
        kernel.call();
        kernel.set_slack_ns(slack_ns);
    });
}

/// The calling thread's timer slack.
pub fn timer_slack_ns() -> u64 {
    simulation::make(|kernel| {
        kernel.call();
        kernel.slack_ns()
    })
}

/// A variable of each thread; [`crate::thread_local!`] makes it.
#[derive(Debug)]
pub struct LocalKey<T: 'static> {
    initial: fn() -> T,
    // A type without a size would share its address with another one.
    _place: u8,
}

impl<T: 'static> LocalKey<T> {
    /// A variable that begins as what this function returns.
    pub const fn new(initial: fn() -> T) -> LocalKey<T> {
        LocalKey { initial, _place: 0 }
    }

    /// Calls `of` with the calling thread's value.
    pub fn with<R>(&'static self, of: impl FnOnce(&T) -> R) -> R {
        let value: Rc<T> = simulation::local(core::ptr::from_ref(self).addr(), self.initial);
        of(&value)
    }

    /// Calls `of` with the calling thread's value.
    ///
    /// # Errors
    /// None: a thread has its variables until its end.
    pub fn try_with<R>(&'static self, of: impl FnOnce(&T) -> R) -> Result<R, std::thread::AccessError> {
        Ok(self.with(of))
    }
}

/// What `thread_local!` of the twins is made of.
#[doc(hidden)]
#[macro_export]
macro_rules! simulated_local {
    ($($(#[$attribute:meta])* $visibility:vis static $name:ident: $type:ty = $value:expr;)*) => {
        $(
            $(#[$attribute])*
            $visibility static $name: $crate::thread::LocalKey<$type> =
                $crate::thread::LocalKey::new(|| $value);
        )*
    };
}
