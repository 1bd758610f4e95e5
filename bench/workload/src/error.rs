//! What can go wrong in an experiment: what, and what to do about it.

use std::{fmt, io};

/// Why an experiment ended early.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// Ctrl-C, or a request to terminate. What was measured is kept.
    Interrupted,
    /// What was asked for cannot be: a bad path, a machine that is too small
    Request {
        /// What is wrong
        what: String,
        /// What to do about it
        help: String,
    },
    /// A package, a compiler or a library is missing
    Missing {
        /// What is missing, and where
        what: String,
        /// What to install or name
        help: String,
    },
    /// A measured program failed
    Failed {
        /// Which, and how it ended
        what: String,
        /// What it wrote on standard error
        stderr: String,
    },
}

impl Error {
    /// Something that the user has to ask for differently.
    pub fn request(what: impl Into<String>, help: impl Into<String>) -> Error {
        Error::Request { what: what.into(), help: help.into() }
    }

    /// Something that must be installed.
    pub fn missing(what: impl Into<String>, help: impl Into<String>) -> Error {
        Error::Missing { what: what.into(), help: help.into() }
    }

    /// A failure that is not a measured program's, so that nothing was written on standard error.
    pub fn failed(what: impl Into<String>) -> Error {
        Error::Failed { what: what.into(), stderr: String::new() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Interrupted => f.write_str("interrupted"),
            Error::Request { what, help } | Error::Missing { what, help } => write!(f, "{what}\n{help}"),
            Error::Failed { what, stderr } => write!(f, "{what}\n{}", stderr.trim_end()),
        }
    }
}

/// Why the system refused, without Rust's `(os error N)`.
pub(crate) fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error") {
        Some(at) => text[..at].to_lowercase(),
        None => text,
    }
}

impl std::error::Error for Error {}
