//! What the files of a group say about CPU time: its quota, its weight, how often it was throttled.
//!
//! | | cgroup v1 | cgroup v2 |
//! | --- | --- | --- |
//! | quota | `cpu.cfs_quota_us`, -1 for none | `cpu.max`, first word, `max` for none |
//! | period | `cpu.cfs_period_us` | `cpu.max`, second word |
//! | burst | `cpu.cfs_burst_us` | `cpu.max.burst` |
//! | weight | `cpu.shares`, 1024 unless set | `cpu.weight`, 100 unless set |
//! | throttled | `cpu.stat`, in ns | `cpu.stat`, in µs |
//! | used | `cpuacct.usage`, in ns | `cpu.stat`, in µs |
//!
//! A weight says which group goes first when CPUs are short, never how many there are: it is no
//! limit. `cpu.rt_runtime_us` is about real-time threads alone and is not read. Text that is not
//! what it should be is no quota, and the reader is told so.

use crate::cpu::fields::value_of;
use crate::cpu::text;
use std::fmt;

/// So much CPU time in each period, for all threads of a group together.
///
/// ```
/// use manx::cpu::Quota;
///
/// let quota = Quota { quota_us: 150_000, period_us: 100_000, burst_us: 0 };
/// assert_eq!(quota.cpus(), 1.5);
/// assert_eq!(quota.to_string(), "150000/100000");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// The CPU time in a period, in µs.
    pub quota_us: u64,
    /// The period, in µs: not 0.
    pub period_us: u64,
    /// How much of what earlier periods left may be used on top, in µs. It says nothing about the
    /// average.
    pub burst_us: u64,
}

impl Quota {
    /// How many CPUs this is on average.
    pub fn cpus(&self) -> f64 {
        self.quota_us as f64 / self.period_us as f64
    }
}

impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.quota_us, self.period_us)?;
        if self.burst_us > 0 {
            write!(f, " with bursts of {}", self.burst_us)?;
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
///
/// ```
/// let throttled = manx::cpu::Throttled { periods: 30, throttled: 29, throttled_ns: 1_400_000_000 };
/// assert!(throttled.throttled <= throttled.periods);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Throttled {
    /// Periods in which a thread of the group wanted to run.
    pub periods: u64,
    /// Periods in which a thread of the group had to stop.
    pub throttled: u64,
    /// For how long, in ns, summed over the CPUs.
    pub throttled_ns: u64,
}

/// Text that is not what it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// A number, and nothing else but white space around it.
pub(super) fn number(text: &[u8]) -> Result<u64, Malformed> {
    text::number(text.trim_ascii()).ok_or(Malformed)
}

/// `cpu.max`: the quota, `None` if there is none.
pub(super) fn cpu_max(text: &[u8]) -> Result<Option<Quota>, Malformed> {
    let mut words = text.trim_ascii().split(u8::is_ascii_whitespace);
    let (quota, period) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let period_us = number(period)?;
    if words.next().is_some() || period_us == 0 {
        return Err(Malformed);
    }
    if quota == b"max" {
        return Ok(None);
    }
    in_period(number(quota)?, period_us).map(Some)
}

/// `cpu.cfs_quota_us`: the quota, `None` if there is none.
pub(super) fn cfs_quota(text: &[u8]) -> Result<Option<u64>, Malformed> {
    if text.trim_ascii() == b"-1" { Ok(None) } else { number(text).map(Some) }
}

/// A quota of the kernel's is at least 1 ms: 0 is none of these.
pub(super) fn in_period(quota_us: u64, period_us: u64) -> Result<Quota, Malformed> {
    let sound = quota_us > 0 && period_us > 0;
    if sound { Ok(Quota { quota_us, period_us, burst_us: 0 }) } else { Err(Malformed) }
}

/// `cpu.stat` of either version.
pub(super) fn throttled(text: &[u8]) -> Option<Throttled> {
    let ns = value_of(text, "throttled_time");
    let throttled_ns = ns.or_else(|| value_of(text, "throttled_usec").map(|us| us.saturating_mul(1000)))?;
    Some(Throttled {
        periods: value_of(text, "nr_periods")?,
        throttled: value_of(text, "nr_throttled")?,
        throttled_ns,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn quota(quota_us: u64, period_us: u64) -> Option<Quota> {
        Some(Quota { quota_us, period_us, burst_us: 0 })
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
        assert_eq!(cfs_quota(b"50000\n"), Ok(Some(50_000)));
        for text in ["", "\n", "-2", "1 2", "max"] {
            assert_eq!(cfs_quota(text.as_bytes()), Err(Malformed), "{text:?}");
        }
    }

    #[test]
    fn throttling_is_in_ns_in_either_version() {
        let v1 = b"nr_periods 30\nnr_throttled 29\nthrottled_time 1400000000\nnr_bursts 0\n";
        let v2 = b"usage_usec 5\nuser_usec 3\nnr_periods 30\nnr_throttled 29\nthrottled_usec 1400000\n";
        let found = Some(Throttled { periods: 30, throttled: 29, throttled_ns: 1_400_000_000 });
        assert_eq!((throttled(v1), throttled(v2)), (found, found));
        assert_eq!(value_of(v2, "usage_usec"), Some(5));
        assert_eq!(throttled(b"usage_usec 5\n"), None);
        assert_eq!(value_of(b"usage_usec_more 5\n", "usage_usec"), None, "a whole word");
    }

    #[test]
    fn bursts_are_told_and_do_not_count() {
        let quota = Quota { quota_us: 50_000, period_us: 100_000, burst_us: 20_000 };
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
