//! A server while it runs, and the niceness of its threads.

use super::place::{Binary, Place};
use crate::engine::{self, Start};
use crate::error::{Error, reason};
use crate::running::Running;
use crate::victims::copies::pin;
use procfs::process::Process;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;

/// The beginning of the names of the threads that serve a connection, as in mongod.
const CONNECTION: &str = "conn";
/// The highest priority of the paper.
const NICE: i32 = -20;

/// A running server. Rust drops fields in their order, so it stops before its folder is removed.
pub(super) struct Server {
    running: Running,
    port: u16,
    _home: tempfile::TempDir,
}

impl Server {
    /// Starts a server on these CPUs, with an empty database.
    ///
    /// # Errors
    /// The server does not start.
    pub(super) fn start(place: &Place, binary: Binary, cpus: &[usize]) -> Result<Server, Error> {
        let unusable = |error: std::io::Error| {
            Error::request(
                format!("{}: {}", std::env::temp_dir().display(), reason(&error)),
                "databases are kept there while they are measured; TMPDIR names another folder",
            )
        };
        let home = tempfile::Builder::new().prefix("manx-mongod-").tempdir().map_err(unusable)?;
        let port = free_port()?;
        let mut command = command(place, binary, home.path(), port)?;
        pin(&mut command, cpus);
        let ask =
            || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).map(drop).map_err(|error| reason(&error));
        let running = Running::start(command, ask)?;
        Ok(Server { running, port, _home: home })
    }

    /// The address, as drivers take it.
    pub(super) fn url(&self) -> String {
        format!("mongodb://127.0.0.1:{}", self.port)
    }

    /// Gives the `count` threads of connections that have used the most CPU time the highest
    /// priority, and returns them.
    ///
    /// # Errors
    /// There are fewer, or the system refuses.
    pub(super) fn boost(&self, count: usize) -> Result<Vec<i32>, Error> {
        let mut threads = self.connections().map_err(|error| Error::failed(error.to_string()))?;
        threads.sort_by_key(|&(_, ticks)| std::cmp::Reverse(ticks));
        if threads.len() < count {
            return Err(Error::failed(format!("{} connections, and {count} to boost", threads.len())));
        }
        let threads: Vec<i32> = threads[..count].iter().map(|&(thread, _)| thread).collect();
        threads.iter().try_for_each(|&thread| renice(thread, NICE))?;
        Ok(threads)
    }

    /// Takes the priority away again.
    ///
    /// # Errors
    /// The system refuses.
    pub(super) fn restore(&self, threads: &[i32]) -> Result<(), Error> {
        threads.iter().try_for_each(|&thread| renice(thread, 0))
    }

    /// The threads of connections, and the ticks that each has used.
    fn connections(&self) -> procfs::ProcResult<Vec<(i32, u64)>> {
        let mut found = Vec::new();
        for task in Process::new(self.running.leader())?.tasks()?.flatten() {
            // A thread that has ended meanwhile is none.
            let Ok(stat) = task.stat() else { continue };
            if stat.comm.starts_with(CONNECTION) {
                found.push((task.tid, stat.utime + stat.stime));
            }
        }
        Ok(found)
    }

    /// # Errors
    /// It has ended before, or ends with another status than 0.
    pub(super) fn stop(self) -> Result<(), Error> {
        self.running.stop().map(drop)
    }
}

/// The server's command line.
fn command(place: &Place, binary: Binary, home: &Path, port: u16) -> Result<std::process::Command, Error> {
    let start = if binary == Binary::Guarded { Start::Guarded(place.manx()) } else { Start::AsIs };
    let mut command = engine::command(&place.server(), start);
    command.arg(format!("--port={port}")).arg("--dbpath").arg(home).args(place.engine(binary)?);
    Ok(command)
}

/// A port that no process has at this moment.
fn free_port() -> Result<u16, Error> {
    let bound = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
    let refused =
        |error: std::io::Error| Error::request(format!("127.0.0.1: {}", reason(&error)), "there is no port");
    bound.map(|address| address.port()).map_err(refused)
}

fn renice(thread: i32, nice: i32) -> Result<(), Error> {
    // SAFETY: the call has no memory effects; on Linux the number names a thread.
    match unsafe { libc::setpriority(libc::PRIO_PROCESS, thread as libc::id_t, nice) } {
        0 => Ok(()),
        _ => Err(Error::failed(format!("thread {thread}: {}", reason(&std::io::Error::last_os_error())))),
    }
}
