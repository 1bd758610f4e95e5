//! CLIENT: names of connections, which there are, and their end.

use super::definition::{Answers, Call};
use super::syntax::{NOT_INTEGER, SYNTAX, help, is};
use crate::acl::{Acl, User};
use crate::numbers::integer;
use crate::peer::{Peer, Unblock};
use crate::resp::{Args, Replies};
use std::sync::Arc;

pub(super) const BAD_NAME: &str = "ERR Client names cannot contain spaces, newlines or special characters.";

pub(super) fn client(call: &mut Call<'_>, args: Args<'_>, out: &mut Replies) {
    let peer = &call.client.peer;
    match &*args[1].to_ascii_lowercase() {
        b"setname" => {
            if peer.set_name(&args[2]) {
                out.ok();
            } else {
                out.error(BAD_NAME);
            }
        }
        b"getname" => match peer.name() {
            name if name.is_empty() => out.null(),
            name => out.bulk(&name),
        },
        b"id" => out.integer(peer.id as i64),
        b"info" => out.verbatim(&peer.line()),
        b"list" => list(call, args, out),
        b"kill" => kill(call, args, out),
        b"reply" => reply(call, args, out),
        b"setinfo" => {
            // What the client's library is called: no command here asks for it.
            let is_known = is(&args[2], "lib-name") || is(&args[2], "lib-ver");
            if is_known {
                out.ok();
            } else {
                let name = String::from_utf8_lossy(&args[2]);
                out.error(&format!("ERR Unrecognized option '{name}'"));
            }
        }
        // No client is evicted here, and reading a key leaves no trace.
        b"no-evict" | b"no-touch" if is(&args[2], "on") || is(&args[2], "off") => out.ok(),
        b"no-evict" | b"no-touch" => out.error(SYNTAX),
        b"unblock" => unblock(call, args, out),
        _ => help("CLIENT", &HELP, out),
    }
}

/// Whether a connection is of a type.
type IsOfType = fn(&Peer) -> bool;

/// Which connections are of this type, in Redis's words.
///
/// # Errors
/// There is no such type.
fn of_type(word: &[u8]) -> Result<IsOfType, String> {
    match &*word.to_ascii_lowercase() {
        b"normal" => Ok(|peer| !peer.is_subscriber()),
        b"pubsub" => Ok(Peer::is_subscriber),
        b"master" | b"replica" | b"slave" => Ok(|_| false),
        _ => Err(format!("ERR Unknown client type '{}'", String::from_utf8_lossy(word))),
    }
}

fn list(call: &mut Call<'_>, args: Args<'_>, out: &mut Replies) {
    let peers = &call.shared.peers;
    let found: Result<Vec<Arc<Peer>>, String> = match args.get(2) {
        None => Ok(peers.snapshot()),
        Some(word) if is(word, "type") && args.len() == 4 => {
            of_type(&args[3]).map(|is_of_type| peers.filter(is_of_type))
        }
        Some(word) if is(word, "id") && args.len() > 3 => {
            let ids: Option<Vec<u64>> =
                args.from(3).map(|id| integer(id).and_then(|id| id.try_into().ok())).collect();
            let ids = ids.ok_or_else(|| "ERR Invalid client ID".into());
            ids.map(|ids| ids.into_iter().filter_map(|id| peers.get(id)).collect())
        }
        Some(_) => Err(SYNTAX.into()),
    };
    match found {
        Ok(found) => {
            let there = found.iter().filter(|peer| !peer.is_killed());
            out.verbatim(&there.map(|peer| peer.line()).collect::<String>());
        }
        Err(why) => out.error(&why),
    }
}

/// Which connections CLIENT KILL ends: those that have all of this.
#[derive(Default)]
struct Filter<'a> {
    user: Option<Arc<User>>,
    id: Option<u64>,
    address: Option<&'a [u8]>,
    local_address: Option<&'a [u8]>,
    is_of_type: Option<IsOfType>,
    age_s: Option<u64>,
    spares_caller: bool,
}

