//! The longest window there is: for epochs whose target would allow a longer one, for locks outside
//! of any epoch, and for threads that stand by and ask for more.
//!
//! One number for the whole process, because it says one thing: for how long a thread may be
//! overtaken. A lock may have one of its own
//! ([`Reorderable::set_window_ns_max`](crate::lock::Reorderable::set_window_ns_max)).

use platform::atomic::{AtomicU64, Ordering};
use platform::global;

/// The longest window unless another one is set (the paper's: 100 ms).
pub const WINDOW_NS_MAX: u64 = 100_000_000;

global! {
    static MAX_NS: AtomicU64 = AtomicU64::new(WINDOW_NS_MAX);
}

/// Sets the longest window, in nanoseconds (100 ms to begin with): of all epochs, from the next one
/// that ends, and of all locks that have none of their own.
///
/// ```
/// use manx::lock::{Asl, Mcs};
///
/// manx::slo::set_window_ns_max(5_000_000);
/// assert_eq!(manx::slo::window_ns_max(), 5_000_000);
/// assert_eq!(Asl::<Mcs>::new().reorderable().window_ns_max(), 5_000_000);
/// ```
pub fn set_window_ns_max(window_ns: u64) {
    // Relaxed: a number that stands for itself, and so below.
    MAX_NS.store(window_ns, Ordering::Relaxed);
}

/// The longest window, in nanoseconds.
#[inline]
pub fn window_ns_max() -> u64 {
    MAX_NS.load(Ordering::Relaxed)
}
