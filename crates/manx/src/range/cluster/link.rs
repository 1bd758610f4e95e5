//! One member of etcd at a time.
//!
//! Everything that a session does goes to one member: calls, watches, and the heartbeat of its
//! lease. If the member does not answer, the link *moves* to the next one, with all of them. So the
//! heartbeat, which never pauses, also shows that a watch without events is alive: a member that
//! was stopped keeps its connections and says nothing.
//!
//! A call that was not answered may have been carried out, or may be carried out later, when a
//! stopped member goes on. So each call that is made here can be made twice; and
//! [`Answer::doubtful`] tells whether an attempt may still come.
//!
//! The time for an attempt doubles with each one, so that a slow cluster is not taken for a dead
//! one for ever.

use super::error::Error;
use super::options::Options;
use etcd_client::Client;
use std::fmt;
use std::future::Future;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

/// The pause before the first member is asked again, when no member answered.
const PAUSE: Duration = Duration::from_millis(50);
/// The limits of the time for a first attempt.
const ATTEMPT_MIN: Duration = Duration::from_millis(200);
const ATTEMPT_MAX: Duration = Duration::from_secs(2);
/// No attempt takes longer. (Members that refuse at once are asked very often.)
const LIMIT_MAX: Duration = Duration::from_secs(30);

/// The connection to etcd.
pub(super) struct Link {
    options: Options,
    attempt: Duration,
    current: Mutex<Current>,
    /// The number of the current connection, for those that wait on it.
    moved: watch::Sender<u64>,
}

struct Current {
    number: u64,
    endpoint: usize,
    client: Option<Client>,
    /// Why the last attempt failed.
    why: String,
}

/// What an attempt came to.
pub(super) enum Failed {
    /// Another attempt may succeed.
    Passing(String),
    /// Another attempt would say the same.
    Lasting(Error),
}

/// What a call said.
pub(super) struct Answer<T> {
    pub value: T,
    /// Whether an earlier attempt of the call may still be carried out.
    pub doubtful: bool,
}

impl Link {
    pub(super) fn new(options: Options) -> Link {
        // Five attempts, or five heartbeats, are in the time of a lease.
        let attempt = (options.ttl / 5).clamp(ATTEMPT_MIN, ATTEMPT_MAX);
        let current = Current { number: 0, endpoint: 0, client: None, why: String::new() };
        Link { options, attempt, current: Mutex::new(current), moved: watch::Sender::new(0) }
    }

    /// The time that a first attempt may take.
    pub(super) fn attempt(&self) -> Duration {
        self.attempt
    }

    /// The number of the current connection.
    pub(super) fn number(&self) -> u64 {
        self.current().number
    }

    /// Tells when the link has moved on from a connection.
    pub(super) async fn has_moved(&self, from: u64) {
        // The sender is here, so it is not gone.
        let _ = self.moved.subscribe().wait_for(|number| *number != from).await;
    }

    /// Why the last attempt failed.
    pub(super) fn why(&self) -> String {
        self.current().why.clone()
    }

    pub(super) fn endpoints(&self) -> String {
        self.options.endpoints.join(", ")
    }

    /// The current connection and its number.
    pub(super) async fn client(&self) -> Result<(u64, Client), (u64, Failed)> {
        let (number, endpoint) = {
            let current = self.current();
            if let Some(client) = &current.client {
                return Ok((current.number, client.clone()));
            }
            (current.number, self.options.endpoints[current.endpoint].clone())
        };
        // It connects when it is used, but a user's name is shown at once.
        let connect = Client::connect([endpoint], Some(self.options.connect_options()));
        let client = match timeout(self.attempt, connect).await {
            Ok(Ok(client)) => client,
            Ok(Err(error)) => return Err((number, Failed::from(error))),
            Err(_) => return Err((number, Failed::Passing("connecting takes too long".into()))),
        };
        let mut current = self.current();
        if current.number == number {
            current.client = Some(client.clone());
        }
        Ok((number, client))
    }

