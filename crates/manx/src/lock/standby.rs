//! One waiter that looks by itself, so that the holder need not wake anybody.
//!
//! Some locks are held nearly all the time, by whoever runs: a database's one connection, a log. Waking a sleeper
//! whenever such a lock is released is in vain. The lock was free for an instant, the thread that released it
//! has taken it again long before the sleeper runs, and the sleeper lies down again and asks to be woken. Each round costs
//! the holder a system call, and a CPU two changes of context. Those who arrive, and those whose sleep ends by the clock,
//! start more such rounds at the same time: eight threads of SQLite changed context 60,000 times a second, for 180,000 locked
//! operations.
//!
//! So, once [`ENOUGH`] more sleepers were woken in vain than not, the next one that is woken in vain stands by: it sets a
//! bit in the lock's second word, sleeps by the clock, and looks at the lock after 50 µs, 100 µs, 200 µs. While the bit is
//! set, releases wake nobody, and those who arrive look once and sleep.
//!
//! The one that stands by does not take such a lock in the instant between two holds: with the lock, all that it protects
//! would move to another CPU (SQLite with one connection makes 1.2 to 1.4 times as many operations a second on one CPU
//! as on two). It takes a lock that stays free for [`IDLE_LOOKS`] looks; that counts against standing by. A lock that is used
//! goes to it when its window is over.
//!
//! A thread that stood by when the process was forked is not there in the child. So children of a fork that go on
//! with several threads neither stand by nor look at the bit ([`fork::is_child`]).
//!
//! The bit's invariant is the fifth of `bounded.rs`.

use super::spin::pause_for;
use platform::atomic::{AtomicU32, Ordering};
use platform::fork;

/// The second word's bit: a waiter stands by.
pub const STANDBY: u32 = 1 << 23;
/// The second word's count of sleepers that were woken in vain, less those that were not.
const VAIN: u32 = ENOUGH << 21;
const VAIN_ONE: u32 = 1 << 21;
/// What that count ends at, and has to be for somebody to stand by.
const ENOUGH: u32 = 3;

/// How long the one that stands by sleeps before it looks for the first time, or after it saw the lock free …
pub(super) const QUIET_NS_MIN: u64 = 50_000;
/// … and how long at most. It doubles each time.
pub(super) const QUIET_NS_MAX: u64 = 200_000;

/// If this number of looks in a row find a lock free, no thread uses it just now.
const IDLE_LOOKS: u32 = 4;
/// The time between two of these looks.
const IDLE_APART_NS: u64 = 700;

/// Whether a waiter stands by, so that nobody has to be woken.
// Relaxed, here and in the other functions: what depends on these values is checked elsewhere.
pub(super) fn is_there(side: &AtomicU32) -> bool {
    side.load(Ordering::Relaxed) & STANDBY != 0 && !fork::is_child()
}

/// A sleeper was woken and found the lock taken. Returns whether it stands by from now on.
pub(super) fn woken_in_vain(side: &AtomicU32) -> bool {
    count(side, true) == VAIN && !fork::is_child() && side.fetch_or(STANDBY, Ordering::Relaxed) & STANDBY == 0
}

/// Whether the lock stays free for longer than between two holds.
pub(super) fn is_idle(word: &AtomicU32) -> bool {
    (0..IDLE_LOOKS).all(|look| {
        if look > 0 {
            pause_for(IDLE_APART_NS);
        }
        word.load(Ordering::Relaxed) == 0
    })
}

/// A waiter found the lock free after it had slept.
pub(super) fn found_free(side: &AtomicU32) {
    count(side, false);
}

/// The caller does not stand by any more.
pub(super) fn ends(side: &AtomicU32) {
    side.fetch_and(!STANDBY, Ordering::Relaxed);
}

/// Counts, and returns the count where it stands in the word. Lost if somebody else was faster: a hint.
fn count(side: &AtomicU32, in_vain: bool) -> u32 {
    let seen = side.load(Ordering::Relaxed);
    let now = match (seen & VAIN, in_vain) {
        (VAIN, true) | (0, false) => return seen & VAIN,
        (count, true) => count + VAIN_ONE,
        (count, false) => count - VAIN_ONE,
    };
    let _ = side.compare_exchange(seen, seen & !VAIN | now, Ordering::Relaxed, Ordering::Relaxed);
    now
}

/// What the second word of a lock begins as if the next sleeper that is woken in vain is to stand by: for tests.
pub const fn about_to_stand_by() -> u32 {
    VAIN
}
