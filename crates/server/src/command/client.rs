//! CLIENT: names of connections, and which there are.

use super::definition::Call;
use super::syntax::{help, is, wrong_subcommand};
use crate::resp::{Args, Replies};

pub(super) const BAD_NAME: &str = "ERR Client names cannot contain spaces, newlines or special characters.";

pub(super) fn client(call: &mut Call<'_>, args: Args<'_>, out: &mut Replies) {
    let peer = &call.client.peer;
    let wanted = |count: usize| args.len() == count;
    match &args[1] {
        word if is(word, "setname") && wanted(3) => {
            if peer.set_name(&args[2]) {
                out.ok();
            } else {
                out.error(BAD_NAME);
            }
        }
        word if is(word, "getname") && wanted(2) => match peer.name() {
            name if name.is_empty() => out.null(),
            name => out.bulk(&name),
        },
        word if is(word, "id") && wanted(2) => out.integer(peer.id as i64),
        word if is(word, "info") && wanted(2) => out.verbatim(&peer.line()),
        word if is(word, "list") => out.verbatim(&call.shared.peers.list()),
        word if is(word, "setinfo") && wanted(4) => {
            // What the client's library is called: no command here asks for it.
            let is_known = is(&args[2], "lib-name") || is(&args[2], "lib-ver");
            if is_known {
                out.ok();
            } else {
                let name = String::from_utf8_lossy(&args[2]);
                out.error(&format!("ERR Unrecognized option '{name}'"));
            }
        }
        word if is(word, "no-evict") && wanted(3) => out.ok(),
        word if is(word, "help") && wanted(2) => help("CLIENT", &HELP, out),
        _ => {
            let known = ["setname", "getname", "id", "info", "setinfo", "no-evict", "help"];
            wrong_subcommand("CLIENT", &known, args, out);
        }
    }
}

const HELP: [&str; 12] = [
    "GETNAME",
    "    Return the name of the current connection.",
    "ID",
    "    Return the ID of the current connection.",
    "INFO",
    "    Return information about the current client connection.",
    "LIST",
    "    Return information about client connections.",
    "SETNAME <name>",
    "    Assign the name <name> to the current connection.",
    "SETINFO <option> <value>",
    "    Accepted, and not kept.",
];
