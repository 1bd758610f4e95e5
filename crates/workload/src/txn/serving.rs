//! Servers while they are measured.
//!
//! 1. Each is a process in a session of its own, listens on a port of its own that was free, has its data in memory, and ends with its run.
//! 2. It is asked one question before anything is measured, and may be asked again behind it: so it is there, and it answers rightly.

use super::cases::REDIS;
use super::told::Way;
use crate::child;
use crate::error::{Error, reason};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A server that does not answer after so long never will.
const STARTED: Duration = Duration::from_secs(20);

/// Who serves, and how it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Server {
    Redis,
    /// With this model of threads
    Manx(&'static str),
}

impl Server {
    /// What starts it at this port; `manx` is this command.
    pub(super) fn command(self, manx: &Path, port: u16) -> Command {
        match self {
            Server::Redis => {
                let mut command = Command::new(REDIS);
                command.args(["--bind", "127.0.0.1", "--port", &port.to_string()]);
                command.args(["--save", "", "--appendonly", "no"]);
                command
            }
            Server::Manx(model) => {
                let mut command = Command::new(manx);
                command.args(["serve", "--listen", &format!("127.0.0.1:{port}"), "--model", model]);
                command.args(["--snapshots", Way::Help.name()]);
                command
            }
        }
    }
}

/// Why a program of Redis cannot be started, and what to install.
pub(super) fn missing(program: &str) -> Option<String> {
    let error = Command::new(program).arg("--version").stdout(Stdio::null()).status().err()?;
    let package = if program == REDIS { REDIS } else { "redis-tools" };
    Some(format!("{program}: {} (Debian: apt-get install {package})", reason(&error)))
}

/// A port that nobody listens at.
pub(super) fn free_port() -> Result<u16, Error> {
    let bound = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
    bound.map(|address| address.port()).map_err(|error| {
        Error::request(
            format!("127.0.0.1: {}", reason(&error)),
            "servers are measured at the loopback address",
        )
    })
}

/// Puts a value and gets it back.
pub(super) fn ask(port: u16) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("the server at port {port}: {}", reason(&error));
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).map_err(failed)?;
    stream.set_read_timeout(Some(STARTED)).map_err(failed)?;
    stream.write_all(b"SET asked 7\r\nGET asked\r\n").map_err(failed)?;
    const ANSWER: &[u8] = b"+OK\r\n$1\r\n7\r\n";
    let mut answer = [0; ANSWER.len()];
    stream.read_exact(&mut answer).map_err(failed)?;
    match answer == *ANSWER {
        true => Ok(()),
        false => Err(format!("the server at port {port} answers {}", answer.escape_ascii())),
    }
}

/// A process in a session of its own, until it is dropped.
#[derive(Debug)]
pub(super) struct Running(Child);

impl Running {
    /// A server, as soon as it answers.
    pub(super) fn start(command: &mut Command, port: u16) -> Result<Running, Error> {
        let name = command.get_program().to_string_lossy().into_owned();
        let mut running = Running::spawn(command, Stdio::piped())?;
        let deadline = Instant::now() + STARTED;
        loop {
            let why = match ask(port) {
                Ok(()) => return Ok(running),
                Err(why) => why,
            };
            let ended = running.0.try_wait().ok().flatten();
            if ended.is_some() || Instant::now() > deadline {
                let mut stderr = String::new();
                if let Some(mut from) = running.0.stderr.take().filter(|_| ended.is_some()) {
                    let _ = from.read_to_string(&mut stderr);
                }
                let what = ended.map_or(why, |status| status.to_string());
                return Err(Error::Failed { what: format!("{name}: {what}"), stderr });
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// One that computes and does nothing else.
    pub(super) fn busy() -> Result<Running, Error> {
        let mut command = Command::new("sh");
        command.args(["-c", "while :; do :; done"]);
        Running::spawn(&mut command, Stdio::null())
    }

    fn spawn(command: &mut Command, stderr: Stdio) -> Result<Running, Error> {
        child::own_session(command);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr);
        let name = command.get_program().to_string_lossy().into_owned();
        command.spawn().map(Running).map_err(|error| {
            Error::request(format!("{name}: {}", reason(&error)), "what is measured cannot be started")
        })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has ended already, or it ends now; nothing of it is needed any more.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_ends_is_told_with_its_words() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo no port >&2; exit 3"]);
        let Err(Error::Failed { what, stderr }) = Running::start(&mut command, free_port().unwrap()) else {
            panic!("nobody listens there");
        };
        assert_eq!((what.as_str(), stderr.as_str()), ("sh: exit status: 3", "no port\n"));
    }

    #[test]
    fn what_runs_ends_when_it_is_dropped() {
        let busy = Running::busy().unwrap();
        let id = busy.0.id();
        drop(busy);
        assert!(!std::path::Path::new(&format!("/proc/{id}")).exists(), "it was waited for");
    }

    #[test]
    fn a_server_is_asked_before_it_is_believed() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let answering = std::thread::spawn(move || {
            for answer in [&b"+OK\r\n$1\r\n7\r\n"[..], b"+OK\r\n$1\r\n8\r\n"] {
                let (mut stream, _) = listener.accept().unwrap();
                stream.write_all(answer).unwrap();
                let _ = stream.read(&mut [0; 64]);
            }
        });
        assert_eq!(ask(port), Ok(()));
        assert!(ask(port).unwrap_err().contains("answers"));
        answering.join().unwrap();
    }
}
