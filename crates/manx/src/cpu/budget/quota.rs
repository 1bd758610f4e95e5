//! What the files of a group say about CPU time: its quota, its weight, how often it was throttled.
//!
//! | | cgroup v1 | cgroup v2 |
//! | --- | --- | --- |
//! | quota | `cpu.cfs_quota_us`, -1 for none | `cpu.max`, first word, `max` for none |
//! | period | `cpu.cfs_period_us` | `cpu.max`, second word |
//! | burst | `cpu.cfs_burst_us` | `cpu.max.burst` |
//! | weight | `cpu.shares`, 1024 unless set | `cpu.weight`, 100 unless set |
//! | throttled | `cpu.stat`, in ns | `cpu.stat`, in µs |
//!
//! A weight says which group goes first when CPUs are short, never how many there are: it is no
//! limit. `cpu.rt_runtime_us` is about real-time threads alone and is not read. Text that is not
//! what it should be is no quota, and the reader is told so.

use crate::cpu::fields::value_of;
use crate::cpu::text;
use std::fmt;
use std::time::Duration;

/// A group's CPU time in each period, for all its threads together.
///
/// ```
/// use manx::cpu::Quota;
/// use std::time::Duration;
///
/// let quota = Quota::new(Duration::from_millis(150), Duration::from_millis(100));
/// assert_eq!(quota.cpus(), 1.5);
/// assert_eq!(quota.to_string(), "150000/100000"); // in microseconds, as in the kernel's files
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// The CPU time in a period.
    pub time: Duration,
    /// The period: not 0.
    pub period: Duration,
    /// The CPU time that earlier periods left and that may be used on top. It does not change the
    /// average.
    pub burst: Duration,
}

impl Quota {
    /// Returns a quota of `time` in each `period`, which is not 0, without a burst.
    pub const fn new(time: Duration, period: Duration) -> Quota {
        Quota { time, period, burst: Duration::ZERO }
    }

    /// The number of CPUs that the quota pays for, on average.
    pub fn cpus(&self) -> f64 {
        self.time.as_nanos() as f64 / self.period.as_nanos() as f64
    }
}

impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.time.as_micros(), self.period.as_micros())?;
        if !self.burst.is_zero() {
            write!(f, " with bursts of {}", self.burst.as_micros())?;
        }
        Ok(())
    }
}

/// How a group fares against its neighbours when CPUs are short. No limit, and never a count of
/// CPUs.
///
/// ```
/// use manx::cpu::Weight;
///
/// assert_eq!(Weight::Shares(512).to_string(), "512 shares (1024 unless set)");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Weight {
    /// cgroup v1: `cpu.shares`, 1024 unless set.
    Shares(u64),
    /// cgroup v2: `cpu.weight`, 100 unless set.
    Weight(u64),
    /// The group runs only when nothing else wants to run (`cpu.idle`).
    Idle,
}

impl fmt::Display for Weight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Weight::Shares(shares) => write!(f, "{shares} shares (1024 unless set)"),
            Weight::Weight(weight) => write!(f, "weight {weight} (100 unless set)"),
            Weight::Idle => write!(f, "runs only when nobody else wants to"),
        }
    }
}

/// How often a group had used up its quota, since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Throttled {
    /// Periods in which a thread of the group wanted to run.
    pub periods: u64,
    /// Periods in which a thread of the group had to stop.
    pub throttled: u64,
    /// For how long, summed over the CPUs.
    pub throttled_time: Duration,
}

/// Text that is not what it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// A number, and nothing else but white space around it.
pub(super) fn number(text: &[u8]) -> Result<u64, Malformed> {
    text::number(text.trim_ascii()).ok_or(Malformed)
}

/// A number of microseconds.
pub(super) fn microseconds(text: &[u8]) -> Result<Duration, Malformed> {
    number(text).map(Duration::from_micros)
}

/// `cpu.max`: the quota, `None` if there is none.
pub(super) fn cpu_max(text: &[u8]) -> Result<Option<Quota>, Malformed> {
    let mut words = text.trim_ascii().split(u8::is_ascii_whitespace);
    let (quota, period) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let period = microseconds(period)?;
    if words.next().is_some() || period.is_zero() {
        return Err(Malformed);
    }
    if quota == b"max" {
        return Ok(None);
    }
    in_period(microseconds(quota)?, period).map(Some)
}

