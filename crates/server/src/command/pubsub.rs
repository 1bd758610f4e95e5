//! SUBSCRIBE, UNSUBSCRIBE, PUBLISH and the like, and PUBSUB, which tells about them.
//!
//! After a command that has put something into the client's own mailbox, an answer or a message,
//! the client gets all that is in it. So a push is in the middle of what EXEC answers only where it
//! is with Redis. A client that wants no answers (CLIENT REPLY) gets its mailbox, too: pushes are
//! no answers.

use super::definition::{Answers, Call, Chosen, Client};
use super::syntax::{help, is, wrong_subcommand};
use crate::pubsub::{Kind, Subscriptions};
use crate::resp::{Args, Replies};
use crate::shared::Shared;
use std::sync::Arc;

/// What a client of RESP 2 may do while it subscribes to something.
const FOR_LISTENERS: [&str; 9] = [
    "subscribe",
    "psubscribe",
    "ssubscribe",
    "unsubscribe",
    "punsubscribe",
    "sunsubscribe",
    "ping",
    "quit",
    "reset",
];

pub(super) fn is_for_listeners(chosen: Chosen) -> bool {
    FOR_LISTENERS.contains(&chosen.command.name)
}

/// The answer to a client that does something else.
pub(super) fn refusal(chosen: Chosen) -> String {
    format!(
        "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context",
        chosen.full_name()
    )
}

/// The longest name. PUBLISH compares each pattern with its channel while others wait for it, and
/// that may take as many steps as the product of the two lengths.
const NAME_BYTES_MAX: usize = 4_096;

/// Whether these names are too long; then the client is told so.
fn are_too_long<'n>(mut names: impl Iterator<Item = &'n [u8]>, out: &mut Replies) -> bool {
    let are = names.any(|name| name.len() > NAME_BYTES_MAX);
    if are {
        out.error(&format!(
            "ERR a channel or pattern of more than {NAME_BYTES_MAX} bytes: use a shorter one"
        ));
    }
    are
}

/// Answers with what is in the mailbox, unless the client wants no answers.
fn deliver(client: &Client, out: &mut Replies) {
    if client.answers == Answers::All {
        client.deliver(out, usize::MAX);
    }
}

/// What the client subscribes to.
fn subscriptions<'c>(call: &'c mut Call<'_>) -> &'c mut Subscriptions {
    let Client { peer, subscriptions, .. } = &mut *call.client;
    subscriptions.get_or_insert_with(|| {
        Box::new(Subscriptions::new(Arc::clone(peer), call.shared.options.output_bytes_max))
    })
}

pub(super) fn subscribe(call: &mut Call<'_>, args: Args<'_>, kind: Kind, out: &mut Replies) {
    if let Err(error) = call.listen() {
        return out.error(&error);
    }
    if are_too_long(args.from(1), out) {
        return;
    }
    let (bytes_max, all) = (call.shared.options.input_bytes_max, &call.shared.pubsub);
    let some = subscriptions(call);
    if some.names_bytes() + Subscriptions::bytes_of(args.from(1)) > bytes_max {
        return out.error(&format!("ERR subscriptions of more than {bytes_max} bytes: subscribe to fewer"));
    }
    args.from(1).for_each(|name| some.add(all, kind, name));
    let login = &mut call.client.login;
    // The right may have been taken away before others could see these subscriptions.
    if !login.is_current() {
        let rights = login.rights();
        if args.from(1).any(|name| !rights.may_use_channel(name, kind == Kind::Pattern)) {
            call.client.peer.kill();
        }
    }
    deliver(call.client, out);
}

/// From these, or from all of the kind.
pub(super) fn unsubscribe(call: &mut Call<'_>, args: Args<'_>, kind: Kind, out: &mut Replies) {
    let all = &call.shared.pubsub;
    let some = subscriptions(call);
    if args.len() == 1 {
        some.remove_all(all, kind, out.version());
    } else {
        args.from(1).for_each(|name| some.remove(all, kind, name));
    }
    deliver(call.client, out);
}

pub(super) fn publish(call: &mut Call<'_>, args: Args<'_>, kind: Kind, out: &mut Replies) {
    if are_too_long(args.from(1).take(1), out) {
        return;
    }
    let Shared { pubsub, waker, .. } = call.shared;
    let published = pubsub.publish(kind, &args[1], &args[2], call.client.peer.id, waker);
    if published.is_own {
        deliver(call.client, out);
    }
    out.count(published.receivers);
}

pub(super) fn pubsub(call: &mut Call<'_>, args: Args<'_>, out: &mut Replies) {
    let all = &call.shared.pubsub;
    let kind = if is_of_shards(&args[1]) { Kind::Shard } else { Kind::Channel };
    match &*args[1].to_ascii_lowercase() {
        b"channels" | b"shardchannels" if args.len() > 3 => wrong_subcommand("PUBSUB", args, out),
        b"channels" | b"shardchannels" if are_too_long(args.from(2), out) => {}
        b"channels" | b"shardchannels" => {
            let names = all.names(kind, args.get(2).unwrap_or(b"*"));
            out.array(names.len());
            names.iter().for_each(|name| out.bulk(name));
        }
        b"numsub" | b"shardnumsub" => {
            out.array(2 * (args.len() - 2));
            for name in args.from(2) {
                out.bulk(name);
                out.count(all.subscriber_count(kind, name));
            }
        }
        b"numpat" => out.count(all.count(Kind::Pattern)),
        _ => help("PUBSUB", &HELP, out),
    }
}

/// Whether this subcommand is about channels of shards.
fn is_of_shards(word: &[u8]) -> bool {
    word.get(..5).is_some_and(|begin| is(begin, "shard"))
}

const HELP: [&str; 10] = [
    "CHANNELS [<pattern>]",
    "    Return the channels that have a subscriber and match the pattern, or all.",
    "NUMPAT",
    "    Return the number of patterns that have a subscriber.",
    "NUMSUB [<channel> ...]",
    "    Return the number of subscribers of each channel, without those of patterns.",
    "SHARDCHANNELS [<pattern>]",
    "    Return the shard channels that have a subscriber and match the pattern, or all.",
    "SHARDNUMSUB [<shardchannel> ...]",
    "    Return the number of subscribers of each shard channel.",
];
