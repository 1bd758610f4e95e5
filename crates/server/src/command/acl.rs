//! ACL: users, and what each of them may do.

use super::definition::{Call, Command, takes};
use super::permission::check;
use super::syntax::{NOT_INTEGER, help, is, wrong_number};
use crate::acl::{CATEGORIES, Catalogue, Categories, DEFAULT, Reason, User, hex, is_word};
use crate::numbers::integer;
use crate::peer::Peer;
use crate::pubsub::Kind;
use crate::resp::{Args, Replies};
use ring::rand::{SecureRandom as _, SystemRandom};
use std::fmt::Write as _;
use std::sync::Arc;

/// The longest password that is made.
const GENPASS_BITS_MAX: i64 = 4096;
const NO_FILE: &str = "ERR This server has no ACL file: name one with --acl-file when it is started";

/// The commands that there are.
#[derive(Clone, Copy)]
pub(super) struct Known {
    pub(super) catalogue: &'static Catalogue,
    pub(super) find: fn(&[u8]) -> Option<&'static Command>,
}

pub(super) fn acl(call: &mut Call<'_>, args: Args<'_>, known: Known, out: &mut Replies) {
    let acl = &call.shared.acl;
    match &*args[1].to_ascii_lowercase() {
        b"cat" => cat(args, known.catalogue, out),
        b"deluser" => delete(call, args, out),
        b"dryrun" => dry_run(call, args, known, out),
        b"genpass" => generate(args, out),
        b"getuser" => match acl.get(&args[2]) {
            Some(user) => describe(&user, out),
            None => out.null(),
        },
        b"list" => {
            let all = acl.all();
            out.array(all.len());
            all.iter().for_each(|user| out.bulk(&user.line()));
        }
        b"load" => match acl.has_file().then(|| acl.load(known.catalogue)) {
            None => out.error(NO_FILE),
            Some(Ok(changed)) => {
                changed.iter().for_each(|user| disconnect(call, user));
                disconnect_subscribers(call, acl.default_user());
                out.ok();
            }
            Some(Err(why)) => out.error(&format!(
                "ERR {why} WARNING: ACL errors detected, no change to the previously active ACL rules was performed"
            )),
        },
        b"log" => log(call, args, out),
        b"save" => match acl.has_file().then(|| acl.save()) {
            None => out.error(NO_FILE),
            Some(Ok(())) => out.ok(),
            Some(Err(why)) => out.error(&format!("ERR There was an error trying to save the ACLs: {why}")),
        },
        b"setuser" => set(call, args, known.catalogue, out),
        b"users" => {
            let all = acl.all();
            out.array(all.len());
            all.iter().for_each(|user| out.bulk(&user.name));
        }
        b"whoami" => out.bulk(&call.client.login.user.name),
        _ => help("ACL", &HELP, out),
    }
}

fn cat(args: Args<'_>, catalogue: &Catalogue, out: &mut Replies) {
    let Some(name) = args.get(2) else {
        out.array(CATEGORIES.len());
        return CATEGORIES.iter().for_each(|name| out.bulk(name.as_bytes()));
    };
    let Some(category) = Categories::named(name) else {
        let name = String::from_utf8_lossy(&name[..name.len().min(128)]);
        return out.error(&format!("ERR Unknown category '{name}'"));
    };
    let within: Vec<_> = catalogue.within(category).collect();
    out.array(within.len());
    within.into_iter().for_each(|id| out.bulk(catalogue.entries[id].name.as_bytes()));
}

fn set(call: &mut Call<'_>, args: Args<'_>, catalogue: &Catalogue, out: &mut Replies) {
    if !is_word(&args[2]) {
        return out.error("ERR Usernames can't contain spaces or null characters");
    }
    match call.shared.acl.set(&args[2], args.from(3), catalogue) {
        Ok(()) => {
            if let Some(user) = call.shared.acl.get(&args[2]) {
                disconnect_subscribers(call, &user);
            }
            out.ok();
        }
        Err((rule, why)) => {
            let rule = String::from_utf8_lossy(rule);
            out.error(&format!("ERR Error in ACL SETUSER modifier '{rule}': {why}"));
        }
    }
}

fn delete(call: &mut Call<'_>, args: Args<'_>, out: &mut Replies) {
    if args.from(2).any(|name| name == DEFAULT) {
        return out.error("ERR The 'default' user cannot be removed");
    }
    let removed: Vec<_> = args.from(2).filter_map(|name| call.shared.acl.remove(name)).collect();
    removed.iter().for_each(|user| disconnect(call, user));
    out.count(removed.len());
}

/// Ends all connections of a user.
fn disconnect(call: &mut Call<'_>, user: &Arc<User>) {
    call.shared.peers.filter(|peer| peer.is_of(user)).iter().for_each(|peer| end(call, peer));
}

/// Ends the connections of a user that subscribe to what the user has no right to any more. A
/// connection that subscribes at the same time sees to that itself (`pubsub.rs`).
fn disconnect_subscribers(call: &mut Call<'_>, user: &Arc<User>) {
    let rights = user.rights();
    let allows = |kind: Kind, name: &[u8]| rights.may_use_channel(name, kind == Kind::Pattern);
    let without_right = call.shared.pubsub.without_right(allows);
    without_right.iter().filter(|peer| peer.is_of(user)).for_each(|peer| end(call, peer));
}

