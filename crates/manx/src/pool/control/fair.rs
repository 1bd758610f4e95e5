//! Whether the process gets as much CPU time as its neighbours leave to a fair one.
//!
//! The scheduler is fair to threads. Within a group a process with one thread gets half of what a
//! neighbour with two gets; so a process that gives way to neighbours that never do, as the paper's
//! pool does, gives its part away. The waiting of threads does not tell the two cases apart: one
//! worker beside an ignorant neighbour waits as one of many friendly pools does; on a CPU of its
//! own it waits for nothing, while the neighbour has all others. So, as long as workers wait, or
//! jobs do and no CPU is idle, this counts each [`INTERVAL_NS`] how much each other process in the
//! group used.
//!
//! Less than that part is unfair only if a neighbour that gets more of it has more threads that
//! wish to run than we have: if each has one, the kernel has placed them badly, and will change
//! that.
//!
//! What is fair follows from that by filling up (max-min fairness): all have the same part, and
//! what a process does not use is divided among the others. We are one of these others, and we
//! would use any amount. Processes of other groups do not count, since the kernel is fair between
//! groups, whatever threads are in them; the same for the sessions that are groups by themselves
//! (`sched_autogroup_enabled`).
//!
//! It costs about a microsecond for each process that is visible, so the more there are, the more
//! rarely it is done: half of a thousandth of a CPU is the most. Each is asked for its clock, which
//! counts in nanoseconds, and not for `/proc/PID/stat`, whose ticks of 10 ms take ten times as long
//! to read and say nothing about a tenth of a second.

use super::pressure::Unfair;
use crate::cpu::budget::membership::{self, Membership};
use crate::cpu::text::number;
use platform::clock::{now_ns, process_cpu_ns};
use platform::file::File;
use platform::thread::process_id;
use platform::{folder, usage};
use std::collections::BTreeMap;
use std::ffi::CString;

/// The shortest time between two readings: the scheduler's own corrections take some tens of
/// milliseconds.
const INTERVAL_NS: u64 = 100_000_000;
/// A look may take this part of the time between two.
const COST_PART: u64 = 2_000;
/// Less than this part of the fair share is unfair: what is missing is owed. One thread beside two
/// on two CPUs gets 0.67 of it …
const UNFAIR: f64 = 0.8;
/// … and so much has to be owed, of CPU time, since what was received was last enough. Neighbours
/// that give way do so earlier; and of three threads on two CPUs the kernel lets two share one for
/// a while, which get 0.75 of what is fair.
const OWED_NS: f64 = 40e6;
/// With this part of the fair CPU time a pool has enough to let others run between its jobs, also
/// if they do not: a yield costs less time than the interruption of a job.
const CONTENT: f64 = 0.7;
/// With this part it can spare some time: its workers may rest.
const RICH: f64 = 0.9;
/// The moving average is of about this number of looks.
const LOOKS_AVERAGED: f64 = 4.0;
/// A process that used less than this of a CPU is no neighbour that counts.
const BUSY_CPUS: f64 = 0.03;

/// The result of a look.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::pool) enum Verdict {
    /// The process gets too little.
    Unfair(Unfair),
    /// The last correction gained nothing, and only costs.
    Ineffective,
}

/// The state that one look keeps for the next.
#[derive(Debug, Default)]
pub(in crate::pool) struct Fair {
    at_ns: u64,
    own_ns: u64,
    next_ns: u64,
    used_ns: BTreeMap<u32, u64>,
    /// What the last correction gains. One that gains nothing is not repeated for a while.
    trial: Option<Trial>,
    suspended_looks: u32,
    /// CPU time that was not received.
    owed_ns: f64,
    /// The part of the fair CPU time that is missing, by a moving average of some looks.
    missing: f64,
}

/// A correction that is not judged yet.
#[derive(Debug)]
struct Trial {
    /// How many CPUs the process got before …
    before_cpus: f64,
    /// … and in the looks since, added up.
    cpus: f64,
    looks: u32,
}

