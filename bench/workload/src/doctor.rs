//! What `manx doctor` says of programs that are known to wait badly, and what its looks cost them.
//!
//! The programs are those of [`crate::victims`]. Each load under which CPUs are short is a case in
//! which the right verdict is busy waiting. Each program alone is a case in which the doctor has
//! nothing to cure: there its cost is measured.
//!
//! Invariants:
//! 1. Rounds are pairs: the program as it is, and the same with the doctor beside it, in an order
//!    drawn at random. The ratio of their throughputs is the cost.
//! 2. The doctor watches the first copy from the moment in which all copies are warm. A copy that
//!    has measured enough goes on until the doctor is done.
//! 3. A launcher or a client may have started the process that waits. So the doctor watches the
//!    process of the copy's tree that has used the most CPU time.

mod conclude;

pub use conclude::conclude;

use crate::child::collect;
use crate::error::{Error, reason};
use crate::harness::{self, Bench, Sample};
use crate::turns;
use crate::victims::catalogue::{ALONE, Load};
use crate::victims::{self, Case, Place, Victim, copies};
use procfs::process::{Process, all_processes};
use report::Compared;
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
/// The verdict that comes first if CPUs are short.
pub const RIGHT: &str = "busy waiting";
/// The cases whose cost is measured: their throughput is steady.
pub const STEADY: [&str; 2] = ["gang, alone", "openblas, alone"];

/// Exit codes of the doctor that are findings.
const FINDINGS: [i32; 3] = [0, 10, 11];
/// The time that a copy and the doctor need to start and to end.
const STARTED: Duration = Duration::from_secs(3);

/// What the experiment needs to know.
#[derive(Debug)]
pub struct Setup {
    /// The programs, and where they run
    pub victims: victims::Setup,
    /// How long the doctor watches
    pub watch: Duration,
    /// Rounds of a case in which the verdict counts
    pub rounds: usize,
}

impl Setup {
    /// The setup with these victims.
    pub fn new(
        victims: Vec<&'static Victim>,
        place: Place,
        manx: PathBuf,
        cpus: Vec<usize>,
        quick: bool,
    ) -> Setup {
        let limit = Duration::from_secs(if quick { 5 } else { 60 });
        let victims = victims::Setup { victims, place, manx, quick, demo: false, cpus, limit };
        let (watch, rounds) = if quick { (Duration::from_secs(1), 1) } else { (Duration::from_secs(3), 20) };
        Setup { victims, watch, rounds }
    }
}

/// Measures each program; what was found is in `bench.report`.
///
/// # Errors
/// If nothing could be measured, if a program or the doctor failed, or if the user interrupts.
pub fn measure(setup: &Setup, bench: &mut Bench) -> Result<(), Error> {
    bench.note(format!("the doctor watches the first copy for {} s", setup.watch.as_secs_f64()));
    turns::each(
        &setup.victims.victims,
        |victim| victim.name,
        bench,
        |victim| setup.victims.place.ready(victim),
        |victim, ready, bench, failures| {
            let is_measured =
                |load: &&Load| load.name != ALONE || STEADY.contains(&victim.case(load).as_str());
            victim.loads.iter().filter(is_measured).try_for_each(|load| {
                let case = Case { setup: &setup.victims, victim, load, ready };
                pairs(setup, case, bench, failures)
            })
        },
    )
}

