//! A measured process: makes its pool, waits for the signal that all wait for, does what it was
//! told, says what came of it.
//!
//! It says `ready` on standard output when it is. The signal is the end of its standard input,
//! which all processes of a crowd share; so it is one call of the leader that starts them all, and
//! a leader that dies starts them too, just before they die with it.

use super::executor;
use super::rest::{Bursts, Idle, Submissions};
use super::serve::Serve;
use super::spec::{Outcome, Process, Task};
use crate::error::Error;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, Read, Write};

/// What a process says when it is ready.
pub const READY: &str = "ready";

/// Does what the JSON says, and writes the outcome as JSON.
///
/// # Errors
/// What went wrong with the pool; or what is nothing that a process is told.
pub fn run(json: &str) -> Result<(), Error> {
    let process: Process = told(json, "what a process is told")?;
    let failed = |what| Error::Failed { what, stderr: String::new() };
    let outcome = perform(&process, signal).map_err(failed)?;
    say(&outcome).map_err(failed)
}

/// What is in the JSON of one of the hidden options.
pub(super) fn told<T: DeserializeOwned>(json: &str, what: &str) -> Result<T, Error> {
    serde_json::from_str(json).map_err(|error| {
        Error::request(format!("not {what}: {error}"), "`manx bench pool` starts such processes itself")
    })
}

/// Writes it as a line of JSON.
pub(super) fn say(what: &impl Serialize) -> Result<(), String> {
    let text = serde_json::to_string(what).map_err(|error| error.to_string())?;
    writeln!(io::stdout().lock(), "{text}").map_err(|error| format!("standard output: {error}"))
}

/// Does it, after `start` has returned.
fn perform(process: &Process, start: impl FnOnce()) -> Result<Outcome, String> {
    let (kind, shape) = (process.kind, &process.shape);
    match &process.task {
        Task::Serve(load) => executor::with(kind, shape, Serve { load, lock: process.lock, start })?,
        Task::Burst { times, rest } => {
            start();
            executor::with(kind, shape, Bursts { times: *times, rest: *rest, threads: shape.threads })?
        }
        Task::Idle { time } => {
            start();
            executor::with(kind, shape, Idle { time: *time })?
        }
        Task::Submit { jobs, batches, inside } => {
            start();
            let what = Submissions { jobs: *jobs, batches: *batches, inside: *inside };
            executor::with(kind, shape, what)?
        }
    }
}

/// Says that it is ready, and waits.
fn signal() {
    let mut out = io::stdout().lock();
    // A leader that does not listen does not start anything either, and ends what runs.
    let _ = writeln!(out, "{READY}").and_then(|()| out.flush());
    drop(out);
    let _ = io::stdin().lock().read_to_end(&mut Vec::new());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::kind::Kind;
    use crate::pool::spec::{Lock, Shape};
    use std::time::Duration;

    #[test]
    fn nothing_begins_before_the_signal() {
        let task = Task::Submit { jobs: 10, batches: 1, inside: true };
        let process = Process {
            kind: Kind::Ignorant,
            shape: Shape::default(),
            lock: Lock::None,
            task,
            groups: Vec::new(),
            program: Vec::new(),
            environment: Default::default(),
        };
        let mut started = 0;
        let outcome = perform(&process, || started += 1).unwrap();
        assert_eq!(started, 1);
        assert!(outcome.value("ns_per_job") > 0.0);
        let idle = Process { task: Task::Idle { time: Duration::from_millis(1) }, ..process };
        assert!(perform(&idle, || ()).unwrap().values.contains_key("idle_cpu_percent"));
    }

    #[test]
    fn what_is_not_a_task_is_refused() {
        assert!(run("{}").unwrap_err().to_string().starts_with("not what a process is told"));
    }
}
