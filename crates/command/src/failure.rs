//! What went wrong: what, where, what to do about it, and the exit code that says so.
//!
//! | code | meaning |
//! | --- | --- |
//! | 1 | `manx stats`: there are no statistics to show; `manx profile`: the program failed, or gave no result |
//! | 2 | usage: the command line, `MANX_OPTIONS`, or the configuration file |
//! | 125 | Manx itself is broken or cannot do its work: the preload library is missing or unusable |
//! | 126 | the program was found but cannot be executed |
//! | 127 | the program was not found, or a command of Manx's own that is a program of its own |
//!
//! 125 to 127 are as `env`, `nohup` and `timeout` use them, so that scripts need to learn nothing
//! new.

use std::fmt;

/// The exit codes of all commands, for `--help` and the man pages.
pub const EXIT_CODES: &str = "\
Exit codes:
  0    success; `manx run` ends with the program's own exit status
  1    `manx stats`: there are no statistics to show;
       `manx profile`: the program failed, or gave no result
  2    the command line or the settings are wrong
  125  the preload library is missing or of another version
  126  the program was found but cannot be executed
  127  the program was not found; `manx serve`, `manx bench`, `manx profile`:
       manx-serve or manx-bench, which they start, is not installed";

/// `manx stats` found nothing to show.
pub const NO_STATISTICS: u8 = 1;
/// `manx profile` got no result from the program.
pub const NO_RESULT: u8 = 1;
/// The command line, the environment or the configuration is wrong.
pub const USAGE: u8 = 2;
/// Manx's own installation is at fault.
pub const BROKEN: u8 = 125;
/// The program cannot be executed.
pub const NOT_EXECUTABLE: u8 = 126;
/// The program was not found.
pub const NOT_FOUND: u8 = 127;

/// An error as the user sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The exit code.
    pub code: u8,
    /// What is wrong, and where, in one line.
    pub what: String,
    /// What to do about it.
    pub help: String,
}

impl Failure {
    /// A failure with its exit code, its one line, and its way out.
    pub fn new(code: u8, what: impl Into<String>, help: impl Into<String>) -> Failure {
        Failure { code, what: what.into(), help: help.into() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "manx: {}", self.what)?;
        for line in self.help.lines() {
            write!(f, "\n  {line}")?;
        }
        Ok(())
    }
}

/// Why the system refused, without Rust's `(os error N)`.
pub fn reason(error: &std::io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error") {
        Some(at) => text[..at].to_lowercase(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_is_indented_below_the_error() {
        let failure = Failure::new(USAGE, "a: no such key", "write b\nor c");
        assert_eq!(failure.to_string(), "manx: a: no such key\n  write b\n  or c");
    }

    #[test]
    fn the_systems_words_stand_alone() {
        assert_eq!(reason(&std::io::Error::from_raw_os_error(libc::EACCES)), "permission denied");
    }
}
