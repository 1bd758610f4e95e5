//! Whether the process gets as much CPU time as its neighbours leave to a fair one.
//!
//! The scheduler is fair to threads. Within a group a process with one thread gets half of what a neighbour with two gets; so who
//! gives way to neighbours that never do, as the paper's pool does, gives its part away. The waiting of threads does not tell the two cases
//! apart: one worker beside an ignorant neighbour waits as one of many friendly pools does. So, as long as workers wait, this counts each
//! [`INTERVAL_NS`] who else in the group used how much.
//!
//! What is fair follows from that by filling up (max-min fairness): all have the same part, and what somebody does not use is divided among the
//! others, of whom we are one that would use any amount. Processes of other groups do not count, since the kernel is fair between groups,
//! whatever threads are in them; the same for the sessions that are groups by themselves (`sched_autogroup_enabled`).
//!
//! It costs about 12 µs for each process that is visible, so the more there are, the more rarely it is done: a tenth of a thousandth of
//! a CPU is the aim.

use platform::clock::{now_ns, process_cpu_ns};
use platform::file::File;
use std::collections::HashMap;
use std::ffi::CString;

/// At least so long between two looks …
const INTERVAL_NS: u64 = 1_000_000_000;
/// … but not between the first ones …
const INTERVAL_FIRST_NS: u64 = 250_000_000;
/// … which are so many.
const LOOKS_FIRST: u32 = 4;
/// A look may take this part of the time between two.
const COST_PART: u64 = 2_000;
/// Less than this part of the fair share is unfair. One thread beside two on two CPUs gets 0.67 of it; three on one CPU, which the kernel lets stand for a while, 0.8 …
const UNFAIR: f64 = 0.8;
/// … if it is so at so many looks in a row: neighbours that give way have done so by then.
const LOOKS_UNFAIR: u32 = 2;
/// The unit of times in `/proc/P/stat`, in nanoseconds.
const TICK_NS: u64 = 10_000_000;
/// A process that used less than this of a CPU is no neighbour that counts.
const BUSY_CPUS: f64 = 0.03;

/// What a look showed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Verdict {
    /// The process gets too little.
    Unfair(Unfair),
    /// What was done about that last time gained nothing, and only costs.
    InVain,
}

/// What the process gets, and what would be fair.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Unfair {
    pub(super) received_cpus: f64,
    pub(super) fair_cpus: f64,
}

/// What was seen at the last look.
#[derive(Debug, Default)]
pub(super) struct Fair {
    at_ns: u64,
    own_ns: u64,
    next_ns: u64,
    /// Looks since the last pause.
    looks: u32,
    ticks: HashMap<u32, u64>,
    /// What was received before the last correction: one that gains nothing is not repeated for a while.
    before: Option<f64>,
    in_vain: u32,
    /// Looks in a row at which it was unfair.
    unfair: u32,
}

/// After a correction that gained nothing so many looks are left out.
const LOOKS_LEFT_OUT: u32 = 30;
/// What a correction must gain.
const GAIN: f64 = 1.05;

impl Fair {
    /// Looks, if it is time to. `limit` is how many CPUs the process could use.
    pub(super) fn look(&mut self, now: u64, limit: u32) -> Option<Verdict> {
        if now < self.next_ns {
            return None;
        }
        let (own_before_ns, at_before_ns) = (self.own_ns, self.at_ns);
        let before = std::mem::replace(&mut self.ticks, busy_processes());
        (self.own_ns, self.at_ns) = (process_cpu_ns(), now);
        let took_ns = now_ns().saturating_sub(now);
        let usual_ns = INTERVAL_NS.max(took_ns * COST_PART);
        let elapsed_ns = now.saturating_sub(at_before_ns);
        // After a pause, what was seen before it is of no use.
        let is_new = at_before_ns == 0 || elapsed_ns > 3 * usual_ns;
        self.looks = if is_new { 1 } else { self.looks.saturating_add(1) };
        self.next_ns = now + if self.looks <= LOOKS_FIRST { INTERVAL_FIRST_NS } else { usual_ns };
        if is_new {
            return None;
        }
        let cpus = |ns: u64| ns as f64 / elapsed_ns as f64;
        let used = |(pid, ticks): (&u32, &u64)| {
            let cpus = cpus(ticks.saturating_sub(*before.get(pid)?) * TICK_NS);
            (cpus > BUSY_CPUS && is_in_our_group(*pid)).then_some(cpus)
        };
        let others: Vec<f64> = self.ticks.iter().filter_map(used).collect();
        let received_cpus = cpus(self.own_ns.saturating_sub(own_before_ns));
        self.judge(received_cpus, fair_part(received_cpus, others, limit))
    }

    fn judge(&mut self, received_cpus: f64, fair_cpus: f64) -> Option<Verdict> {
        if self.before.take().is_some_and(|before| received_cpus < before * GAIN) {
            (self.in_vain, self.unfair) = (LOOKS_LEFT_OUT, 0);
            return Some(Verdict::InVain);
        }
        self.in_vain = self.in_vain.saturating_sub(1);
        self.unfair = if received_cpus < fair_cpus * UNFAIR { self.unfair + 1 } else { 0 };
        if self.in_vain > 0 || self.unfair < LOOKS_UNFAIR {
            return None;
        }
        self.unfair = 0;
        self.before = Some(received_cpus);
        Some(Verdict::Unfair(Unfair { received_cpus, fair_cpus }))
    }
}

