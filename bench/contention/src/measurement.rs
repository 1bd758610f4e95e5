//! What was measured of a run.

use crate::timeline::Timeline;
use report::Histogram;

/// What was measured.
#[derive(Debug)]
pub struct Measurement {
    /// Epochs per second of all threads.
    pub epochs_per_s: f64,
    /// Epochs of big threads.
    pub big: Histogram,
    /// Epochs of little threads.
    pub little: Histogram,
    /// Little epochs that ended after the SLO; 0 if there is none.
    pub missed: u64,
    /// The slowest thread's part of all epochs, times the number of threads.
    pub slowest_share: f64,
    /// The slowest thread's epochs over the fastest one's.
    pub slowest_of_fastest: f64,
    /// How many times as long a little thread's sections took, measured.
    pub dilation: f64,
    /// The mean of the little threads' windows when they ended.
    pub window_ns: f64,
    /// Latencies over time.
    pub timeline: Option<Timeline>,
}
