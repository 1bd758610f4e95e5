//! MULTI, EXEC and WATCH: several commands as one.
//!
//! Between MULTI and EXEC commands are only kept. EXEC does them in one transaction, so no other
//! client sees a part of them. As in Redis, an error of one does not undo the others. WATCH
//! remembers which write each key had last (its stamp, and those of its members); EXEC looks
//! whether they still have them, in the same transaction as all else. If two watch what the other
//! writes, one of them is refused.
//!
//! A transaction may be tried several times, and a message cannot be taken back. So what is about
//! channels is done after the commit, in its order, and its answer then gets its place among the
//! others.

use super::definition::{
    Asked, Call, Chosen, GROWS, Multi, NO_MULTI, ONCE, Plain, Run, WRITE, Watched, perform,
};
use super::syntax::NO_MEMORY;
use super::{permission, slowlog};
use crate::collection;
use crate::eviction::make_room;
use crate::resp::{Args, Kept, Replies, Version};
use crate::transact::{failed, transact};
use manx::txn::Session;
use std::sync::Arc;

pub(super) fn multi(call: &mut Call<'_>, _: Args<'_>, out: &mut Replies) {
    if call.client.multi.is_some() {
        return out.error("ERR MULTI calls can not be nested");
    }
    call.client.multi = Some(Multi::default());
    out.ok();
}

pub(super) fn discard(call: &mut Call<'_>, _: Args<'_>, out: &mut Replies) {
    if call.client.multi.take().is_none() {
        return out.error("ERR DISCARD without MULTI");
    }
    call.client.watched.clear();
    out.ok();
}

/// Refuses a command that the client may not do now. EXEC then runs nothing; also if EXEC itself is
/// refused.
#[cold]
pub(super) fn refuse(call: &mut Call<'_>, chosen: Chosen, why: &str, out: &mut Replies) {
    call.client.refuse();
    if chosen.command.name == "exec" {
        call.client.multi = None;
        call.client.watched.clear();
        let why = why.trim_start_matches("ERR ");
        return out.error(&format!("EXECABORT Transaction discarded because of: {why}"));
    }
    out.error(why);
}

/// Queues a command between MULTI and EXEC, which runs it.
pub(super) fn queue(call: &mut Call<'_>, chosen: Chosen, args: Args<'_>, out: &mut Replies) {
    let bytes_max = call.shared.options.input_bytes_max;
    let Some(multi) = &mut call.client.multi else { return };
    if chosen.has(NO_MULTI) {
        multi.is_broken = true;
        return out.error("ERR Command not allowed inside a transaction");
    }
    if !multi.is_broken {
        let kept = Kept::new(args);
        multi.bytes += kept.memory_bytes();
        if multi.bytes > bytes_max {
            *multi = Multi { is_broken: true, ..Multi::default() };
            return out.error(&format!("ERR a transaction of more than {bytes_max} bytes: split it"));
        }
        multi.grows |= chosen.has(GROWS);
        multi.queued.push((chosen, kept));
    }
    out.simple("QUEUED");
}

