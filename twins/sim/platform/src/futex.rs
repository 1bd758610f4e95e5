//! Waiting for a word to change, as the kernel does it: the waiters of a word in the order of their
//! arrival, one step to compare and to fall asleep, and the costs of the calls.

use crate::atomic::{AtomicU32, AtomicU64, Ordering};
pub use crate::deadline::{ANY_SET, Clock, Deadline, Outcome};
use crate::kernel::Kernel;
use crate::lines::Access;
use crate::simulation;
use crate::task::Awake;
use crate::timers::NEVER;
use crate::waiters::Waiter;

/// The key of a word's upper half; here, the address of the whole.
pub const fn upper(word: *const AtomicU64) -> *const AtomicU32 {
    word.cast()
}

/// Sleeps while `word` is `expected`, until woken.
pub fn wait(word: &AtomicU32, expected: u32) -> Outcome {
    wait_set(word, expected, ANY_SET, None)
}

/// Sleeps while `word` is `expected`, until woken, for at most `timeout_ns`.
pub fn wait_for(word: &AtomicU32, expected: u32, timeout_ns: u64) -> Outcome {
    wait_until(word, expected, crate::clock::now_ns().saturating_add(timeout_ns))
}

/// Sleeps while `word` is `expected`, until woken, and until [`crate::clock::now_ns`] reaches
/// `deadline_ns`.
pub fn wait_until(word: &AtomicU32, expected: u32, deadline_ns: u64) -> Outcome {
    wait_set(word, expected, ANY_SET, Some(Deadline { clock: Clock::Monotonic, ns: deadline_ns }))
}

/// Sleeps as a member of `set` while `word` is `expected`, until woken, and until the deadline if
/// there is one.
pub fn wait_set(word: &AtomicU32, expected: u32, set: u32, deadline: Option<Deadline>) -> Outcome {
    wait_at(word, || word.value(), expected, set, deadline)
}

/// As [`wait_set`], while the upper 32 bits of `word` are `expected`.
pub fn wait_upper(word: &AtomicU64, expected: u32, set: u32, deadline: Option<Deadline>) -> Outcome {
    wait_at(upper(word), || (word.value() >> 32) as u32, expected, set, deadline)
}

fn wait_at(
    word: *const AtomicU32,
    look: impl FnOnce() -> u32,
    expected: u32,
    set: u32,
    deadline: Option<Deadline>,
) -> Outcome {
    let address = word.addr();
    simulation::make(enter);
    let until_ns = deadline.map_or(NEVER, |deadline| deadline.ns);
    // The look and the sleep are one step: nothing comes between them.
    let slept = simulation::make_and_stop(|kernel| {
        kernel.access(address, Access::Load);
        let sleeps = look() == expected;
        if sleeps {
            kernel.wait(address, expected, set, until_ns);
        }
        sleeps
    });
    match slept.then(|| simulation::kernel(|kernel| kernel.awake())) {
        None => Outcome::Changed,
        Some(Awake::Woken) => Outcome::Woken,
        Some(Awake::Late) => Outcome::TimedOut,
    }
}

/// What each call takes.
fn enter(kernel: &mut Kernel) {
    kernel.call();
    kernel.work(kernel.machine().cost.futex_ns);
}

/// Wakes at most `count` of the threads that wait at `word`; returns how many it woke.
pub fn wake(word: *const AtomicU32, count: u32) -> usize {
    wake_set(word, count, ANY_SET)
}

/// Wakes at most `count` of the threads that wait at `word` as members of a set in common with
/// `set`; returns how many it woke.
pub fn wake_set(word: *const AtomicU32, count: u32, set: u32) -> usize {
    wake_some(word, count, |waiter| waiter.set & set != 0)
}

/// Adds 1 to `word` and wakes at most `count` of the threads that wait there, in one step as far as
/// any [`wait`] can tell. Returns how many it woke.
pub fn advance(word: &AtomicU32, count: u32) -> usize {
    let old = word.fetch_add(1, Ordering::SeqCst);
    wake_some(word, count, |waiter| old.wrapping_sub(waiter.expected) <= u32::MAX / 2)
}

fn wake_some(word: *const AtomicU32, count: u32, wanted: impl Fn(&Waiter) -> bool) -> usize {
    if !simulation::is_inside() {
        return 0;
    }
    simulation::make(enter);
    simulation::make(|kernel| kernel.wake_waiters(word.addr(), count, wanted))
}

/// Wakes all threads that wait at `word`; returns how many it woke.
pub fn wake_all(word: *const AtomicU32) -> usize {
    wake(word, u32::MAX)
}
