//! PING, HELLO, AUTH and the end of a connection.

use super::client::BAD_NAME;
use super::definition::{Answers, Call};
use super::info::REDIS_VERSION;
use super::syntax::{NOT_INTEGER, SYNTAX, is, wrong_number};
use crate::acl::{DEFAULT, Reason};
use crate::numbers::integer;
use crate::resp::{Args, Replies, Version};

pub(super) fn ping(call: &mut Call<'_>, args: Args<'_>, out: &mut Replies) {
    match args.len() {
        1 | 2 if call.client.only_listens(out.version()) => {
            out.array(2);
            out.bulk(b"pong");
            out.bulk(args.get(1).unwrap_or_default());
        }
        1 => out.simple("PONG"),
        2 => out.bulk(&args[1]),
        _ => out.error(&wrong_number("ping")),
    }
}

pub(super) fn echo(_: &mut Call<'_>, args: Args<'_>, out: &mut Replies) {
    out.bulk(&args[1]);
}

/// Whether this is the number of a database: there is one.
///
/// # Errors
/// The answer if it is not.
pub(super) fn database(number: &[u8]) -> Result<(), &'static str> {
    match integer(number) {
        Some(0) => Ok(()),
        Some(number) if i32::try_from(number).is_ok() => Err("ERR DB index is out of range"),
        Some(_) => Err("ERR value is out of range, value must between -2147483648 and 2147483647"),
        None => Err(NOT_INTEGER),
    }
}

pub(super) fn select(_: &mut Call<'_>, args: Args<'_>, out: &mut Replies) {
    match database(&args[1]) {
        Ok(()) => out.ok(),
        Err(error) => out.error(error),
    }
}

/// There are no replicas, so there is nothing to wait for.
pub(super) fn wait(_: &mut Call<'_>, args: Args<'_>, out: &mut Replies) {
    match (integer(&args[1]), integer(&args[2])) {
        (None, _) => out.error(NOT_INTEGER),
        (_, None) => out.error("ERR timeout is not an integer or out of range"),
        (_, Some(..0)) => out.error("ERR timeout is negative"),
        _ => out.integer(0),
    }
}

const WRONG: &str = "WRONGPASS invalid username-password pair or user is disabled.";

/// Logs in, and returns whether that is right; a failure is noted in the log.
fn login(call: &mut Call<'_>, command: &[u8], user: &[u8], password: &[u8]) -> bool {
    let acl = &call.shared.acl;
    match acl.log_in(user, password) {
        Some(user) => call.client.log_in(user),
        None => {
            let client = call.client.peer.line().trim_end().to_owned();
            acl.log.add(Reason::Auth, call.client.multi.is_some(), command, user, client);
            return false;
        }
    }
    true
}

pub(super) fn auth(call: &mut Call<'_>, args: Args<'_>, out: &mut Replies) {
    let is_right = match args.len() {
        2 if call.shared.acl.default_user().rights().needs_no_password => {
            return out.error(
                "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?",
            );
        }
        2 => login(call, &args[0], DEFAULT, &args[1]),
        3 => login(call, &args[0], &args[1], &args[2]),
        _ => return out.error(SYNTAX),
    };
    if is_right { out.ok() } else { out.error(WRONG) }
}

pub(super) fn hello(call: &mut Call<'_>, args: Args<'_>, out: &mut Replies) {
    let version = match args.get(1).map(integer) {
        None => out.version(),
        Some(Some(2)) => Version::Two,
        Some(Some(3)) => Version::Three,
        Some(None) => {
            return out.error("ERR Protocol version is not an integer or out of range");
        }
        Some(Some(_)) => return out.error("NOPROTO unsupported protocol version"),
    };
    let (mut name, mut words) = (None, args.from(2));
    while let Some(word) = words.next() {
        if is(word, "auth")
            && let (Some(user), Some(password)) = (words.next(), words.next())
        {
            if !login(call, &args[0], user, password) {
                return out.error(WRONG);
            }
        } else if is(word, "setname")
            && let Some(new) = words.next()
        {
            name = Some(new);
        } else {
            let word = String::from_utf8_lossy(word);
            return out.error(&format!("ERR Syntax error in HELLO option '{word}'"));
        }
    }
    if !call.client.is_known(call.shared) {
        return out.error(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time",
        );
    }
    if let Some(name) = name
        && !call.client.peer.set_name(name)
    {
        return out.error(BAD_NAME);
    }
    out.set_version(version);
    out.map(7);
    out.bulk(b"server");
    out.bulk(b"redis");
    out.bulk(b"version");
    out.bulk(REDIS_VERSION.as_bytes());
    out.bulk(b"proto");
    out.integer(if version == Version::Two { 2 } else { 3 });
    out.bulk(b"id");
    out.integer(call.client.peer.id as i64);
    out.bulk(b"mode");
    out.bulk(b"standalone");
    out.bulk(b"role");
    out.bulk(b"master");
    out.bulk(b"modules");
    out.array(0);
}

pub(super) fn reset(call: &mut Call<'_>, _: Args<'_>, out: &mut Replies) {
    call.client.multi = None;
    call.client.watched.clear();
    // Before its answer comes what was published until now.
    call.client.unsubscribe(&call.shared.pubsub);
    call.client.deliver(out, usize::MAX);
    call.client.log_out(&call.shared.acl);
    call.client.peer.set_name(b"");
    call.client.answers = Answers::All;
    out.set_version(Version::Two);
    out.simple("RESET");
}

pub(super) fn quit(call: &mut Call<'_>, _: Args<'_>, out: &mut Replies) {
    call.client.is_leaving = true;
    out.ok();
}

pub(super) fn shutdown(call: &mut Call<'_>, args: Args<'_>, out: &mut Replies) {
    let mut is_abort = false;
    for word in args.from(1) {
        if is(word, "abort") {
            is_abort = true;
        } else if !["save", "nosave", "now", "force"].iter().any(|known| is(word, known)) {
            return out.error(SYNTAX);
        }
    }
    if is_abort {
        // A shutdown that has begun closes this connection first.
        return out.error("ERR No shutdown in progress.");
    }
    call.client.is_leaving = true;
    call.shared.stop.stop();
}
