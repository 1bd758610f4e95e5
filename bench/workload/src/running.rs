//! A running server: this file starts it, asks it until it answers, watches it, and stops it.
//!
//! Invariants:
//! 1. The server has a session and an autogroup of its own, as services have. It ends if this
//!    process is killed.
//! 2. The server counts as started once it has answered a question. No amount of time is taken for
//!    an answer.
//! 3. The drop of [`Running`] always stops the server: first by SIGTERM, so that the server ends
//!    its own processes and removes its files, and by SIGKILL if it is still there after 20 s.
//! 4. The server's standard error goes to a file without a name. A thread that reads a pipe would
//!    disturb the measurement.

use crate::child::{ending, has_ended, kill_group, own_session};
use crate::error::{Error, reason};
use crate::interrupt;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A server that has not answered after this time has failed.
const STARTED: Duration = Duration::from_secs(30);
/// How long a server may take to stop.
const STOPPED: Duration = Duration::from_secs(20);
/// The time between two looks at a server that starts or stops.
const POLL: Duration = Duration::from_millis(10);

/// A process in a session of its own, until it is dropped.
#[derive(Debug)]
pub(crate) struct Running {
    name: String,
    child: Child,
    stderr: File,
}

impl Running {
    /// Starts a server, and returns once it answers. The error of `ask` says why there is no answer
    /// yet.
    ///
    /// # Errors
    /// The server cannot be started, ends, or does not answer; or the user interrupts.
    pub(crate) fn start(
        command: Command,
        mut ask: impl FnMut() -> Result<(), String>,
    ) -> Result<Running, Error> {
        let mut running = Running::spawn(command)?;
        let deadline = Instant::now() + STARTED;
        loop {
            if interrupt::requested() {
                return Err(Error::Interrupted);
            }
            running.check()?;
            let Err(why) = ask() else { return Ok(running) };
            if Instant::now() > deadline {
                return Err(running.failed(&why));
            }
            std::thread::sleep(POLL);
        }
    }

    /// Starts a process, and does not wait for an answer.
    ///
    /// # Errors
    /// The process cannot be started.
    pub(crate) fn spawn(mut command: Command) -> Result<Running, Error> {
        let name = command.get_program().to_string_lossy().into_owned();
        let failed = |error: std::io::Error| {
            Error::request(format!("{name}: {}", reason(&error)), "what is measured cannot be started")
        };
        let stderr = tempfile::tempfile().map_err(failed)?;
        own_session(&mut command);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr.try_clone().map_err(failed)?);
        let child = command.spawn().map_err(failed)?;
        Ok(Running { name, child, stderr })
    }

    /// The number of the process.
    pub(crate) fn leader(&self) -> i32 {
        self.child.id() as i32
    }

    /// What it has written on standard error.
    pub(crate) fn said(&self) -> String {
        let length = self.stderr.metadata().map_or(0, |file| file.len());
        let mut bytes = vec![0; length as usize];
        // Only what is there is read: the file's place is the server's, and stays where it is.
        let read = self.stderr.read_at(&mut bytes, 0).unwrap_or(0);
        String::from_utf8_lossy(&bytes[..read]).into_owned()
    }

    /// # Errors
    /// The server has ended.
    pub(crate) fn check(&mut self) -> Result<(), Error> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(self.failed(&ending(status))),
            Err(error) => Err(self.failed(&reason(&error))),
        }
    }

    /// Stops it. Returns what it has written on standard error.
    ///
    /// # Errors
    /// If it has ended already, ends with another status than 0, or does not end.
    pub(crate) fn stop(mut self) -> Result<String, Error> {
        self.check()?;
        self.end();
        match self.child.wait() {
            Ok(status) if status.success() => Ok(self.said()),
            Ok(status) => Err(self.failed(&format!("was stopped, and {}", ending(status)))),
            Err(error) => Err(self.failed(&reason(&error))),
        }
    }

    /// What became of it, with its words.
    pub(crate) fn failed(&self, why: &str) -> Error {
        Error::Failed { what: format!("{}: {why}", self.name), stderr: self.said() }
    }

    /// Invariant 3. It can be reaped afterwards.
    fn end(&mut self) {
        let leader = self.leader();
        if !matches!(self.child.try_wait(), Ok(None)) {
            return;
        }
        // SAFETY: kill has no memory effects; the process has not been reaped, so the number is
        // still its own.
        unsafe { libc::kill(leader, libc::SIGTERM) };
        let deadline = Instant::now() + STOPPED;
        while !has_ended(leader) && Instant::now() < deadline {
            std::thread::sleep(POLL);
        }
        kill_group(leader);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::child::shell;

    fn told(error: Error) -> (String, String) {
        let Error::Failed { what, stderr } = error else { panic!("{error:?}") };
        (what, stderr)
    }

    #[test]
    fn a_server_that_ends_before_it_answers_is_told_with_its_words() {
        let started = Running::start(shell("echo no port >&2; exit 3"), || Err("no answer".into()));
        assert_eq!(told(started.unwrap_err()), ("sh: ended with status 3".into(), "no port\n".into()));
    }

    #[test]
    fn a_running_server_ends_when_it_is_dropped() {
        let running = Running::spawn(shell("while :; do :; done")).unwrap();
        let id = running.child.id();
        drop(running);
        assert!(!std::path::Path::new(&format!("/proc/{id}")).exists(), "it was waited for");
    }

    #[test]
    fn a_server_stops_by_itself_and_its_status_counts() {
        let trap =
            |then: &str| shell(&format!("trap '{then}' TERM; echo up >&2; while :; do sleep 0.01; done"));
        for (then, stopped) in
            [("echo bye >&2; exit 0", Ok("up\nbye\n")), ("echo lost >&2; exit 4", Err("up\nlost\n"))]
        {
            let mut running = Running::spawn(trap(then)).unwrap();
            while running.said().is_empty() {
                std::thread::yield_now();
            }
            running.check().unwrap();
            let found = running.stop().map_err(|error| told(error).1);
            assert_eq!(found, stopped.map(String::from).map_err(String::from));
        }
    }

    #[test]
    fn one_that_has_died_is_found() {
        let mut running = Running::spawn(shell("kill -9 $$")).unwrap();
        while !has_ended(running.child.id() as i32) {
            std::thread::yield_now();
        }
        assert_eq!(told(running.check().unwrap_err()).0, "sh: was ended by signal 9");
        assert!(running.stop().is_err());
    }
}
