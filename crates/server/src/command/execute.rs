//! What came from a client, done as the table says.

use super::definition::{AT_ONCE, Call, NO_AUTH, Run, perform};
use super::multi;
use super::syntax::wrong_number;
use super::table::find;
use crate::resp::{Args, Replies};
use crate::transact::{failed, transact};
use manx::txn::Session;

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
