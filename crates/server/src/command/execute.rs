//! What came from a client, done as the table says.

use super::definition::{AT_ONCE, Call, GROWS, NO_AUTH, Run, perform, takes};
use super::syntax::{NO_MEMORY, is, unknown_subcommand, wrong_number};
use super::table::find;
use super::{blocking, multi, permission, pubsub, slowlog};
use crate::eviction::make_room;
use crate::resp::{Args, Replies};
use crate::shared::count;
use crate::transact::{failed, transact};
use manx::txn::Session;

/// Does a command, or queues it, and answers.
pub(crate) fn execute(call: &mut Call<'_>, session: &mut Session, args: Args<'_>, out: &mut Replies) {
    let mark = out.mark();
    answer(call, session, args, out);
    if call.client.waiting.is_none() {
        call.client.silence(out, mark);
    }
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
    let Ok(chosen) = command.choose(args) else {
        call.client.refuse();
        return unknown_subcommand(command.name, args, out);
    };
    if !takes(chosen.arity(), args.len()) {
        call.client.refuse();
        return out.error(&wrong_number(&chosen.full_name()));
    }
    if !chosen.has(NO_AUTH) && !call.client.is_known(call.shared) {
        return multi::refuse(call, chosen, "NOAUTH Authentication required.", out);
    }
    let is_in_multi = call.client.multi.is_some();
    if let Err(refused) = permission::may(call, chosen, args, is_in_multi) {
        return multi::refuse(call, chosen, &refused.answer(chosen), out);
    }
    if chosen.has(GROWS) && !make_room(call.shared, session) {
        return multi::refuse(call, chosen, NO_MEMORY, out);
    }
    if call.client.only_listens(out.version()) && !pubsub::is_for_listeners(chosen) {
        return multi::refuse(call, chosen, &pubsub::refusal(chosen), out);
    }
    if is_in_multi && !chosen.has(AT_ONCE) {
        return multi::queue(call, chosen, args, out);
    }
    let begin = call.shared.slowlog.begin();
    match command.run {
        Run::Plain(run) => run(call, args, out),
        Run::Waiting(run) => blocking::begin(call, session, (chosen, run), args, out),
        Run::Outer(run) => run(call, session, args, out),
        Run::Data(run) => {
            let reads_all_keys = call.client.login.rights().reads_all_keys();
            let done = transact(call.shared, session, out, |ops, out| {
                ops.reads_all_keys = reads_all_keys;
                if chosen.copies() {
                    ops.remember();
                }
                perform(ops, out, |ops, out| run(ops, args, out))?;
                ops.promote()
            });
            if let Err(error) = done {
                out.error(&failed(&error));
            }
        }
    }
    // One that waits is noted when it has its answer.
    if call.client.waiting.is_none() {
        slowlog::note(call, begin, chosen, args);
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
