//! Running a measured program: alone in a session and an autogroup, within a time limit, all output
//! kept.
//!
//! The kernel groups tasks by session for scheduling (autogroup), and niceness weighs only within a
//! group. A program that is measured therefore gets a session, and with it a group, of its own: its
//! boosted threads compete with its other threads and with those of no other program.

use crate::error::{Error, reason};
use crate::interrupt;
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How often the program is asked whether it has ended.
const POLL: Duration = Duration::from_millis(20);
/// Of standard error, as much as this is kept.
const STDERR_BYTES: usize = 64 * 1024;

/// What a program that succeeded left behind.
#[derive(Debug)]
pub struct Finished {
    /// Its standard output
    pub stdout: String,
    /// The end of its standard error
    pub stderr: String,
    /// The time from its start to its end
    pub wall: Duration,
}

/// Whether measured programs get an autogroup of their own, and if not, why not.
pub fn autogroup() -> Result<(), String> {
    match std::fs::read_to_string("/proc/sys/kernel/sched_autogroup_enabled") {
        Ok(text) if text.trim() == "1" => Ok(()),
        Ok(_) => Err("autogroups are switched off (kernel.sched_autogroup_enabled = 0)".into()),
        Err(_) => Err("this kernel has no autogroups".into()),
    }
}

/// Runs `command` to its end.
///
/// # Errors
/// If it cannot be started, fails, takes longer than `limit`, or the user interrupts.
pub fn run(command: Command, limit: Duration) -> Result<Finished, Error> {
    run_beside(command, limit, |_| ())
}

/// The same. `begun` gets the number of its process as soon as there is one.
///
/// # Errors
/// As [`run`].
pub fn run_beside(mut command: Command, limit: Duration, begun: impl FnOnce(i32)) -> Result<Finished, Error> {
    let name = command.get_program().to_string_lossy().into_owned();
    own_session(&mut command);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let started = Instant::now();
    let mut child = command.spawn().map_err(|error| {
        Error::request(
            format!("{name}: {}", reason(&error)),
            "the program that is to be measured cannot be started",
        )
    })?;
    let leader = child.id() as i32;
    let registered = interrupt::Registered::new(leader);
    let stdout = child.stdout.take().map(collect);
    let stderr = child.stderr.take().map(collect);
    // A look now and then would not tell when it ends.
    let end = std::thread::spawn(move || {
        wait_for_end(leader);
        started.elapsed()
    });
    begun(leader);

    let deadline = Instant::now() + limit;
    let mut late = false;
    while !end.is_finished() {
        if !late && Instant::now() > deadline {
            late = true;
            kill_group(leader);
        }
        std::thread::sleep(POLL);
    }
    let wall = end.join().unwrap_or_else(|_| started.elapsed());
    // Whatever it left running would hold its output open and disturb the next run.
    kill_group(leader);
    drop(registered);
    let status = child.wait().map_err(|error| Error::request(format!("{name}: {}", reason(&error)), ""))?;
    let text = |reader: Option<std::thread::JoinHandle<Vec<u8>>>| {
        let bytes = reader.and_then(|reader| reader.join().ok()).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let (stdout, mut stderr) = (text(stdout), text(stderr));
    if !status.success() && stderr.trim().is_empty() {
        // Some programs write the reason of a failure to standard output.
        stderr.clone_from(&stdout);
    }
    if stderr.len() > STDERR_BYTES {
        let from = stderr.ceil_char_boundary(stderr.len() - STDERR_BYTES);
        stderr = stderr.split_off(from);
    }
    if interrupt::requested() {
        return Err(Error::Interrupted);
    }
    if late {
        let what = format!("{name}: did not end within {} s", limit.as_secs());
        return Err(Error::Failed { what, stderr });
    }
    if !status.success() {
        return Err(Error::Failed { what: format!("{name}: {}", ending(status)), stderr });
    }
    Ok(Finished { stdout, stderr, wall })
}

/// A new session and process group, dying with this process, in an autogroup of usual weight.
pub(crate) fn own_session(command: &mut Command) {
    let hook = || {
        // SAFETY: between fork and exec only these async-signal-safe calls, on constants and
        // locals.
        unsafe {
            if libc::setsid() < 0 {
                return Err(std::io::Error::last_os_error());
            }
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            let file = libc::open(c"/proc/self/autogroup".as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
            if file >= 0 {
                libc::write(file, b"0".as_ptr().cast(), 1);
                libc::close(file);
            }
        }
        Ok(())
    };
    // SAFETY: the hook allocates nothing and takes no lock.
    unsafe { command.pre_exec(hook) };
}

/// Ends all processes of the group whose leader is our child and has not been reaped.
pub(crate) fn kill_group(leader: i32) {
    // SAFETY: kill has no memory effects; the leader has not been reaped, so the number is still
    // its group's.
    unsafe { libc::kill(-leader, libc::SIGKILL) };
}

/// True once the process can be reaped; it is not reaped yet, so its number is still its own.
pub(crate) fn has_ended(pid: i32) -> bool {
    ended(pid, libc::WNOHANG)
}

/// Returns once the process can be reaped.
fn wait_for_end(pid: i32) {
    while !ended(pid, 0) {}
}

/// Asks the kernel, with a further option, whether the process can be reaped.
fn ended(pid: i32, option: i32) -> bool {
    // SAFETY: `info` is a plain output structure for which all zeroes are valid.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let options = libc::WEXITED | libc::WNOWAIT | option;
        match libc::waitid(libc::P_PID, pid as libc::id_t, &mut info, options) {
            0 => info.si_pid() == pid,
            _ => std::io::Error::last_os_error().raw_os_error() != Some(libc::EINTR),
        }
    }
}

pub(crate) fn collect(mut from: impl Read + Send + 'static) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // A read error ends the output; the exit status tells the rest.
        let _ = from.read_to_end(&mut bytes);
        bytes
    })
}

