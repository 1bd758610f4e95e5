//! What the server can do: one table of all commands, from which they are found, checked and
//! described.
//!
//! A command of *data* works in a transaction ([`Ops`]): alone in one of its own, or together with
//! others between MULTI and EXEC. It may have to be done again if transactions conflict, so it does
//! nothing else, and checks its arguments before it writes. All other commands are *plain*: they
//! speak of the connection or the server.
//!
//! | file | what |
//! | --- | --- |
//! | `strings.rs`, `set.rs`, `counters.rs` | values: read, written, counted |
//! | `hashes.rs`, `sorted_sets.rs`, `sorted_ranges.rs`, `member_scan.rs` | collections: their members, and which there are |
//! | `keys.rs`, `expiry.rs`, `scan.rs` | keys: whether they are there, for how long, and which |
//! | `multi.rs` | MULTI, EXEC, WATCH |
//! | `connection.rs`, `client.rs` | HELLO, AUTH, CLIENT |
//! | `about.rs`, `config.rs`, `info.rs` | what the server tells of itself |
//! | `table.rs` | all of them |

mod about;
mod client;
mod config;
mod connection;
mod counters;
mod expiry;
mod hashes;
mod info;
mod keys;
mod member_scan;
mod multi;
mod scan;
mod set;
mod sorted_ranges;
mod sorted_sets;
mod strings;
mod table;

use crate::client::Client;
use crate::fault::Fault;
use crate::ops::Ops;
use crate::resp::{Args, Replies};
use crate::shared::Shared;
use crate::transact::{failed, transact};
use manx::txn::{Error, Session};
pub(crate) use table::find;

/// A command of data. It has answered once when it returns without an error.
type Data = fn(&mut Ops<'_, '_>, Args<'_>, &mut Replies) -> Result<(), Fault>;
/// A plain command.
type Plain = fn(&mut Call<'_>, Args<'_>, &mut Replies);
/// A command that is about transactions. It is never in one.
type Outer = fn(&mut Call<'_>, &mut Session, Args<'_>, &mut Replies);

/// The caller of a command.
pub(crate) struct Call<'c> {
    pub(crate) client: &'c mut Client,
    pub(crate) shared: &'c Shared,
}

/// How a command works.
#[derive(Clone, Copy)]
pub(crate) enum Run {
    Data(Data),
    Plain(Plain),
    Outer(Outer),
}

/// A command.
pub(crate) struct Command {
    /// In small letters.
    pub(crate) name: &'static str,
    pub(crate) run: Run,
    /// The number of arguments, its name included; if negative, the least number.
    pub(crate) arity: i32,
    /// [`WRITE`] and the like.
    pub(crate) flags: u8,
    /// Which arguments are keys: the first, the last (-1: of all), and each how many.
    pub(crate) keys: (i32, i32, i32),
    /// Since which version Redis has had it, and to which of its groups it belongs.
    pub(crate) since: &'static str,
    pub(crate) group: &'static str,
    pub(crate) summary: &'static str,
}

/// It changes data.
pub(crate) const WRITE: u8 = 1;
/// It reads data.
pub(crate) const READ: u8 = 2;
/// It takes about the same time whatever there is.
pub(crate) const FAST: u8 = 4;
/// A client that has not said the password may use it.
pub(crate) const NO_AUTH: u8 = 8;
/// It cannot be queued.
pub(crate) const NO_MULTI: u8 = 16;
/// It is done at once between MULTI and EXEC.
pub(crate) const AT_ONCE: u8 = 32;
/// It is for the operators of the server.
pub(crate) const ADMIN: u8 = 64;

impl Command {
    pub(crate) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Returns whether it takes this number of arguments.
    fn takes(&self, count: usize) -> bool {
        let wanted = self.arity.unsigned_abs() as usize;
        if self.arity < 0 { count >= wanted } else { count == wanted }
    }
}

/// Does a command, or queues it, and answers.
pub(crate) fn execute(call: &mut Call<'_>, session: &mut Session, args: Args<'_>, out: &mut Replies) {
    let Some(command) = find(&args[0]) else {
        call.client.refuse();
        return out.error(&unknown(args));
    };
    if !command.takes(args.len()) {
        call.client.refuse();
        return out.error(&wrong_number(command.name));
    }
    if !call.client.is_trusted && !command.has(NO_AUTH) {
        call.client.refuse();
        return out.error("NOAUTH Authentication required.");
    }
    if call.client.multi.is_some() && !command.has(AT_ONCE) {
        return multi::queue(call, command, args, out);
    }
    match command.run {
        Run::Plain(run) => run(call, args, out),
        Run::Outer(run) => run(call, session, args, out),
        Run::Data(run) => {
            if let Err(error) = transact(call.shared, session, out, |ops, out| perform(run, ops, args, out)) {
                out.error(&failed(&error));
            }
        }
    }
}

/// Does a command of data, and answers also if it cannot be done.
fn perform(run: Data, ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Error> {
    let mark = out.mark();
    match run(ops, args, out) {
        Ok(()) => Ok(()),
        Err(Fault::Message(text)) => {
            out.cut(mark);
            out.error(&text);
            Ok(())
        }
        Err(Fault::Store(error)) => Err(error),
    }
}

fn unknown(args: Args<'_>) -> String {
    let shown = |arg: &[u8]| String::from_utf8_lossy(&arg[..arg.len().min(128)]).into_owned();
    let mut text = format!("ERR unknown command '{}', with args beginning with: ", shown(&args[0]));
    for arg in args.from(1) {
        if text.len() > 256 {
            break;
        }
        text += &format!("'{}' ", shown(arg));
    }
    text
}

fn wrong_number(name: &str) -> String {
    format!("ERR wrong number of arguments for '{name}' command")
}

fn unknown_subcommand(name: &str, args: Args<'_>) -> String {
    let given = String::from_utf8_lossy(&args[1][..args[1].len().min(128)]);
    format!("ERR unknown subcommand '{given}'. Try {name} HELP.")
}

/// Answers with what a user may type behind a command.
fn help(name: &str, lines: &[&str], out: &mut Replies) {
    out.array(lines.len() + 3);
    out.simple(&format!("{name} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"));
    for line in lines {
        out.simple(line);
    }
    out.simple("HELP");
    out.simple("    Print this help.");
}

/// Whether an argument is this word, in any case.
fn is(arg: &[u8], word: &str) -> bool {
    arg.eq_ignore_ascii_case(word.as_bytes())
}

const SYNTAX: &str = "ERR syntax error";
const NOT_INTEGER: &str = "ERR value is not an integer or out of range";
