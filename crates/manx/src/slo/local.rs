//! The calling thread's epochs.
//!
//! If the preload library is in the process its functions of the same meaning (`manx_epoch_start`
//! and so on) keep another table, for the program's pthread mutexes; the C interface uses that one
//! if it is there, and tells us ([`set_window_source`]).

use super::longest::window_ns_max;
use super::percentile::Percentile;
use super::thread::Thread;
use std::sync::OnceLock;

struct Local(Thread);

impl Drop for Local {
    fn drop(&mut self) {
        self.0.free();
    }
}

thread_local! {
    static EPOCHS: Local = const { Local(Thread::new()) };
}

/// The function that tells windows, if other code keeps the epochs.
static SOURCE: OnceLock<fn() -> Option<u64>> = OnceLock::new();

/// Runs with the calling thread's epochs, unless the thread is about to end.
#[inline]
fn with<R>(run: impl FnOnce(&Thread) -> R) -> Option<R> {
    EPOCHS.try_with(|local| run(&local.0)).ok()
}

/// Begins an epoch on the calling thread, inside of the open ones. Returns whether it is seen: see
/// [`super::EPOCHS_MAX`].
///
/// ```
/// use manx::slo;
///
/// slo::start(7);
/// // … take locks, work …
/// let latency_ns = slo::end(7, 2_000_000);
/// assert!(latency_ns.is_some());
/// assert_eq!(slo::end(7, 2_000_000), None, "it has ended already");
/// ```
#[inline]
pub fn start(id: u64) -> bool {
    with(|thread| thread.start(id)).unwrap_or(false)
}

/// The epoch ends; 99 of a hundred are to end within `slo_ns`. Returns its latency in nanoseconds,
/// unless it is not open on this thread.
#[inline]
pub fn end(id: u64, slo_ns: u64) -> Option<u64> {
    end_at(id, slo_ns, Percentile::P99)
}

/// As [`end`], for another percentile.
#[inline]
pub fn end_at(id: u64, slo_ns: u64, percentile: Percentile) -> Option<u64> {
    with(|thread| thread.end(id, slo_ns, percentile, window_ns_max())).flatten()
}

/// The epoch ends and counts for nothing. Returns whether it was open on this thread.
pub fn abandon(id: u64) -> bool {
    with(|thread| thread.abandon(id)).unwrap_or(false)
}

/// An epoch that began elsewhere ends here.
pub(super) fn report(id: u64, latency_ns: u64, slo_ns: u64, percentile: Percentile) {
    with(|thread| {
        thread.report(id, latency_ns, slo_ns, percentile, window_ns_max());
    });
}

/// For how long the calling thread may be overtaken: the window of its innermost epoch, in
/// nanoseconds. `None` outside of any epoch.
#[inline]
pub fn window_ns() -> Option<u64> {
    match SOURCE.get() {
        Some(ask) => ask(),
        None => with(Thread::window_ns).flatten(),
    }
}

/// Lets other code keep the epochs from now on, such as another library in the process:
/// [`window_ns`], and so every lock, asks it for the calling thread's window. The first one to be
/// set stays; returns whether this is it.
///
/// ```standalone_crate
/// use manx::slo;
///
/// assert!(slo::set_window_source(|| Some(42)));
/// assert_eq!(slo::window_ns(), Some(42));
/// assert!(!slo::set_window_source(|| None));
/// ```
pub fn set_window_source(ask: fn() -> Option<u64>) -> bool {
    SOURCE.set(ask).is_ok()
}

/// The calling thread's innermost epoch. Not a cheap question.
pub fn current() -> Option<u64> {
    with(Thread::current).flatten()
}
