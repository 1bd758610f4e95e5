//! `manx bench sim MACHINE schedule`: what the scheduler does to two threads, here and simulated.
//!
//! Each pattern runs in turn on this machine and on the simulated one. The distributions of times
//! are compared by their Kolmogorov-Smirnov distance: the largest difference of the shares of times
//! below any limit. Two narrow distributions with medians that differ by a percent are as far apart
//! as two that have nothing in common. So there is a second distance, for which times that differ
//! by less than a factor count as the same (Lévy's distance, of logarithms). And there is a third
//! one, of the distributions as multiples of their medians, with the ratio of the medians beside
//! it: how the shapes differ, and how far one is shifted.
//!
//! Where the kernel's tracer can be used, each pattern is run once more under it: how long the
//! kernel says that threads wait for a CPU, and what the simulated timeline says. The tracer costs
//! time itself: how much is seen by comparing the threads' own times with those of the run without
//! it.

use crate::error::Error;
use crate::group::{Hierarchy, Limits};
use crate::harness::{Bench, Case, Sample};
use crate::place::Place;
use contention::schedule::Pattern;
use platform::clock::now_ns;
use platform_sim::trace::Waits;
use report::{Counts, Histogram, Report, Sheet};
use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The versions.
const HERE: &str = "here";
const SIMULATED: &str = "simulated";
/// How the names of the cases end that are measured by the kernel's tracer, and the simulated
/// timeline.
const TRACED: &str = ", traced";
const ROUNDS: usize = 5;

/// What the experiment needs to know.
#[derive(Debug)]
pub struct Setup {
    /// The simulated machine
    pub place: Place,
    /// The measured time of a run
    pub time: Duration,
}

/// Runs every pattern; what was found is in `bench.report`.
///
/// # Errors
/// [`Error::Interrupted`], or fewer than two CPUs.
pub fn measure(setup: &Setup, bench: &mut Bench) -> Result<(), Error> {
    let cpus = crate::machine::cpus();
    let [first, second, ..] = cpus[..] else {
        return Err(Error::request("a wake-up of an idle CPU needs two", "allow this process two CPUs"));
    };
    let is_traced = Tracer::begin().map(drop).map_err(|why| {
        bench.note(format!("nothing was traced: {why}"));
    });
    for pattern in Pattern::ALL {
        if let Some(Err(why)) = pattern.quota_cpus().map(Hierarchy::find) {
            bench.note(format!("{}: left out, because no group can be made: {why}", pattern.name()));
            continue;
        }
        for is_traced in [Some(false), is_traced.ok().map(|()| true)].into_iter().flatten() {
            let name = format!("{}{}", pattern.name(), if is_traced { TRACED } else { "" });
            let case = Case { name: &name, variants: &[HERE, SIMULATED], expected: setup.time * 6 / 5 };
            bench.rounds(case, ROUNDS, |at, _| {
                let times = match at {
                    0 => here(pattern, [first, second], setup.time, is_traced),
                    _ => simulated(setup, pattern, is_traced),
                };
                let Found { times, own } = times.map_err(Error::failed)?;
                let own_p50_ns = own.summary().p50_ns as f64;
                let mut sample = Sample::of([("times", times.count() as f64), ("own_p50_ns", own_p50_ns)]);
                sample.add_tail("", &times);
                Ok(sample.with(&times))
            })?;
        }
    }
    Ok(())
}

/// The times of a run.
struct Found {
    /// As the threads saw them, or as the tracer or the timeline did
    times: Histogram,
    /// As the threads saw them: in a traced run, with what the tracer costs
    own: Histogram,
}

impl Found {
    fn of(pattern: Pattern, own: Histogram, waits: Option<Waits>) -> Found {
        let times = waits.map_or_else(
            || own.clone(),
            |waits| of_waits(pattern, if pattern.is_of_wake_ups() { waits.slept } else { waits.lost }),
        );
        Found { times, own }
    }
}

