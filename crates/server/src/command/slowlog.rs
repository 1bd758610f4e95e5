//! SLOWLOG, and what goes into it.

use super::definition::{Call, Chosen};
use super::syntax::{at_least, help, is, wrong_subcommand};
use crate::resp::{Args, Replies};
use std::ops::RangeInclusive;
use std::time::{Duration, Instant, UNIX_EPOCH};

/// Notes a command that began then and is done now, if it took long.
#[inline]
pub(super) fn note(call: &Call<'_>, begin: Option<Instant>, chosen: Chosen, args: Args<'_>) {
    if let Some(took) = call.shared.slowlog.slow(begin) {
        add(call, took, chosen, args);
    }
}

/// Notes a command that took this time.
#[cold]
pub(super) fn add(call: &Call<'_>, took: Duration, chosen: Chosen, args: Args<'_>) {
    let peer = &call.client.peer;
    let secrets = secrets(chosen, args);
    let is_secret = |index| secrets.iter().any(|places| places.contains(&index));
    call.shared.slowlog.add(took, args, is_secret, (&peer.address, &peer.name()));
}

/// Which arguments are passwords, or may be.
fn secrets(chosen: Chosen, args: Args<'_>) -> Vec<RangeInclusive<usize>> {
    match (chosen.command.name, chosen.subcommand.map(|subcommand| subcommand.name)) {
        ("auth", _) => vec![1..=usize::MAX],
        ("acl", Some("setuser")) => vec![2..=usize::MAX],
        ("config", Some("set")) => vec![3..=usize::MAX],
        ("hello", _) => {
            let (mut found, mut at) = (Vec::new(), 2);
            while let Some(word) = args.get(at) {
                at += match word {
                    word if is(word, "auth") => {
                        found.push(at + 1..=at + 2);
                        3
                    }
                    // A name follows.
                    word if is(word, "setname") => 2,
                    _ => 1,
                };
            }
            found
        }
        _ => Vec::new(),
    }
}

pub(super) fn slowlog(call: &mut Call<'_>, args: Args<'_>, out: &mut Replies) {
    let slowlog = &call.shared.slowlog;
    match &*args[1].to_ascii_lowercase() {
        b"get" if args.len() <= 3 => get(call, args, out),
        b"get" => wrong_subcommand("SLOWLOG", args, out),
        b"len" => out.count(slowlog.len()),
        b"reset" => {
            slowlog.clear();
            out.ok();
        }
        _ => help("SLOWLOG", &HELP, out),
    }
}

fn get(call: &Call<'_>, args: Args<'_>, out: &mut Replies) {
    const WRONG: &str = "ERR count should be greater than or equal to -1";
    let count = match args.get(2).map_or(Ok(10), |count| at_least(-1, count, WRONG)) {
        // -1 asks for all.
        Ok(count) => usize::try_from(count).unwrap_or(usize::MAX),
        Err(error) => return out.error(error),
    };
    let entries = call.shared.slowlog.latest(count);
    out.array(entries.len());
    for entry in entries {
        out.array(6);
        out.integer(entry.id);
        let when = entry.when.duration_since(UNIX_EPOCH).unwrap_or_default();
        out.integer(i64::try_from(when.as_secs()).unwrap_or(i64::MAX));
        out.integer(i64::try_from(entry.took.as_micros()).unwrap_or(i64::MAX));
        out.array(entry.args.len());
        entry.args.iter().for_each(|arg| out.bulk(arg));
        out.bulk(entry.address.as_bytes());
        out.bulk(&entry.name);
    }
}

const HELP: [&str; 9] = [
    "GET [<count>]",
    "    Return top <count> entries from the slowlog (default: 10, -1 mean all).",
    "    Entries are made of:",
    "    id, timestamp, time in microseconds, arguments array, client IP and port,",
    "    client name",
    "LEN",
    "    Return the length of the slowlog.",
    "RESET",
    "    Reset the slowlog.",
];
