//! Commands that wait for what they want, as BLPOP does: the client gets no answer, and no further
//! command of it is begun, until there is something or its time is over.
//!
//! Such a command *looks* in a transaction. It answers with what it has found, and takes it; or
//! with what the client is told when its time is over. That is also its answer between MULTI and
//! EXEC, where nothing waits.

use super::definition::{Asked, Call, Chosen, Looked, Waiting, Waits, perform};
use super::{permission, slowlog};
use crate::peer::Unblock;
use crate::resp::{Args, Kept, Replies};
use crate::transact::{failed, transact};
use crate::waiters;
use manx::txn::{Error, Session};

/// Does the command, or has its client wait.
pub(super) fn begin(
    call: &mut Call<'_>,
    session: &mut Session,
    (chosen, run): (Chosen, Waits),
    args: Args<'_>,
    out: &mut Replies,
) {
    let (mark, version) = (out.mark(), call.shared.waiters.version());
    let Some(Looked::Nothing { kind, timeout }) = look(call, session, run, Asked { args, again: false }, out)
    else {
        return;
    };
    out.cut(mark);
    if let Err(error) = call.listen() {
        return out.error(&error);
    }
    // What goes to another key comes from the first one.
    let goes_on = chosen.keys().uses.is_some();
    let keys = chosen.keys().among(args).into_iter().flatten().take(if goes_on { 1 } else { usize::MAX });
    let bytes_max = call.shared.options.input_bytes_max;
    if waiters::memory_bytes(keys.clone()) > bytes_max {
        return out.error(&format!("ERR a wait for keys of more than {bytes_max} bytes: wait for fewer"));
    }
    let wanted = keys.map(|key| waiters::wanted(kind, key)).collect();
    let ticket = call.shared.waiters.join(&call.client.peer, wanted, timeout, &call.shared.stop);
    let waiting = Box::new(Waiting { chosen, run, kept: Kept::new(args), ticket });
    // What came between the look and the ticket has woken no client.
    let is_same = call.shared.waiters.version() == version;
    let is_answered = !is_same && look_again(call, session, &waiting, out);
    call.client.waiting = (!is_answered).then_some(waiting);
}

/// Looks again, for a client that waits. Returns whether the command has its answer.
pub(crate) fn resume(call: &mut Call<'_>, session: &mut Session, out: &mut Replies) -> bool {
    let Some(waiting) = call.client.waiting.take() else { return true };
    let (mark, begin) = (out.mark(), call.shared.slowlog.begin());
    let is_answered = look_again(call, session, &waiting, out);
    if is_answered {
        slowlog::note(call, begin, waiting.chosen, waiting.kept.args());
        call.client.silence(out, mark);
    } else {
        call.client.waiting = Some(waiting);
    }
    is_answered
}

/// Returns whether the command has its answer.
fn look_again(call: &mut Call<'_>, session: &mut Session, waiting: &Waiting, out: &mut Replies) -> bool {
    let mark = out.mark();
    let args = waiting.kept.args();
    let is_late = waiting.ticket.is_late();
    match call.client.peer.is_unblocked() {
        Some(Unblock::Timeout) => out.null_array(),
        Some(Unblock::Error) => out.error("UNBLOCKED client unblocked via CLIENT UNBLOCK"),
        None => match permission::may(call, waiting.chosen, args, false) {
            Err(refused) => out.error(&refused.answer(waiting.chosen)),
            Ok(()) => {
                let looked = look(call, session, waiting.run, Asked { args, again: true }, out);
                if let Some(Looked::Nothing { .. }) = looked {
                    out.cut(mark);
                    if !is_late {
                        return false;
                    }
                    out.null_array();
                }
            }
        },
    }
    true
}

/// Does the command as far as that is possible now. None if the answer is an error.
fn look(
    call: &Call<'_>,
    session: &mut Session,
    run: Waits,
    asked: Asked<'_>,
    out: &mut Replies,
) -> Option<Looked> {
    let looked: Result<Option<Looked>, Error> =
        transact(call.shared, session, out, |ops, out| perform(ops, out, |ops, out| run(ops, asked, out)));
    looked.unwrap_or_else(|error| {
        out.error(&failed(&error));
        None
    })
}