/// `cpu.cfs_quota_us`: the quota, `None` if there is none.
pub(super) fn cfs_quota(text: &[u8]) -> Result<Option<Duration>, Malformed> {
    if text.trim_ascii() == b"-1" { Ok(None) } else { microseconds(text).map(Some) }
}

/// A quota of the kernel's is at least 1 ms: 0 is none of these.
pub(super) fn in_period(time: Duration, period: Duration) -> Result<Quota, Malformed> {
    let sound = !time.is_zero() && !period.is_zero();
    if sound { Ok(Quota::new(time, period)) } else { Err(Malformed) }
}

/// `cpu.stat` of either version.
pub(super) fn throttled(text: &[u8]) -> Option<Throttled> {
    let ns = value_of(text, "throttled_time").map(Duration::from_nanos);
    let throttled_time = ns.or_else(|| value_of(text, "throttled_usec").map(Duration::from_micros))?;
    Some(Throttled {
        periods: value_of(text, "nr_periods")?,
        throttled: value_of(text, "nr_throttled")?,
        throttled_time,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn quota(quota_us: u64, period_us: u64) -> Option<Quota> {
        Some(Quota::new(Duration::from_micros(quota_us), Duration::from_micros(period_us)))
    }

    #[test]
    fn cpu_max_is_a_quota_or_none() {
        for (text, found) in [
            ("max 100000\n", Ok(None)),
            ("150000 100000\n", Ok(quota(150_000, 100_000))),
            ("1000 1000000", Ok(quota(1000, 1_000_000))),
            ("", Err(Malformed)),
            ("max", Err(Malformed)),
            ("100000", Err(Malformed)),
            ("0 100000", Err(Malformed)),
            ("100000 0", Err(Malformed)),
            ("max 0", Err(Malformed)),
            ("-1 100000", Err(Malformed)),
            ("+5 100000", Err(Malformed)),
            ("1 2 3", Err(Malformed)),
            ("99999999999999999999 100000", Err(Malformed)),
        ] {
            assert_eq!(cpu_max(text.as_bytes()), found, "{text:?}");
        }
    }

    #[test]
    fn a_quota_of_minus_1_is_none() {
        assert_eq!(cfs_quota(b"-1\n"), Ok(None));
        assert_eq!(cfs_quota(b"50000\n"), Ok(Some(Duration::from_millis(50))));
        for text in ["", "\n", "-2", "1 2", "max"] {
            assert_eq!(cfs_quota(text.as_bytes()), Err(Malformed), "{text:?}");
        }
    }

    #[test]
    fn throttling_is_read_from_either_version() {
        let v1 = b"nr_periods 30\nnr_throttled 29\nthrottled_time 1400000000\nnr_bursts 0\n";
        let v2 = b"usage_usec 5\nuser_usec 3\nnr_periods 30\nnr_throttled 29\nthrottled_usec 1400000\n";
        let throttled_time = Duration::from_millis(1_400);
        let found = Some(Throttled { periods: 30, throttled: 29, throttled_time });
        assert_eq!((throttled(v1), throttled(v2)), (found, found));
        assert_eq!(value_of(v2, "usage_usec"), Some(5));
        assert_eq!(throttled(b"usage_usec 5\n"), None);
        assert_eq!(value_of(b"usage_usec_more 5\n", "usage_usec"), None, "a whole word");
    }

    #[test]
    fn bursts_are_told_and_do_not_count() {
        let burst = Duration::from_millis(20);
        let quota = Quota { burst, ..Quota::new(Duration::from_millis(50), Duration::from_millis(100)) };
        assert_eq!((quota.cpus(), quota.to_string()), (0.5, "50000/100000 with bursts of 20000".into()));
    }

    proptest! {
        #[test]
        fn no_text_is_too_much_and_every_quota_is_some_cpu(text: Vec<u8>, words in "[-+0-9 max\n]{0,30}") {
            for text in [&text[..], words.as_bytes()] {
                if let Ok(Some(quota)) = cpu_max(text) {
                    prop_assert!(quota.cpus() > 0.0 && quota.cpus().is_finite());
                }
                let _ = (cfs_quota(text), number(text), throttled(text));
            }
        }

        #[test]
        fn every_quota_is_read_back(quota_us in 1_u64.., period_us in 1_u64..) {
            let text = format!("{quota_us} {period_us}\n");
            prop_assert_eq!(cpu_max(text.as_bytes()), Ok(quota(quota_us, period_us)));
        }
    }
}
