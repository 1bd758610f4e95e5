//! What `manx doctor` says of programs that are known to wait badly, and what its looks cost them.
//!
//! The programs are those of [`crate::victims`], and WiredTiger with boosted threads, as in the
//! paper of Andreoli and Cucinotta. Each load is a case. The right verdict is busy waiting if CPUs
//! are short, the quota if there is one, and none of a program alone; `OTHERS` has the cases in
//! which another one is right, with the reasons. Of two programs alone the cost is measured, too.
//!
//! Invariants:
//! 1. A round of a case whose cost is measured is a pair: the program as it is, and the same with
//!    the doctor beside it, in an order drawn at random. The ratio of their throughputs is the
//!    cost. In the other cases only the verdict counts, so a round has the doctor beside it.
//! 2. The doctor watches the first copy from the moment in which all copies are warm. A copy that
//!    has measured enough goes on until the doctor is done.
//! 3. A launcher or a client may have started the process that waits, also after the copy was warm.
//!    So the doctor watches the process of the copy's tree that uses the most CPU time in the first
//!    moment after it.
//! 4. WiredTiger is watched once its records are loaded and its threads are warm.

use crate::child;
use crate::engine::library::wiredtiger;
use crate::engine::{self, Compiler, Program, Start};
use crate::error::{Error, reason};
use crate::harness::{self, Bench, Sample};
use crate::verdict::{Figure, judge};
use crate::victims::catalogue::{ALONE, Load};
use crate::victims::{self, Case, Place, Ready, Victim};
use crate::{machine, turns};
use procfs::process::{Process, all_processes};
use report::{Compared, Report, Sheet};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

/// The version without the doctor.
pub const AS_IS: &str = "as it is";
/// The version with the doctor beside it.
pub const WATCHED: &str = "watched";
/// The verdict that comes first of programs that wait badly, if CPUs are short.
const RIGHT: &str = "busy waiting";
/// … under a quota that stops the program.
const QUOTA: &str = "throttled by a quota";
/// What stands for no verdict.
pub const NONE: &str = "none";
/// The verdicts of programs whose own threads, or other processes, leave no CPU for their work.
const CROWD: &str = "more runnable threads than CPUs";
const NEIGHBOURS: &str = "neighbours on the same CPUs";
/// The cases in which another verdict is right, by what was measured of them (docs/results.md).
pub const OTHERS: [(&str, &str); 15] = [
    // OpenBLAS multiplies matrices of 64 x 64 with one thread, and two copies have a CPU each.
    ("numpy-64, pair", NONE),
    // Threads of this layer sleep until they have work: a copy waits for CPUs that the other one
    // uses.
    ("numba-workqueue, pair", NEIGHBOURS),
    // With more threads than CPUs libgomp sleeps after a moment: 6 % of the samples lie in loops.
    // One thread fits 1.75 times as often, `manx run` 0.93 times.
    ("kmeans, 8 threads", CROWD),
    // oneDNN computes in generated code, and libgomp's threads hardly wait in loops: 1 % of the
    // samples. Neither the passive setting nor `manx run` makes more steps.
    ("pytorch-convolution, 8 threads", CROWD),
    // The schedulers of both copies have work: 2 % of the samples lie in loops. Neither `+sbwt
    // none` nor `manx run` makes more messages.
    ("erlang, pair", NEIGHBOURS),
    ("erlang, beside a busy loop", NEIGHBOURS),
    // RabbitMQ's script turns the busy waiting of its schedulers off. `manx run` makes as many
    // messages as without it, in a pair and beside the loop.
    ("rabbitmq, pair", NEIGHBOURS),
    ("rabbitmq, beside a busy loop", NEIGHBOURS),
    // Each of the 64 clients has a server process with one thread, and each of these is a
    // neighbour. `manx run` makes 0.98 to 1.06 times the transactions.
    ("postgres, 64 clients", NEIGHBOURS),
    ("postgres, 64 clients beside a busy loop", NEIGHBOURS),
    // Two server processes and their client share two CPUs.
    ("postgres, alone", NEIGHBOURS),
    // Not healthy: the server's two threads and the client share two CPUs. One thread makes 1.16
    // times the batches, with a quarter of the p99.
    ("redis, alone", RIGHT),
    // Not healthy: OpenBLAS's threads and libgomp's share two CPUs, and OMP_WAIT_POLICY=passive
    // makes 2.2 to 5.2 times the steps.
    ("pytorch, alone", RIGHT),
    ("pytorch-convolution, alone", RIGHT),
    ("pytorch-loader, alone", RIGHT),
];
/// The cases whose cost is measured: their throughput is steady.
const STEADY: [&str; 2] = ["gang, alone", "openblas, alone"];

