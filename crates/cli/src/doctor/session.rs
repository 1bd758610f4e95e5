//! One run of a program that is watched from its start: started, looked at, ended, counted.
//!
//! The program is in a process group of its own, so that its children can be ended with it, and the
//! kernel ends it by SIGTERM if the doctor dies. A thread waits for its end without collecting it
//! (`WNOWAIT`): so its number stays its own while it is looked at, and the time of its end is exact
//! although looks are rare. A program that is still there at the end of the watch gets SIGTERM, and
//! SIGKILL after a grace time.

use super::figure::{Found, Pattern, Reading};
use command::failure::{Failure, NOT_EXECUTABLE, reason};
use doctor::{Evidence, diagnose, watch};
use serde::Serialize;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// How long a program may take to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(5);

/// The figures of a run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Session {
    /// From start to end; `None` if it was ended because the watch was over
    pub wall_s: Option<f64>,
    /// CPU time: until its end with its children's, or of its threads while it was watched
    pub cpu_s: f64,
    /// How long its threads wished to run and had no CPU, in all
    pub queue_delay_s: f64,
    /// How often threads lost their CPU, yields included
    pub involuntary_switches: f64,
    /// How many threads each cause kept from their work on average; `None` if the run was too short
    /// to say
    pub lost_threads: Option<BTreeMap<&'static str, f64>>,
    /// How it ended by itself, if not with status 0
    pub failed: Option<String>,
    /// Whether the preload library was in it
    pub is_under_manx: bool,
    /// The figure of work in its output
    pub found: Found,
}

/// Runs a program, and watches it for at most this time. Its output is searched for the pattern, if
/// there is one, and discarded.
///
/// # Errors
/// If it cannot be started, or not be looked at.
pub fn run(
    command: &mut Command,
    time: Duration,
    pattern: Option<&Pattern>,
    progress: impl FnMut(Duration),
) -> Result<(Session, Evidence), Failure> {
    let output = || if pattern.is_some() { Stdio::piped() } else { Stdio::null() };
    command.stdin(Stdio::null()).stdout(output()).stderr(output()).process_group(0);
    // SAFETY: prctl(2) is a system call that touches no memory of this process.
    unsafe {
        command.pre_exec(|| {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
            Ok(())
        })
    };
    let began = Instant::now();
    let mut child = command.spawn().map_err(|error| {
        let name = OsStr::to_string_lossy(command.get_program()).into_owned();
        let what = format!("{name} cannot be started: {}", reason(&error));
        Failure::new(NOT_EXECUTABLE, what, "see whether it runs without manx doctor")
    })?;
    let reading = pattern.map(|pattern| {
        let output = child.stdout.take().map(|it| Box::new(it) as Box<dyn Read + Send>);
        let errors = child.stderr.take().map(|it| Box::new(it) as Box<dyn Read + Send>);
        Reading::start(pattern, output.into_iter().chain(errors).collect())
    });
    let pid = child.id() as libc::pid_t;
    let (ended, end) = mpsc::channel();
    let waiter = std::thread::spawn(move || {
        await_end(pid);
        // The receiver is gone only if this function has failed.
        let _ = ended.send(began.elapsed());
    });
    let watched = watch(&[pid], time, progress).pop().expect("one process");
    let wall = end.try_recv().ok();
    if wall.is_none() {
        signal(pid, libc::SIGTERM);
        if end.recv_timeout(GRACE).is_err() {
            signal(pid, libc::SIGKILL);
        }
    }
    // Its end was seen, or SIGKILL was sent: it ends.
    let _ = waiter.join();
    // Children that it left behind would disturb the next run.
    signal(pid, libc::SIGKILL);
    let (status, used) = collect(pid);
    let found = reading.map(Reading::end).unwrap_or_default();
    let evidence = watched.map_err(|refusal| super::refused::failure(&refusal))?;
    let sum = |of: fn(&doctor::evidence::thread::ThreadEvidence) -> u64| {
        evidence.threads.iter().map(of).sum::<u64>() as f64
    };
    let verdicts = diagnose(&evidence);
    let session = Session {
        wall_s: wall.map(|wall| wall.as_secs_f64()),
        cpu_s: if wall.is_some() { used.cpu_s } else { sum(|thread| thread.run_ns) / 1e9 },
        queue_delay_s: sum(|thread| thread.wait_ns) / 1e9,
        involuntary_switches: if wall.is_some() {
            used.involuntary
        } else {
            sum(|thread| thread.involuntary)
        },
        lost_threads: (!evidence.is_too_short())
            .then(|| verdicts.iter().map(|it| (it.cause.title(), it.severity)).collect()),
        failed: wall.and_then(|_| failed(status)),
        is_under_manx: evidence.is_under_manx(),
        found,
    };
    Ok((session, evidence))
}

