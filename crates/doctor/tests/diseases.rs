//! Programs with exactly one disease each, and the verdict that has to come first.
//!
//! The doctor measures, so the diseases are strong: each takes several threads from their work for
//! most of the time. No figure is checked, only which cause is the worst. Other work on the machine
//! is a true finding of its own, and the tests that are not about it leave it out. Each test writes
//! a line of JSON that says how often the verdict was right, of 20 runs with `MANX_FULL=1`.

use doctor::{Cause, Evidence, Verdict, diagnose, watch};
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use testing::process;

/// How long each program is watched.
const TIME: Duration = Duration::from_secs(2);

/// Tests run side by side, and each program is alone with its disease.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A program that runs until this is dropped.
struct Patient(Child);

impl Patient {
    /// Compiles and starts `tests/programs/NAME.c`, by this command if there is one; `None` if it
    /// says that it cannot be tried here.
    fn start(name: &str, through: Option<&str>) -> Option<Patient> {
        let program = compiled(name);
        match through {
            Some(script) => {
                let mut shell = Command::new("sh");
                shell.args(["-c", script, "sh"]).arg(&program);
                Patient::run(name, &mut shell)
            }
            None => Patient::run(name, &mut Command::new(&program)),
        }
    }

    fn run(name: &str, command: &mut Command) -> Option<Patient> {
        let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut patient = Patient(started.unwrap_or_else(|error| panic!("{name}: {error}")));
        let mut line = String::new();
        let stdout = patient.0.stdout.take().expect("a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("a line");
        if line == "runs\n" {
            return Some(patient);
        }
        testing::skip(format_args!("{name} cannot be tried here"));
        None
    }

    /// What the doctor sees and says.
    fn examine(&self) -> (Evidence, Vec<Verdict>) {
        let pid = self.0.id() as i32;
        let watched = watch(&[pid], TIME, |_| ()).pop().expect("one process");
        let evidence = watched.expect("it is there");
        let verdicts = diagnose(&evidence);
        (evidence, verdicts)
    }
}

impl Drop for Patient {
    fn drop(&mut self) {
        // It ends by itself when its standard input does; this is sooner.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn compiled(name: &str) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/programs/{name}.c"));
    let into = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    if !into.exists() {
        let mut compiler = process::compiler(&source);
        compiler.args(["-O2", "-g", "-Wall", "-Werror", "-pthread", "-D_GNU_SOURCE"]);
        process::succeed(compiler.arg("-o").arg(&into));
    }
    into
}

/// How often each disease is tried.
fn runs() -> u64 {
    testing::setting("MANX_DOCTOR_RUNS", if testing::full() { 20 } else { 1 })
}

/// Tries a disease, each time with a fresh program, writes a line of JSON on how often the verdict
/// was right, and checks that it always was. `None` if it cannot be tried here.
#[track_caller]
fn trials(
    disease: &str,
    start: impl Fn() -> Option<Patient>,
    is_right: impl Fn(&Evidence, &[Verdict]) -> Option<bool>,
) -> Option<(Evidence, Vec<Verdict>)> {
    let (mut right, mut wrong, mut last) = (0, Vec::new(), None);
    for _ in 0..runs() {
        let (evidence, verdicts) = start()?.examine();
        if is_right(&evidence, &verdicts)? {
            right += 1;
        } else {
            wrong.push(doctor::text::report(&evidence, &verdicts));
        }
        last = Some((evidence, verdicts));
    }
    println!("{}", serde_json::json!({ "disease": disease, "runs": runs(), "right": right }));
    assert!(wrong.is_empty(), "{disease}: {right} of {} runs were right\n{}", runs(), wrong.join("\n\n"));
    last
}

/// Checks that the worst finding about the program itself is this, and returns it.
#[track_caller]
fn worst(name: &str, through: Option<&str>, expected: Option<Cause>) -> Option<(Evidence, Verdict)> {
    let is_right = |evidence: &Evidence, verdicts: &[Verdict]| {
        let is_missing = |what: &str| evidence.unseen.iter().any(|unseen| unseen.what.contains(what));
        if expected == Some(Cause::BusyWaiting) && is_missing("busy waiting")
            || matches!(expected, Some(Cause::ContendedLock | Cause::PriorityInversion))
                && is_missing("locks")
        {
            testing::skip(format_args!("{expected:?}: {}", evidence.unseen[0]));
            return None;
        }
        Some(curable(verdicts).map(|verdict| verdict.cause) == expected)
    };
    let (evidence, verdicts) = trials(name, || Patient::start(name, through), is_right)?;
    curable(&verdicts).cloned().map(|verdict| (evidence, verdict))
}

fn curable(verdicts: &[Verdict]) -> Option<&Verdict> {
    verdicts.iter().find(|verdict| verdict.cause.is_curable())
}

#[test]
fn more_threads_than_cpus() {
    let _alone = alone();
    worst("crowd", None, Some(Cause::TooManyThreads));
}

#[test]
fn pairs_that_spin() {
    let _alone = alone();
    let Some((_, verdict)) = worst("spin", None, Some(Cause::BusyWaiting)) else { return };
    assert!(verdict.evidence[0].starts_with("wait_for_turn (spin"), "{verdict:?}");
}

#[test]
fn a_spin_lock_that_is_held_across_page_faults() {
    let _alone = alone();
    let start = || Patient::start("faults", None);
    let judged = trials("faults", start, |evidence, verdicts| {
        if !evidence.threads.iter().any(|thread| thread.kernel_is_sampled) {
            testing::skip("samples inside the kernel need CAP_PERFMON, or kernel.perf_event_paranoid of 0");
            return None;
        }
        Some(curable(verdicts).map(|verdict| verdict.cause) == Some(Cause::PageFaults))
    });
    let Some((_, verdicts)) = judged else { return };
    let verdict = curable(&verdicts).expect("the verdict");
    assert!(verdict.headline.contains("spin in insert (faults"), "{verdict:?}");
}

#[test]
fn one_hot_mutex() {
    let _alone = alone();
    let Some((evidence, verdict)) = worst("mutex", None, Some(Cause::ContendedLock)) else { return };
    assert_eq!(evidence.locks.len(), 1, "{verdict:?}");
    assert!(evidence.locks[0].callers[0].0.starts_with("update (mutex"), "{verdict:?}");
    assert!(evidence.locks[0].place.starts_with("the data of mutex"), "{verdict:?}");
}

/// A waiter cannot run before the holder has slept for 5 ms, unless it came in the middle.
#[test]
fn waits_for_a_mutex_that_is_held_for_5_ms() {
    let _alone = alone();
    let Some((evidence, verdict)) = worst("held", None, Some(Cause::ContendedLock)) else { return };
    if let Some(unseen) = evidence.unseen.iter().find(|unseen| unseen.what.contains("each wait")) {
        return testing::skip(format_args!("the lengths of waits: {unseen}"));
    }
    let waits = &evidence.locks[0].waits;
    let first = waits.first().unwrap_or_else(|| panic!("no waits: {verdict:?}"));
    assert!(first.function.starts_with("take_order (held"), "{waits:?}");
    assert!(first.max_ns >= 4_000_000 && first.p50_ns <= first.max_ns, "{waits:?}");
    assert_eq!(first.histogram.iter().map(|(_, count)| count).sum::<u64>(), first.count);
    let line = verdict.evidence.iter().find(|line| line.starts_with("waits from take_order (held"));
    assert!(line.is_some(), "{verdict:?}");
}

#[test]
fn a_holder_behind_a_hog() {
    let _alone = alone();
    worst("inversion", None, Some(Cause::PriorityInversion));
}

#[test]
fn a_healthy_program() {
    let _alone = alone();
    worst("healthy", None, None);
}

#[test]
fn a_noisy_neighbour() {
    let _alone = alone();
    let Some(_noise) = Patient::start("crowd", None) else { return };
    trials(
        "neighbour",
        || Patient::start("fits", None),
        |_, verdicts| Some(verdicts.first().map(|verdict| verdict.cause) == Some(Cause::Neighbours)),
    );
}

/// A file of 64 MiB that is on the disk, removed when this is dropped.
struct OnDisk(PathBuf);

impl OnDisk {
    fn new() -> OnDisk {
        let file =
            OnDisk(Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("pages-{}", std::process::id())));
        fs::write(&file.0, vec![7; 64 << 20]).expect("written");
        fs::File::open(&file.0).and_then(|opened| opened.sync_all()).expect("on the disk");
        file
    }
}

impl Drop for OnDisk {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[test]
fn pages_that_come_from_a_disk() {
    let _alone = alone();
    let file = OnDisk::new();
    let start = || Patient::run("memory", Command::new(compiled("memory")).arg(&file.0));
    trials("memory", start, |evidence, verdicts| {
        let faults: u64 = evidence.threads.iter().map(|thread| thread.major_faults).sum();
        if faults < 1_000 {
            testing::skip("the folder for tests is not on a disk, or on a very fast one");
            return None;
        }
        // Neighbours make it wait as well, and those of its threads that wait for a CPU a crowd.
        let are_there = verdicts.iter().any(|verdict| verdict.cause == Cause::Neighbours);
        let mut own = verdicts
            .iter()
            .map(|verdict| verdict.cause)
            .filter(|&cause| cause != Cause::Neighbours && !(are_there && cause == Cause::TooManyThreads));
        Some(own.next() == Some(Cause::Memory))
    });
}

/// A control group with a quota of a tenth of a CPU, and a group below it.
struct Group(PathBuf);

impl Group {
    fn new() -> Option<Group> {
        let name = format!("manx-doctor-{}", std::process::id());
        let ways = [
            ("/sys/fs/cgroup/cpu", "cpu.cfs_quota_us", "10000"),
            ("/sys/fs/cgroup/cpu,cpuacct", "cpu.cfs_quota_us", "10000"),
            ("/sys/fs/cgroup", "cpu.max", "10000 100000"),
        ];
        for (mount, file, quota) in ways {
            let group = Group(Path::new(mount).join(&name));
            // What cannot be made here is removed again.
            let made = fs::create_dir(&group.0).and_then(|()| fs::write(group.0.join(file), quota));
            if made.and_then(|()| fs::create_dir(group.inner())).is_ok() {
                return Some(group);
            }
        }
        testing::skip("no control group with a quota can be made");
        None
    }