/// The times of a pattern on this machine.
fn here(pattern: Pattern, cpus: [usize; 2], time: Duration, is_traced: bool) -> Result<Found, String> {
    let limited = |cpus| {
        let limits = Limits { quota_cpus: Some(cpus), weight: None };
        Hierarchy::find(cpus)?.make("schedule", limits)
    };
    let group = pattern.quota_cpus().map(limited).transpose()?;
    let files: Vec<_> = group.iter().flat_map(|group| group.threads_files()).collect();
    let threads = Mutex::new(HashSet::new());
    let joins = || {
        threads.lock().unwrap_or_else(PoisonError::into_inner).insert(platform::thread::id());
        let join = |file: &std::path::PathBuf| {
            fs::write(file, platform::thread::id().to_string())
                .map_err(|error| format!("{}: {error}", file.display()))
        };
        files.iter().try_for_each(join)
    };
    let tracer = is_traced.then(Tracer::begin).transpose()?;
    let own = contend::schedule::measure(pattern, cpus, time, joins)?;
    let threads = threads.into_inner().unwrap_or_else(PoisonError::into_inner);
    let waits = tracer.map(|tracer| tracer.end(&threads)).transpose()?;
    Ok(Found::of(pattern, own, waits))
}

/// The same on the simulated machine.
fn simulated(setup: &Setup, pattern: Pattern, is_traced: bool) -> Result<Found, String> {
    let (own, waits) = setup.place.schedule(pattern, setup.time)?;
    Ok(Found::of(pattern, own, is_traced.then_some(waits)))
}

/// The waits that a thread would have seen, too: shorter ones are interrupts and other noise,
/// unless the pattern is about short ones. A woken thread may have its CPU at once.
fn of_waits(pattern: Pattern, waits_ns: Vec<u64>) -> Histogram {
    let is_short = pattern.is_of_wake_ups() || pattern == Pattern::Yields;
    let least_ns = if is_short { 0 } else { contend::schedule::GAP_NS };
    let mut times = Histogram::new();
    waits_ns.into_iter().filter(|ns| *ns >= least_ns).for_each(|ns| times.record(ns));
    times
}

const TABLE: &str = "
    what = case | where = version | times [] = sum times | p50 = p50_ns | p99 = p99_ns
    max = worst max_ns | threads' own p50 = own_p50_ns";

/// Adds the table, and the distances.
pub fn conclude(report: &mut Report) {
    let cases = report.cases();
    report.show(Sheet::new(TABLE).of(report, "What the scheduler does to two threads", &cases));
    for case in &cases {
        let of = |version: &str| report.outputs::<Histogram>(case, version).sum::<Histogram>();
        let (here, simulated) = (of(HERE), of(SIMULATED));
        if here.count() == 0 || simulated.count() == 0 {
            report.notes.push(format!("{case}: too short a run, there are no times"));
            continue;
        }
        let [distances, multiples] = [1.0, median(&here) / median(&simulated)]
            .map(|factor| [1.0, 1.1].map(|tolerance| distance(&here, &times(&simulated, factor), tolerance)));
        report.notes.push(format!(
            "{case}: Kolmogorov-Smirnov distance {:.2}, {:.2} if times that differ by 10 % count as the same; \
             with equal medians, {:.2}, {:.2} (the simulated median is {:.3} of that here)",
            distances[0],
            distances[1],
            multiples[0],
            multiples[1],
            median(&simulated) / median(&here),
        ));
    }
}

fn median(times: &Histogram) -> f64 {
    times.summary().p50_ns as f64
}

/// All times multiplied by a factor.
fn times(of: &Histogram, factor: f64) -> Histogram {
    let mut all = Histogram::new();
    for (ns, count) in Counts::from(of).counts {
        all.record_many((ns as f64 * factor) as u64, count);
    }
    all
}

