//! Windows: how long a waiter may be overtaken, and how a lock's second word says so in eight bits.
//!
//! Invariant: the eight bits never change after the lock was made.

use platform::constant::Constant;

/// How long a waiter may be overtaken by default.
pub const WINDOW_NS: u64 = 1_000_000;
/// The same, as simulated machines vary it.
pub(super) const DEFAULT_NS: Constant = Constant::new("WINDOW_NS", WINDOW_NS);
/// For [`Wait::window_ns`](super::bounded::Wait::window_ns): may be overtaken for ever.
pub const UNBOUNDED_NS: u64 = u64::MAX;
/// The longest window that is a window: about six days. What is longer is without bound.
pub const WINDOW_NS_MAX: u64 = 1 << 49;
/// The shortest window that an epoch makes of the default lock's. With less nearly every waiter is
/// starving when it has slept, and a lock that is handed from sleeper to sleeper serves no target.
pub const EPOCH_WINDOW_NS_MIN: u64 = 50_000;

/// `side`: where the lock's own window stands: 0 for none, [`CODE_UNBOUNDED`], or 4 e + m for
/// (4 + m) 2^e ns.
const CODE_SHIFT: u32 = 24;
const CODE_UNBOUNDED: u32 = 0xff;

/// What a lock's second word begins as for a window of its own, of at least 5 ns. It is rounded up
/// to three binary digits, that is by less than a quarter.
pub const fn with_window_ns(window_ns: u64) -> u32 {
    let code = if window_ns > WINDOW_NS_MAX {
        CODE_UNBOUNDED
    } else {
        let window_ns = if window_ns < 5 { 5 } else { window_ns };
        let exponent = window_ns.ilog2() - 2;
        let mantissa = window_ns.div_ceil(1 << exponent);
        // A mantissa of 8 is 4 with the next exponent, and the sum says so.
        4 * exponent + mantissa as u32 - 4
    };
    code << CODE_SHIFT
}

/// The window of the lock with this second word.
pub(super) fn window_ns(side: u32) -> u64 {
    match side >> CODE_SHIFT {
        0 => DEFAULT_NS.get(),
        CODE_UNBOUNDED => UNBOUNDED_NS,
        code => u64::from(4 + code % 4) << (code / 4).min(60),
    }
}

/// The window of a wait in an epoch with this window; `None` outside of any epoch, and at a lock
/// that has a window of its own, by its second word.
pub fn window_in_epoch(side: u32, epoch_window_ns: Option<u64>) -> Option<u64> {
    let own = side >> CODE_SHIFT != 0;
    epoch_window_ns.filter(|_| !own).map(|window_ns| window_ns.max(EPOCH_WINDOW_NS_MIN))
}