/// Exit codes of the doctor that are findings.
const FINDINGS: [i32; 3] = [0, 10, 11];
/// The time that a copy and the doctor need to start and to end.
const STARTED: Duration = Duration::from_secs(3);

/// In which it shows which process of a copy works.
const FIRST_MOMENT: Duration = Duration::from_millis(300);

/// By which the user names WiredTiger.
pub const WIREDTIGER: &str = "wiredtiger";
/// Its case.
const BOOSTED: &str = "wiredtiger, 4 of 40 threads boosted";
const BOOSTED_THREADS: (usize, usize) = (4, 40);
/// The time after which it is warm.
const LOADED: Duration = Duration::from_secs(4);

/// A program that waits badly.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Patient {
    /// One of [`crate::victims`]
    Victim(&'static Victim),
    /// The storage engine
    WiredTiger,
}

impl Patient {
    fn name(self) -> &'static str {
        match self {
            Patient::Victim(victim) => victim.name,
            Patient::WiredTiger => WIREDTIGER,
        }
    }
}

/// The program of a patient.
enum Made {
    Victim(&'static Victim, Ready),
    WiredTiger(Program),
}

/// What the experiment needs to know.
#[derive(Debug)]
pub struct Setup {
    /// The programs
    pub patients: Vec<Patient>,
    /// What compiles WiredTiger's driver
    pub compiler: Compiler,
    /// Where the victims run
    pub victims: victims::Setup,
    /// How long the doctor watches
    pub watch: Duration,
    /// Rounds of a case in which the verdict counts
    pub rounds: usize,
}

impl Setup {
    /// The setup with these patients. `compiler` is for WiredTiger, and `place` for the victims.
    pub fn new(
        patients: Vec<Patient>,
        compiler: Compiler,
        place: Place,
        manx: PathBuf,
        cpus: Vec<usize>,
        quick: bool,
    ) -> Setup {
        let limit = Duration::from_secs(if quick { 5 } else { 60 });
        let victims = victims::Setup { victims: Vec::new(), place, manx, quick, cpus, limit };
        let (watch, rounds) = if quick { (Duration::from_secs(1), 1) } else { (Duration::from_secs(3), 20) };
        Setup { patients, compiler, victims, watch, rounds }
    }

