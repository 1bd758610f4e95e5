//! Whether a user may do a command, and what is said if it may not.
//!
//! A user with all rights costs a comparison of two numbers and a flag. A command that is refused
//! has done nothing: it is looked at before it is queued, and again before EXEC does it.

use super::definition::{Call, Channels, Chosen, METADATA, NO_AUTH, READ, RETURNS, WRITE};
use super::syntax::is;
use crate::acl::{Access, Reason, Rights};
use crate::resp::Args;

/// What the user has no right to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused<'a> {
    Command,
    Key(&'a [u8]),
    Channel(&'a [u8]),
}

/// Whether these rights are enough for a command with these arguments.
///
/// # Errors
/// What they lack.
#[inline]
pub(super) fn check<'a>(rights: &Rights, chosen: Chosen, args: Args<'a>) -> Result<(), Refused<'a>> {
    if rights.is_unlimited() { Ok(()) } else { check_each(rights, chosen, args) }
}

#[cold]
fn check_each<'a>(rights: &Rights, chosen: Chosen, args: Args<'a>) -> Result<(), Refused<'a>> {
    if !chosen.has(NO_AUTH) && !rights.may_run(chosen.id) {
        return Err(Refused::Command);
    }
    let (first, others) = chosen.keys().uses.unwrap_or_else(|| {
        let access = access(chosen, args);
        (access, access)
    });
    // A command whose number of keys is wrong uses none: it only answers that.
    let mut keys = chosen.keys().among(args).into_iter().flatten().enumerate();
    match keys.find(|(number, key)| !rights.may_use(key, if *number == 0 { first } else { others })) {
        None => check_channels(rights, chosen, args),
        Some((_, key)) => Err(Refused::Key(key)),
    }
}

fn check_channels<'a>(rights: &Rights, chosen: Chosen, args: Args<'a>) -> Result<(), Refused<'a>> {
    let channels = chosen.command.keys.channels;
    let count = match channels {
        Channels::None | Channels::Free => 0,
        Channels::First => 1,
        Channels::All | Channels::Patterns => args.len(),
    };
    let is_pattern = channels == Channels::Patterns;
    match args.from(1).take(count).find(|name| !rights.may_use_channel(name, is_pattern)) {
        None => Ok(()),
        Some(name) => Err(Refused::Channel(name)),
    }
}

/// How a command uses all its keys.
fn access(chosen: Chosen, args: Args<'_>) -> Access {
    let returns =
        chosen.has(RETURNS) || chosen.command.name == "set" && args.from(3).any(|word| is(word, "get"));
    let only_reads = chosen.command.name == "bitfield" && args.from(2).step_by(3).all(|word| is(word, "get"));
    Access {
        reads: chosen.has(READ) && !chosen.has(METADATA) || returns,
        writes: chosen.has(WRITE) && !only_reads,
    }
}

/// Whether the client may do a command. A refusal is noted in the log.
///
/// # Errors
/// What it lacks.
#[inline]
pub(super) fn may<'a>(
    call: &mut Call<'_>,
    chosen: Chosen,
    args: Args<'a>,
    is_in_multi: bool,
) -> Result<(), Refused<'a>> {
    let checked = check(call.client.login.rights(), chosen, args);
    if let Err(refused) = checked {
        note(call, chosen, refused, is_in_multi);
    }
    checked
}

#[cold]
fn note(call: &Call<'_>, chosen: Chosen, refused: Refused<'_>, is_in_multi: bool) {
    let name = chosen.full_name();
    let (reason, object) = match refused {
        Refused::Command => (Reason::Command, name.as_bytes()),
        Refused::Key(key) => (Reason::Key, key),
        Refused::Channel(name) => (Reason::Channel, name),
    };
    let client = call.client.peer.line().trim_end().to_owned();
    call.shared.acl.log.add(reason, is_in_multi, object, &call.client.login.user.name, client);
}

impl Refused<'_> {
    /// The answer to the client.
    pub(super) fn answer(self, chosen: Chosen) -> String {
        match self {
            Refused::Command => {
                format!("NOPERM this user has no permissions to run the '{}' command", chosen.full_name())
            }
            Refused::Key(_) => {
                "NOPERM this user has no permissions to access one of the keys used as arguments".into()
            }
            Refused::Channel(_) => {
                "NOPERM this user has no permissions to access one of the channels used as arguments".into()
            }
        }
    }

    /// The answer within that to EXEC: when the command was queued, the client had the right.
    pub(super) fn answer_late(self) -> String {
        let why = match self {
            Refused::Command => "no permission to execute the command or subcommand",
            Refused::Key(_) => "no permission to touch the specified keys",
            Refused::Channel(_) => "no permission to access one of the channels used as arguments",
        };
        format!(
            "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This command is no longer allowed for the following reason: {why}"
        )
    }

    /// The answer to ACL DRYRUN.
    pub(super) fn answer_dry(self, chosen: Chosen) -> Vec<u8> {
        match self {
            Refused::Command => {
                format!("This user has no permissions to run the '{}' command", chosen.full_name()).into()
            }
            Refused::Key(key) => [b"This user has no permissions to access the '", key, b"' key"].concat(),
            Refused::Channel(name) => {
                [b"This user has no permissions to access the '", name, b"' channel"].concat()
            }
        }
    }
}
