//! Latency targets: how late a piece of work may be, and what follows for the locks that it takes.
//!
//! An *epoch* is a stretch of work with one target, such as a request. Its *window* is for how long
//! the locks that are taken inside may let others overtake it: as long as the target allows, and no
//! longer. That is learnt, by each thread for each epoch ([`feedback`]). See the README beside this
//! file.
//!
//! [`Epoch`] is for Rust. [`start`] and [`end`] are what C programs call, by other names.

pub mod feedback;
mod longest;
pub mod percentile;
platform::os_only! {
    mod epoch;
    pub mod histogram;
    mod local;
    pub mod thread;

    pub use epoch::{Epoch, EpochFuture, EpochGuard, Slo};
    pub use local::{abandon, current, end, end_at, set_window_source, start, window_ns};
    pub use thread::{EPOCHS_MAX, NESTED_MAX, RECORD_BYTES, Thread};
}
platform::twins_only! {
    use std::cell::Cell;

    platform::thread_local! {
        static WINDOW_NS: Cell<Option<u64>> = Cell::new(None);
    }

    /// Models have no epochs, but what one would say: a window, by
    /// [`set_window_ns_of_this_thread`].
    pub fn window_ns() -> Option<u64> {
        WINDOW_NS.try_with(Cell::get).ok().flatten()
    }

    /// The calling thread is in an epoch with this window from now on, or in none.
    pub fn set_window_ns_of_this_thread(window_ns: Option<u64>) {
        WINDOW_NS.with(|it| it.set(window_ns));
    }
}

pub use feedback::Feedback;
pub use longest::{WINDOW_NS_MAX, set_window_ns_max, window_ns_max};
pub use percentile::Percentile;
