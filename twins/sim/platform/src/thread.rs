//! Threads of the program that is run.

pub use crate::scheduling_class::SchedulingClass;
pub use crate::scope::{Scope, ScopedJoinHandle, scope};
use crate::simulation;
pub use crate::start::{JoinHandle, spawn, spawn_on, spawn_process};
use std::rc::Rc;

/// The timer slack of threads started by [`spawn_punctual`].
pub const PUNCTUAL_SLACK_NS: u64 = 1_000;

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

/// The same. A thread has no name here, and its stack is as large as all.
///
/// # Errors
/// None.
pub fn spawn_named<F, T>(_name: &str, _stack_bytes: usize, run: F) -> std::io::Result<JoinHandle<T>>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    Ok(spawn_punctual(run))
}

/// Whether this is the calling thread.
pub fn is_current<T>(handle: &JoinHandle<T>) -> bool {
    simulation::kernel(|kernel| kernel.current() == handle.id())
}

/// The number of the calling thread's process.
pub fn process_id() -> u32 {
    simulation::process()
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

/// The calling thread's number, which is above 0.
pub fn id() -> u32 {
    simulation::kernel(|kernel| kernel.current() as u32 + 1)
}

/// How long the calling thread has waited for a CPU. It takes three system calls, as on Linux.
pub fn own_wait_ns() -> Option<u64> {
    Some(simulation::make(|kernel| {
        (0..3).for_each(|_| kernel.call());
        kernel.times(kernel.current()).wait_ns
    }))
}

/// The calling thread's class.
pub fn scheduling_class() -> SchedulingClass {
    SchedulingClass::Normal
}

/// Sets the calling thread's nice value.
pub fn set_nice(nice: i32) {
    simulation::make(|kernel| {
        kernel.call();
        kernel.set_nice(kernel.current(), nice);
    });
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
