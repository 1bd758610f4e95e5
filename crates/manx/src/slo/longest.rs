//! The longest window there is: for epochs whose target would allow a longer one, for locks outside
//! of any epoch, and for threads that stand by and ask for more.
//!
//! One number for the whole process, because it says one thing: for how long a thread may be
//! overtaken. A lock may have one of its own
//! ([`Reorderable::set_window_max`](crate::lock::Reorderable::set_window_max)).

use core::time::Duration;
use platform::atomic::{AtomicU64, Ordering};
use platform::clock::duration_ns;
use platform::global;

/// The longest window unless another one is set (the paper's: 100 ms).
pub const WINDOW_MAX: Duration = Duration::from_millis(100);

global! {
    static MAX_NS: AtomicU64 = AtomicU64::new(duration_ns(WINDOW_MAX));
}

/// Sets the longest window, which is 100 ms at first. It holds for all locks that have no longest
/// window of their own, and for each epoch from its next end on.
///
/// ```
/// use manx::lock::{Asl, Mcs};
/// use std::time::Duration;
///
/// let window = Duration::from_millis(5);
/// manx::slo::set_window_max(window);
/// assert_eq!(manx::slo::window_max(), window);
/// assert_eq!(Asl::<Mcs>::new().reorderable().window_max(), window);
/// ```
pub fn set_window_max(window: Duration) {
    // Relaxed: a number that stands for itself, and so below.
    MAX_NS.store(duration_ns(window), Ordering::Relaxed);
}

/// Returns the longest window.
pub fn window_max() -> Duration {
    Duration::from_nanos(window_ns_max())
}

/// The longest window, in nanoseconds.
#[inline]
pub(crate) fn window_ns_max() -> u64 {
    MAX_NS.load(Ordering::Relaxed)
}