/// A correction is judged by this number of looks: for some of them the kernel may let two of
/// our threads share a CPU.
const LOOKS_JUDGED: u32 = 10;
/// The number of looks that are left out after a correction that gained nothing.
const LOOKS_LEFT_OUT: u32 = 300;
/// A correction must multiply the CPUs that the process gets by this factor.
const GAIN: f64 = 1.05;

impl Fair {
    /// Looks, if it is time to. `workers` threads of ours wish to run, and the process could use
    /// `limit_cpus` CPUs. Unless it `may_correct`, only the last correction is judged.
    pub(in crate::pool) fn look(
        &mut self,
        now: u64,
        workers: u32,
        limit_cpus: f64,
        may_correct: bool,
    ) -> Option<Verdict> {
        if now < self.next_ns {
            return None;
        }
        let verdict = self.compare(now, workers, limit_cpus, may_correct);
        let took_ns = now_ns().saturating_sub(now);
        self.next_ns = now + INTERVAL_NS.max(took_ns * COST_PART);
        verdict
    }

    /// Returns true if the process got nearly as much as is fair, as far as it has looked.
    pub(in crate::pool) fn is_content(&self) -> bool {
        self.missing <= 1.0 - CONTENT
    }

    /// Returns true if the process could do with a little less.
    pub(in crate::pool) fn is_rich(&self) -> bool {
        self.missing <= 1.0 - RICH
    }

    fn compare(&mut self, now: u64, workers: u32, limit_cpus: f64, may_correct: bool) -> Option<Verdict> {
        let (own_before_ns, at_before_ns, next_ns) = (self.own_ns, self.at_ns, self.next_ns);
        let before = std::mem::replace(&mut self.used_ns, used_by_others());
        (self.own_ns, self.at_ns) = (process_cpu_ns(), now);
        // After a pause, what was seen before it is of no use.
        if at_before_ns == 0 || now.saturating_sub(next_ns) > next_ns.saturating_sub(at_before_ns) {
            return None;
        }
        let elapsed_ns = now.saturating_sub(at_before_ns);
        let cpus = |ns: u64| ns as f64 / elapsed_ns as f64;
        let used = |(&pid, used_ns): (&u32, &u64)| {
            let cpus = cpus(used_ns.saturating_sub(*before.get(&pid)?));
            (cpus > BUSY_CPUS && is_in_our_group(pid)).then_some((pid, cpus))
        };
        let others: Vec<(u32, f64)> = self.used_ns.iter().filter_map(used).collect();
        let received_cpus = cpus(self.own_ns.saturating_sub(own_before_ns));
        let fair_cpus = fair_part(received_cpus, others.iter().map(|&(_, cpus)| cpus).collect(), limit_cpus);
        self.missing += (1.0 - received_cpus / fair_cpus.max(1e-9) - self.missing) / LOOKS_AVERAGED;
        let is_greedy = |&(pid, cpus): &(u32, f64)| cpus > fair_cpus && has_more_that_run(pid, workers);
        if received_cpus < fair_cpus && !others.iter().any(is_greedy) {
            return None;
        }
        self.say(received_cpus, fair_cpus, elapsed_ns, may_correct)
    }

    fn say(&mut self, received: f64, fair: f64, elapsed_ns: u64, may_correct: bool) -> Option<Verdict> {
        match self.trial {
            Some(_) => self.judge(received),
            None if may_correct => self.weigh(received, fair, elapsed_ns),
            None => None,
        }
    }

    /// Judges the last correction by what is received since.
    fn judge(&mut self, received_cpus: f64) -> Option<Verdict> {
        let trial = self.trial.as_mut()?;
        (trial.cpus, trial.looks) = (trial.cpus + received_cpus, trial.looks + 1);
        if trial.looks < LOOKS_JUDGED {
            return None;
        }
        let is_gain = trial.cpus >= trial.before_cpus * GAIN * f64::from(LOOKS_JUDGED);
        self.trial = None;
        if is_gain {
            return None;
        }
        self.suspended_looks = LOOKS_LEFT_OUT;
        Some(Verdict::Ineffective)
    }