pub(super) fn exec(call: &mut Call<'_>, session: &mut Session, _: Args<'_>, out: &mut Replies) {
    let Some(Multi { queued, grows, is_broken, .. }) = call.client.multi.take() else {
        return out.error("ERR EXEC without MULTI");
    };
    let watched = std::mem::take(&mut call.client.watched);
    if is_broken {
        return out.error("EXECABORT Transaction discarded because of previous errors.");
    }
    if grows && !make_room(call.shared, session) {
        return out.error(&format!("EXECABORT Transaction discarded because of: {NO_MEMORY}"));
    }
    let writes = queued.iter().any(|(chosen, _)| chosen.has(WRITE));
    let shared = call.shared;
    let user = Arc::clone(&call.client.login.user);
    let (mut postponed, mut slow) = (Vec::new(), Vec::new());
    let done = transact(shared, session, out, |ops, out| {
        postponed.clear();
        slow.clear();
        // A try before may have done an AUTH.
        if !Arc::ptr_eq(&user, &call.client.login.user) {
            call.client.log_in(Arc::clone(&user));
        }
        if writes {
            ops.remember();
        }
        for Watched { key, stamp } in &watched {
            if collection::watched(ops, key)? != *stamp {
                out.null_array();
                return Ok(());
            }
        }
        out.array(queued.len());
        for (chosen, kept) in &queued {
            // Too many answers end the connection, not the transaction: all of it is done, and what
            // else it would answer is not kept.
            let unwanted = out.is_over().then(|| out.mark());
            if let Err(refused) = permission::may(call, *chosen, kept.args(), true) {
                out.error(&refused.answer_late());
            } else {
                let begin = shared.slowlog.begin();
                match chosen.command.run {
                    Run::Data(run) => {
                        ops.reads_all_keys = call.client.login.rights().reads_all_keys();
                        perform(ops, out, |ops, out| run(ops, kept.args(), out))?;
                    }
                    Run::Waiting(run) => {
                        let asked = Asked { args: kept.args(), again: false };
                        perform(ops, out, |ops, out| run(ops, asked, out))?;
                    }
                    Run::Plain(run) if chosen.has(ONCE) => {
                        let (mark, version) = (out.mark(), out.version());
                        postponed.push(Postponed { chosen: *chosen, run, kept, mark, version });
                        continue;
                    }
                    Run::Plain(run) => run(call, kept.args(), out),
                    Run::Outer(_) => unreachable!("these are done at once"),
                }
                slow.extend(shared.slowlog.slow(begin).map(|took| (took, *chosen, kept)));
            }
            if let Some(mark) = unwanted {
                out.cut(mark);
            }
        }
        ops.promote()
    });
    match done {
        Ok(()) => {
            slow.into_iter().for_each(|(took, chosen, kept)| slowlog::add(call, took, chosen, kept.args()));
            do_postponed(call, &postponed, out);
        }
        Err(error) => out.error(&failed(&error)),
    }
}

/// A command that is done after the commit.
struct Postponed<'q> {
    chosen: Chosen,
    run: Plain,
    kept: &'q Kept,
    /// Where its answer is to be, and in which version.
    mark: usize,
    version: Version,
}

fn do_postponed(call: &mut Call<'_>, all: &[Postponed<'_>], out: &mut Replies) {
    let Some(Postponed { mark: first, .. }) = all.first() else { return };
    let (behind, version, mut taken) = (out.split_off(*first), out.version(), 0);
    for Postponed { chosen, run, kept, mark, version } in all {
        out.append(&behind[taken..mark - first]);
        taken = mark - first;
        out.set_version(*version);
        let begin = call.shared.slowlog.begin();
        run(call, kept.args(), out);
        slowlog::note(call, begin, *chosen, kept.args());
    }
    out.append(&behind[taken..]);
    out.set_version(version);
}

pub(super) fn watch(call: &mut Call<'_>, session: &mut Session, args: Args<'_>, out: &mut Replies) {
    if call.client.multi.is_some() {
        return out.error("ERR WATCH inside MULTI is not allowed");
    }
    let known: usize = call.client.watched.iter().map(Watched::memory_bytes).sum();
    let bytes_max = call.shared.options.input_bytes_max;
    if known + args.bytes_len() + args.len() * size_of::<Watched>() > bytes_max {
        return out.error(&format!("ERR watched keys of more than {bytes_max} bytes: watch fewer"));
    }
    let seen = transact(call.shared, session, out, |ops, _| {
        let look = |key: &[u8]| Ok(Watched { key: key.into(), stamp: collection::watched(ops, key)? });
        args.from(1).map(look).collect::<Result<Vec<_>, _>>()
    });
    match seen {
        Ok(seen) => {
            call.client.watched.extend(seen);
            out.ok();
        }
        Err(error) => out.error(&failed(&error)),
    }
}

pub(super) fn unwatch(call: &mut Call<'_>, _: Args<'_>, out: &mut Replies) {
    call.client.watched.clear();
    out.ok();
}