    fn inner(&self) -> PathBuf {
        self.0.join("inner")
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A process that was killed may be in its group for a moment longer.
        for _ in 0..100 {
            let _ = fs::remove_dir(self.inner());
            if !self.0.exists() || fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

#[test]
fn a_quota_on_the_parent_group() {
    let _alone = alone();
    let Some(group) = Group::new() else { return };
    let script = format!("echo $$ > {}/cgroup.procs && exec \"$1\"", group.inner().display());
    let Some((_, verdict)) = worst("fits", Some(&script), Some(Cause::Quota)) else { return };
    assert!(verdict.headline.contains("of the parent group"), "{verdict:?}");
}

/// A crowd that starves leaves the doctor few looks. It ends in time, says that the looks were few,
/// and keeps little of what it saw.
#[test]
fn five_thousand_threads_with_a_tenth_of_a_cpu() {
    let _alone = alone();
    let Some(group) = Group::new() else { return };
    let Some(patient) = Patient::start("many", None) else { return };
    // So many threads would take minutes to begin and to end with so little time.
    let enter = |procs: &Path| fs::write(procs, patient.0.id().to_string()).expect("it changes its group");
    enter(&group.inner().join("cgroup.procs"));
    let (evidence, verdicts) = patient.examine();
    enter(&group.0.parent().expect("a mount").join("cgroup.procs"));
    assert!(evidence.looks >= 2 && evidence.threads.len() >= 5_000, "{} looks", evidence.looks);
    assert!(evidence.timeline.threads.len() <= doctor::evidence::timeline::THREADS_MAX);
    assert!(evidence.locks.len() <= 26 && evidence.places.len() <= 32);
    let is_doubted = |verdict: &Verdict| verdict.doubts.iter().any(|doubt| doubt.contains("looks only"));
    let text = doctor::text::report(&evidence, &verdicts);
    assert!(!verdicts.is_empty() && (evidence.looks >= 10 || verdicts.iter().all(is_doubted)), "{text}");
}
