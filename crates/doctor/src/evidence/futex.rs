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
//! | mutexes of a program under `manx run` | 2, 3, 6 or 7; past its window a waiter sleeps at a second word instead, with the number of such waiters in it | one |
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

/// The values that Manx's mutexes have in their word when a thread sleeps there.
const OF_MANX: [u32; 4] = [2, 3, 6, 7];
/// Where the second word of such a mutex lies (`crates/preload/src/lock/object.rs`), and which bits
/// have the number of waiters that are past their window (`crates/manx/src/lock/bounded.rs`).
const SIDE: u64 = 24;
const STARVING: u32 = 0x7ffe;

/// A thread that waits at a futex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FutexWait {
    /// The thread
    pub tid: i32,
    /// Where the word is
    pub address: u64,
    /// What the thread does there
    pub kind: Kind,
    /// What it expects there
    pub value: u32,
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
    Some(FutexWait { tid, address, kind, value: value as u32, stack: *stack_pointer })
}

impl FutexWait {
    /// The same wait in a program whose mutexes are Manx's. `is_held` says whether a mutex lies at
    /// an address, with a holder.
    ///
    /// ```
    /// use doctor::evidence::futex::{FutexWait, Kind};
    ///
    /// let past = FutexWait { tid: 7, address: 0x1018, kind: Kind::Other, value: 0x30006, stack: 0x7000 };
    /// let wait = past.under_manx(|address| address == 0x1000);
    /// assert_eq!((wait.address, wait.kind), (0x1000, Kind::Lock { timed: true }));
    /// assert_eq!(past.under_manx(|_| false), past);
    /// ```
    pub fn under_manx(self, is_held: impl Fn(u64) -> bool) -> FutexWait {
        if self.kind != Kind::Other {
            return self;
        }
        let found = of_manx(self.address, self.value).into_iter().flatten().find(|lock| is_held(*lock));
        found.map_or(self, |address| FutexWait { address, kind: Kind::Lock { timed: true }, ..self })
    }
}

/// Where a mutex of Manx may lie if a thread waits at this address for this value.
fn of_manx(address: u64, value: u32) -> [Option<u64>; 2] {
    let first = OF_MANX.contains(&value).then_some(address);
    let second = (value & STARVING != 0).then(|| address.checked_sub(SIDE)).flatten();
    [first, second]
}

/// The words of locks that a thread may wait for in this call.
///
/// On x86-64 the call's number is not known, and another call may have such arguments, as `poll`.
/// So the address must be one where threads were seen to wait for a lock.
///
/// ```
/// use doctor::evidence::futex::locks;
/// use platform::perf::Call;
///
/// let of = |operation, value| Call { number: None, arguments: [0x1018, operation, value, 0] };
/// assert!(locks(&of(128, 2)).eq([0x1018, 0x1000]), "under Manx it may be the second word");
/// assert_eq!(locks(&of(128 | 9, 1)).next(), None, "a condition variable");
/// ```
pub fn locks(call: &Call) -> impl Iterator<Item = u64> {
    let [address, operation, value, limit] = call.arguments;
    let is_futex = call.number.is_none_or(|number| number == FUTEX.cast_unsigned());
    let candidates = match kind(operation, value, limit).filter(|_| is_futex) {
        Some(Kind::Inheriting) => [Some(address), None],
        Some(Kind::Lock { .. } | Kind::Other) => of_manx(address, value as u32),
        None => [None, None],
    };
    candidates.into_iter().flatten()
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
        let of = |number, arguments| locks(&Call { number, arguments }).next();
        let address = 0x7000;
        assert_eq!(of(Some(FUTEX.cast_unsigned()), [address, 128, 2, 0]), Some(address));
        assert_eq!(of(Some(0), [address, 128, 2, 0]), None, "another call");
        assert_eq!(of(None, [address, 128 | 6, 0, 0]), Some(address));
        assert_eq!(of(None, [address, 128 | 9, 0, 0]), None, "a parked thread");
        let all: Vec<u64> =
            locks(&Call { number: None, arguments: [address, 128 | 9, 0x10004, 1] }).collect();
        assert_eq!(all, [address - SIDE], "past its window");
    }
}