/// What a process that would use any amount up to `limit` should get of what it and the others get.
fn fair_part(own: f64, mut others: Vec<f64>, limit: u32) -> f64 {
    others.sort_by(f64::total_cmp);
    let mut left = own + others.iter().sum::<f64>();
    let mut sharing = others.len() + 1;
    for used in others {
        let part = left / sharing as f64;
        if used >= part {
            break;
        }
        left -= used;
        sharing -= 1;
    }
    (left / sharing as f64).min(f64::from(limit))
}

/// The CPU time of each other process that can be seen, in ticks.
fn busy_processes() -> HashMap<u32, u64> {
    let own = std::process::id();
    let Ok(entries) = std::fs::read_dir("/proc") else { return HashMap::new() };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|&pid| pid != own).filter_map(|pid| Some((pid, ticks_in(&read(pid, "stat")?)?))).collect()
}

fn read(pid: u32, file: &str) -> Option<Vec<u8>> {
    let path = CString::new(format!("/proc/{pid}/{file}")).ok()?;
    let mut text = vec![0; 2048];
    let length = File::open(&path).ok()?.read_at(&mut text, 0).ok()?;
    text.truncate(length);
    Some(text)
}

/// The user's and the system's time in a process's `stat`. Its name may have blanks and brackets in it, but none comes after the last.
fn ticks_in(stat: &[u8]) -> Option<u64> {
    let behind = stat.iter().rposition(|&byte| byte == b')')? + 1;
    let mut words = std::str::from_utf8(stat.get(behind..)?).ok()?.split_ascii_whitespace().skip(11);
    let user: u64 = words.next()?.parse().ok()?;
    let system: u64 = words.next()?.parse().ok()?;
    user.checked_add(system)
}

fn is_in_our_group(pid: u32) -> bool {
    let own = std::process::id();
    let group = |pid| Some(cpu_group(&read(pid, "cgroup")?).to_vec());
    group(pid).is_some_and(|its| Some(its) == group(own)) && read(pid, "autogroup") == read(own, "autogroup")
}

/// The line of the hierarchy that has the CPU controller: of version 1, or else the one of version 2.
fn cpu_group(cgroups: &[u8]) -> &[u8] {
    let lines = || cgroups.split(|&byte| byte == b'\n');
    let controllers = |line: &[u8]| line.split(|&byte| byte == b':').nth(1).map(<[u8]>::to_vec);
    let has_cpu = |line: &&[u8]| {
        controllers(line).is_some_and(|names| names.split(|&byte| byte == b',').any(|name| name == b"cpu"))
    };
    lines().find(has_cpu).or_else(|| lines().find(|line| line.starts_with(b"0::"))).unwrap_or(b"")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_others_do_not_use_is_divided() {
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} {b}");
        close(fair_part(0.67, vec![1.33], 2), 1.0);
        close(fair_part(0.5, vec![0.5, 0.5, 0.5], 2), 0.5);
        close(fair_part(1.0, vec![0.2, 0.8], 2), 1.0);
        close(fair_part(0.5, vec![0.2, 1.3], 2), 0.9);
        close(fair_part(1.0, vec![], 2), 1.0);
        close(fair_part(4.0, vec![4.0], 2), 2.0);
    }

    #[test]
    fn a_correction_in_vain_is_not_repeated_soon() {
        let mut fair = Fair::default();
        let unfair = |received_cpus| Some(Verdict::Unfair(Unfair { received_cpus, fair_cpus: 1.0 }));
        assert_eq!(fair.judge(0.67, 1.0), None, "it may pass");
        assert_eq!(fair.judge(0.66, 1.0), unfair(0.66));
        assert_eq!(fair.judge(0.75, 1.0), None, "it helped, though not enough");
        assert_eq!(fair.judge(0.75, 1.0), unfair(0.75));
        assert_eq!(fair.judge(0.76, 1.0), Some(Verdict::InVain));
        for _ in 0..LOOKS_LEFT_OUT - 1 {
            assert_eq!(fair.judge(0.76, 1.0), None);
        }
        assert_eq!(fair.judge(0.76, 1.0), unfair(0.76), "but it is tried again");
        let mut near = Fair::default();
        assert!((0..10).all(|_| near.judge(0.9, 1.0).is_none()));
    }

    #[test]
    fn times_are_found_behind_any_name() {
        let stat = b"7 (a) b (c)) R 1 7 7 0 -1 0 0 0 0 0 120 34 0 0 20 0 1 0 5 0 0";
        assert_eq!(ticks_in(stat), Some(154));
        assert_eq!(ticks_in(b"7 (a R"), None);
        let own = ticks_in(&read(std::process::id(), "stat").expect("our own"));
        assert!(own.is_some());
        assert!(is_in_our_group(std::process::id()));
    }

    #[test]
    fn the_group_is_that_of_the_cpu_controller() {
        assert_eq!(cpu_group(b"9:name=cpu:/x\n4:cpuset:/a\n2:cpu,cpuacct:/b\n0::/c\n"), b"2:cpu,cpuacct:/b");
        assert_eq!(cpu_group(b"4:cpuset:/a\n0::/c\n"), b"0::/c");
        assert_eq!(cpu_group(b""), b"");
    }

    proptest! {
        #[test]
        fn nobody_gets_less_than_an_equal_part(own in 0.0..8.0_f64, others in prop::collection::vec(0.03..8.0_f64, 0..12)) {
            let all = own + others.iter().sum::<f64>();
            let part = fair_part(own, others.clone(), 1_000);
            prop_assert!(part >= all / (others.len() + 1) as f64 - 1e-9 && part <= all + 1e-9);
        }

        #[test]
        fn any_bytes_are_survived(text: Vec<u8>) {
            ticks_in(&text);
            cpu_group(&text);
        }
    }
}
