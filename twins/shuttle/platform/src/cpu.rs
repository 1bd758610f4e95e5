//! CPUs: a few, so that algorithms take themselves for parallel, and a pause lets others go first.

/// Tells shuttle that this thread would rather see another run.
pub fn pause() {
    shuttle::hint::spin_loop();
}

/// The most CPUs that [`count`] can count.
pub const COUNT_MAX: usize = 8192;

/// How many CPUs the calling thread may run on: four, so that three may spin.
pub fn count() -> usize {
    4
}

/// The CPU that the calling thread runs on.
pub fn current() -> usize {
    0
}
