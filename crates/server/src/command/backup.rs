//! BGSAVE and LASTSAVE: a copy of the store, made while clients go on.

use super::definition::Call;
use super::syntax::{SYNTAX, is};
use crate::backups::Refused;
use crate::resp::{Args, Replies};

pub(super) fn bgsave(call: &mut Call<'_>, args: Args<'_>, out: &mut Replies) {
    if args.len() > 2 || args.from(1).any(|word| !is(word, "schedule")) {
        return out.error(SYNTAX);
    }
    match call.shared.backups.begin(&call.shared.store) {
        Ok(()) => out.simple("Background saving started"),
        Err(Refused::Running) => out.error("ERR Background save already in progress"),
        Err(Refused::NoFolder) => {
            out.error("ERR there is no folder for copies: start the server with --backup-dir DIR");
        }
        Err(Refused::NoThread(why)) => out.error(&format!("ERR the system has no thread for it: {why}")),
    }
}

pub(super) fn lastsave(call: &mut Call<'_>, _: Args<'_>, out: &mut Replies) {
    out.integer(call.shared.backups.state().last_unix_s as i64);
}