impl<'a> Filter<'a> {
    /// Reads pairs of words.
    ///
    /// # Errors
    /// The answer to what is no filter.
    fn read(args: Args<'a>, acl: &Acl) -> Result<Filter<'a>, String> {
        let mut filter = Filter { spares_caller: true, ..Filter::default() };
        let mut words = args.from(2);
        while let Some(word) = words.next() {
            let value = words.next().ok_or(SYNTAX)?;
            let positive = || integer(value).and_then(|number| u64::try_from(number).ok());
            match &*word.to_ascii_lowercase() {
                b"id" => {
                    let id = positive().filter(|id| *id > 0);
                    filter.id = Some(id.ok_or("ERR client-id should be greater than 0")?);
                }
                b"type" => filter.is_of_type = Some(of_type(value)?),
                b"user" => {
                    let unknown = || format!("ERR No such user '{}'", String::from_utf8_lossy(value));
                    filter.user = Some(acl.get(value).ok_or_else(unknown)?);
                }
                b"addr" => filter.address = Some(value),
                b"laddr" => filter.local_address = Some(value),
                b"maxage" => {
                    integer(value).ok_or("ERR maxage is not an integer or out of range")?;
                    let age_s = positive().filter(|age_s| *age_s > 0);
                    filter.age_s = Some(age_s.ok_or("ERR maxage should be greater than 0")?);
                }
                b"skipme" if is(value, "yes") => filter.spares_caller = true,
                b"skipme" if is(value, "no") => filter.spares_caller = false,
                _ => return Err(SYNTAX.into()),
            }
        }
        Ok(filter)
    }

    fn fits(&self, peer: &Peer, caller: &Peer) -> bool {
        let is = |wanted: Option<&[u8]>, text: &str| wanted.is_none_or(|wanted| wanted == text.as_bytes());
        self.id.is_none_or(|id| peer.id == id)
            && self.user.as_ref().is_none_or(|user| peer.is_of(user))
            && is(self.address, &peer.address)
            && is(self.local_address, &peer.local_address)
            && self.is_of_type.is_none_or(|is_of_type| is_of_type(peer))
            && !peer.is_killed()
            && self.age_s.is_none_or(|age_s| peer.age_ms() / 1000 >= age_s)
            && !(self.spares_caller && peer.id == caller.id)
    }
}

fn kill(call: &mut Call<'_>, args: Args<'_>, out: &mut Replies) {
    // The old form is an address alone, and its caller is not spared.
    let is_old = args.len() == 3;
    let filter = if is_old {
        Ok(Filter { address: Some(&args[2]), ..Filter::default() })
    } else {
        Filter::read(args, &call.shared.acl)
    };
    let filter = match filter {
        Ok(filter) => filter,
        Err(why) => return out.error(&why),
    };
    let mut killed = 0;
    for peer in call.shared.peers.snapshot() {
        if !filter.fits(&peer, &call.client.peer) {
            continue;
        }
        killed += 1;
        if peer.id == call.client.peer.id {
            // It gets its answer first.
            call.client.is_leaving = true;
        } else {
            peer.kill();
        }
    }
    match killed {
        0 if is_old => out.error("ERR No such client"),
        _ if is_old => out.ok(),
        killed => out.integer(killed),
    }
}

fn reply(call: &mut Call<'_>, args: Args<'_>, out: &mut Replies) {
    let answers = &mut call.client.answers;
    match &*args[2].to_ascii_lowercase() {
        b"on" => {
            *answers = Answers::All;
            out.ok();
        }
        b"off" => *answers = Answers::None,
        b"skip" if *answers == Answers::None => {}
        b"skip" => *answers = Answers::SkipNext,
        _ => out.error(SYNTAX),
    }
}

fn unblock(call: &Call<'_>, args: Args<'_>, out: &mut Replies) {
    if args.len() > 4 {
        return out.error(SYNTAX);
    }
    let reason = match args.get(3) {
        None => Unblock::Timeout,
        Some(word) if is(word, "timeout") => Unblock::Timeout,
        Some(word) if is(word, "error") => Unblock::Error,
        Some(_) => return out.error("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR"),
    };
    let Some(id) = integer(&args[2]) else { return out.error(NOT_INTEGER) };
    let peer = u64::try_from(id).ok().and_then(|id| call.shared.peers.get(id));
    let unblocked = peer.filter(|peer| peer.unblock(reason));
    if let Some(peer) = &unblocked {
        call.shared.waker.wake(peer);
    }
    out.integer(i64::from(unblocked.is_some()));
}

const HELP: [&str; 22] = [
    "GETNAME",
    "    Return the name of the current connection.",
    "ID",
    "    Return the ID of the current connection.",
    "INFO",
    "    Return information about the current client connection.",
    "KILL <ip:port>",
    "    Kill connection made from <ip:port>.",
    "KILL <option> <value> [<option> <value> [...]]",
    "    Kill connections: ADDR, LADDR, ID, MAXAGE, TYPE, USER, SKIPME (yes|no).",
    "LIST [TYPE <type> | ID <id> [<id> ...]]",
    "    Return information about client connections.",
    "NO-EVICT (ON|OFF), NO-TOUCH (ON|OFF)",
    "    Accepted, and of no effect.",
    "REPLY (ON|OFF|SKIP)",
    "    Control the replies sent to the current connection.",
    "SETNAME <name>",
    "    Assign the name <name> to the current connection.",
    "SETINFO <option> <value>",
    "    Accepted, and not kept.",
    "UNBLOCK <clientid> [TIMEOUT|ERROR]",
    "    Unblock the specified blocked client.",
];
