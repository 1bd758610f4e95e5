//! COMMAND and TIME: what the server can do, and what time it is.

use super::table::{COMMANDS, find};
use super::{ADMIN, Call, Command, FAST, NO_AUTH, NO_MULTI, READ, WRITE};
use super::{help, is, unknown_subcommand};
use crate::resp::{Args, Replies};
use std::time::{SystemTime, UNIX_EPOCH};

pub(super) fn time(_: &mut Call<'_>, _: Args<'_>, out: &mut Replies) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    out.array(2);
    out.bulk(now.as_secs().to_string().as_bytes());
    out.bulk(now.subsec_micros().to_string().as_bytes());
}

pub(super) fn command(_: &mut Call<'_>, args: Args<'_>, out: &mut Replies) {
    match args.get(1) {
        None => {
            out.array(COMMANDS.len());
            COMMANDS.iter().for_each(|command| details(command, out));
        }
        Some(word) if is(word, "count") && args.len() == 2 => out.count(COMMANDS.len()),
        Some(word) if is(word, "list") && args.len() == 2 => {
            out.set(COMMANDS.len());
            COMMANDS.iter().for_each(|command| out.bulk(command.name.as_bytes()));
        }
        Some(word) if is(word, "info") => {
            let names: Vec<&[u8]> = if args.len() == 2 {
                COMMANDS.iter().map(|command| command.name.as_bytes()).collect()
            } else {
                args.from(2).collect()
            };
            out.array(names.len());
            for name in names {
                match find(name) {
                    Some(command) => details(command, out),
                    None => out.null_array(),
                }
            }
        }
        Some(word) if is(word, "docs") => {
            let wanted: Vec<_> = if args.len() == 2 {
                COMMANDS.iter().collect()
            } else {
                args.from(2).filter_map(find).collect()
            };
            out.map(wanted.len());
            wanted.into_iter().for_each(|command| docs(command, out));
        }
        Some(word) if is(word, "help") && args.len() == 2 => help("COMMAND", &HELP, out),
        Some(_) => out.error(&unknown_subcommand("COMMAND", args)),
    }
}

fn details(command: &Command, out: &mut Replies) {
    const NAMES: [(u8, &str); 6] = [
        (WRITE, "write"),
        (READ, "readonly"),
        (FAST, "fast"),
        (NO_AUTH, "no_auth"),
        (NO_MULTI, "no_multi"),
        (ADMIN, "admin"),
    ];
    out.array(10);
    out.bulk(command.name.as_bytes());
    out.integer(i64::from(command.arity));
    let flags: Vec<_> = NAMES.iter().filter(|(flag, _)| command.has(*flag)).collect();
    out.set(flags.len());
    flags.iter().for_each(|(_, name)| out.simple(name));
    let (first, last, step) = command.keys;
    for number in [first, last, step] {
        out.integer(i64::from(number));
    }
    // Categories of access, hints, key specifications, subcommands: there are none.
    out.set(0);
    out.array(0);
    out.array(0);
    out.array(0);
}

fn docs(command: &Command, out: &mut Replies) {
    out.bulk(command.name.as_bytes());
    out.map(3);
    for (name, value) in [("summary", command.summary), ("since", command.since), ("group", command.group)] {
        out.bulk(name.as_bytes());
        out.bulk(value.as_bytes());
    }
}

const HELP: [&str; 10] = [
    "(no subcommand)",
    "    Return details about all commands.",
    "COUNT",
    "    Return the total number of commands in this server.",
    "DOCS [<command-name> ...]",
    "    Return documentation of commands.",
    "INFO [<command-name> ...]",
    "    Return details about commands.",
    "LIST",
    "    Return the names of all commands.",
];
