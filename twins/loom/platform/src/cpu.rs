//! CPUs: there are as many as threads here, and a pause lets others go first.

/// Tells loom that this thread cannot go on until another has done something.
pub fn pause() {
    loom::hint::spin_loop();
}

/// The most CPUs that [`count`] can count.
pub const COUNT_MAX: usize = 8192;

/// How many CPUs the calling thread may run on. Two, so that algorithms take themselves for
/// parallel.
pub fn count() -> usize {
    2
}

/// The CPU that the calling thread runs on.
pub fn current() -> usize {
    0
}
