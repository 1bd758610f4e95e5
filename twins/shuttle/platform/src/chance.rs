//! What the machine decides and no algorithm knows: how long, who first, whether at all.
//!
//! All of it is drawn from shuttle's random numbers, which are part of a schedule: a replay decides
//! alike.

use shuttle::rand::{RngCore, thread_rng};

/// A number below `end`, which is at least 1.
pub(crate) fn below(end: u64) -> u64 {
    thread_rng().next_u64() % end
}

/// True once in `times`.
pub(crate) fn once_in(times: u64) -> bool {
    below(times) == 0
}

/// A point where other threads may go first, and need not.
pub(crate) fn step() {
    shuttle::thread::sleep(std::time::Duration::ZERO);
}
