//! What limits a process, and the reason in words.

use super::groups::Group;
use super::quota::Quota;
use crate::cpu::CpuSet;
use std::fmt;

/// Something that limits how many CPUs a process can use.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Limit {
    /// What it is.
    pub kind: LimitKind,
    /// To how many CPUs it limits: more than 0.
    pub cpus: f64,
    /// Whether it decides: one of a budget's limits does.
    pub binds: bool,
}

/// What can limit how many CPUs a process can use.
///
/// ```
/// use manx::cpu::{CpuBudget, LimitKind};
///
/// match CpuBudget::now().source() {
///     LimitKind::Quota { quota, group } => println!("{} CPUs, by the quota of {group:?}", quota.cpus()),
///     LimitKind::Cpuset { cpus, .. } | LimitKind::Affinity { cpus } => println!("bound to {cpus}"),
///     _ => println!("all CPUs"),
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LimitKind {
    /// The machine has no more CPUs that are online.
    Online {
        /// Those.
        cpus: Box<CpuSet>,
    },
    /// The process' group is bound to some CPUs.
    Cpuset {
        /// Those.
        cpus: Box<CpuSet>,
        /// The group whose file says so.
        group: Group,
    },
    /// The thread is bound to some CPUs.
    Affinity {
        /// Those.
        cpus: Box<CpuSet>,
    },
    /// The process' group, or one above it, gets so much CPU time in each period.
    Quota {
        /// How much.
        quota: Quota,
        /// The group whose quota it is.
        group: Group,
    },
    /// Nothing could be read, so it is one CPU.
    Unknown,
}

impl LimitKind {
    /// A word for it: `online`, `cpuset`, `affinity`, `quota` or `unknown`.
    pub const fn name(&self) -> &'static str {
        match self {
            LimitKind::Online { .. } => "online",
            LimitKind::Cpuset { .. } => "cpuset",
            LimitKind::Affinity { .. } => "affinity",
            LimitKind::Quota { .. } => "quota",
            LimitKind::Unknown => "unknown",
        }
    }

    /// The group that it is about, if it is about one.
    pub fn group(&self) -> Option<&Group> {
        match self {
            LimitKind::Cpuset { group, .. } | LimitKind::Quota { group, .. } => Some(group),
            LimitKind::Online { .. } | LimitKind::Affinity { .. } | LimitKind::Unknown => None,
        }
    }

    /// The CPUs that it allows, if it names any.
    pub fn cpus(&self) -> Option<&CpuSet> {
        match self {
            LimitKind::Online { cpus } | LimitKind::Affinity { cpus } | LimitKind::Cpuset { cpus, .. } => {
                Some(cpus)
            }
            LimitKind::Quota { .. } | LimitKind::Unknown => None,
        }
    }

    /// The quota, if it is one.
    pub fn quota(&self) -> Option<Quota> {
        match self {
            LimitKind::Quota { quota, .. } => Some(*quota),
            _ => None,
        }
    }
}

impl fmt::Display for LimitKind {
    /// The reason in words: `quota 150000/100000 of the parent group /a of /a/b`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LimitKind::Online { cpus } => write!(f, "all that are online ({cpus})"),
            LimitKind::Cpuset { cpus, group } => write!(f, "cpuset {cpus} of {group}"),
            LimitKind::Affinity { cpus } => write!(f, "affinity {cpus}"),
            LimitKind::Quota { quota, group } => write!(f, "quota {quota} of {group}"),
            LimitKind::Unknown => write!(f, "nothing says how many there are"),
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", Cpus(self.cpus), self.kind)
    }
}

/// A number of CPUs as people write it: `1 CPU`, `1.5 CPUs`, with three digits behind the point at
/// most.
pub(super) struct Cpus(pub(super) f64);

impl fmt::Display for Cpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let short = format!("{:.3}", self.0);
        let short = short.trim_end_matches('0').trim_end_matches('.');
        match short {
            "1" => write!(f, "1 CPU"),
            "" | "0" => write!(f, "{:e} CPUs", self.0),
            _ => write!(f, "{short} CPUs"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        for (cpus, text) in [
            (1.0, "1 CPU"),
            (1.5, "1.5 CPUs"),
            (3.99, "3.99 CPUs"),
            (1.0 / 3.0, "0.333 CPUs"),
            (10.0, "10 CPUs"),
            (0.001, "0.001 CPUs"),
            (0.000_01, "1e-5 CPUs"),
            (100.0, "100 CPUs"),
        ] {
            assert_eq!(Cpus(cpus).to_string(), text);
        }
    }
}
