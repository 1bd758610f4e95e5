//! What the kernel says of its scheduler.
//!
//! | figure | where from |
//! | --- | --- |
//! | ticks per second | the coarse monotonic clock moves with each tick, so its resolution is a tick. (`getconf CLK_TCK` is a unit of files, not the tick.) |
//! | slice | debugfs, for root; else `sched_getattr`, which says it since Linux 6.12 |
//! | how long a cache is hot | debugfs; else what the kernel begins with |
//! | how often busy CPUs are balanced | debugfs: the shortest interval of the smallest domain, times the factor for busy CPUs |
//! | timer slack | `prctl`, of the calling thread |
//!
//! What cannot be read is `None`, and a guess or a measurement stands for it.

use platform::{syscall, thread};
use std::fs;
use std::path::Path;

/// A tick takes no longer, in nanoseconds.
const TICK_NS_MAX: u64 = 100_000_000;
/// A tick takes no less, in nanoseconds. A clock that says so is not moved by ticks.
const TICK_NS_MIN: u64 = 50_000;
const MS_NS: u64 = 1_000_000;

/// A setting, and where it was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The value, in the unit of its field
    pub value: u64,
    /// Where it was found
    pub origin: &'static str,
}

/// What the kernel says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Ticks per second
    pub hz: Option<Setting>,
    /// The slice that a thread asks for, in nanoseconds
    pub slice_ns: Option<Setting>,
    /// How long a thread's cache is hot, in nanoseconds
    pub hot_ns: Option<Setting>,
    /// How often busy CPUs are balanced, in nanoseconds
    pub balance_ns: Option<Setting>,
    /// The timer slack, in nanoseconds
    pub slack_ns: Option<Setting>,
}

impl Settings {
    /// Reads them; `debug` is where the scheduler's files are, usually `/sys/kernel/debug/sched`.
    pub fn read(debug: &Path) -> Settings {
        let file = |name: &str| fs::read_to_string(debug.join(name)).ok()?.trim().parse::<u64>().ok();
        let found = |origin| move |value| Setting { value, origin };
        let domain = |name: &str| file(&format!("domains/cpu0/domain0/{name}"));
        let interval_ns = domain("min_interval").zip(domain("busy_factor"));
        Settings {
            hz: tick_ns().map(|tick_ns| found("the coarse clock's resolution")(hz(tick_ns))),
            slice_ns: file("base_slice_ns")
                .map(found("debugfs"))
                .or_else(|| own_slice_ns().map(found("sched_getattr"))),
            hot_ns: file("migration_cost_ns").map(found("debugfs")),
            balance_ns: interval_ns.map(|(ms, factor)| found("debugfs")(ms * factor * MS_NS)),
            slack_ns: Some(thread::timer_slack_ns()).filter(|ns| *ns > 0).map(found("prctl")),
        }
    }
}

/// The ticks per second, if one takes so long.
fn hz(tick_ns: u64) -> u64 {
    (platform::clock::SECOND_NS + tick_ns / 2) / tick_ns
}

/// How long a tick takes, in nanoseconds.
fn tick_ns() -> Option<u64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes one timespec.
    let failed = unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &mut time) } != 0;
    let ns = u64::try_from(time.tv_nsec).unwrap_or(0);
    (!failed && time.tv_sec == 0 && (TICK_NS_MIN..=TICK_NS_MAX).contains(&ns)).then_some(ns)
}

/// The slice of the calling thread, in nanoseconds; older kernels say 0.
fn own_slice_ns() -> Option<u64> {
    // SAFETY: the attributes are integers, for which zero is a value.
    let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
    let (place, size) = ((&raw mut attributes).addr(), size_of::<libc::sched_attr>());
    // SAFETY: 0 stands for the calling thread; the kernel writes at most `size` bytes, which are
    // plain integers.
    let result = unsafe { syscall::syscall4(libc::SYS_sched_getattr, 0, place, size, 0) };
    (syscall::check(result).is_ok() && attributes.sched_runtime > 0).then_some(attributes.sched_runtime)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_usual_tick_is_a_whole_number_of_hertz() {
        for (tick_ns, expected) in
            [(10_000_000, 100), (4_000_000, 250), (3_333_333, 300), (1_000_000, 1000), (999_848, 1000)]
        {
            assert_eq!(hz(tick_ns), expected);
        }
        assert!(tick_ns().is_none_or(|ns| (10..=20_000).contains(&hz(ns))));
    }

    #[test]
    fn files_are_read_and_missing_ones_are_none() {
        let debug = tempfile::tempdir().unwrap();
        let before = Settings::read(debug.path());
        assert_eq!((before.hot_ns, before.balance_ns), (None, None));
        let domain = debug.path().join("domains/cpu0/domain0");
        fs::create_dir_all(&domain).unwrap();
        for (path, text) in [
            (debug.path().join("base_slice_ns"), "2800000\n"),
            (debug.path().join("migration_cost_ns"), "400000\n"),
            (domain.join("min_interval"), "4\n"),
            (domain.join("busy_factor"), "16\n"),
        ] {
            fs::write(path, text).unwrap();
        }
        let found = Settings::read(debug.path());
        let values = [found.slice_ns, found.hot_ns, found.balance_ns].map(|it| it.unwrap().value);
        assert_eq!(values, [2_800_000, 400_000, 64_000_000]);
        assert_eq!(found.slice_ns.unwrap().origin, "debugfs");
    }
}