/// Ends a connection; the caller's after its answer.
fn end(call: &mut Call<'_>, peer: &Peer) {
    if peer.id == call.client.peer.id {
        call.client.is_leaving = true;
    } else {
        peer.kill();
    }
}

fn describe(user: &User, out: &mut Replies) {
    let rights = user.rights();
    out.map(6);
    out.bulk(b"flags");
    let flags = rights.flags();
    out.set(flags.len());
    flags.iter().for_each(|flag| out.bulk(flag.as_bytes()));
    out.bulk(b"passwords");
    out.array(rights.passwords.len());
    rights.passwords.iter().for_each(|password| out.bulk(hex(password).as_bytes()));
    out.bulk(b"commands");
    out.bulk(rights.command_rules().as_bytes());
    out.bulk(b"keys");
    out.bulk(&rights.key_rules());
    out.bulk(b"channels");
    out.bulk(&rights.channel_rules());
    out.bulk(b"selectors");
    out.array(0);
}

fn dry_run(call: &mut Call<'_>, args: Args<'_>, known: Known, out: &mut Replies) {
    let shown = |arg: &[u8]| String::from_utf8_lossy(arg).into_owned();
    let Some(user) = call.shared.acl.get(&args[2]) else {
        return out.error(&format!("ERR User '{}' not found", shown(&args[2])));
    };
    let tried = args.behind(3);
    let Some(Ok(chosen)) = (known.find)(&tried[0]).map(|command| command.choose(tried)) else {
        return out.error(&format!("ERR Command '{}' not found", shown(&tried[0])));
    };
    if !takes(chosen.arity(), tried.len()) {
        return out.error(&wrong_number(&chosen.full_name()));
    }
    match check(&user.rights(), chosen, tried) {
        Ok(()) => out.ok(),
        Err(refused) => out.bulk(&refused.answer_dry(chosen)),
    }
}

fn generate(args: Args<'_>, out: &mut Replies) {
    let bits = match args.get(2).map(integer) {
        None => 256,
        Some(Some(bits @ 1..=GENPASS_BITS_MAX)) => bits,
        Some(Some(_)) => {
            return out.error(&format!(
                "ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to {GENPASS_BITS_MAX}"
            ));
        }
        Some(None) => return out.error(NOT_INTEGER),
    };
    let digits = (bits as usize).div_ceil(4);
    let mut bytes = vec![0; digits.div_ceil(2)];
    if SystemRandom::new().fill(&mut bytes).is_err() {
        return out.error("ERR the system has no random numbers now");
    }
    let mut text = String::new();
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    out.bulk(&text.as_bytes()[..digits]);
}

fn log(call: &mut Call<'_>, args: Args<'_>, out: &mut Replies) {
    let log = &call.shared.acl.log;
    let count = match args.get(2) {
        None => 10,
        Some(word) if is(word, "reset") => {
            log.clear();
            return out.ok();
        }
        Some(word) => match integer(word) {
            Some(count) => usize::try_from(count).unwrap_or(0),
            None => return out.error(NOT_INTEGER),
        },
    };
    let entries = log.latest(count);
    out.array(entries.len());
    for entry in entries {
        let reason = match entry.reason {
            Reason::Command => "command",
            Reason::Key => "key",
            Reason::Channel => "channel",
            Reason::Auth => "auth",
        };
        out.map(7);
        out.bulk(b"count");
        out.integer(entry.count);
        out.bulk(b"reason");
        out.bulk(reason.as_bytes());
        out.bulk(b"context");
        out.bulk(if entry.is_in_multi { b"multi" } else { b"toplevel" });
        out.bulk(b"object");
        out.bulk(&entry.object);
        out.bulk(b"username");
        out.bulk(&entry.user);
        out.bulk(b"age-seconds");
        out.double(entry.when.elapsed().as_millis() as f64 / 1000.0);
        out.bulk(b"client-info");
        out.bulk(entry.client.as_bytes());
    }
}

const HELP: [&str; 26] = [
    "CAT [<category>]",
    "    List all commands that belong to <category>, or all command categories",
    "    when no category is specified.",
    "DELUSER <username> [<username> ...]",
    "    Delete a list of users.",
    "DRYRUN <username> <command> [<arg> ...]",
    "    Returns whether the user can execute the given command without executing the command.",
    "GETUSER <username>",
    "    Get the user's details.",
    "GENPASS [<bits>]",
    "    Generate a secure 256-bit user password. The optional `bits` argument can",
    "    be used to specify a different size.",
    "LIST",
    "    Show users details in config file format.",
    "LOAD",
    "    Reload users from the ACL file.",
    "LOG [<count> | RESET]",
    "    Show the ACL log entries.",
    "SAVE",
    "    Save the current config to the ACL file.",
    "SETUSER <username> <attribute> [<attribute> ...]",
    "    Create or modify a user with the specified attributes.",
    "USERS",
    "    List all the registered usernames.",
    "WHOAMI",
    "    Return the current connection username.",
];