fn failed(status: std::process::ExitStatus) -> Option<String> {
    match (status.code(), status.signal()) {
        (Some(0), _) => None,
        (Some(code), _) => Some(format!("exit status {code}")),
        (None, signal) => Some(format!("signal {}", signal.unwrap_or(0))),
    }
}

/// Waits until the process has ended, and leaves it to be collected.
fn await_end(pid: libc::pid_t) {
    loop {
        // SAFETY: all zeroes are a value of this type.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        let options = libc::WEXITED | libc::WNOWAIT;
        // SAFETY: the kernel writes to `info` only.
        let result = unsafe { libc::waitid(libc::P_PID, pid.cast_unsigned(), &raw mut info, options) };
        if result == 0 || std::io::Error::last_os_error().raw_os_error() != Some(libc::EINTR) {
            return;
        }
    }
}

/// Sends a signal to the process and its group. One that has ended gets none.
fn signal(pid: libc::pid_t, signal: libc::c_int) {
    // SAFETY: it touches no memory. The number is that of a child that was not yet collected.
    let _ = unsafe { libc::kill(-pid, signal) };
}

/// What a process and its children used.
struct Used {
    cpu_s: f64,
    involuntary: f64,
}

fn collect(pid: libc::pid_t) -> (std::process::ExitStatus, Used) {
    let mut status = 0;
    // SAFETY: all zeroes are a value of this type.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes to the two values only. The process has ended, so nothing blocks.
    unsafe { libc::wait4(pid, &raw mut status, 0, &raw mut usage) };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    let cpu_s = seconds(usage.ru_utime) + seconds(usage.ru_stime);
    (std::process::ExitStatus::from_raw(status), Used { cpu_s, involuntary: usage.ru_nivcsw as f64 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(script: &str, time: Duration) -> Session {
        run(Command::new("sh").args(["-c", script]), time, None, |_| ()).expect("it runs").0
    }

    #[test]
    fn both_streams_are_searched_and_also_what_was_written_before_the_end() {
        let pattern = Pattern::parse(r"step (\d+) ms").expect("a pattern");
        let script = "echo step 2 ms; echo step 4 ms >&2; exec sleep 1000";
        let mut command = Command::new("sh");
        let run = run(command.args(["-c", script]), Duration::from_millis(300), Some(&pattern), |_| ());
        let (session, _) = run.expect("it runs");
        assert_eq!((session.wall_s, session.found.median, session.found.numbers), (None, Some(3.0), 2));
    }

    #[test]
    fn a_program_that_ends_has_its_wall_time_and_status() {
        let session = session("sleep 0.1; exit 3", Duration::from_secs(60));
        assert!(session.wall_s.is_some_and(|wall_s| wall_s >= 0.1), "{session:?}");
        assert_eq!(session.failed.as_deref(), Some("exit status 3"));
        assert!(!session.is_under_manx);
    }

    #[test]
    fn a_server_is_ended_with_its_children() {
        let session = session("sleep 1000 & sleep 1000", Duration::from_millis(200));
        assert_eq!((session.wall_s, session.failed), (None, None));
    }
}
