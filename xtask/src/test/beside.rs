//! Steps that run beside the others, one after another, each in a process of its own.
//!
//! Some steps leave a part of two CPUs idle: tests that sleep, the last crate of a build, one long
//! proof. [`Lane`] fills it. It runs each of its steps as `cargo xtask test --part NAME`, while the
//! list of all steps goes on. The output of such a step is in a file until [`Lane::join`] prints
//! it, at the place where the step stands in the list, so that the lines of two steps never mix.
//!
//! 1. The child writes its verdict to a file as its last act. A child without a verdict has failed.
//! 2. A child is ended with us: the kernel ends it with the thread that has started it, and this
//!    thread ends with the process.
//! 3. A child has a lower priority ([`NICE`]), so it takes the CPU time that the others leave.
//! 4. A step begins when the step that it comes after has ended, and so have all steps before it in
//!    the lane. Both are marked in [`State`] under its lock.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::outcome::Result;
use crate::steps::Verdict;

/// By how much the priority of a step is lower.
const NICE: i32 = 15;
/// How many of the last lines of a step that has failed stand beside the table.
const LAST_LINES: usize = 15;

/// The steps that run beside others.
pub struct Lane {
    shared: Arc<(Mutex<State>, Condvar)>,
}

#[derive(Default)]
struct State {
    /// The steps of the list that have ended.
    done: BTreeSet<String>,
    /// The steps of the lane that have ended.
    ended: BTreeMap<String, Ended>,
}

/// How a step of the lane has ended.
struct Ended {
    verdict: Verdict,
    took: Duration,
    output: String,
}

impl Lane {
    /// Begins with these steps: the name of each, and of the step of the list after which it
    /// begins. `folder` is for their files.
    pub fn begin(steps: &'static [(&'static str, &'static str)], folder: PathBuf, full: bool) -> Lane {
        Lane::with(steps, move |step| ended(step, &folder, full))
    }

    fn with(
        steps: &'static [(&'static str, &'static str)],
        run: impl Fn(&str) -> Ended + Send + 'static,
    ) -> Lane {
        let lane = Lane { shared: Arc::default() };
        let shared = Arc::clone(&lane.shared);
        thread::spawn(move || {
            for (step, after) in steps {
                drop(wait(&shared, |state| state.done.contains(*after)));
                let ended = run(step);
                shared.0.lock().unwrap().ended.insert((*step).into(), ended);
                shared.1.notify_all();
            }
        });
        lane
    }

    /// Says that a step of the list has ended.
    pub fn done(&self, step: &str) {
        self.shared.0.lock().unwrap().done.insert(step.into());
        self.shared.1.notify_all();
    }

    /// Waits for the end of a step of the lane, prints what it has printed, and returns its verdict
    /// and how long it took.
    pub fn join(&self, step: &str) -> (Verdict, Duration) {
        let mut state = wait(&self.shared, |state| state.ended.contains_key(step));
        let ended = state.ended.remove(step).expect("it has been waited for");
        drop(state);
        println!("(it ran beside other steps)\n{}", ended.output.trim_end());
        (ended.verdict, ended.took)
    }
}

/// Waits until this is true of the state.
fn wait(shared: &(Mutex<State>, Condvar), is_so: impl Fn(&State) -> bool) -> MutexGuard<'_, State> {
    shared.1.wait_while(shared.0.lock().unwrap(), |state| !is_so(state)).unwrap()
}

/// Runs a step of `cargo xtask test` to its end.
fn ended(step: &str, folder: &Path, full: bool) -> Ended {
    let begin = Instant::now();
    let output = folder.join(format!("{step}.txt"));
    let ran = child(step, folder, &output, full);
    let output = String::from_utf8_lossy(&fs::read(output).unwrap_or_default()).into_owned();
    let (verdict, took) = match ran.map(|status| (verdict(folder, step), status)) {
        Ok((Some(ended), _)) => ended,
        Ok((None, status)) => {
            (Verdict::Failed(format!("it ended without a verdict: {status}")), begin.elapsed())
        }
        Err(why) => (Verdict::Failed(format!("it cannot run beside others: {why}")), Duration::ZERO),
    };
    Ended { verdict: with_last_lines(verdict, &output), took, output }
}

/// A failure with the last lines that the step has printed, so that they stand beside the table at
/// the end, unless it has lines of its own, as those of tests have.
fn with_last_lines(verdict: Verdict, output: &str) -> Verdict {
    match verdict {
        Verdict::Failed(why) if !why.contains('\n') => {
            let lines: Vec<&str> = output.lines().collect();
            Verdict::Failed(format!("{why}\n{}", lines[lines.len().saturating_sub(LAST_LINES)..].join("\n")))
        }
        other => other,
    }
}