    /// Adds what is missing to what is owed. If that is much, it is unfair.
    fn weigh(&mut self, received_cpus: f64, fair_cpus: f64, elapsed_ns: u64) -> Option<Verdict> {
        self.suspended_looks = self.suspended_looks.saturating_sub(1);
        let missing_ns = (fair_cpus * UNFAIR - received_cpus) * elapsed_ns as f64;
        self.owed_ns = (self.owed_ns + missing_ns).max(0.0);
        if self.suspended_looks > 0 || self.owed_ns < OWED_NS {
            return None;
        }
        self.owed_ns = 0.0;
        self.trial = Some(Trial { before_cpus: received_cpus, cpus: 0.0, looks: 0 });
        Some(Verdict::Unfair(Unfair { received_cpus, fair_cpus }))
    }
}

/// What a process that would use any amount up to `limit_cpus` should get of what it and the others
/// get.
fn fair_part(own: f64, mut others: Vec<f64>, limit_cpus: f64) -> f64 {
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
    (left / sharing as f64).min(limit_cpus)
}

/// The CPU time of each other process that can be seen.
fn used_by_others() -> BTreeMap<u32, u64> {
    let own = process_id();
    let mut used_ns = BTreeMap::new();
    // Without `/proc` there is no process to be seen.
    let _ = folder::each_folder(c"/proc", |name| {
        let pid = number(name).and_then(|pid| u32::try_from(pid).ok()).filter(|&pid| pid != own);
        if let Some((pid, its_ns)) = pid.and_then(|pid| Some((pid, usage::process_cpu_ns_of(pid)?))) {
            used_ns.insert(pid, its_ns);
        }
        true
    });
    used_ns
}

fn read(pid: u32, file: &str) -> Option<Vec<u8>> {
    let path = CString::new(format!("/proc/{pid}/{file}")).ok()?;
    let mut text = vec![0; 2048];
    let length = File::open(&path).ok()?.read_at(&mut text, 0).ok()?;
    text.truncate(length);
    Some(text)
}

/// Whether a process has more than `threads` threads that run or wish to, at this moment.
fn has_more_that_run(pid: u32, threads: u32) -> bool {
    let mut running = 0;
    let Ok(path) = CString::new(format!("/proc/{pid}/task")) else { return false };
    // A process that has ended has none.
    let _ = folder::each_folder(&path, |name| {
        let stat = number(name).and_then(|thread| read(pid, &format!("task/{thread}/stat")));
        running += u32::from(stat.is_some_and(|stat| is_running(&stat)));
        running <= threads
    });
    running > threads
}

/// The state in a thread's `stat`. Its name may have blanks and brackets in it, but none comes
/// after the last.
fn is_running(stat: &[u8]) -> bool {
    let behind = stat.iter().rposition(|&byte| byte == b')').and_then(|at| stat.get(at + 1..));
    behind.is_some_and(|behind| behind.starts_with(b" R"))
}

/// The group by which the CPUs are divided: that of the version 1 hierarchy of `cpu`, or else that
/// of the unified one.
fn group_of_cpus(text: &[u8]) -> Option<Membership> {
    let mut all = membership::parse(text);
    let place =
        all.iter().position(|it| it.controls("cpu")).or_else(|| all.iter().position(Membership::is_unified));
    place.map(|place| all.swap_remove(place))
}

