//! Servers while they are measured.
//!
//! 1. Each is a process in a session of its own (`running.rs`), listens on a port of its own that
//!    was free, has its data in memory, and ends with its run.
//! 2. It is asked one question before anything is measured, and may be asked again behind it: so it
//!    is there, and it answers rightly.

use super::arguments::Way;
use super::cases::{MANX, MANX_THREADS, REDIS};
use crate::child::shell;
use crate::error::{Error, reason};
use crate::running::Running;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// A server that has accepted a connection answers within this time.
const ANSWERED: Duration = Duration::from_secs(20);

/// The program that serves, and its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Server {
    Redis,
    /// With this model of threads
    Manx(&'static str),
}

/// `manx serve` by both of its models beside redis-server, and what tables call them.
pub(super) const COMPARED: [(&str, Server); 3] =
    [(REDIS, Server::Redis), (MANX, Server::Manx("pool")), (MANX_THREADS, Server::Manx("threads"))];

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

/// A port at which no process listens.
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
    stream.set_read_timeout(Some(ANSWERED)).map_err(failed)?;
    stream.write_all(b"SET asked 7\r\nGET asked\r\n").map_err(failed)?;
    const ANSWER: &[u8] = b"+OK\r\n$1\r\n7\r\n";
    let mut answer = [0; ANSWER.len()];
    stream.read_exact(&mut answer).map_err(failed)?;
    match answer == *ANSWER {
        true => Ok(()),
        false => Err(format!("the server at port {port} answers {}", answer.escape_ascii())),
    }
}

/// A server, as soon as it answers at this port.
pub(super) fn start(command: Command, port: u16) -> Result<Running, Error> {
    Running::start(command, || ask(port))
}

/// A process that computes and does nothing else.
pub(super) fn busy() -> Result<Running, Error> {
    Running::spawn(shell("while :; do :; done"))
}

/// Whether a program may be started in the real-time class.
pub(super) fn may_hurry() -> bool {
    let tried = Command::new("chrt").args(["-f", "1", "true"]).stderr(Stdio::null()).status();
    tried.is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

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
