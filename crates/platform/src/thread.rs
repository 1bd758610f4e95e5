//! Threads: giving way, sleeping, starting, and what the scheduler makes of them.
//!
//! [`yield_now`], [`sleep_ns`] and [`scheduling_class`] go to the kernel directly: they leave
//! `errno` alone, are no cancellation points, and run wherever code can run at all.

use crate::clock::timespec;
use crate::syscall::{check, syscall0, syscall1, syscall4, syscall5};

pub use crate::scheduling_class::SchedulingClass;
pub use std::thread::{JoinHandle, scope, spawn};

/// The timer slack of threads started by [`spawn_punctual`]: how late the kernel may let a sleep
/// end to save interrupts. Other threads have 50 µs.
pub const PUNCTUAL_SLACK_NS: u64 = 1_000;

/// Gives the CPU to another runnable thread of the same priority, if there is one (`sched_yield`).
#[inline]
pub fn yield_now() {
    // SAFETY: takes no argument and changes nothing but which thread runs.
    unsafe { syscall0(libc::SYS_sched_yield) };
}

/// Sleeps for `ns` nanoseconds and the thread's timer slack, or until a signal handler has run:
/// a caller that must sleep the whole time looks at the clock and sleeps again.
///
/// ```
/// use platform::{clock, thread};
///
/// let began_ns = clock::now_ns();
/// thread::sleep_ns(1_000_000);
/// assert!(clock::now_ns() - began_ns >= 1_000_000);
/// ```
#[inline]
pub fn sleep_ns(ns: u64) {
    let time = timespec(ns);
    let (clock, time) = (libc::CLOCK_MONOTONIC as usize, (&raw const time).addr());
    // SAFETY: the kernel reads the time, which lives until the call returns, and writes nothing
    // back.
    unsafe { syscall4(libc::SYS_clock_nanosleep, clock, 0, time, 0) };
}

/// The number by which the kernel knows the calling thread.
#[inline]
pub fn id() -> u32 {
    // SAFETY: takes no argument and changes nothing.
    unsafe { syscall0(libc::SYS_gettid) as u32 }
}

/// The number by which the kernel knows the process.
///
/// ```
/// assert_eq!(platform::thread::process_id(), std::process::id());
/// ```
pub fn process_id() -> u32 {
    std::process::id()
}

/// Whether this is the calling thread.
///
/// ```
/// assert!(!platform::thread::is_current(&std::thread::spawn(|| ())));
/// ```
pub fn is_current<T>(handle: &JoinHandle<T>) -> bool {
    handle.thread().id() == std::thread::current().id()
}

/// The calling thread's class.
///
/// ```
/// use platform::thread::{SchedulingClass, scheduling_class};
///
/// if scheduling_class() == SchedulingClass::Normal {
///     assert!(!scheduling_class().yields_only_to_equals());
/// }
/// ```
#[inline]
pub fn scheduling_class() -> SchedulingClass {
    // SAFETY: 0 stands for the calling thread; changes nothing.
    let result = unsafe { syscall1(libc::SYS_sched_getscheduler, 0) };
    let Ok(number) = check(result) else { return SchedulingClass::Other };
    match number as i32 & !libc::SCHED_RESET_ON_FORK {
        libc::SCHED_OTHER => SchedulingClass::Normal,
        libc::SCHED_BATCH => SchedulingClass::Batch,
        libc::SCHED_IDLE => SchedulingClass::Idle,
        libc::SCHED_FIFO => SchedulingClass::Fifo,
        libc::SCHED_RR => SchedulingClass::RoundRobin,
        libc::SCHED_DEADLINE => SchedulingClass::Deadline,
        _ => SchedulingClass::Other,
    }
}

/// Sets how late the kernel may let the calling thread's sleeps and timeouts end, in nanoseconds; 0
/// gives the thread back what it began with. For Manx's own threads: a program's threads are its
/// own.
pub fn set_timer_slack_ns(slack_ns: u64) {
    // SAFETY: changes the calling thread's timer slack only.
    unsafe { syscall5(libc::SYS_prctl, libc::PR_SET_TIMERSLACK as usize, slack_ns as usize, 0, 0, 0) };
}

/// The calling thread's timer slack, in nanoseconds.
pub fn timer_slack_ns() -> u64 {
    // SAFETY: changes nothing.
    let result = unsafe { syscall5(libc::SYS_prctl, libc::PR_GET_TIMERSLACK as usize, 0, 0, 0, 0) };
    check(result).map_or(0, |slack| slack as u64)
}

/// Starts a thread whose sleeps end on time: its timer slack is [`PUNCTUAL_SLACK_NS`].
///
/// ```
/// use platform::thread;
///
/// let thread = thread::spawn_punctual(thread::timer_slack_ns);
/// assert_eq!(thread.join().unwrap(), thread::PUNCTUAL_SLACK_NS);
/// ```
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

/// Starts a punctual thread with a name, as debuggers and `ps -L` show it (its first 15 bytes), and
/// a stack of the given size in bytes; 0 stands for the usual size.
///
/// # Errors
/// The system has no thread, or no memory for one.
pub fn spawn_named<F, T>(name: &str, stack_bytes: usize, run: F) -> std::io::Result<JoinHandle<T>>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    // A name cannot have a zero in it.
    let builder = std::thread::Builder::new().name(name.replace('\0', ""));
    let builder = if stack_bytes == 0 { builder } else { builder.stack_size(stack_bytes) };
    builder.spawn(|| {
        set_timer_slack_ns(PUNCTUAL_SLACK_NS);
        run()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thread_has_its_own_number() {
        assert_eq!(id(), id());
        assert_ne!(spawn(id).join().expect("runs"), id());
    }

    #[test]
    fn classes_are_read_as_they_were_set() {
        let classes = spawn(|| {
            let mut classes = vec![scheduling_class()];
            for policy in [libc::SCHED_BATCH, libc::SCHED_IDLE, libc::SCHED_BATCH | libc::SCHED_RESET_ON_FORK]
            {
                let priority = libc::sched_param { sched_priority: 0 };
                // SAFETY: changes the calling thread only, with a valid parameter.
                assert_eq!(unsafe { libc::sched_setscheduler(0, policy, &priority) }, 0);
                classes.push(scheduling_class());
            }
            classes
        });
        use SchedulingClass::{Batch, Idle, Normal};
        assert_eq!(classes.join().expect("runs"), [Normal, Batch, Idle, Batch]);
    }

    #[test]
    fn errno_survives() {
        // SAFETY: errno is the calling thread's own.
        unsafe { *libc::__errno_location() = 77 };
        yield_now();
        sleep_ns(1);
        scheduling_class();
        // SAFETY: as above.
        assert_eq!(unsafe { *libc::__errno_location() }, 77);
    }

    #[test]
    fn slack_is_the_threads_own() {
        let before_ns = timer_slack_ns();
        assert_eq!(spawn_punctual(timer_slack_ns).join().expect("runs"), PUNCTUAL_SLACK_NS);
        assert_eq!(timer_slack_ns(), before_ns);
    }
}
