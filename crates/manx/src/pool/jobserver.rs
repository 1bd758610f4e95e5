//! The tokens of GNU make: how many jobs may run, of all that one `make -j` has begun.
//!
//! `make -j8` allows eight jobs in the whole tree of processes below it. It writes seven bytes, the
//! *tokens*, into a pipe that its children inherit. Each child has one job that it need not ask
//! for; for another it reads a byte, and writes the same byte back when that job is done (GNU
//! make's manual, "Sharing job slots with GNU make"). A pool that is built with it has one active
//! worker, and one for each token that it could get.
//!
//! The crate `jobserver`, which cargo and rustc use, implements the protocol. It knows
//! `--jobserver-auth=R,W`, `--jobserver-auth=fifo:PATH` and the older `--jobserver-fds=R,W`; the
//! last in `MAKEFLAGS` counts. This file adds what it lacks:
//!
//! - **What is wrong, and what to do about it.** The usual case: make runs a rule that does not
//!   begin with `+` without the pipe, and yet tells of it in `MAKEFLAGS`. Worse: the numbers may be
//!   of something else by then. If the two are not one pipe, nothing is read.
//! - **Waiting for a limited time.** A blocking read of a pipe has no limit; and making the
//!   descriptor non-blocking would do so in make and all its children, because they share the open
//!   file description. (GNU make 4.3 and older then dies of `EAGAIN`.) So the crate opens the pipe
//!   again by `/dev/fd`, which makes a description of our own, and asks without blocking. Between
//!   two looks a waiter sleeps, as it does everywhere in this library ([`Adaptive`]).
//! - **Forks.** A fork's child holds none of its parent's tokens: it gives none back, or they would
//!   be given back twice.
//!
//! Invariants:
//! 1. A token is given back once, as the byte that it was, when it is dropped: also by a panic that
//!    unwinds.
//! 2. Nothing is written that was not read.
//!
//! A process that is killed, or ends without dropping its tokens, takes them along: make says so
//! and goes on with fewer.

use crate::wait::{Adaptive, Policy};
use jobserver::{Acquired, Client, FromEnvErrorKind};
use platform::fork;
use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

/// A jobserver, as one of its clients sees it. Clones are of the same.
///
/// ```
/// use manx::pool::jobserver::Tokens;
///
/// match Tokens::from_env() {
///     Ok(Some(tokens)) => println!("make allows one job, and {} more at the moment", tokens.available()),
///     Ok(None) => println!("not run by make -j"),
///     Err(error) => eprintln!("{error}"),
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Tokens {
    client: Client,
}

/// Why make's jobserver cannot be used.
///
/// ```
/// use manx::pool::jobserver::{JobserverError, Tokens};
///
/// if let Err(JobserverError::NotPassedOn { variable, .. }) = Tokens::from_env() {
///     eprintln!("{variable} names a jobserver that make did not pass on: begin the rule's command with +");
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JobserverError {
    /// make's pipe is not open in this process.
    #[error(
        "make's jobserver was not passed on to this process ({variable}={value}): begin the rule's command with `+`, \
         so that make knows that it runs jobs itself"
    )]
    NotPassedOn {
        /// The variable that tells of it.
        variable: &'static str,
        /// What it says.
        value: String,
    },
    /// The descriptors or the path are something else.
    #[error(
        "{variable}={value} names no jobserver: {why}: begin the rule's command with `+`, or unset the variable"
    )]
    NoPipe {
        /// The variable.
        variable: &'static str,
        /// What it says.
        value: String,
        /// What is wrong.
        why: String,
    },
}

impl Tokens {
    /// The jobserver that this process's environment tells of, in `CARGO_MAKEFLAGS`, `MAKEFLAGS` or
    /// `MFLAGS`. `None`: it tells of none; no make runs this process, or make runs one job at a
    /// time, or as many as there are (`-j` without a number).
    ///
    /// # Errors
    /// It tells of a jobserver that cannot be used. There is none for this process, then: it may
    /// run one job.
    pub fn from_env() -> Result<Option<Tokens>, JobserverError> {
        // SAFETY: this version opens the pipe anew, by `/dev/fd` or its path, or duplicates its
        // descriptors: it takes none that other code may own.
        let found = unsafe { Client::from_env_ext(true) };
        let (variable, value) = found.var.unwrap_or_default();
        let value = value.to_string_lossy().into_owned();
        match found.client {
            Ok(client) => match two_ends(&value) {
                Some(why) => Err(JobserverError::NoPipe { variable, value, why }),
                None => {
                    fork::watch();
                    Ok(Some(Tokens { client }))
                }
            },
            Err(error) => match error.kind() {
                FromEnvErrorKind::NoEnvVar | FromEnvErrorKind::NoJobserver => Ok(None),
                // make has made the number invalid, or the descriptor is closed.
                FromEnvErrorKind::NegativeFd | FromEnvErrorKind::CannotOpenFd => {
                    Err(JobserverError::NotPassedOn { variable, value })
                }
                _ => Err(JobserverError::NoPipe { variable, value, why: error.to_string() }),
            },
        }
    }

