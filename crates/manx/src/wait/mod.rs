//! Waiting in a loop for something that another thread does.
//!
//! `while !ready() {}` is the fastest way to wait for a thread that runs, and the slowest way to
//! wait for a thread that does not: it burns the CPU that the other needs. A *policy* says what a
//! waiter does between two looks, and every wait is the same loop:
//!
//! ```
//! use manx::wait::Adaptive;
//! use std::sync::atomic::{AtomicBool, Ordering};
//!
//! static READY: AtomicBool = AtomicBool::new(false);
//! # let other = std::thread::spawn(|| READY.store(true, Ordering::Release));
//!
//! let mut backoff = Adaptive::DEFAULT.start();
//! while !READY.load(Ordering::Acquire) {
//!     backoff.wait();
//! }
//! # other.join().unwrap();
//! ```
//!
//! | policy | between two looks | the other side |
//! | --- | --- | --- |
//! | [`Spin`] | a pause. The unsafe original | does nothing |
//! | [`Yield`] | gives way to a thread that is ready | does nothing |
//! | [`FixedSleep`] | sleeps, always as long | does nothing |
//! | [`Adaptive`] | pauses, then yields, then sleeps longer and longer, up to a ceiling | does nothing |
//! | [`Event`] | pauses, then parks until a signal | signals |
//! | [`Mutable`] | a few spin and the others park; how many learns from what happens | signals |
//!
//! All are settable, `const`, and free of allocation. None of them changes what the loop means:
//! after each round the caller looks again, and a round may end early. [`Backoff`] counts its
//! rounds, and [`Policy::until_for`] bounds a wait.
//!
//! Which policy when, what each costs, and where the ideas come from: the README beside this file.

mod action;
mod adaptive;
mod backoff;
mod event;
mod mutable;
mod simple;
#[doc(hidden)]
pub mod trial;
mod window;

pub use crate::cpu::{set_short_of_cpus, short_of_cpus};
pub use action::Action;
pub use adaptive::{Adaptive, AdaptiveWaiter};
pub use backoff::{Backoff, Counts, Policy, Waiter};
pub use event::{Event, Parker};
pub use mutable::{Mutable, MutableWaiter};
pub use simple::{FixedSleep, Sleeper, Spin, Spinner, Yield, Yielder};
