//! Epochs: stretches of work that have a latency target.

use crate::elsewhere;
use manx::slo::{self, Percentile};

/// Begins an epoch on the calling thread, inside of the open ones. The id is a number that the
/// program chooses for a kind of work, such as one kind of request.
#[unsafe(no_mangle)]
pub extern "C" fn manx_epoch_start(id: u64) {
    match elsewhere::get() {
        // SAFETY: any thread may begin and end epochs with any numbers, and so in all functions
        // below.
        Some(elsewhere) => unsafe { (elsewhere.start)(id) },
        None => {
            slo::start(id);
        }
    }
}

/// Ends the epoch; 99 of a hundred are to end within `slo_ns` nanoseconds. An epoch that is not
/// open is ignored.
#[unsafe(no_mangle)]
pub extern "C" fn manx_epoch_end(id: u64, slo_ns: u64) {
    match elsewhere::get() {
        // SAFETY: see `manx_epoch_start`.
        Some(elsewhere) => unsafe { (elsewhere.end)(id, slo_ns) },
        None => {
            slo::end(id, slo_ns);
        }
    }
}

/// As `manx_epoch_end`, for another percentile, from 50 to 99.99. Any other number ends the epoch
/// and teaches nothing.
#[unsafe(no_mangle)]
pub extern "C" fn manx_epoch_end_at(id: u64, slo_ns: u64, percentile: f64) {
    if let Some(elsewhere) = elsewhere::get() {
        // SAFETY: see `manx_epoch_start`.
        return unsafe { (elsewhere.end_at)(id, slo_ns, percentile) };
    }
    match hundredths(percentile).and_then(Percentile::new) {
        Some(percentile) => slo::end_at(id, slo_ns, percentile).is_some(),
        None => slo::abandon(id),
    };
}

/// The epoch ends and teaches nothing.
#[unsafe(no_mangle)]
pub extern "C" fn manx_epoch_abandon(id: u64) {
    match elsewhere::get() {
        // SAFETY: see `manx_epoch_start`.
        Some(elsewhere) => unsafe { (elsewhere.abandon)(id) },
        None => {
            slo::abandon(id);
        }
    }
}

/// For how long the calling thread may be overtaken, in nanoseconds: the window of its innermost
/// epoch, or `UINT64_MAX` outside of any.
#[unsafe(no_mangle)]
pub extern "C" fn manx_epoch_window_ns() -> u64 {
    elsewhere::window_ns().unwrap_or(u64::MAX)
}

/// A percentile in hundredths of a percent, if it is from 50 to 99.99.
fn hundredths(percentile: f64) -> Option<u16> {
    let hundredths = percentile * 100.0 + 0.5;
    (5000.0..10_000.0).contains(&hundredths).then_some(hundredths as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_from_50_to_99_99() {
        assert_eq!(hundredths(50.0), Some(5000));
        assert_eq!(hundredths(99.9), Some(9990));
        assert_eq!(hundredths(99.99), Some(9999));
        for none in [49.9, 100.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(hundredths(none), None, "{none}");
        }
    }
}