    fn ready(&self, patient: Patient) -> Result<Made, Error> {
        Ok(match patient {
            Patient::Victim(victim) => Made::Victim(victim, self.victims.place.ready(victim)?),
            Patient::WiredTiger => {
                let path = wiredtiger(&self.compiler, None)?;
                Made::WiredTiger(Program { home: true, ..Program::new(path) })
            }
        })
    }
}

/// The patients of these names; all if there is none.
///
/// # Errors
/// If there is none of a name.
pub fn choose(names: &[&str]) -> Result<Vec<Patient>, Error> {
    let of_victims: Vec<&str> = names.iter().copied().filter(|name| *name != WIREDTIGER).collect();
    let has_wiredtiger = names.is_empty() || of_victims.len() < names.len();
    let victims =
        if names.is_empty() || !of_victims.is_empty() { victims::choose(&of_victims)? } else { Vec::new() };
    let wiredtiger = has_wiredtiger.then_some(Patient::WiredTiger);
    Ok(victims.into_iter().map(Patient::Victim).chain(wiredtiger).collect())
}

/// Measures each program; what was found is in `bench.report`.
///
/// # Errors
/// If nothing could be measured, if a program or the doctor failed, or if the user interrupts.
pub fn measure(setup: &Setup, bench: &mut Bench) -> Result<(), Error> {
    bench.note(format!("the doctor watches the first copy for {} s", setup.watch.as_secs_f64()));
    turns::each(
        &setup.patients,
        Patient::name,
        bench,
        |patient| setup.ready(patient),
        |_, made, bench, failures| match made {
            Made::Victim(victim, ready) => victim.loads.iter().try_for_each(|load| {
                let case = Case { setup: &setup.victims, victim, load, ready };
                rounds(setup, case, bench, failures)
            }),
            Made::WiredTiger(program) => boosted(setup, program, bench, failures),
        },
    )
}

/// The rounds of a case.
fn rounds(setup: &Setup, case: Case, bench: &mut Bench, failures: &mut Vec<String>) -> Result<(), Error> {
    let name = case.victim.case(case.load);
    if let Err(why) = case.group() {
        bench.note(format!("{name}: left out: {why}"));
        return Ok(());
    }
    let is_steady = STEADY.contains(&name.as_str());
    let variants: &[&str] = if is_steady { &[AS_IS, WATCHED] } else { &[WATCHED] };
    let timed =
        harness::Case { name: &name, variants, expected: setup.watch + STARTED * case.load.copies as u32 };
    let once = |at: usize, _| {
        if variants[at] == AS_IS {
            let (outcome, ()) = case.as_it_is(|_| Ok(()), |()| Ok(()))?;
            return Ok(victims::sample(&outcome, setup.victims.limit));
        }
        watched(setup, case)
    };
    let ended = if is_steady {
        bench.compare(timed, |_| vec![Compared::new(&name, WATCHED, AS_IS, "throughput_per_s")], once)
    } else {
        bench.rounds(timed, setup.rounds, once)
    };
    unless_failed(ended, &name, bench, failures)
}

/// The rounds of WiredTiger.
fn boosted(
    setup: &Setup,
    program: &Program,
    bench: &mut Bench,
    failures: &mut Vec<String>,
) -> Result<(), Error> {
    let seconds = (LOADED + setup.watch + STARTED).as_secs_f64();
    let cpus = machine::cpu_list(setup.victims.cpus.len());
    let (boost, threads) = BOOSTED_THREADS;
    let lowered = !child::may_boost();
    let load = engine::Load { boost, lowered, ..engine::Load::new(threads, seconds, 0.5, &cpus) };
    let timed = harness::Case { name: BOOSTED, variants: &[WATCHED], expected: load.expected() };
    let once = |_, round: usize| {
        let load = engine::Load { seed: round as u64 + 1, ..load.clone() };
        let (manx, watch) = (setup.victims.manx.clone(), setup.watch);
        let mut doctor = None;
        let mut sample = engine::run_beside(program, Start::AsIs, &load, 5 * load.expected(), |pid| {
            doctor = Some(std::thread::spawn(move || {
                std::thread::sleep(LOADED); // Invariant 4
                Doctor::start(&manx, pid, watch)?.finish()
            }));
        })?;
        let said = doctor.expect("it has begun").join().expect("no panic")?;
        let titles = told(&said, &mut sample, RIGHT);
        Ok(sample.with(&json!({ "verdicts": titles })))
    };
    let ended = bench.rounds(timed, setup.rounds, once);
    unless_failed(ended, BOOSTED, bench, failures)
}

/// Notes the failure of a program, so that the others are measured all the same.
fn unless_failed(
    ended: Result<(), Error>,
    name: &str,
    bench: &mut Bench,
    failures: &mut Vec<String>,
) -> Result<(), Error> {
    match ended {
        Err(Error::Failed { what, stderr }) => {
            let text = format!("{name}: {what}: {}", stderr.trim());
            failures.push(text.clone());
            bench.note(text);
            Ok(())
        }
        other => other,
    }
}

/// One round with the doctor beside the first copy.
fn watched(setup: &Setup, case: Case) -> Result<Sample, Error> {
    let begin = |leader: i32| {
        let before = ticks_below(leader);
        let (manx, watch) = (setup.victims.manx.clone(), setup.watch);
        Ok(std::thread::spawn(move || {
            std::thread::sleep(FIRST_MOMENT); // Invariant 3
            Doctor::start(&manx, busiest(leader, &before), watch)?.finish()
        }))
    };
    let end = |doctor: JoinHandle<Result<Value, Error>>| doctor.join().expect("no panic");
    let (outcome, said) = case.as_it_is(begin, end)?;
    let mut sample = victims::sample(&outcome, setup.victims.limit);
    let titles = told(&said, &mut sample, right(case.victim, case.load));
    Ok(sample.with(&json!({ "verdicts": titles })))
}

/// The verdict that should come first of a victim under a load.
fn right(victim: &Victim, load: &Load) -> &'static str {
    let name = victim.case(load);
    let usual = match load {
        Load { quota_percent: Some(_), .. } => QUOTA,
        Load { name: ALONE, .. } => NONE,
        _ => RIGHT,
    };
    OTHERS.iter().find(|(other, _)| *other == name).map_or(usual, |(_, right)| *right)
}

/// Adds what the doctor has told to a sample, and whether it is right; returns the titles of its
/// verdicts.
fn told(said: &Value, sample: &mut Sample, right: &str) -> Vec<String> {
    let verdicts = said["verdicts"].as_array().map(Vec::as_slice).unwrap_or_default();
    let titles = verdicts.iter().filter_map(|verdict| verdict["title"].as_str());
    let titles: Vec<String> = titles.map(str::to_owned).collect();
    let first = titles.first().map_or(NONE, String::as_str);
    sample.add("right", f64::from(u8::from(first == right)));
    sample.add("severity", verdicts.first().and_then(|it| it["severity"].as_f64()).unwrap_or(0.0));
    sample.add("looking_share", said["evidence"]["own_cpus"].as_f64().unwrap_or(f64::NAN));
    titles
}

