//! A crowd: processes that begin at the same moment, and a leader that starts them, waits for them
//! and prints their outcomes.
//!
//! The leader has a session of its own ([`crate::child`]), and its crowd is in that session: one
//! autogroup for all, as if a user had started them from one shell. On request each process has a
//! session, and with it an autogroup, of its own. Within a group the kernel divides the CPUs among
//! threads. Among groups it divides them equally, so a process with more threads than its neighbour
//! gets no more CPU time than the neighbour.
//!
//! Invariants:
//! 1. A process is in its control groups before it executes anything of its own.
//! 2. No process begins before all are ready. Each prints a line when it is ready; then the leader
//!    closes the pipe that is the standard input of all.
//! 3. A process does not outlive its leader.

use super::process::{READY, parse, print_json};
use super::spec::{Crowd, Outcome, Process, Task};
use crate::child;
use crate::error::Error;
use std::ffi::CString;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

/// The hidden options of `manx bench pool`.
pub const CROWD: &str = "crowd";
/// … and of each process of a crowd.
pub const PROCESS: &str = "process";
/// The time that the start, the last jobs and the end may take beyond the measured time.
const MARGIN: Duration = Duration::from_secs(90);

/// Runs a crowd in a session of its own. `own` is the path of this command.
///
/// # Errors
/// If a process fails, or the user interrupts.
pub fn run(own: &Path, crowd: &Crowd) -> Result<Vec<Outcome>, Error> {
    let json = serde_json::to_string(crowd).expect("strings are its only keys");
    let mut command = Command::new(own);
    command.arg("pool").arg(format!("--{CROWD}={json}"));
    let longest = crowd.processes.iter().map(|process| process.task.time()).max().unwrap_or_default();
    let finished = child::run(command, longest * 2 + MARGIN)?;
    serde_json::from_str(&finished.stdout).map_err(|error| Error::Failed {
        what: format!("the processes said something else than figures: {error}"),
        stderr: finished.stdout,
    })
}

impl Task {
    /// The least time that it takes.
    fn time(&self) -> Duration {
        match self {
            Task::Serve(load) => load.time + load.drain,
            Task::Burst { times, rest } => *rest * *times,
            Task::Idle { time } => *time,
            Task::Submit { .. } => Duration::ZERO,
        }
    }
}

/// The leader: starts the crowd of the JSON, and prints all outcomes as JSON.
///
/// # Errors
/// If a process fails (the error names it), or the JSON is not that of a crowd.
pub fn lead(json: &str) -> Result<(), Error> {
    let crowd: Crowd = parse(json, "a crowd")?;
    let failed = Error::failed;
    let own = std::env::current_exe().map_err(|error| failed(format!("/proc/self/exe: {error}")))?;
    let outcomes = gather(&crowd, |process| command(&own, process)).map_err(failed)?;
    print_json(&outcomes).map_err(failed)
}

/// The command of a process: this command with JSON, or another program with options.
fn command(own: &Path, process: &Process) -> Command {
    let Some((program, before)) = process.program.split_first() else {
        let json = serde_json::to_string(process).expect("strings are its only keys");
        let mut command = Command::new(own);
        command.arg("pool").arg(format!("--{PROCESS}={json}"));
        return command;
    };
    let mut command = Command::new(program);
    command.args(before);
    if let Task::Serve(load) = &process.task {
        let seconds = |time: Duration| format!("{}", time.as_secs_f64());
        command.args(["-rate", &load.rate_per_s.to_string(), "-phase", &load.phase.to_string()]);
        command.args(["-seconds", &seconds(load.time), "-drain", &seconds(load.drain)]);
    }
    command
}

/// A process that has been started.
struct Started {
    child: Child,
    out: BufReader<ChildStdout>,
    name: String,
}

fn gather(crowd: &Crowd, command: impl Fn(&Process) -> Command) -> Result<Vec<Outcome>, String> {
    let (reader, writer) = std::io::pipe().map_err(|error| format!("pipe: {error}"))?;
    let mut all = Vec::new();
    for (index, process) in crowd.processes.iter().enumerate() {
        let name = format!("process {} of {}, {}", index + 1, crowd.processes.len(), process.kind.name());
        let failed = |error: std::io::Error| format!("{name}: cannot be started: {error}");
        let mut command = command(process);
        command.stdin(reader.try_clone().map_err(failed)?).stdout(Stdio::piped());
        command.envs(&process.environment);
        place(&mut command, &process.groups, crowd.sessions)?;
        let mut child = command.spawn().map_err(failed)?;
        let out = BufReader::new(child.stdout.take().expect("it was asked for"));
        all.push(Started { child, out, name });
    }
    drop(reader);
    for process in &mut all {
        let mut line = String::new();
        let read = process.out.read_line(&mut line);
        if read.is_err() || !line.starts_with(READY) {
            return Err(format!("{}: ended before it was ready", process.name));
        }
    }
    // Invariant 2: the signal.
    drop(writer);
    all.into_iter().map(Started::end).collect()
}

