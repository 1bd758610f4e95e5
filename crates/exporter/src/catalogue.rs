//! All metrics: their names, and their values from what is watched.
//!
//! `docs/metrics.md` has the same table; a test compares the two.

use crate::counts::CountedFile;
use crate::metric::{Description, Family, Kind, seconds};
use crate::registry::{Counter, Program, Slot};
use crate::watch::{Process, Watch};
use platform::clock::process_cpu_ns;
use preload_abi::live::{Answer, Cure, How};
use std::collections::HashMap;

const PROGRAM: &[&str] = &["program"];
const CGROUP: &[&str] = &["cgroup"];

const fn about(
    name: &'static str,
    kind: Kind,
    unit: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
) -> Description {
    Description { name, kind, unit, labels, help }
}

const fn counter(name: &'static str, unit: &'static str, help: &'static str) -> Description {
    about(name, Kind::Counter, unit, PROGRAM, help)
}

const fn group(name: &'static str, unit: &'static str, help: &'static str) -> Description {
    about(name, Kind::Counter, unit, CGROUP, help)
}

static PROCESSES: Description = about(
    "manx_processes",
    Kind::Gauge,
    "",
    &["program", "state"],
    "Processes: plain ones, those under Manx (manx), and those of them that keep counts (counted).",
);
static THREADS: Description = about(
    "manx_threads",
    Kind::Gauge,
    "",
    PROGRAM,
    "Threads of processes that have run since the exporter knows them.",
);
static BUDGET: Description = about(
    "manx_budget_cpus",
    Kind::Gauge,
    "cpus",
    PROGRAM,
    "CPUs that a process may use, by affinity, cpuset and quotas: the least of the program's processes.",
);
static CPU: Description = counter("manx_cpu_seconds", "seconds", "CPU time of the program's threads.");
static RUN_DELAY: Description =
    counter("manx_run_delay_seconds", "seconds", "Time that runnable threads waited for a CPU.");
static SITES: Description = about(
    "manx_sites",
    Kind::Gauge,
    "",
    &["program", "state"],
    "Loops that wait: repaired, left alone, or in a library that was closed.",
);
static LOOP_WAITS: Description = counter("manx_loop_waits", "", "Waits in repaired loops.");
static LOOP_WAITED: Description =
    counter("manx_loop_wait_seconds", "seconds", "Time that threads waited in repaired loops.");
static LOOP_YIELDS: Description = counter("manx_loop_yields", "", "Yields of the CPU in repaired loops.");
static LOOP_SLEEPS: Description = counter("manx_loop_sleeps", "", "Sleeps in repaired loops.");
static TRIAL: Description = about(
    "manx_trial_processes",
    Kind::Gauge,
    "",
    &["program", "waits", "answer"],
    "Processes that were asked whether they do more work if Manx cures these waits: yes (kept), no (dropped), or too close to tell (tie).",
);
static TRIAL_WORK: Description = about(
    "manx_trial_work_cpus",
    Kind::Gauge,
    "cpus",
    &["program", "waits", "way"],
    "CPU time per second less what waits burn, as last measured: with these waits as_written or cured.",
);
static LOCK_WAIT: Description = about(
    "manx_lock_wait_seconds",
    Kind::Histogram,
    "seconds",
    &["program", "lock"],
    "Waits for locks, by the place where the lock was first waited for.",
);
static HAND_OFFS: Description =
    counter("manx_lock_hand_offs", "", "Waits for locks that ended by a hand-off from the holder.");
static STARVING: Description =
    counter("manx_lock_starving_waits", "", "Waits for locks that were longer than their window.");
static QUOTA: Description = about(
    "manx_cgroup_quota_cpus",
    Kind::Gauge,
    "cpus",
    CGROUP,
    "CPUs that the quota of the control group pays for.",
);
static PERIODS: Description =
    group("manx_cgroup_periods", "", "Periods of the quota in which a thread of the group wished to run.");
static THROTTLED: Description =
    group("manx_cgroup_throttled_periods", "", "Periods in which the quota was used up.");
static THROTTLED_TIME: Description = group(
    "manx_cgroup_throttled_seconds",
    "seconds",
    "Time that the group's threads were stopped by the quota, summed over CPUs.",
);
static EXPORTER_CPU: Description =
    about("manx_exporter_cpu_seconds", Kind::Counter, "seconds", &[], "CPU time of the exporter itself.");