/// The process of a tree that has used the most CPU time since it had used that much (Invariant 3).
fn busiest(root: i32, before: &BTreeMap<i32, u64>) -> i32 {
    let since = |(pid, ticks): (i32, u64)| (pid, ticks - before.get(&pid).copied().unwrap_or(0).min(ticks));
    let used = ticks_below(root).into_iter().map(since);
    used.max_by_key(|(pid, ticks)| (*ticks, std::cmp::Reverse(*pid))).map_or(root, |(pid, _)| pid)
}

/// The CPU time that each process of a tree has used, in ticks.
fn ticks_below(root: i32) -> BTreeMap<i32, u64> {
    let mut parents = BTreeMap::new();
    let mut used = BTreeMap::new();
    for stat in all_processes().into_iter().flatten().flatten().filter_map(|it: Process| it.stat().ok()) {
        parents.insert(stat.pid, stat.ppid);
        used.insert(stat.pid, stat.utime + stat.stime);
    }
    let is_below = |pid: i32| {
        std::iter::successors(Some(pid), |pid| parents.get(pid).copied()).take(64).any(|pid| pid == root)
    };
    used.into_iter().filter(|(pid, _)| is_below(*pid)).collect()
}

/// A doctor that watches a process.
struct Doctor(Child);

impl Doctor {
    fn start(manx: &Path, pid: i32, time: Duration) -> Result<Doctor, Error> {
        let mut command = Command::new(manx);
        command.args(["doctor", "--json", "--quiet"]);
        command.arg(format!("--for={}ms", time.as_millis())).arg(pid.to_string());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let failed = |error| Error::request(format!("{}: {}", manx.display(), reason(&error)), "");
        command.spawn().map(Doctor).map_err(failed)
    }

    /// Waits until it is done; returns what it says.
    fn finish(self) -> Result<Value, Error> {
        let output = self.0.wait_with_output().map_err(|error| Error::failed(reason(&error)))?;
        let failed = |what: &str| Error::Failed {
            what: format!("manx doctor {what}"),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        };
        if !output.status.code().is_some_and(|code| FINDINGS.contains(&code)) {
            return Err(failed(&child::ending(output.status)));
        }
        serde_json::from_slice(&output.stdout).map_err(|error| failed(&format!("wrote no JSON: {error}")))
    }
}

const VERDICTS: &str = "
    program = case | runs [] = count right | right [] = sum right | first verdict = @first
    severity [threads] = severity | looking [of a CPU] = looking_share";
const COST: &str = "
    program = case | pairs [] = count looking_share | rate [] = throughput_per_s
    of as it is [] = ratio throughput_per_s | 95 % [] = interval throughput_per_s
    looking [of a CPU] = looking_share";

/// Draws tables from the runs, and judges the targets.
pub fn conclude(report: &mut Report) {
    let cases = report.cases();
    let steady: Vec<String> = cases.iter().filter(|case| STEADY.contains(&case.as_str())).cloned().collect();
    if !cases.is_empty() {
        let title = format!(
            "The verdict that should come first: {RIGHT}; under a quota, {QUOTA}; alone, {NONE}; the others: {}",
            OTHERS.map(|(case, right)| format!("{case}: {right}")).join("; ")
        );
        report.show(Sheet::new(VERDICTS).own(&first).without(AS_IS).of(report, &title, &cases));
    }
    if !steady.is_empty() {
        let title = "Alone: the program with the doctor beside it over the program as it is";
        report.show(Sheet::new(COST).over(AS_IS).without(AS_IS).of(report, title, &steady));
    }
    judge(report, figure);
}

/// How often each verdict came first.
fn first(report: &Report, case: &str, version: &str, _: &str) -> String {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for run in report.runs.iter().filter(|run| run.case == case && run.variant == version) {
        let said: Option<Value> = run.output.as_ref().and_then(|raw| serde_json::from_str(raw.get()).ok());
        let first = said.as_ref().and_then(|said| said["verdicts"][0].as_str()).unwrap_or(NONE);
        *counts.entry(first.to_owned()).or_default() += 1;
    }
    let mut counts: Vec<(String, usize)> = counts.into_iter().collect();
    counts.sort_by_key(|(title, count)| (std::cmp::Reverse(*count), title.clone()));
    if let [(only, _)] = &counts[..] {
        return only.clone();
    }
    counts.iter().map(|(title, count)| format!("{title}: {count}")).collect::<Vec<_>>().join(", ")
}

