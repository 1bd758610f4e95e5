//! A lock's own window, in eight bits of its second word.

/// How long a waiter may be overtaken by default.
pub const WINDOW_NS: u64 = 1_000_000;
/// For [`Wait::window_ns`](super::bounded::Wait::window_ns): may be overtaken for ever.
pub const UNBOUNDED_NS: u64 = u64::MAX;

/// Where it stands: 0 for none, [`CODE_UNBOUNDED`], or 4 e + m for (4 + m) 2^e ns.
const CODE_SHIFT: u32 = 24;
const CODE_UNBOUNDED: u32 = 0xff;

/// The longest window that is a window: about six days. What is longer is without bound.
pub const WINDOW_NS_MAX: u64 = 1 << 49;

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
        0 => WINDOW_NS,
        CODE_UNBOUNDED => UNBOUNDED_NS,
        code => u64::from(4 + code % 4) << (code / 4).min(60),
    }
}

/// The shortest window that an epoch makes of the default lock's. With less nearly every waiter is
/// starving when it has slept, and a lock that is handed from sleeper to sleeper serves no target.
pub const EPOCH_WINDOW_NS_MIN: u64 = 50_000;

/// The window of a wait in an epoch with this window; `None` outside of any epoch, and at a lock
/// that has a window of its own, by its second word.
pub fn window_in_epoch(side: u32, epoch_window_ns: Option<u64>) -> Option<u64> {
    let own = side >> CODE_SHIFT != 0;
    epoch_window_ns.filter(|_| !own).map(|window_ns| window_ns.max(EPOCH_WINDOW_NS_MIN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_kept_to_three_digits() {
        assert_eq!(window_ns(0), WINDOW_NS);
        for window in [5, 6, 7, 8, 9, 1000, 1_000_000, 1_048_576, 3_000_000_000, WINDOW_NS_MAX] {
            let kept = window_ns(with_window_ns(window));
            assert!((window..=window + window / 4).contains(&kept), "{window} became {kept}");
        }
        assert_eq!(window_ns(with_window_ns(0)), 5);
        assert_eq!(window_ns(with_window_ns(UNBOUNDED_NS)), UNBOUNDED_NS);
        assert_eq!(with_window_ns(1_000_000) & 0xff_ffff, 0, "nothing else is touched");
    }

    #[test]
    fn an_epochs_window_stands_in_for_the_default_one_only() {
        assert_eq!(window_in_epoch(0x00ff_ffff, Some(2_000_000)), Some(2_000_000));
        assert_eq!(window_in_epoch(0, Some(0)), Some(EPOCH_WINDOW_NS_MIN));
        assert_eq!(window_in_epoch(0, None), None);
        assert_eq!(window_in_epoch(with_window_ns(10), Some(2_000_000)), None);
    }
}