/// The Kolmogorov-Smirnov distance of two distributions, if times that differ by no more than this
/// factor count as the same: 0 if they are the same, 1 if no time of one lies among those of the
/// other.
fn distance(one: &Histogram, other: &Histogram, factor: f64) -> f64 {
    let (one, other) = (Counts::from(one), Counts::from(other));
    let share = |counts: &Counts, limit_ns: u64| {
        let below: u64 = counts.counts.iter().filter(|(ns, _)| *ns <= limit_ns).map(|(_, count)| count).sum();
        below as f64 / counts.count as f64
    };
    let limits = one.counts.iter().chain(&other.counts).map(|(ns, _)| *ns);
    let ahead = |first: &Counts, second: &Counts, ns: u64| {
        share(first, ns) - share(second, (ns as f64 * factor) as u64)
    };
    limits.map(|ns| ahead(&one, &other, ns).max(ahead(&other, &one, ns))).fold(0.0, f64::max)
}

// For how long threads of this process wait for a CPU, by the kernel's own tracer (ftrace).
//
// The tracer notes each switch of threads and each wake-up, with the CPU's counter of cycles. So
// what is measured does not depend on when the threads themselves look. An *instance* of the
// tracer has buffers of its own, and disturbs no other user of it.
//
// | what happens | what begins |
// | --- | --- |
// | a switch away from a thread that could go on (`prev_state=R`) | a wait of a thread that has lost its CPU |
// | a thread begins to wake another one (`sched_waking`; `sched_wakeup` comes only when the other one's CPU knows) | a wait of a thread that has slept |
// | a switch to the thread | nothing: the wait is over |
//
// It needs root, and an x86 CPU.

/// Where the tracer is: its own mount, or that in the file system for debugging.
const FOLDERS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
/// What each CPU keeps; older events are lost.
const BUFFER_KIB: &str = "16384";

/// The tracer, which notes what happens until it ends.
#[derive(Debug)]
struct Tracer {
    folder: PathBuf,
    began: (u64, u64),
}

/// The counter of cycles, and the clock.
fn now() -> Result<(u64, u64), String> {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 CPU has the instruction, and it only reads.
    return Ok((unsafe { core::arch::x86_64::_rdtsc() }, now_ns()));
    #[cfg(not(target_arch = "x86_64"))]
    Err("the kernel's tracer has no clock with nanoseconds here".into())
}

impl Tracer {
    /// Begins to note switches and wake-ups of all threads.
    ///
    /// # Errors
    /// In words, why it cannot.
    fn begin() -> Result<Tracer, String> {
        let root = FOLDERS.iter().map(Path::new).find(|folder| folder.join("instances").is_dir());
        let root = root.ok_or("the kernel's tracer is not mounted, or may not be used by this user")?;
        let folder = root.join(format!("instances/manx-bench-{}", std::process::id()));
        fs::create_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let tracer = Tracer { folder, began: now()? };
        tracer.write("trace_clock", "x86-tsc")?;
        tracer.write("buffer_size_kb", BUFFER_KIB)?;
        tracer.write("events/sched/sched_switch/enable", "1")?;
        tracer.write("events/sched/sched_waking/enable", "1")?;
        Ok(tracer)
    }

