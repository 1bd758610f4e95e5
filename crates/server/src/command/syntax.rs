//! What commands have in common: words in arguments, and answers about arguments that are wrong.

use crate::numbers;
use crate::resp::{Args, Replies};

pub(super) const SYNTAX: &str = "ERR syntax error";
pub(super) const NO_MEMORY: &str = "OOM command not allowed when used memory > 'maxmemory'.";
pub(super) const NOT_FLOAT: &str = "ERR value is not a valid float";
pub(super) const NOT_INTEGER: &str = "ERR value is not an integer or out of range";

/// Whether an argument is this word, in any case.
pub(super) fn is(arg: &[u8], word: &str) -> bool {
    arg.eq_ignore_ascii_case(word.as_bytes())
}

/// Reads a whole number.
///
/// # Errors
/// The answer if it is none.
pub(super) fn integer(arg: &[u8]) -> Result<i64, &'static str> {
    numbers::integer(arg).ok_or(NOT_INTEGER)
}

/// Reads a whole number that is not less than this.
///
/// # Errors
/// This answer if it is none.
pub(super) fn at_least(least: i64, arg: &[u8], error: &'static str) -> Result<i64, &'static str> {
    numbers::integer(arg).filter(|number| *number >= least).ok_or(error)
}

/// Reads how many keys follow.
pub(super) fn number_of_keys(arg: &[u8]) -> Result<usize, &'static str> {
    const NOT_POSITIVE: &str = "ERR numkeys should be greater than 0";
    Ok(usize::try_from(at_least(1, arg, NOT_POSITIVE)?).unwrap_or(usize::MAX))
}

/// Reads the most that an answer counts to; all, if it is 0.
pub(super) fn limit(arg: &[u8]) -> Result<usize, &'static str> {
    let limit = at_least(0, arg, "ERR LIMIT can't be negative")?;
    Ok(usize::try_from(limit).ok().filter(|limit| *limit > 0).unwrap_or(usize::MAX))
}

/// How many the last argument asks for, which may be missing; `None` if there are more arguments.
pub(super) fn count_asked_for(args: Args<'_>) -> Result<Option<Option<i64>>, &'static str> {
    match args.len() {
        2 => Ok(Some(None)),
        3 => match integer(&args[2]) {
            Ok(count @ 0..) => Ok(Some(Some(count))),
            _ => Err("ERR value is out of range, must be positive"),
        },
        _ => Ok(None),
    }
}

pub(super) fn wrong_number(name: &str) -> String {
    format!("ERR wrong number of arguments for '{name}' command")
}

/// Answers to a subcommand that does not exist.
pub(super) fn unknown_subcommand(command: &str, args: Args<'_>, out: &mut Replies) {
    let given = String::from_utf8_lossy(&args[1][..args[1].len().min(128)]);
    let command = command.to_ascii_uppercase();
    out.error(&format!("ERR unknown subcommand '{given}'. Try {command} HELP."));
}

/// Answers to a subcommand that has too many arguments, where Redis looks at their number late.
pub(super) fn wrong_subcommand(command: &str, args: Args<'_>, out: &mut Replies) {
    let given = String::from_utf8_lossy(&args[1]);
    out.error(&format!(
        "ERR unknown subcommand or wrong number of arguments for '{given}'. Try {command} HELP."
    ));
}

/// Answers with what a user may type behind a command.
pub(super) fn help(command: &str, lines: &[&str], out: &mut Replies) {
    out.array(lines.len() + 3);
    out.simple(&format!("{command} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"));
    lines.iter().for_each(|line| out.simple(line));
    out.simple("HELP");
    out.simple("    Prints this help.");
}
