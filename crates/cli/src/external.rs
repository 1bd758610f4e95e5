//! Subcommands that are programs of their own, so that `manx run` carries none of what they link.
//!
//! | subcommand | becomes |
//! | --- | --- |
//! | `manx bench …` | `manx-bench …` |
//! | `manx help bench` | `manx-bench --help` |
//! | `manx profile …` | `manx-bench profile …` |
//!
//! The arguments behind the subcommand are passed on as they are, `--help` included, so the
//! definition of `manx` never parses them. It has the names and one line each, for its own help and
//! manual page.

use command::companion::{BENCH, Companion};
use std::ffi::OsString;

/// A subcommand that is a program of its own.
#[derive(Debug)]
pub struct ExternalCommand {
    /// The subcommand
    pub name: &'static str,
    /// The line about it, which is the program's own
    pub about: &'static str,
    /// The program
    pub companion: Companion,
    /// What goes before the arguments, if the program has several uses
    pub before: &'static [&'static str],
}

/// All of them, in the order of the help.
pub const ALL: [ExternalCommand; 2] = [
    ExternalCommand {
        name: "profile",
        about: "Sweep a program's latency target, draw what it costs and brings, and suggest one",
        companion: BENCH,
        before: &["profile"],
    },
    ExternalCommand {
        name: "bench",
        about: "Run one of Manx's experiments on this machine",
        companion: BENCH,
        before: &[],
    },
];

/// What the definition of `manx` says about them.
pub fn commands() -> impl Iterator<Item = clap::Command> {
    ALL.iter().map(|elsewhere| clap::Command::new(elsewhere.name).about(elsewhere.about))
}

/// The program that these arguments of `manx` are for, and its own arguments.
pub fn asked(arguments: &[OsString]) -> Option<(Companion, Vec<OsString>)> {
    let is_help = arguments.first().is_some_and(|word| word == "help");
    let (name, rest) = arguments[usize::from(is_help)..].split_first()?;
    let elsewhere = ALL.iter().find(|elsewhere| name == elsewhere.name)?;
    let help = is_help.then(|| OsString::from("--help"));
    let before = elsewhere.before.iter().map(OsString::from);
    Some((elsewhere.companion, before.chain(rest.iter().cloned()).chain(help).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStringExt as _;

    fn words(words: &[&str]) -> Vec<OsString> {
        words.iter().map(OsString::from).collect()
    }

    #[test]
    fn arguments_are_passed_on_as_they_are() {
        for rest in [&[][..], &["--help"], &["-h", "--", "--", ""], &["help"], &["bench", "--seed=1"]] {
            let asked = asked(&words(&[&["bench"], rest].concat()));
            assert_eq!(asked, Some((BENCH, words(rest))));
        }
        assert_eq!(asked(&words(&["bench", "range", "-h"])), Some((BENCH, words(&["range", "-h"]))));
        assert_eq!(asked(&words(&["profile", "--", "x"])), Some((BENCH, words(&["profile", "--", "x"]))));
        let strange = OsString::from_vec(vec![0xff, b'=', 0xfe]);
        assert_eq!(asked(&["bench".into(), strange.clone()]), Some((BENCH, vec![strange])));
    }

    #[test]
    fn help_asks_the_program() {
        assert_eq!(asked(&words(&["help", "bench"])), Some((BENCH, words(&["--help"]))));
        assert_eq!(asked(&words(&["help", "bench", "pool"])), Some((BENCH, words(&["pool", "--help"]))));
        assert_eq!(asked(&words(&["help", "profile"])), Some((BENCH, words(&["profile", "--help"]))));
    }

    #[test]
    fn what_manx_does_itself_is_not_passed_on() {
        for own in [&[][..], &["help"], &["run", "bench"], &["--help", "bench"], &["help", "run"], &["benc"]]
        {
            assert_eq!(asked(&words(own)), None, "{own:?}");
        }
    }
}
