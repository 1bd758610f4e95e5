//! Errors as the user sees them: what is wrong, where, what to do about it, and the exit code.
//!
//! [`EXIT_CODES`] is the table of all codes. 125 to 127 are as `env`, `nohup` and `timeout` use
//! them, so that scripts need to learn nothing new.

use std::fmt;

/// The exit codes of all commands, for `manx --help` and its man page. The help of each command
/// lists its own.
pub const EXIT_CODES: [(u8, &str); 9] = [
    (0, "success; `manx run` ends with the program's own exit status"),
    (
        NO_STATISTICS,
        "`manx stats`: there are no statistics to show;\n\
         `manx doctor`: there is no such process, or nobody may look at it;\n\
         `manx profile`: the program failed, or gave no result;\n\
         `manx report`: a file is no result, or cannot be read",
    ),
    (USAGE, "the command line or the settings are wrong"),
    (FINDING, "`manx doctor`: something was found that Manx can do something about"),
    (NOT_OUR_FINDING, "`manx doctor`: something was found, and it is not Manx's business"),
    (BROKEN, "Manx cannot do its work, as when the preload library is missing or of\nanother version"),
    (NOT_EXECUTABLE, "the program was found but cannot be executed"),
    (
        NOT_FOUND,
        "the program was not found; `manx bench`, `manx profile`: manx-bench,\nwhich they start, is not installed",
    ),
    (INTERRUPTED, "`manx bench`, `manx profile`: interrupted"),
];

/// The section on exit codes in a command's help.
pub fn exit_codes(codes: &[(u8, &str)]) -> String {
    codes.iter().fold("Exit codes:".to_owned(), |text, (code, meaning)| {
        text + &format!("\n  {code:<3}  {}", meaning.replace('\n', "\n       "))
    })
}

/// `manx stats` found nothing to show.
pub const NO_STATISTICS: u8 = 1;
/// `manx profile` got no result from the program.
pub const NO_RESULT: u8 = 1;
/// `manx report` has nothing to make a page of.
pub const NO_PAGE: u8 = 1;
/// `manx doctor` found no process to look at.
pub const NO_PROCESS: u8 = 1;
/// `manx doctor` found something that Manx can do something about.
pub const FINDING: u8 = 10;
/// `manx doctor` found something that is not Manx's business.
pub const NOT_OUR_FINDING: u8 = 11;
/// The command line, the environment or the configuration is wrong.
pub const USAGE: u8 = 2;
/// Manx's own installation is at fault.
pub const BROKEN: u8 = 125;
/// The program cannot be executed.
pub const NOT_EXECUTABLE: u8 = 126;
/// The program was not found.
pub const NOT_FOUND: u8 = 127;
/// A signal ended the command, as a shell reports SIGINT.
pub const INTERRUPTED: u8 = 130;

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
