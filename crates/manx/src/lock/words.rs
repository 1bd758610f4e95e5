//! What the bits of the default lock's two words mean. The algorithm is in `bounded.rs`.

/// `word`: held.
pub(super) const HELD: u32 = 1;
/// `word`: held, and perhaps a thread sleeps.
pub(super) const SLEEPERS: u32 = 2;
/// `word`: held, no thread sleeps, and the holder may yield when it releases.
pub(super) const YIELDING: u32 = 3;
/// `word`: perhaps a waiter is starving; with 2 only.
pub const MARKED: u32 = 4;

/// `side`: the lock is handed off to the starving waiters.
pub const HANDED_OFF: u32 = 1;
/// `side`: one starving waiter.
pub const STARVING_ONE: u32 = 2;
/// `side`: the bits that count them.
pub(super) const STARVING: u32 = 0x7fff & !HANDED_OFF;
/// `side`: the next waiter that was woken and finds the lock taken is starving at once.
pub(super) const FAIR: u32 = 0x8000;
/// `side`: one waiter that was woken for a hand-off and found it taken. While there are such
/// waiters, hand-offs are theirs.
pub const PASSED_OVER_ONE: u32 = 1 << 20;
/// `side`: the bits that count them.
pub(super) const PASSED_OVER: u32 = 7 << 20;
/// `side`: a waiter polls.
pub const POLLING: u32 = 1 << 23;
/// `side`: how many more looks of waiters that had slept were in vain than not.
pub(super) const FUTILE: u32 = 15 << 16;
pub(super) const FUTILE_ONE: u32 = 1 << 16;
/// `side`: with this count or more a waiter polls.
pub(super) const FUTILE_POLLS: u32 = 3 * FUTILE_ONE;
