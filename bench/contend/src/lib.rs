//! Makes runs of threads that contend for locks, or are a pool ([`contention`] says what a run is),
//! on the machine that `platform` is: this one, or by the twin `contend-sim` a simulated one.
//!
//! ```
//! use contention::length::Length;
//! use contention::lock::Lock;
//! use contention::run::{Burn, Run, Window, Work};
//! use std::time::Duration;
//!
//! let run = Run {
//!     threads: 2,
//!     first_big: None,
//!     cpus: vec![],
//!     pinned: false,
//!     burn: Burn::Time,
//!     dilation: 2.0,
//!     work: Work { sections: 1, locks: 1, lines: 4, hold_ns: 300, nops: 0 },
//!     think_ns: 300,
//!     length: Length::Times(1),
//!     window: Window::Fixed(0),
//!     time: Duration::from_millis(5),
//!     little_epochs: 0,
//!     limit: Duration::ZERO,
//!     is_interrupted: || false,
//!     slices: None,
//! };
//! let found = contend::run(Lock::Manx, &run).unwrap();
//! assert!(found.epochs_per_s > 0.0);
//! ```
//!
//! | module | what |
//! | --- | --- |
//! | [`peer`] | the competitors behind one trait |
//! | [`burn`] | how threads spend time |
//! | [`workers`] | threads, and the phases of a run |
//! | [`play`] | the threads' loop |
//! | [`nested`] | epochs within epochs |
//! | [`jobs`] | a pool of threads and its jobs |
//! | [`ranges`] | threads that lock disjoint ranges |
//! | [`schedule`] | what the scheduler does to two threads |

pub mod burn;
pub mod jobs;
pub mod nested;
pub mod peer;
pub mod play;
pub mod ranges;
pub mod schedule;
pub mod workers;

use contention::lock::Lock;
use contention::run::Measurement;
use contention::run::Run;

/// Makes a run with a lock.
///
/// # Errors
/// A CPU on which no thread may be, a thread that panicked, or a lock that does not exclude.
pub fn run(lock: Lock, run: &Run) -> Result<Measurement, String> {
    peer::with(lock, run)
}

platform::twins_only! {
    /// The constants of Manx's default mutex that a bench may vary.
    pub use manx::lock::CONSTANTS;
}
