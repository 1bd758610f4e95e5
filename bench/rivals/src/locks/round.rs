//! Rounds: every competitor once, in turn, each in a process of its own.

use super::placement::FAR_NS;
use report::Summary;
use serde::{Deserialize, Serialize};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How much longer than its time a run may take before it is taken for a hang.
const PATIENCE: Duration = Duration::from_secs(15);
/// Runs of one lock in one round, until its probes agree.
const ATTEMPTS: usize = 2;

/// A lock as the parent knows it.
#[derive(Clone, Debug)]
pub struct Entry {
    /// What tables call it.
    pub name: String,
    /// The lock of this program that the child uses.
    pub lock: String,
    /// A library that the child is started with.
    pub preload: Option<PathBuf>,
    /// What starts the child: `manx run` with its options.
    pub launcher: Vec<String>,
    /// Whether throughput is compared with it.
    pub barging: bool,
}

/// What is run of each entry.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The case's name.
    pub case: &'static str,
    /// How many threads.
    pub threads: usize,
    /// Seconds of a run.
    pub seconds: f64,
    /// CPUs that the children may use: how many.
    pub cpus: usize,
    /// Whether threads are left to the scheduler.
    pub unpinned: bool,
    /// Processes beside it that never sleep.
    pub hogs: usize,
}

/// Ends its process when dropped.
struct Hog(Child);

impl Drop for Hog {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs an entry once; again if its probes disagree.
///
/// # Errors
/// If the child could not be started, crashed, hung, or printed something else.
pub fn run(program: &Path, entry: &Entry, plan: &Plan) -> Result<Outcome, String> {
    let _hogs = (0..plan.hogs)
        .map(|number| {
            let mut command = Command::new(program);
            command.args(["lock-hog", &(number % plan.cpus).to_string()]).stdin(Stdio::piped());
            command.spawn().map(Hog).map_err(|error| format!("a hog could not be started: {error}"))
        })
        .collect::<Result<Vec<_>, _>>()?;
    let mut outcome = once(program, entry, plan)?;
    for _ in 1..ATTEMPTS {
        if outcome.placement() != Placement::Mixed {
            break;
        }
        outcome = once(program, entry, plan)?;
    }
    Ok(outcome)
}

/// How long a run may take: then it hangs.
pub fn patience(time: Duration) -> Duration {
    PATIENCE + time * 3
}

fn once(program: &Path, entry: &Entry, plan: &Plan) -> Result<Outcome, String> {
    let mut command = match entry.launcher.split_first() {
        Some((launcher, options)) => {
            let mut command = Command::new(launcher);
            command.args(options).arg(program);
            command
        }
        None => Command::new(program),
    };
    command.args(["lock-run", "--lock", &entry.lock, "--case", plan.case]);
    command.args(["--threads", &plan.threads.to_string(), "--seconds", &plan.seconds.to_string()]);
    command.args(["--cpus", &plan.cpus.to_string()]);
    if plan.unpinned {
        command.arg("--unpinned");
    }
    match &entry.preload {
        Some(library) => command.env("LD_PRELOAD", library),
        None => command.env_remove("LD_PRELOAD"),
    };
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("could not be started: {error}"))?;
    let limit = Instant::now() + patience(Duration::from_secs_f64(plan.seconds));
    // What a child prints fits into a pipe, so it is read after the end.
    let status = loop {
        match child.try_wait().map_err(|error| error.to_string())? {
            Some(status) => break status,
            None if Instant::now() > limit => {
                // It may have ended meanwhile.
                let _ = child.kill();
                let _ = child.wait();
                return Err("hung, and was killed".into());
            }
            None => thread::sleep(Duration::from_millis(2)),
        }
    };
    let (mut printed, mut complaint) = (String::new(), String::new());
    if let (Some(mut out), Some(mut err)) = (child.stdout.take(), child.stderr.take()) {
        out.read_to_string(&mut printed).map_err(|error| error.to_string())?;
        err.read_to_string(&mut complaint).map_err(|error| error.to_string())?;
    }
    if !status.success() {
        let last = complaint.lines().last().unwrap_or("it said nothing");
        return Err(format!("{status}: {last}"));
    }
    // Interposed libraries print banners; the outcome is the last line.
    let line = printed.lines().last().unwrap_or_default();
    serde_json::from_str(line).map_err(|error| format!("printed `{line}`, which is no outcome: {error}"))
}

/// The distance between the CPUs during a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Placement {
    /// Both probes were short.
    Near,
    /// Both probes were long.
    Far,
    /// The probes before and after disagree.
    Mixed,
    /// One CPU, or one working thread: the distance does not matter.
    Alone,
}

/// One run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// Epochs per second of all threads.
    pub epochs_per_s: f64,
    /// Nanoseconds per epoch on the first thread's clock, for the uncontended case: per lock and
    /// unlock.
    pub pair_ns: f64,
    /// All threads' epochs.
    pub all: Summary,
    /// Epochs of the threads that are not slowed down.
    pub big: Summary,
    /// Epochs of the threads that are.
    pub little: Summary,
    /// The share of all epochs that the slowed threads made.
    pub little_part: f64,
    /// Epochs of the slowest thread over the mean.
    pub slowest_over_mean: f64,
    /// Epochs of the slowest thread over the fastest one's.
    pub slowest_over_fastest: f64,
    /// Round trips of a cache line before and after the run; empty if that does not matter.
    pub round_trips_ns: Vec<f64>,
}

impl Outcome {
    /// Where the CPUs were.
    pub fn placement(&self) -> Placement {
        let far = self.round_trips_ns.iter().filter(|&&ns| ns >= FAR_NS).count();
        match (self.round_trips_ns.len(), far) {
            (0, _) => Placement::Alone,
            (_, 0) => Placement::Near,
            (all, far) if all == far => Placement::Far,
            _ => Placement::Mixed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_placement_is_what_both_probes_say() {
        let of =
            |probes: &[f64]| Outcome { round_trips_ns: probes.to_vec(), ..Outcome::default() }.placement();
        assert_eq!(of(&[149.0, 90.0]), Placement::Near);
        assert_eq!(of(&[FAR_NS, 400.0]), Placement::Far);
        assert_eq!(of(&[90.0, 400.0]), Placement::Mixed);
        assert_eq!(of(&[]), Placement::Alone);
    }
}