impl Started {
    fn end(mut self) -> Result<Outcome, String> {
        let mut text = String::new();
        let read = self.out.read_to_string(&mut text);
        let status = self.child.wait().map_err(|error| format!("{}: {error}", self.name))?;
        if read.is_err() || !status.success() {
            return Err(format!("{}: {status}", self.name));
        }
        serde_json::from_str(&text).map_err(|error| format!("{}: no figures: {error}", self.name))
    }
}

/// Puts a new process into its control groups and, if `session`, into a session of its own. It dies
/// with this process.
fn place(command: &mut Command, groups: &[PathBuf], session: bool) -> Result<(), String> {
    let files = groups.iter().map(|group| CString::new(group.join("cgroup.procs").as_os_str().as_bytes()));
    let files: Vec<CString> =
        files.collect::<Result<_, _>>().map_err(|_| "a control group with a zero in its name".to_owned())?;
    let hook = move || {
        // SAFETY: between fork and exec only these async-signal-safe calls, on strings and
        // constants that were there before.
        unsafe {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            if session && libc::setsid() < 0 {
                return Err(std::io::Error::last_os_error());
            }
            for file in &files {
                let group = libc::open(file.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
                // "0" is the process that writes it.
                if group < 0 || libc::write(group, b"0".as_ptr().cast(), 1) != 1 {
                    return Err(std::io::Error::last_os_error());
                }
                libc::close(group);
            }
        }
        Ok(())
    };
    // SAFETY: the hook allocates nothing and takes no lock.
    unsafe { command.pre_exec(hook) };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::plan;
    use super::super::spec::Kind;
    use super::*;

    fn process(script: &str) -> Process {
        Process {
            program: vec!["sh".into(), "-c".into(), script.into()],
            environment: [("SAID".to_owned(), "5".to_owned())].into(),
            ..plan::process(Kind::Ignorant, 1, Task::Idle { time: Duration::ZERO })
        }
    }

    fn run_all(scripts: &[&str], sessions: bool) -> Result<Vec<Outcome>, String> {
        let crowd = Crowd { processes: scripts.iter().map(|script| process(script)).collect(), sessions };
        gather(&crowd, |process| command(Path::new("unused"), process))
    }

    /// It cannot end before the signal, and prints a figure then.
    const WAITS: &str = r#"echo ready; cat; echo "{\"values\":{\"x\":$SAID}}""#;

    #[test]
    fn all_begin_when_all_are_ready_and_all_outcomes_are_read() {
        let outcomes = run_all(&[WAITS, WAITS, WAITS], false).unwrap();
        assert_eq!(outcomes.len(), 3);
        assert_eq!(Outcome::sum(&outcomes).value("x"), 15.0);
    }

    #[test]
    fn a_process_that_ends_early_or_fails_or_prints_no_figures_is_named() {
        let error = |script| run_all(&[WAITS, script], false).unwrap_err();
        assert_eq!(error("exit 0"), "process 2 of 2, ignorant: ended before it was ready");
        assert!(error("echo ready; cat; exit 3").ends_with("exit status: 3"));
        assert!(error("echo ready; cat; echo hello").contains("no figures"));
    }

    #[test]
    fn a_session_is_shared_or_not() {
        let script = r#"echo ready; cat; set -- $(cat /proc/self/stat); echo "{\"values\":{\"x\":$6}}""#;
        let sessions = |each| {
            let outcomes = run_all(&[script, script], each).unwrap();
            outcomes.iter().map(|outcome| outcome.value("x")).collect::<Vec<_>>()
        };
        let (shared, own) = (sessions(false), sessions(true));
        assert_eq!(shared[0], shared[1]);
        assert!(own[0] != own[1] && !own.contains(&shared[0]), "{own:?} {shared:?}");
    }

    #[test]
    fn a_group_that_is_not_there_is_an_error() {
        let lost = Process { groups: vec!["/no/such/group".into()], ..process(WAITS) };
        let crowd = Crowd { processes: vec![lost], sessions: false };
        let error = gather(&crowd, |process| command(Path::new("unused"), process)).unwrap_err();
        assert!(error.contains("cannot be started"), "{error}");
    }
}
