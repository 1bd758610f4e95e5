//! A clock cheap enough to read around every epoch: the time stamp counter where there is one.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// How long the counter is compared with the system's clock.
const CALIBRATION: Duration = Duration::from_millis(5);

/// What the clock shows, in ticks of an arbitrary length.
#[inline(always)]
pub fn now() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: the instruction is part of the architecture.
        unsafe { std::arch::x86_64::_rdtsc() }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        since_start()
    }
}

/// Nanoseconds in a tick, measured once in a process.
pub fn ns_per_tick() -> f64 {
    static MEASURED: OnceLock<f64> = OnceLock::new();
    *MEASURED.get_or_init(|| {
        let (begin, ticks) = (Instant::now(), now());
        while begin.elapsed() < CALIBRATION {}
        let (elapsed, ticks) = (begin.elapsed(), now() - ticks);
        elapsed.as_nanos() as f64 / ticks as f64
    })
}

/// Burns CPU until `ticks` have passed since `begin`.
#[inline]
pub fn burn_until(begin: u64, ticks: u64) {
    while ordered_now().wrapping_sub(begin) < ticks {}
}

/// [`now`], read after everything before it has happened.
#[inline(always)]
fn ordered_now() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the instruction is part of the architecture.
    unsafe {
        std::arch::x86_64::_mm_lfence();
    }
    now()
}

#[cfg(not(target_arch = "x86_64"))]
fn since_start() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn burning_takes_at_least_its_time() {
        let begin = now();
        burn_until(begin, 10_000);
        assert!(now() - begin >= 10_000);
        assert!(ns_per_tick() > 0.0);
    }
}