    /// The connection with this number does not do; the next member is taken.
    pub(super) fn failed(&self, number: u64, why: &str) {
        let mut current = self.current();
        if current.number == number {
            current.why = format!("{}: {why}", self.options.endpoints[current.endpoint]);
            current.number += 1;
            current.endpoint = (current.endpoint + 1) % self.options.endpoints.len();
            current.client = None;
            self.moved.send_replace(current.number);
        }
    }

    /// Makes a call, on one member after the other, until one of them answers. `until` says for how
    /// long: the error that it returns ends the attempts.
    pub(super) async fn call<T, F: Future<Output = Result<T, Failed>>>(
        &self,
        until: impl Fn() -> Result<(), Error>,
        call: impl Fn(Client) -> F,
    ) -> Result<Answer<T>, Error> {
        let (mut limit, mut doubtful) = (self.attempt, false);
        for attempts in 1.. {
            until()?;
            let (number, failed) = match self.client().await {
                Ok((number, client)) => match timeout(limit, call(client)).await {
                    Ok(Ok(value)) => return Ok(Answer { value, doubtful }),
                    Ok(Err(failed)) => (number, failed),
                    Err(_) => (number, Failed::Passing(format!("no answer within {limit:?}"))),
                },
                Err(failed) => failed,
            };
            match failed {
                Failed::Lasting(error) => return Err(error),
                Failed::Passing(why) => self.failed(number, &why),
            }
            doubtful = true;
            if attempts % self.options.endpoints.len() == 0 {
                limit = (limit * 2).min(LIMIT_MAX);
                sleep(PAUSE).await;
            }
        }
        unreachable!("it ends with an answer")
    }

    /// For [`Link::call`]: from now on for this long.
    pub(super) fn within(&self, limit: Duration) -> impl Fn() -> Result<(), Error> {
        let began = Instant::now();
        move || {
            if began.elapsed() < limit {
                return Ok(());
            }
            Err(Error::Unreachable { endpoints: self.endpoints(), after: limit, why: self.why() })
        }
    }

    fn current(&self) -> MutexGuard<'_, Current> {
        // Nothing panics while it is held.
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Link").field("options", &self.options).finish_non_exhaustive()
    }
}

/// The error when etcd does not have the session's lease any more.
pub(super) fn ended() -> Error {
    Error::SessionLost("its lease has ended".into())
}

impl fmt::Display for Failed {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failed::Passing(why) => to.write_str(why),
            Failed::Lasting(error) => error.fmt(to),
        }
    }
}

impl From<etcd_client::Error> for Failed {
    fn from(error: etcd_client::Error) -> Failed {
        use etcd_client::Error as Of;
        /// Codes of gRPC: not found, permission denied, ..., that another attempt does not change.
        const LASTING: [i32; 8] = [3, 5, 6, 7, 8, 9, 11, 12];
        match &error {
            Of::GRpcStatus(status) if status.message().contains("lease not found") => {
                Failed::Lasting(ended())
            }
            // Too many calls are on their way.
            Of::GRpcStatus(status) if status.message().contains("too many requests") => {
                Failed::Passing(status.message().into())
            }
            Of::GRpcStatus(status) if LASTING.contains(&(status.code() as i32)) => {
                Failed::Lasting(Error::Refused(status.message().into()))
            }
            Of::LeaseKeepAliveError(why) if why.contains("lease not found") => Failed::Lasting(ended()),
            Of::InvalidArgs(_) | Of::InvalidUri(_) | Of::Utf8Error(_) | Of::InvalidMetadataValue(_) => {
                Failed::Lasting(Error::Unusable(error.to_string()))
            }
            _ => Failed::Passing(reason(&error)),
        }
    }
}

/// An error with what caused it.
fn reason(error: &etcd_client::Error) -> String {
    let mut text = match error {
        etcd_client::Error::GRpcStatus(status) => status.message().to_owned(),
        other => other.to_string(),
    };
    let mut cause = match error {
        etcd_client::Error::GRpcStatus(status) => std::error::Error::source(status),
        etcd_client::Error::TransportError(error) => std::error::Error::source(error),
        _ => None,
    };
    while let Some(error) = cause {
        let this = error.to_string();
        if !text.contains(&this) {
            text = format!("{text}: {this}");
        }
        cause = error.source();
    }
    text
}