fn child(step: &str, folder: &Path, output: &Path, full: bool) -> std::io::Result<std::process::ExitStatus> {
    fs::create_dir_all(folder)?;
    let _ = fs::remove_file(verdict_of(folder, step));
    let file = File::create(output)?;
    let mut command = Command::new(env::current_exe()?);
    command.args(["test", "--part", step]).args(full.then_some("--full"));
    command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
    let hook = || {
        // SAFETY: between fork and exec only these async-signal-safe calls, on constants. If one
        // fails, the step runs all the same.
        unsafe {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            libc::setpriority(libc::PRIO_PROCESS, 0, NICE);
        }
        Ok(())
    };
    // SAFETY: the hook allocates nothing and takes no lock.
    unsafe { command.pre_exec(hook) };
    command.status()
}

/// Does a step as the process that a [`Lane`] has started.
///
/// # Errors
/// If the verdict cannot be written.
pub fn part(name: &str, folder: &Path, work: impl FnOnce() -> Verdict) -> Result {
    let begin = Instant::now();
    let (word, why) = match work() {
        Verdict::Passed => ("passed", String::new()),
        Verdict::Failed(why) => ("failed", why),
        Verdict::Skipped(why) => ("skipped", why),
    };
    let ended = json!({ "verdict": word, "why": why, "took_s": begin.elapsed().as_secs_f64() });
    let file = verdict_of(folder, name);
    fs::write(&file, ended.to_string()).map_err(|error| format!("{}: {error}", file.display()))
}

/// The verdict that [`part`] has written, and how long the step took.
fn verdict(folder: &Path, step: &str) -> Option<(Verdict, Duration)> {
    let ended: Value = serde_json::from_slice(&fs::read(verdict_of(folder, step)).ok()?).ok()?;
    let why = ended["why"].as_str()?.to_owned();
    let verdict = match ended["verdict"].as_str()? {
        "passed" => Verdict::Passed,
        "failed" => Verdict::Failed(why),
        "skipped" => Verdict::Skipped(why),
        _ => return None,
    };
    Some((verdict, Duration::try_from_secs_f64(ended["took_s"].as_f64()?).ok()?))
}

fn verdict_of(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.json"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_comes_back_and_none_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let skipped = Verdict::Skipped("no \"compiler\"".into());
        part("one", folder.path(), || skipped.clone()).unwrap();
        assert_eq!(verdict(folder.path(), "one").map(|ended| ended.0), Some(skipped));
        assert_eq!(verdict(folder.path(), "second"), None);
        let gone = folder.path().join("gone");
        assert!(part("one", &gone, || Verdict::Passed).unwrap_err().contains("one.json"));
    }

    #[test]
    fn a_failure_has_the_last_lines_unless_it_has_its_own() {
        let printed = (0..LAST_LINES + 5).map(|line| format!("{line}\n")).collect::<String>();
        let Verdict::Failed(why) = with_last_lines(Verdict::Failed("`x` failed".into()), &printed) else {
            panic!("it has failed")
        };
        assert!(why.starts_with("`x` failed\n5\n6\n") && why.ends_with("19"), "{why}");
        let own = Verdict::Failed("tests\nfailures:".into());
        assert_eq!(with_last_lines(own.clone(), &printed), own);
        assert_eq!(with_last_lines(Verdict::Passed, &printed), Verdict::Passed);
    }

    #[test]
    fn a_step_begins_after_its_step_and_after_those_before_it() {
        let begun = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&begun);
        let lane = Lane::with(&[("b", "1"), ("c", "0"), ("d", "2")], move |step| {
            seen.lock().unwrap().push(step.to_owned());
            Ended { verdict: Verdict::Failed(step.into()), took: Duration::ZERO, output: String::new() }
        });
        // What `c` comes after has ended, but `b` is before it in the lane.
        lane.done("0");
        assert!(begun.lock().unwrap().is_empty());
        lane.done("1");
        for step in ["c", "b"] {
            assert_eq!(lane.join(step).0, Verdict::Failed(step.into()));
        }
        assert_eq!(*begun.lock().unwrap(), ["b", "c"]);
        lane.done("2");
        lane.join("d");
        assert_eq!(*begun.lock().unwrap(), ["b", "c", "d"]);
    }
}