    fn write(&self, file: &str, text: &str) -> Result<(), String> {
        let path = self.folder.join(file);
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Ends, and returns the waits of these threads.
    ///
    /// # Errors
    /// In words, which file cannot be read.
    fn end(self, threads: &HashSet<u32>) -> Result<Waits, String> {
        self.write("tracing_on", "0")?;
        let (began, ended) = (self.began, now()?);
        let ns_per_cycle = (ended.1 - began.1) as f64 / (ended.0 - began.0).max(1) as f64;
        let path = self.folder.join("trace");
        let text = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(waits(&String::from_utf8_lossy(&text), ns_per_cycle, threads))
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        // What stays behind notes nothing once it is off.
        let _ = self.write("tracing_on", "0");
        let _ = fs::remove_dir(&self.folder);
    }
}

/// The number behind these words.
fn number(line: &str, words: &str) -> Option<u32> {
    let rest = &line[line.find(words)? + words.len()..];
    rest.split(' ').next()?.trim().parse().ok()
}

/// The waits in the tracer's text, whose lines are in the order of time.
fn waits(text: &str, ns_per_cycle: f64, threads: &HashSet<u32>) -> Waits {
    let mut waits = Waits::default();
    let mut lost: HashMap<u32, u64> = HashMap::new();
    let mut woken: HashMap<u32, u64> = HashMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let Some((head, what)) = line.split_once(": sched_") else { continue };
        let Some(at) = head.split(' ').next_back().and_then(|at| at.parse::<u64>().ok()) else { continue };
        let ns = |since: u64| (at.saturating_sub(since) as f64 * ns_per_cycle) as u64;
        let of = |words: &str| number(what, words).filter(|thread| threads.contains(thread));
        if what.starts_with("waking") {
            woken.extend(of(" pid=").map(|thread| (thread, at)));
        } else if what.starts_with("switch") {
            if let Some(thread) = of(" next_pid=") {
                waits.lost.extend(lost.remove(&thread).map(ns));
                waits.slept.extend(woken.remove(&thread).map(ns));
            }
            if let Some(thread) = of(" prev_pid=") {
                // A wake-up of a thread that runs is none.
                woken.remove(&thread);
                let is_able = what.contains(" prev_state=R");
                lost.extend(is_able.then_some((thread, at)));
            }
        }
    }
    waits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_wake_up_counts_and_short_waits_of_threads_that_work_do_not() {
        let waits_ns = || vec![0, 811, contend::schedule::GAP_NS, 4_000_000];
        assert_eq!(of_waits(Pattern::Near, waits_ns()).count(), 4);
        assert_eq!(of_waits(Pattern::Turns, waits_ns()).count(), 2);
    }

    #[test]
    fn a_distribution_is_near_itself_and_far_from_another_one() {
        let of = |times_ns: &[u64]| {
            let mut histogram = Histogram::new();
            times_ns.iter().for_each(|ns| histogram.record(*ns));
            histogram
        };
        let low = of(&[1000, 2000, 3000, 4000]);
        assert_eq!(distance(&low, &low, 1.0), 0.0);
        assert_eq!(distance(&low, &of(&[1_000_000]), 1.0), 1.0);
        assert_eq!(distance(&low, &of(&[3000, 4000, 4000, 4000]), 1.0), 0.5);
        let little_more = of(&[1050, 2100, 3150, 4200]);
        assert_eq!(distance(&low, &little_more, 1.0), 0.25);
        assert_eq!(distance(&low, &little_more, 1.1), 0.0);
        assert_eq!(distance(&little_more, &low, 1.1), 0.0);
    }

    #[test]
    fn waits_are_read_from_the_tracers_text() {
        let text = "# tracer: nop\n\
            a b-7 [001] d..2. 1000: sched_switch: prev_comm=a b prev_pid=7 prev_prio=120 prev_state=R ==> next_comm=c next_pid=8 next_prio=120\n\
            c-8 [001] d..2. 1500: sched_switch: prev_comm=c prev_pid=8 prev_prio=120 prev_state=S ==> next_comm=a b next_pid=7 next_prio=120\n\
            a b-7 [001] d..4. 1600: sched_waking: comm=c pid=8 prio=120 target_cpu=000\n\
            a b-7 [001] d..4. 1650: sched_waking: comm=d pid=9 prio=120 target_cpu=000\n\
            <idle>-0 [000] d..2. 1700: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=c next_pid=8 next_prio=120\n";
        let found = waits(text, 0.5, &HashSet::from([7, 8]));
        assert_eq!(found, Waits { lost: vec![250], slept: vec![50] });
    }
}