fn is_in_our_group(pid: u32) -> bool {
    let own = process_id();
    let group = |pid| group_of_cpus(&read(pid, "cgroup")?);
    group(pid).is_some_and(|its| Some(its) == group(own)) && read(pid, "autogroup") == read(own, "autogroup")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn cpus_that_others_do_not_use_are_divided() {
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} {b}");
        close(fair_part(0.67, vec![1.33], 2.0), 1.0);
        close(fair_part(0.5, vec![0.5, 0.5, 0.5], 2.0), 0.5);
        close(fair_part(1.0, vec![0.2, 0.8], 2.0), 1.0);
        close(fair_part(0.5, vec![0.2, 1.3], 2.0), 0.9);
        close(fair_part(1.0, vec![], 2.0), 1.0);
        close(fair_part(4.0, vec![4.0], 2.0), 2.0);
    }

    /// After how many looks, a tenth of a second apart, something is said if they show this.
    fn until_said(fair: &mut Fair, received_cpus: f64) -> Option<(u32, Verdict)> {
        (1..1_000).find_map(|looks| Some((looks, fair.say(received_cpus, 1.0, 100_000_000, true)?)))
    }

    #[test]
    fn a_correction_in_vain_is_not_repeated_soon() {
        let mut fair = Fair::default();
        let unfair = |received_cpus| Verdict::Unfair(Unfair { received_cpus, fair_cpus: 1.0 });
        assert_eq!(until_said(&mut fair, 0.67), Some((4, unfair(0.67))), "it may pass");
        assert_eq!(until_said(&mut fair, 0.75), Some((LOOKS_JUDGED + 8, unfair(0.75))), "it helped a little");
        assert_eq!(until_said(&mut fair, 0.76), Some((LOOKS_JUDGED, Verdict::Ineffective)));
        let (looks, verdict) = until_said(&mut fair, 0.76).expect("it is tried again");
        assert!(looks >= LOOKS_LEFT_OUT && verdict == unfair(0.76));
        assert_eq!(until_said(&mut Fair::default(), 0.9), None, "near enough");
    }

    #[test]
    fn a_correction_is_judged_by_several_looks_and_none_is_asked_for_that_cannot_be_made() {
        let mut fair = Fair::default();
        assert_eq!((1..1_000).find_map(|_| fair.say(0.5, 1.0, 100_000_000, false)), None);
        until_said(&mut fair, 0.5).expect("unfair");
        let bad_placement = [1.5, 1.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 1.5, 1.5]
            .map(|cpus| fair.say(cpus, 1.0, 100_000_000, false));
        assert_eq!(bad_placement, [None; LOOKS_JUDGED as usize]);
        assert!(fair.trial.is_none() && fair.suspended_looks == 0);
    }

    #[test]
    fn a_lack_is_made_up_by_a_later_surplus() {
        let mut fair = Fair::default();
        for _ in 0..100 {
            assert_eq!(fair.weigh(0.5, 1.0, 100_000_000), None);
            assert_eq!(fair.weigh(1.1, 1.0, 100_000_000), None);
        }
    }

    #[test]
    fn a_busy_process_is_seen_and_so_is_its_group() {
        let mut busy =
            std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn().expect("a shell");
        let used_ns = || used_by_others().get(&busy.id()).copied();
        let first_ns = used_ns();
        while used_ns() < Some(first_ns.unwrap_or(0) + 20_000_000) {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert!(is_in_our_group(busy.id()) && is_in_our_group(process_id()));
        assert!(!used_by_others().contains_key(&process_id()), "only others");
        assert!(!has_more_that_run(busy.id(), 1));
        while !has_more_that_run(busy.id(), 0) {}
        busy.kill().expect("ours");
        busy.wait().expect("ours");
        assert!(!used_by_others().contains_key(&busy.id()), "it is gone");
    }

    #[test]
    fn the_group_of_the_cpus_is_that_of_their_controller() {
        let path = |text: &[u8]| group_of_cpus(text).map(|it| it.path);
        assert_eq!(path(b"9:name=cpu:/x\n4:cpuset:/a\n2:cpu,cpuacct:/b\n0::/c\n"), Some(b"/b".to_vec()));
        assert_eq!(path(b"4:cpuset:/a\n0::/c\n"), Some(b"/c".to_vec()));
        assert_eq!(path(b"4:cpuset:/a\n"), None);
    }

    #[test]
    fn a_state_is_found_behind_any_name() {
        assert!(is_running(b"7 (a) S (c)) R 1 7"));
        assert!(!is_running(b"7 (R) S 1 7") && !is_running(b"7 (a R") && !is_running(b"7 (a)"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(text: Vec<u8>) {
            is_running(&text);
        }

        #[test]
        fn a_process_gets_at_least_an_equal_part(own in 0.0..8.0_f64, others in prop::collection::vec(0.03..8.0_f64, 0..12)) {
            let all = own + others.iter().sum::<f64>();
            let part = fair_part(own, others.clone(), 1_000.0);
            prop_assert!(part >= all / (others.len() + 1) as f64 - 1e-9 && part <= all + 1e-9);
        }
    }
}
