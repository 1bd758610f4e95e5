//! The spinning policy: look, pause, look again, for ever.
//!
//! The unsafe original of Andreoli and Cucinotta's study: unbeatable while every waiter and the
//! thread waited for have a CPU each, and worse than anything else when they do not, because the
//! waiter keeps the other from running until the kernel takes its CPU away. It is here to be
//! compared with, and for programs that know that they are alone on their CPUs. It takes no notice
//! of a shortage of CPUs.

use super::{Action, Backoff, Policy, Waiter};

/// The policy that only spins: look, pause, look again, for ever.
///
/// It reacts fastest while each waiter and the thread that it waits for have a CPU each. When CPUs
/// are short it keeps that thread from running for whole time slices. It is here to be compared
/// with; take [`Adaptive`](super::Adaptive) or [`Event`](super::Event) instead.
///
/// ```
/// use manx::wait::{Policy, Spin};
///
/// assert_eq!(Spin.until(|| true).spins, 0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spin;

/// A thread that waits by [`Spin`].
///
/// ```
/// use manx::wait::{Backoff, Spin, Spinner};
///
/// let mut wait: Backoff<Spinner> = Spin.start();
/// wait.wait();
/// assert_eq!(wait.counts().spins, 1);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Spinner(());

impl Spin {
    /// Begins a wait.
    #[inline]
    pub const fn start(&self) -> Backoff<Spinner> {
        Backoff::new(Spinner(()))
    }
}

impl Policy for Spin {
    type Waiter<'a> = Spinner;

    #[inline]
    fn start(&self) -> Backoff<Spinner> {
        Spin::start(self)
    }
}

impl Waiter for Spinner {
    #[inline]
    fn round(&mut self, timeout_ns: u64) -> Action {
        Action::Spin.perform(timeout_ns);
        Action::Spin
    }
}
