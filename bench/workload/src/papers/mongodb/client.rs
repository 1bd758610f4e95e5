//! YCSB's clients: the program of `bench/ycsb`, and what it says.

use super::place::Place;
use crate::child::{collect, ending, kill_group, own_session};
use crate::error::{Error, reason};
use crate::interrupt;
use crate::victims::copies::pin;
use serde::{Deserialize, Serialize};
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// The line by which the client says that it measures from now on.
const WARM: &str = r#"{"warm": true}"#;
/// The time for which a client may say nothing but what it was told to take.
const SLACK: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(20);
/// The threads that fill the database.
const LOADERS: usize = 4;

/// The result of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Said {
    pub(super) operations: u64,
    pub(super) errors: u64,
    pub(super) throughput_per_s: f64,
    pub(super) mean_ns: f64,
    pub(super) p50_ns: u64,
    pub(super) p99_ns: u64,
    pub(super) p999_ns: u64,
    pub(super) max_ns: u64,
    pub(super) slowest_of_mean: f64,
    pub(super) windows: Vec<Window>,
}

/// One second of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Window {
    pub(super) second: u64,
    pub(super) operations: u64,
    pub(super) mean_ns: f64,
    pub(super) p999_ns: u64,
    pub(super) max_ns: u64,
}

/// The clients of one server.
pub(super) struct Client<'a> {
    pub(super) place: &'a Place,
    pub(super) cpus: &'a [usize],
    pub(super) url: String,
    pub(super) records: u64,
}

impl Client<'_> {
    /// Fills the database.
    ///
    /// # Errors
    /// The client fails.
    pub(super) fn load(&self) -> Result<(), Error> {
        let words = ["load".to_owned(), format!("--threads={LOADERS}")];
        self.drive(&words, Duration::ZERO, || Ok(())).map(drop)
    }

    /// Runs updates for some seconds. `begun` is called when they are measured.
    ///
    /// # Errors
    /// The client or `begun` fails, an update failed, or the user interrupts.
    pub(super) fn run(
        &self,
        clients: usize,
        seconds: f64,
        warm_up_s: f64,
        think_us: f64,
        begun: impl FnOnce() -> Result<(), Error> + Send,
    ) -> Result<Said, Error> {
        let words = [
            "run".to_owned(),
            format!("--threads={clients}"),
            format!("--seconds={seconds}"),
            format!("--warm-up-s={warm_up_s}"),
            format!("--think-us={think_us}"),
        ];
        let text = self.drive(&words, Duration::from_secs_f64(seconds + warm_up_s), begun)?;
        let said: Said =
            serde_json::from_str(&text).map_err(|error| Error::failed(format!("ycsb: {error}")))?;
        match said {
            Said { errors: 0, operations: 1.., .. } => Ok(said),
            Said { errors, operations, .. } => {
                Err(Error::failed(format!("ycsb: {operations} updates succeeded, {errors} failed")))
            }
        }
    }

    /// Runs the client to its end, and returns its standard output.
    fn drive(
        &self,
        words: &[String],
        time: Duration,
        begun: impl FnOnce() -> Result<(), Error> + Send,
    ) -> Result<String, Error> {
        let path = self.place.client();
        let mut command = Command::new(&path);
        command.args(words).arg(format!("--url={}", self.url)).arg(format!("--records={}", self.records));
        own_session(&mut command);
        pin(&mut command, self.cpus);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let unstarted = |error: std::io::Error| {
            Error::request(format!("{}: {}", path.display(), reason(&error)), "the client cannot be started")
        };
        let mut child = command.spawn().map_err(unstarted)?;
        let leader = child.id() as i32;
        let registered = interrupt::Registered::new(leader);
        let stdout = child.stdout.take().map(collect);
        let (line, lines) = channel();
        let stderr = child.stderr.take();
        let reader = std::thread::spawn(move || {
            let of_child = stderr.into_iter().flat_map(|stderr| BufReader::new(stderr).lines());
            of_child.map_while(Result::ok).try_for_each(|read| line.send(read))
        });
        let mut told: Vec<String> = Vec::new();
        let (mut begun, deadline) = (Some(begun), Instant::now() + time + SLACK);
        let ended = std::thread::scope(|scope| {
            let mut acting = None;
            loop {
                match lines.recv_timeout(POLL) {
                    Ok(read) if read == WARM => acting = begun.take().map(|begun| scope.spawn(begun)),
                    Ok(read) => told.push(read),
                    Err(RecvTimeoutError::Timeout) if interrupt::requested() => {
                        kill_group(leader);
                        return Err(Error::Interrupted);
                    }
                    Err(RecvTimeoutError::Timeout) if Instant::now() > deadline => {
                        kill_group(leader);
                        return Err(Error::failed("ycsb: did not end"));
                    }
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => break,
                }
            }
            let acted = acting.map(|acting| acting.join());
            acted.map_or(Ok(()), |acted| acted.unwrap_or_else(|_| Err(Error::failed("the boost panicked"))))
        });
        let status = child.wait();
        drop(registered);
        let _ = reader.join();
        let stdout = stdout.and_then(|reader| reader.join().ok()).unwrap_or_default();
        ended?;
        match status {
            Ok(status) if status.success() => Ok(String::from_utf8_lossy(&stdout).into_owned()),
            Ok(status) => {
                Err(Error::Failed { what: format!("ycsb: {}", ending(status)), stderr: told.join("\n") })
            }
            Err(error) => Err(Error::failed(format!("ycsb: {}", reason(&error)))),
        }
    }
}