fn figure(report: &Report, id: &str) -> Option<Figure> {
    match id {
        "doctor-verdict" => {
            let of = |case: &String| {
                let right = report.values(case, WATCHED, "right");
                (!right.is_empty()).then(|| right.iter().sum::<f64>() / right.len() as f64)
            };
            let least = report.cases().iter().filter_map(of).reduce(f64::min);
            Some(least.map_or_else(Figure::missing, Figure::Plain))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use report::{Machine, Run};

    #[test]
    fn the_busiest_process_of_a_tree_is_found() {
        let script = "(while :; do :; done) & echo $!; wait";
        let mut child = crate::child::shell(script).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let mut stdout = std::io::BufReader::new(child.stdout.take().unwrap());
        std::io::BufRead::read_line(&mut stdout, &mut line).unwrap();
        let below: i32 = line.trim().parse().unwrap();
        let root = child.id() as i32;
        // It is found once it has used a tick.
        while busiest(root, &BTreeMap::new()) != below {
            std::thread::sleep(Duration::from_millis(10));
        }
        // SAFETY: kill has no memory effects; the process is a child of ours that still runs.
        unsafe { libc::kill(below, libc::SIGKILL) };
        child.wait().unwrap();
        let before = BTreeMap::from([(below, u64::MAX)]);
        assert_ne!(busiest(root, &before), below, "what it did before does not count");
        assert_eq!(busiest(i32::MAX, &before), i32::MAX, "a tree that is not there");
    }

    #[test]
    fn patients_are_chosen_by_name() {
        let of =
            |names: &[&str]| -> Vec<&str> { choose(names).unwrap().into_iter().map(Patient::name).collect() };
        assert_eq!(of(&[WIREDTIGER]), [WIREDTIGER]);
        assert_eq!(of(&[WIREDTIGER, "gang"]), ["gang", WIREDTIGER]);
        assert_eq!(of(&["gang"]), ["gang"]);
        assert_eq!(of(&[]).len(), victims::VICTIMS.len() + 1);
        assert!(choose(&["nothing"]).is_err());
    }

    #[test]
    fn each_other_verdict_is_of_a_case() {
        let cases: Vec<String> = victims::VICTIMS
            .iter()
            .flat_map(|victim| victim.loads.iter().map(|load| victim.case(load)))
            .collect();
        assert!(OTHERS.iter().all(|(case, _)| cases.iter().any(|it| it == case)), "{OTHERS:?}");
        let of = |name: &str| {
            let victim = victims::choose(&[name]).unwrap()[0];
            victim.loads.iter().map(|load| right(victim, load)).collect::<Vec<_>>()
        };
        assert_eq!(of("blis"), [RIGHT, QUOTA, NONE]);
        assert_eq!(of("numpy-64"), [NONE, NONE]);
        assert_eq!(of("pytorch-loader"), [RIGHT, RIGHT, QUOTA, RIGHT]);
    }

    #[test]
    fn a_doctor_that_fails_says_why() {
        let said = Doctor::start(Path::new("/bin/false"), 1, Duration::ZERO).unwrap().finish();
        assert!(matches!(said, Err(Error::Failed { .. })), "{said:?}");
        let said = Doctor::start(Path::new("/bin/echo"), 1, Duration::ZERO).unwrap().finish();
        assert!(said.unwrap_err().to_string().contains("no JSON"));
    }

    #[test]
    fn one_wrong_verdict_misses_the_target_and_is_shown() {
        let mut report = Report::new("doctor", Machine::default(), 0);
        for (round, title) in [RIGHT, RIGHT, "neighbours"].into_iter().enumerate() {
            let text = serde_json::json!({ "verdicts": [title] }).to_string();
            report.runs.push(Run {
                case: "gang, pair".into(),
                variant: WATCHED.into(),
                round,
                values: [("right".to_owned(), f64::from(u8::from(title == RIGHT)))].into(),
                output: serde_json::value::RawValue::from_string(text).ok(),
            });
        }
        assert_eq!(first(&report, "gang, pair", WATCHED, ""), "busy waiting: 2, neighbours: 1");
        conclude(&mut report);
        let verdict = report.targets.iter().find(|verdict| verdict.id == "doctor-verdict").unwrap();
        assert_eq!(verdict.measured.map(|share| (share * 3.0).round()), Some(2.0), "{verdict:?}");
    }
}
