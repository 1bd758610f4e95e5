//! A measured process: it makes its pool, waits for the start signal, does its task and prints the
//! outcome.
//!
//! It prints `ready` on standard output before it waits. The signal is the end of its standard
//! input, a pipe that all processes of a crowd share: one call of the leader starts them all. If
//! the leader dies, the pipe is closed too, and the processes die with the leader.

use super::executor;
use super::rest::{Bursts, Idle, Submissions};
use super::serve::Serve;
use super::spec::{Outcome, Process, Task};
use crate::error::Error;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, Read, Write};

/// The line that a process prints when it is ready.
pub const READY: &str = "ready";

/// Does the task of the JSON, and prints the outcome as JSON.
///
/// # Errors
/// If the pool fails, or the JSON is not that of a process.
pub fn run(json: &str) -> Result<(), Error> {
    let process: Process = parse(json, "what a process is told")?;
    let failed = Error::failed;
    let outcome = perform(&process, signal).map_err(failed)?;
    print_json(&outcome).map_err(failed)
}

/// Parses the JSON of one of the hidden options.
pub(super) fn parse<T: DeserializeOwned>(json: &str, what: &str) -> Result<T, Error> {
    serde_json::from_str(json).map_err(|error| {
        Error::request(format!("not {what}: {error}"), "`manx bench pool` starts such processes itself")
    })
}

/// Prints a line of JSON.
pub(super) fn print_json(what: &impl Serialize) -> Result<(), String> {
    let text = serde_json::to_string(what).map_err(|error| error.to_string())?;
    writeln!(io::stdout().lock(), "{text}").map_err(|error| format!("standard output: {error}"))
}

/// Does the process's task, after `start` has returned.
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

/// Prints that the process is ready, and waits for the signal.
fn signal() {
    let mut out = io::stdout().lock();
    // If nothing reads the line, the leader has died, and this process dies with it.
    let _ = writeln!(out, "{READY}").and_then(|()| out.flush());
    drop(out);
    let _ = io::stdin().lock().read_to_end(&mut Vec::new());
}

#[cfg(test)]
mod tests {
    use super::super::plan::process;
    use super::super::spec::Kind;
    use super::*;
    use std::time::Duration;

    #[test]
    fn nothing_begins_before_the_signal() {
        let task = Task::Submit { jobs: 10, batches: 1, inside: true };
        let process = process(Kind::Ignorant, 1, task);
        let mut started = 0;
        let outcome = perform(&process, || started += 1).unwrap();
        assert_eq!(started, 1);
        assert!(outcome.value("ns_per_job") > 0.0);
        let idle = Process { task: Task::Idle { time: Duration::from_millis(1) }, ..process };
        assert!(perform(&idle, || ()).unwrap().values.contains_key("idle_cpu_percent"));
    }

    #[test]
    fn text_that_is_no_task_is_refused() {
        assert!(run("{}").unwrap_err().to_string().starts_with("not what a process is told"));
    }
}
