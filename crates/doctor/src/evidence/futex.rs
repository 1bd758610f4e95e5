//! A thread that waits in the kernel at a 32-bit word in its memory (a futex), seen from outside.
//!
//! `/proc/PID/task/TID/syscall` shows the system call and its arguments. Most threads that wait at
//! a futex are idle: they wait for work at a condition variable, a semaphore or a parking place.
//! The value that a thread expects in the word tells a thread that waits for a lock from an idle
//! one:
//!
//! | waiter | expects | time limit |
//! | --- | --- | --- |
//! | mutexes of the GNU C library and its internal locks, of Rust's library, of Go's runtime | 2: taken, with waiters | none |
//! | `pthread_mutex_timedlock` | 2 | one |
//! | a mutex with priority inheritance | uses `FUTEX_LOCK_PI` instead | any |
//! | condition variables, semaphores, parking places | a counter, 0, or another constant | any |
//!
//! A counter may be 2 for a while. So an address at which some thread ever expects another value is
//! no lock. An address at which no waiter comes, goes or runs, and at which no holder is known, is
//! no lock either (`locks.rs`).

use platform::perf::Call;
use procfs::process::Syscall;

/// The number of the system call.
#[cfg(target_arch = "x86_64")]
const FUTEX: i64 = 202;
#[cfg(not(target_arch = "x86_64"))]
const FUTEX: i64 = 98;

/// `FUTEX_PRIVATE_FLAG` and `FUTEX_CLOCK_REALTIME`: neither changes the operation.
const FLAGS: u64 = 128 | 256;
const WAIT: u64 = 0;
const LOCK_PI: u64 = 6;
const WAIT_BITSET: u64 = 9;
const LOCK_PI2: u64 = 13;

/// The value that mutexes write into their word when a thread sleeps.
const TAKEN_WITH_WAITERS: u32 = 2;

/// A thread that waits at a futex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FutexWait {
    /// The thread
    pub tid: i32,
    /// Where the word is
    pub address: u64,
    /// What the thread does there
    pub kind: Kind,
    /// The thread's stack pointer
    pub stack: u64,
}

/// For what a thread may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It waits for a lock: it expects the value that mutexes write.
    Lock {
        /// Whether it waits for a limited time
        timed: bool,
    },
    /// It waits for a mutex that lends its holder the waiter's priority.
    Inheriting,
    /// It waits for something else.
    Other,
}

/// The wait of this thread; `None` if the thread does not wait at a futex.
///
/// ```
/// use doctor::evidence::futex::{Kind, wait};
/// use procfs::process::Syscall;
///
/// assert_eq!(wait(7, &Syscall::Running), None);
/// let call = if cfg!(target_arch = "x86_64") { 202 } else { 98 };
/// let of = |operation, value| Syscall::Blocked {
///     syscall_number: call,
///     argument_registers: [0x1000, operation, value, 0, 0, 0],
///     stack_pointer: 0x7000,
///     program_counter: 0,
/// };
/// assert_eq!(wait(7, &of(128, 2)).map(|it| it.kind), Some(Kind::Lock { timed: false }));
/// assert_eq!(wait(7, &of(128 | 9, 40)).map(|it| it.kind), Some(Kind::Other));
/// ```
pub fn wait(tid: i32, call: &Syscall) -> Option<FutexWait> {
    let Syscall::Blocked { syscall_number: FUTEX, argument_registers, stack_pointer, .. } = call else {
        return None;
    };
    let [address, operation, value, limit, ..] = *argument_registers;
    let kind = kind(operation, value, limit)?;
    Some(FutexWait { tid, address, kind, stack: *stack_pointer })
}

/// The word of the lock that a thread waits for in this call, if it does.
///
/// On x86-64 the call's number is not known, and another call may have such arguments, as `poll`.
/// So the address must be one where threads were seen to wait for a lock.
///
/// ```
/// use doctor::evidence::futex::lock;
/// use platform::perf::Call;
///
/// let of = |operation, value| Call { number: None, arguments: [0x1000, operation, value, 0] };
/// assert_eq!(lock(&of(128, 2)), Some(0x1000));
/// assert_eq!(lock(&of(128, 7)), None, "a condition variable");
/// ```
pub fn lock(call: &Call) -> Option<u64> {
    let [address, operation, value, limit] = call.arguments;
    let is_futex = call.number.is_none_or(|number| number == FUTEX.cast_unsigned());
    let kind = kind(operation, value, limit).filter(|kind| is_futex && *kind != Kind::Other);
    kind.map(|_| address)
}

/// What a thread waits for by these arguments; `None` if it does not wait.
fn kind(operation: u64, value: u64, limit: u64) -> Option<Kind> {
    match operation & !FLAGS {
        // Registers are wider than the word.
        WAIT | WAIT_BITSET if value as u32 == TAKEN_WITH_WAITERS => Some(Kind::Lock { timed: limit != 0 }),
        WAIT | WAIT_BITSET => Some(Kind::Other),
        LOCK_PI | LOCK_PI2 => Some(Kind::Inheriting),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(operation: u64, value: u64, limit: u64) -> Option<Kind> {
        let call = Syscall::Blocked {
            syscall_number: FUTEX,
            argument_registers: [0x10, operation, value, limit, 0, 0],
            stack_pointer: 1,
            program_counter: 2,
        };
        wait(1, &call).map(|wait| wait.kind)
    }

    #[test]
    fn a_waiter_for_a_lock_is_told_from_an_idle_thread() {
        assert_eq!(seen(128, 2, 0), Some(Kind::Lock { timed: false }));
        assert_eq!(seen(0, 2, 0), Some(Kind::Lock { timed: false }));
        assert_eq!(seen(128 | 9, 2, 0), Some(Kind::Lock { timed: false }));
        assert_eq!(seen(128 | 256 | 9, 2, 0x7000), Some(Kind::Lock { timed: true }));
        assert_eq!(seen(128 | 6, 0, 0), Some(Kind::Inheriting));
        assert_eq!(seen(128 | 9, 0, 0), Some(Kind::Other));
        assert_eq!(seen(128 | 9, u64::from(u32::MAX), 0), Some(Kind::Other));
        assert_eq!(seen(128 | 1, 1, 0), None, "a wake-up");
    }

    /// What the kernel shows as the number of a thread that sleeps outside of any system call.
    const NO_SYSTEM_CALL: i64 = -1;

    #[test]
    fn a_thread_that_is_in_no_system_call_or_in_another_one_waits_for_no_word() {
        for syscall_number in [NO_SYSTEM_CALL, FUTEX + 1] {
            let call = Syscall::Blocked {
                syscall_number,
                argument_registers: [0x10, 128, 2, 0, 0, 0],
                stack_pointer: 1,
                program_counter: 2,
            };
            assert_eq!(wait(1, &call), None, "{syscall_number}");
        }
    }

    #[test]
    fn the_arguments_of_a_call_tell_a_lock() {
        let of = |number, arguments| lock(&Call { number, arguments });
        let address = 0x7000;
        assert_eq!(of(Some(FUTEX.cast_unsigned()), [address, 128, 2, 0]), Some(address));
        assert_eq!(of(Some(0), [address, 128, 2, 0]), None, "another call");
        assert_eq!(of(None, [address, 128 | 6, 0, 0]), Some(address));
        assert_eq!(of(None, [address, 128 | 9, 0, 0]), None, "a parked thread");
    }
}
