//! The names of cases and versions, by which tables, targets and pictures find them.

use super::spec::Kind;

/// `threads` threads, alone.
pub(crate) fn threads(threads: usize) -> String {
    format!("threads, {threads}")
}

/// Without a lock around the computation, and with one.
pub(crate) const NO_LOCK: &str = "no lock";

/// Less time than there are CPUs.
pub(crate) fn quota(cpus: f64) -> String {
    format!("quota {cpus}")
}

/// As many threads as the quota has CPUs.
pub(super) const THREADS_AS_QUOTA: &str = "threads = quota";
pub(crate) const GO_AUTOMATIC: &str = "go, automatic";
pub(crate) const GO_MANUAL: &str = "go, manual";
pub(super) const GO_MANX_RUN: &str = "go, manx run";

/// One of two is idle half of the time.
pub(super) const SHARING: &str = "sharing, one of two idle half of the time";

contention::named! {
    /// More than the machine does, and what leaves room.
    pub(crate) enum Amount {
        Overload = "overload",
        Room = "60 % load",
    }
}

/// `processes` processes with this amount to do.
pub(crate) fn neighbours(amount: Amount, processes: usize) -> String {
    let (amount, s) = (amount.name(), if processes == 1 { "" } else { "es" });
    format!("{amount}, {processes} process{s}")
}

/// The paper's factor.
pub(super) const OVERCOMMIT: &str = "overcommit";

pub(crate) fn overcommit(processes: usize) -> String {
    format!("{OVERCOMMIT}, {processes} processes")
}

pub(crate) fn factor(overcommit: f64) -> String {
    format!("friendlypool x {overcommit}")
}

/// The factor in a version's name.
pub(super) fn factor_of(name: &str) -> Option<f64> {
    name.strip_prefix("friendlypool x ")?.parse().ok()
}

/// Two of different kinds.
pub(super) const MIXED: &str = "mixed, two processes at overload";

pub(super) fn pair(first: Kind, second: Kind) -> String {
    format!("{} + {}", first.name(), second.name())
}

pub(super) const BURST: &str = "burst";
pub(super) const IDLE: &str = "idle";
/// Jobs that do nothing, from a thread that is not the pool's and from a job.
pub(super) const SUBMIT_OUTSIDE: &str = "submit, from outside";
pub(super) const SUBMIT_INSIDE: &str = "submit, from inside";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_factor_is_read_as_it_is_written() {
        for value in [0.5, 1.0, 1.5, 4.0] {
            assert_eq!(factor_of(&factor(value)), Some(value));
        }
        assert_eq!(factor_of("friendlypool"), None);
        assert_eq!(factor_of("friendlypool x 1, boosted"), None);
    }

    #[test]
    fn one_process_is_no_processes() {
        assert_eq!(neighbours(Amount::Overload, 1), "overload, 1 process");
        assert_eq!(neighbours(Amount::Room, 4), "60 % load, 4 processes");
    }
}