    /// Returns a token if one is available now. `None` also if make has ended, and with it the
    /// pipe.
    pub fn try_acquire(&self) -> Option<Token> {
        let acquired = self.client.try_acquire().ok().flatten()?;
        Some(Token { acquired: Some(acquired), generation: fork::generation() })
    }

    /// Returns a token as soon as one is available, or `None` after `timeout`. Tries at once, and
    /// each millisecond in the long run.
    ///
    /// ```
    /// use manx::pool::jobserver::Tokens;
    /// use std::time::Duration;
    ///
    /// if let Ok(Some(tokens)) = Tokens::from_env() {
    ///     if let Some(token) = tokens.acquire_timeout(Duration::from_millis(10)) {
    ///         // Run one more job.
    ///         drop(token); // Give the token back.
    ///     }
    /// }
    /// ```
    pub fn acquire_timeout(&self, timeout: Duration) -> Option<Token> {
        let mut token = None;
        Adaptive::DEFAULT.until_for(timeout, || {
            token = self.try_acquire();
            token.is_some()
        });
        token
    }

    /// The number of tokens that are available at this moment.
    pub fn available(&self) -> usize {
        self.client.available().unwrap_or(0)
    }
}

/// What is wrong with the two ends of a pipe, if the variable names descriptors: both must be of
/// one pipe.
fn two_ends(value: &str) -> Option<String> {
    let named = ["--jobserver-auth=", "--jobserver-fds="].iter().find_map(|&name| value.rsplit_once(name))?;
    let (read, write) = named.1.split_whitespace().next()?.split_once(',')?;
    let identity = |descriptor: &str| {
        let status = std::fs::metadata(format!("/dev/fd/{descriptor}")).ok()?;
        Some((status.dev(), status.ino()))
    };
    // What cannot be asked was opened by the crate nevertheless: a system without /dev/fd.
    let (own, other) = (identity(read)?, identity(write)?);
    (own != other).then(|| format!("the descriptors {read} and {write} are not the two ends of one pipe"))
}

/// The right to run one more job. Dropped, it goes back to make.
#[must_use = "a token that is dropped is given back"]
pub struct Token {
    acquired: Option<Acquired>,
    generation: u32,
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        let Some(acquired) = self.acquired.take() else { return };
        if self.generation == fork::generation() {
            drop(acquired);
        } else {
            acquired.drop_without_releasing();
        }
    }
}

/// The number of active workers that make allows: one, and one for each token that is held.
///
/// For the code that controls a pool: at each tick it passes the number of workers that it wants,
/// and gets the number that it may have.
///
/// ```
/// use manx::pool::jobserver::{Allowance, Tokens};
///
/// if let Ok(Some(tokens)) = Tokens::from_env() {
///     let mut allowance = Allowance::new(tokens);
///     let active = allowance.fit(4);
///     assert!((1..=4).contains(&active));
///     allowance.fit(1); // the others' tokens go back
/// }
/// ```
#[derive(Debug)]
pub struct Allowance {
    tokens: Tokens,
    held: Vec<Token>,
}

impl Allowance {
    /// Returns an allowance that holds no token yet.
    pub fn new(tokens: Tokens) -> Allowance {
        Allowance { tokens, held: Vec::new() }
    }

    /// Takes tokens for `wanted` workers, as far as they are available, and gives back the tokens
    /// above that. Returns the number of workers: from 1 to `wanted`. Makes a system call for
    /// each token that comes or goes, and one more if there are fewer than wanted; none if nothing
    /// changes.
    pub fn fit(&mut self, wanted: usize) -> usize {
        let wanted = wanted.saturating_sub(1);
        self.held.truncate(wanted);
        while self.held.len() < wanted {
            match self.tokens.try_acquire() {
                Some(token) => self.held.push(token),
                None => break,
            }
        }
        self.active()
    }

    /// The number of workers that are allowed now.
    pub fn active(&self) -> usize {
        1 + self.held.len()
    }
}