static EXPORTER_PASSES: Description =
    about("manx_exporter_passes", Kind::Counter, "", &[], "Passes over the processes of the host.");
static EXPORTER_AGE: Description = about(
    "manx_exporter_age_seconds",
    Kind::Gauge,
    "seconds",
    &[],
    "How long ago the process was looked at that waits longest for its turn.",
);
static EXPORTER_LEFT_OUT: Description = about(
    "manx_exporter_left_out_processes",
    Kind::Gauge,
    "",
    &[],
    "Processes in the last list that are beyond the exporter's limit.",
);
static EXPORTER_MERGED: Description = about(
    "manx_exporter_merged_processes",
    Kind::Counter,
    "",
    &[],
    "Processes that count as the program other, because there are too many programs.",
);
static BUILD: Description =
    about("manx_build_info", Kind::Gauge, "", &["version"], "Always 1, with the version of the exporter.");

/// All metrics, in the order in which they are written.
pub static ALL: [&Description; 25] = [
    &PROCESSES,
    &THREADS,
    &BUDGET,
    &CPU,
    &RUN_DELAY,
    &SITES,
    &LOOP_WAITS,
    &LOOP_WAITED,
    &LOOP_YIELDS,
    &LOOP_SLEEPS,
    &TRIAL,
    &TRIAL_WORK,
    &LOCK_WAIT,
    &HAND_OFFS,
    &STARVING,
    &QUOTA,
    &PERIODS,
    &THROTTLED,
    &THROTTLED_TIME,
    &EXPORTER_CPU,
    &EXPORTER_PASSES,
    &EXPORTER_AGE,
    &EXPORTER_LEFT_OUT,
    &EXPORTER_MERGED,
    &BUILD,
];

/// What the live processes of a program are together.
#[derive(Default)]
struct Gauges {
    /// Plain, under Manx, counted.
    processes: [u64; 3],
    threads: u64,
    budget: Option<f64>,
    /// By [`How`].
    sites: [u64; How::ALL.len()],
    /// By [`Cure`] and [`Answer`].
    answers: [[u64; Answer::ALL.len()]; Cure::ALL.len()],
    /// By [`Cure`]: work in a second, as written and cured.
    work_ns: [[u64; 2]; Cure::ALL.len()],
}

impl Gauges {
    fn add(&mut self, process: &Process) {
        let state = usize::from(process.is_guarded) + usize::from(process.file.is_some());
        self.processes[state] += 1;
        self.threads += u64::from(process.threads);
        self.budget = match (self.budget, process.budget) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
    }

    fn add_file(&mut self, file: &CountedFile) {
        self.sites.iter_mut().zip(file.sites).for_each(|(all, more)| *all += more);
        for asked in &file.asked {
            self.answers[asked.cure as usize][asked.answer as usize] += 1;
            for (all, more) in
                self.work_ns[asked.cure as usize].iter_mut().zip([asked.as_written_ns, asked.cured_ns])
            {
                *all = all.saturating_add(more);
            }
        }
    }
}

/// The values of all metrics now, in the order of [`ALL`].
///
/// ```
/// use exporter::catalogue::{ALL, families};
/// use exporter::registry::Limits;
/// use exporter::watch::{Scope, Watch};
///
/// let mut watch = Watch::new(Scope::Tree(std::process::id()), Limits::default());
/// watch.pass(4_000_000);
/// assert!(families(&watch).iter().map(|family| family.description).eq(ALL));
/// ```
pub fn families(watch: &Watch) -> Vec<Family> {
    let mut gauges: HashMap<Slot, Gauges> = HashMap::new();
    for process in watch.processes() {
        gauges.entry(process.slot).or_default().add(process);
    }
    for (slot, file) in watch.files() {
        gauges.entry(slot).or_default().add_file(file);
    }
    let mut programs: Vec<(Slot, &Program)> = watch.registry().programs().collect();
    programs.sort_by(|(_, one), (_, other)| one.name.cmp(&other.name));
    ALL.map(|description| {
        let mut family = Family::new(description);
        for (slot, program) in &programs {
            of_program(&mut family, program, gauges.get(slot).unwrap_or(&Gauges::default()));
        }
        of_groups(&mut family, watch);
        of_exporter(&mut family, watch);
        family
    })
    .into()
}

fn is(family: &Family, description: &Description) -> bool {
    std::ptr::eq(family.description, description)
}

