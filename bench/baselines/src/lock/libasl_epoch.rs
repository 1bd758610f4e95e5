//! LibASL's epochs as they are printed: a window for each epoch of a thread, which grows by a unit
//! and is halved when the epoch ends late.
//!
//! Liu and others, "Asymmetry-aware scalable locking" (PPoPP 2022), Algorithm 2 and section 3.3:
//! - Each thread keeps a window, a start and a unit for each epoch id: 24 bytes. The id is the
//!   index.
//! - The start of an epoch pushes the current one, if there is one, and reads the clock.
//! - The end compares the latency with the SLO. If the epoch was late, the window is halved, and
//!   the unit becomes the part of the halved window that may be late: 1 - P. Otherwise the window
//!   grows by the unit. So after 1 / (1 - P) epochs in time it is where it was.
//! - The end makes the epoch that was pushed last the current one.
//!
//! [`manx::slo`] has the same rule with a gain, a faster start and bounds that follow from the SLO.
//!
//! The paper leaves some values open. Chosen here:
//! - The first window and the first unit ([`Window::FIRST`]). The paper gives both "a default
//!   size", from which they "quickly adjust themselves". These reach 2 ms in 190 epochs, and 25 µs
//!   in three.
//! - A unit is at least 1 ns. Otherwise a window of less than 100 ns would never grow again at p99.
//! - The longest window is that of the lock, 100 ms.
//! - Epochs of threads on big cores adjust their windows, too, which they do not use.

use core::cell::Cell;
use platform::clock::now_ns;

/// The longest window: 100 ms (section 4).
pub const WINDOW_NS_MAX: u64 = 100_000_000;

/// The number of epoch ids.
pub const EPOCHS: usize = 16;
/// The number of epochs in which another one can be open.
pub const NESTED_MAX: usize = 16;

/// The window of an epoch and what it grows by, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    window_ns: u64,
    unit_ns: u64,
}

impl Window {
    /// The state before the first epoch.
    pub const FIRST: Window = Window { window_ns: 100_000, unit_ns: 10_000 };

    /// Returns how long the next epoch may be overtaken, in nanoseconds.
    ///
    /// ```
    /// use baselines::lock::libasl_epoch::Window;
    ///
    /// let late = Window::FIRST.after(2_000, 1_000, 9900);
    /// assert_eq!(late.ns(), Window::FIRST.ns() / 2);
    /// let met = (0..100).fold(late, |window, _| window.after(500, 1_000, 9900));
    /// assert_eq!(met.ns(), Window::FIRST.ns());
    /// ```
    pub const fn ns(self) -> u64 {
        self.window_ns
    }

    /// Returns the state after an epoch that took `latency_ns`. The target: `hundredths` of a
    /// percent of these epochs end within `slo_ns`.
    #[must_use]
    pub fn after(self, latency_ns: u64, slo_ns: u64, hundredths: u16) -> Window {
        if latency_ns > slo_ns {
            let window_ns = self.window_ns / 2;
            let late = 10_000_u64.saturating_sub(u64::from(hundredths));
            Window { window_ns, unit_ns: (window_ns * late / 10_000).max(1) }
        } else {
            Window { window_ns: (self.window_ns + self.unit_ns).min(WINDOW_NS_MAX), ..self }
        }
    }
}

/// The state that a thread keeps of an epoch.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    window: Window,
    start_ns: u64,
}

/// The epochs of a thread.
struct Epochs {
    each: [Cell<Epoch>; EPOCHS],
    /// The ids of the open epochs, the innermost one last.
    open: [Cell<usize>; NESTED_MAX],
    count: Cell<usize>,
}

impl Epochs {
    const fn new() -> Epochs {
        const FIRST: Epoch = Epoch { window: Window::FIRST, start_ns: 0 };
        Epochs {
            each: [const { Cell::new(FIRST) }; EPOCHS],
            open: [const { Cell::new(0) }; NESTED_MAX],
            count: Cell::new(0),
        }
    }

    fn current(&self) -> Option<usize> {
        let last = self.count.get().checked_sub(1)?;
        Some(self.open[last].get())
    }
}

platform::thread_local! {
    static EPOCHS_OF_THREAD: Epochs = Epochs::new();
}

/// Begins the epoch `id` on the calling thread.
///
/// # Panics
/// The id is not below [`EPOCHS`], or [`NESTED_MAX`] epochs are open.
#[inline]
pub fn start(id: usize) {
    EPOCHS_OF_THREAD.with(|epochs| {
        let (epoch, count) = (&epochs.each[id], epochs.count.get());
        epochs.open[count].set(id);
        epochs.count.set(count + 1);
        epoch.set(Epoch { start_ns: now_ns(), ..epoch.get() });
    });
}

/// Ends the epoch `id`, the innermost one of the calling thread. The target: `hundredths` of a
/// percent of these epochs end within `slo_ns`. Returns its latency in nanoseconds.
///
/// # Panics
/// The id is not below [`EPOCHS`].
#[inline]
pub fn end(id: usize, slo_ns: u64, hundredths: u16) -> u64 {
    EPOCHS_OF_THREAD.with(|epochs| {
        let before = epochs.each[id].get();
        let latency_ns = now_ns().saturating_sub(before.start_ns);
        epochs.each[id].set(Epoch { window: before.window.after(latency_ns, slo_ns, hundredths), ..before });
        epochs.count.set(epochs.count.get().saturating_sub(1));
        latency_ns
    })
}

/// Returns the window of the calling thread's innermost epoch, in nanoseconds. `None` outside of
/// any epoch.
#[inline]
pub fn window_ns() -> Option<u64> {
    let of = |epochs: &Epochs| Some(epochs.each[epochs.current()?].get().window.ns());
    EPOCHS_OF_THREAD.try_with(of).ok().flatten()
}

/// Returns the window that the next epoch `id` of the calling thread will have, in nanoseconds.
///
/// # Panics
/// The id is not below [`EPOCHS`].
pub fn window_ns_of(id: usize) -> u64 {
    EPOCHS_OF_THREAD.with(|epochs| epochs.each[id].get().window.ns())
}
