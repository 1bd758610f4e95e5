//! Latency targets: how late a piece of work may be, and what follows for the locks that it takes.
//!
//! An *epoch* is a stretch of work with one target, such as a request. Its *window* is for how long
//! the locks that are taken inside may let others overtake it: as long as the target allows, and no
//! longer. That is learnt, by each thread for each epoch. See the README beside this file.
//!
//! ```
//! use manx::slo::{Epoch, Slo};
//! use std::time::Duration;
//!
//! let lookup = Epoch::new("lookup", Slo::p99(Duration::from_millis(2)));
//! lookup.record(true);
//! drop(lookup.enter()); // the request
//! assert!(lookup.latencies().p99 < Duration::from_secs(60));
//! ```

mod longest;
platform::timed! {
    mod epoch;
    mod feedback;
    pub(crate) mod histogram;
    mod index;
    mod percentile;
    mod thread;

    pub use epoch::{Epoch, EpochFuture, EpochGuard, Slo};
    pub use histogram::{Histogram, Summary};
    pub use percentile::Percentile;
    // Epochs by numbers: the package `capi` gives them to C programs; `workload` measures them.
    #[doc(hidden)]
    pub use thread::{abandon, current, end, end_at, set_window_source, start, window_ns};
    // The package `preload` keeps the epochs of a program's threads.
    #[doc(hidden)]
    pub use thread::{EPOCHS_MAX, NESTED_MAX, RECORD_BYTES, Thread};
}
platform::untimed! {
    use std::cell::Cell;

    platform::thread_local! {
        static WINDOW_NS: Cell<Option<u64>> = Cell::new(None);
    }

    /// Twins without time have no epochs, but what one would say: a window, by
    /// [`set_window_ns_of_this_thread`].
    pub fn window_ns() -> Option<u64> {
        WINDOW_NS.try_with(Cell::get).ok().flatten()
    }

    /// The calling thread is in an epoch with this window from now on, or in none.
    pub fn set_window_ns_of_this_thread(window_ns: Option<u64>) {
        WINDOW_NS.with(|it| it.set(window_ns));
    }
}

pub(crate) use longest::window_ns_max;
pub use longest::{WINDOW_MAX, set_window_max, window_max};
