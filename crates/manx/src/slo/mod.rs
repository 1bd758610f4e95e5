//! Latency targets: how late a piece of work may be, and what follows for the locks that it takes.
//!
//! An *epoch* is a stretch of work with one target, such as a request. Its *window* is for how long the locks that are taken inside may let
//! others overtake it: as long as the target allows, and no longer. That is learnt, by each thread for each epoch
//! ([`feedback`]). See the README beside this file.
//!
//! [`Epoch`] is for Rust. [`start`] and [`end`] are what C programs call, by other names.

pub mod feedback;
pub mod percentile;
platform::os_only! {
    mod epoch;
    pub mod histogram;
    mod local;
    pub mod thread;

    pub use epoch::{Carried, Entered, Epoch, Slo};
    pub use local::{abandon, current, end, end_at, set_unit, set_window_ns_max, start, window_ns};
    pub use thread::{EPOCHS_MAX, RECORD_BYTES, Thread, WINDOW_NS_MAX};
}
platform::twins_only! {
    /// Models have no epochs.
    pub fn window_ns() -> Option<u64> {
        None
    }
}

pub use feedback::{Feedback, Unit};
pub use percentile::Percentile;
