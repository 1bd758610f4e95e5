//! What came from a client, done as the table says.

use super::definition::{AT_ONCE, Call, GROWS, NO_AUTH, Run, full_name, perform, takes};
use super::multi;
use super::syntax::{NO_MEMORY, is, unknown_subcommand, wrong_number};
use super::table::find;
use crate::eviction::make_room;
use crate::resp::{Args, Replies};
use crate::shared::count;
use crate::transact::{failed, transact};
use manx::txn::Session;

/// Does a command, or queues it, and answers.
pub(crate) fn execute(call: &mut Call<'_>, session: &mut Session, args: Args<'_>, out: &mut Replies) {
    let mark = out.mark();
    answer(call, session, args, out);
    call.client.silence(out, mark);
}

fn answer(call: &mut Call<'_>, session: &mut Session, args: Args<'_>, out: &mut Replies) {
    let Some(command) = find(&args[0]) else {
        if is_http(&args[0]) {
            count(&call.shared.counts.malformed);
            call.client.is_leaving = true;
            return;
        }
        call.client.refuse();
        return out.error(&unknown(args));
    };
    let Ok(subcommand) = command.subcommand(args) else {
        call.client.refuse();
        return unknown_subcommand(command.name, args, out);
    };
    let arity = subcommand.map_or(command.arity, |subcommand| subcommand.arity);
    if !takes(arity, args.len()) {
        call.client.refuse();
        return out.error(&wrong_number(&full_name(command, subcommand)));
    }
    if !call.client.is_trusted && !command.has(NO_AUTH) {
        call.client.refuse();
        return out.error("NOAUTH Authentication required.");
    }
    if command.has(GROWS) && !make_room(call.shared, session) {
        call.client.refuse();
        return out.error(NO_MEMORY);
    }
    if call.client.multi.is_some() && !command.has(AT_ONCE) {
        let flags = command.flags | subcommand.map_or(0, |subcommand| subcommand.flags);
        return multi::queue(call, (command, flags), args, out);
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

/// The beginning of a request of HTTP, or of one of its headers: a web page has made its browser
/// send it here, and the commands of the page's author follow. Nothing of it is answered or done.
fn is_http(name: &[u8]) -> bool {
    is(name, "post") || is(name, "host:")
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