pub(crate) fn ending(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with status {code}"),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => "ended".into(),
    }
}

/// A command that runs this script.
#[cfg(test)]
pub(crate) fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

/// Whether this process may lower niceness below 0 (root, or CAP_SYS_NICE).
pub fn may_boost() -> bool {
    // In a thread of its own, which takes the changed niceness with it: on Linux 0 names the
    // thread.
    let tried = std::thread::spawn(|| {
        // SAFETY: the call has no memory effects.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -20) == 0 }
    });
    tried.join().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(30);

    #[test]
    fn output_is_kept() {
        let finished = run(shell("echo out; echo err >&2"), LIMIT).unwrap();
        assert_eq!((finished.stdout.as_str(), finished.stderr.as_str()), ("out\n", "err\n"));
    }

    #[test]
    fn a_failure_comes_with_its_words() {
        let error = run(shell("echo broken >&2; exit 3"), LIMIT).unwrap_err();
        let Error::Failed { what, stderr } = error else { panic!("{error:?}") };
        assert_eq!((what.as_str(), stderr.as_str()), ("sh: ended with status 3", "broken\n"));
        let error = run(shell("echo fatal; exit 1"), LIMIT).unwrap_err();
        assert!(matches!(&error, Error::Failed { stderr, .. } if stderr == "fatal\n"), "{error:?}");
        let error = run(shell("kill -9 $$"), LIMIT).unwrap_err();
        assert!(error.to_string().contains("signal 9"), "{error}");
    }

    #[test]
    fn a_program_that_takes_too_long_is_ended_with_its_children() {
        let error = run(shell("sleep 1000 & sleep 1000"), Duration::from_millis(100)).unwrap_err();
        assert!(error.to_string().contains("did not end within"), "{error}");
    }

    #[test]
    fn processes_that_a_program_leaves_running_end_with_it() {
        let finished = run(shell("sleep 1000 & echo $!"), LIMIT).unwrap();
        let left: i32 = finished.stdout.trim().parse().unwrap();
        // It is gone, or on its way, or a zombie until the process that adopted it looks. If it
        // lived on, this would not end.
        let state = || std::fs::read_to_string(format!("/proc/{left}/stat")).unwrap_or_else(|_| ") Z".into());
        while !state().rsplit(") ").next().is_some_and(|rest| rest.starts_with(['Z', 'X'])) {
            std::thread::yield_now();
        }
    }

    #[test]
    fn it_has_a_session_of_its_own() {
        let finished = run(shell("cut -d' ' -f1,6 /proc/self/stat; echo $$"), LIMIT).unwrap();
        let numbers: Vec<&str> = finished.stdout.split_whitespace().collect();
        assert_eq!(numbers[1], numbers[2], "session is not the shell's: {numbers:?}");
    }

    #[test]
    fn a_program_that_cannot_be_started_is_named() {
        let error = run(Command::new("/no/such/program"), LIMIT).unwrap_err();
        assert!(error.to_string().contains("/no/such/program"), "{error}");
    }
}
