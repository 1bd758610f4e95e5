//! Durations as numbers of nanoseconds: the same on all platforms, so the twins include this file.
//!
//! Public functions take a [`Duration`]; what runs often has nanoseconds in a `u64`.

use core::time::Duration;

/// A duration in nanoseconds. A duration that does not fit becomes `u64::MAX`: 584 years.
///
/// ```
/// use platform::clock::duration_ns;
/// use std::time::Duration;
///
/// assert_eq!(duration_ns(Duration::from_micros(3)), 3_000);
/// assert_eq!(duration_ns(Duration::MAX), u64::MAX);
/// ```
pub const fn duration_ns(duration: Duration) -> u64 {
    let ns = duration.as_nanos();
    if ns > u64::MAX as u128 { u64::MAX } else { ns as u64 }
}