/// The rounds of a case.
fn pairs(setup: &Setup, case: Case, bench: &mut Bench, failures: &mut Vec<String>) -> Result<(), Error> {
    let name = case.victim.case(case.load);
    let timed = harness::Case {
        name: &name,
        variants: &[AS_IS, WATCHED],
        expected: setup.watch + STARTED * case.load.copies as u32,
    };
    let once = |at: usize, _| {
        if at == 0 {
            let outcome = copies::run(case.as_it_is(), &setup.victims.cpus, setup.victims.limit)?;
            return Ok(victims::sample(&outcome, setup.victims.limit));
        }
        watched(setup, case)
    };
    let ended = if case.load.name == ALONE {
        bench.compare(timed, |_| vec![Compared::new(&name, WATCHED, AS_IS, "throughput_per_s")], once)
    } else {
        bench.rounds(timed, setup.rounds, once)
    };
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
    let begin = |leader: i32| Doctor::start(&setup.victims.manx, busiest(leader), setup.watch);
    let (outcome, said) =
        copies::run_beside(case.as_it_is(), &setup.victims.cpus, setup.victims.limit, begin, Doctor::finish)?;
    let mut sample = victims::sample(&outcome, setup.victims.limit);
    let verdicts = said["verdicts"].as_array().cloned().unwrap_or_default();
    let titles: Vec<&str> = verdicts.iter().filter_map(|verdict| verdict["title"].as_str()).collect();
    if case.load.name != ALONE {
        sample.add("right", f64::from(u8::from(titles.first() == Some(&RIGHT))));
        sample.add("severity", verdicts.first().and_then(|it| it["severity"].as_f64()).unwrap_or(0.0));
    }
    sample.add("looking_share", said["evidence"]["own_cpus"].as_f64().unwrap_or(f64::NAN));
    Ok(sample.with(&json!({ "verdicts": titles })))
}

/// The process of a tree that has used the most CPU time (Invariant 3).
fn busiest(root: i32) -> i32 {
    let mut parents = BTreeMap::new();
    let mut used = BTreeMap::new();
    for stat in all_processes().into_iter().flatten().flatten().filter_map(|it: Process| it.stat().ok()) {
        parents.insert(stat.pid, stat.ppid);
        used.insert(stat.pid, stat.utime + stat.stime);
    }
    let is_below = |pid: i32| {
        std::iter::successors(Some(pid), |pid| parents.get(pid).copied()).take(64).any(|pid| pid == root)
    };
    let below = used.into_iter().filter(|(pid, _)| is_below(*pid));
    below.max_by_key(|(pid, ticks)| (*ticks, std::cmp::Reverse(*pid))).map_or(root, |(pid, _)| pid)
}

/// A doctor that watches a process.
struct Doctor {
    child: Child,
    stdout: JoinHandle<Vec<u8>>,
    stderr: JoinHandle<Vec<u8>>,
}

impl Doctor {
    fn start(manx: &Path, pid: i32, time: Duration) -> Result<Doctor, Error> {
        let mut command = Command::new(manx);
        command.args(["doctor", "--json", "--quiet"]);
        command.arg(format!("--for={}ms", time.as_millis())).arg(pid.to_string());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command
            .spawn()
            .map_err(|error| Error::request(format!("{}: {}", manx.display(), reason(&error)), ""))?;
        let stdout = collect(child.stdout.take().expect("a pipe"));
        let stderr = collect(child.stderr.take().expect("a pipe"));
        Ok(Doctor { child, stdout, stderr })
    }

    /// Waits until it is done; returns what it says.
    fn finish(mut self) -> Result<Value, Error> {
        let status = self.child.wait();
        let text = |reader: JoinHandle<Vec<u8>>| {
            String::from_utf8_lossy(&reader.join().unwrap_or_default()).into_owned()
        };
        let (stdout, stderr) = (text(self.stdout), text(self.stderr));
        let failed =
            |what: &str| Error::Failed { what: format!("manx doctor {what}"), stderr: stderr.clone() };
        let code = status.ok().and_then(|status| status.code());
        if !code.is_some_and(|code| FINDINGS.contains(&code)) {
            return Err(failed(&format!("ended with status {code:?}")));
        }
        serde_json::from_str(&stdout).map_err(|error| failed(&format!("wrote no JSON: {error}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        while busiest(root) != below {
            std::thread::sleep(Duration::from_millis(10));
        }
        // SAFETY: kill has no memory effects; the process is a child of ours that still runs.
        unsafe { libc::kill(below, libc::SIGKILL) };
        child.wait().unwrap();
        assert_eq!(busiest(i32::MAX), i32::MAX, "a tree that is not there");
    }

    #[test]
    fn a_doctor_that_fails_says_why() {
        let said = Doctor::start(Path::new("/bin/false"), 1, Duration::ZERO).unwrap().finish();
        assert!(matches!(said, Err(Error::Failed { .. })), "{said:?}");
        let said = Doctor::start(Path::new("/bin/echo"), 1, Duration::ZERO).unwrap().finish();
        assert!(said.unwrap_err().to_string().contains("no JSON"));
    }
}