fn of_program(family: &mut Family, program: &Program, gauges: &Gauges) {
    let name = program.name.as_str();
    let counters = [
        (&CPU, Counter::Cpu),
        (&RUN_DELAY, Counter::RunDelay),
        (&LOOP_WAITS, Counter::LoopWaits),
        (&LOOP_WAITED, Counter::LoopWaited),
        (&LOOP_YIELDS, Counter::LoopYields),
        (&LOOP_SLEEPS, Counter::LoopSleeps),
        (&HAND_OFFS, Counter::HandOffs),
        (&STARVING, Counter::Starving),
    ];
    if let Some((description, counter)) = counters.into_iter().find(|(it, _)| is(family, it)) {
        let value = program.totals.get(counter);
        // What only processes under Manx count says nothing about other programs.
        if program.is_guarded || matches!(counter, Counter::Cpu | Counter::RunDelay) {
            let is_time = description.unit == "seconds";
            family.number(&[name], if is_time { seconds(value) } else { value as f64 });
        }
    } else if is(family, &PROCESSES) {
        for (state, &processes) in ["plain", "manx", "counted"].iter().zip(&gauges.processes) {
            if processes > 0 || (program.is_guarded && *state != "plain") {
                family.number(&[name, state], processes as f64);
            }
        }
    } else if is(family, &THREADS) {
        family.number(&[name], gauges.threads as f64);
    } else if is(family, &BUDGET) {
        gauges.budget.into_iter().for_each(|cpus| family.number(&[name], cpus));
    } else if is(family, &SITES) && program.is_guarded {
        for (how, state) in [(How::Jump, "repaired"), (How::Left, "left"), (How::Closed, "closed")] {
            family.number(&[name, state], gauges.sites[how as usize] as f64);
        }
    } else if is(family, &TRIAL) || is(family, &TRIAL_WORK) {
        of_trials(family, name, gauges);
    } else if is(family, &LOCK_WAIT) {
        for (lock, histogram) in program.locks() {
            family.histogram(&[name, lock], histogram.clone());
        }
    }
}

/// The cures that some process was asked about.
fn of_trials(family: &mut Family, name: &str, gauges: &Gauges) {
    for (cure, (answers, work_ns)) in Cure::ALL.into_iter().zip(gauges.answers.iter().zip(&gauges.work_ns)) {
        if *answers == [0; Answer::ALL.len()] {
            continue;
        }
        if is(family, &TRIAL) {
            for (answer, processes) in Answer::ALL.into_iter().zip(answers) {
                family.number(&[name, cure.word(), answer.word()], *processes as f64);
            }
        } else {
            for (way, ns) in ["as_written", "cured"].into_iter().zip(work_ns) {
                family.number(&[name, cure.word(), way], seconds(*ns));
            }
        }
    }
}

fn of_groups(family: &mut Family, watch: &Watch) {
    if !family.description.labels.contains(&"cgroup") {
        return;
    }
    for (path, level) in watch.groups().levels() {
        let throttled = level.throttled.unwrap_or_default();
        let value = match family.description {
            it if std::ptr::eq(it, &QUOTA) => level.quota.map(|quota| quota.cpus()),
            it if std::ptr::eq(it, &PERIODS) => Some(throttled.periods as f64),
            it if std::ptr::eq(it, &THROTTLED) => Some(throttled.throttled as f64),
            _ => Some(throttled.throttled_time.as_secs_f64()),
        };
        value.into_iter().for_each(|value| family.number(&[path], value));
    }
}

fn of_exporter(family: &mut Family, watch: &Watch) {
    let registry = watch.registry();
    let value = match family.description {
        it if std::ptr::eq(it, &EXPORTER_CPU) => seconds(process_cpu_ns()),
        it if std::ptr::eq(it, &EXPORTER_PASSES) => watch.passes() as f64,
        it if std::ptr::eq(it, &EXPORTER_AGE) => watch.age_s() as f64,
        it if std::ptr::eq(it, &EXPORTER_LEFT_OUT) => watch.left_out() as f64,
        it if std::ptr::eq(it, &EXPORTER_MERGED) => registry.merged() as f64,
        it if std::ptr::eq(it, &BUILD) => return family.number(&[env!("CARGO_PKG_VERSION")], 1.0),
        _ => return,
    };
    family.number(&[], value);
}
