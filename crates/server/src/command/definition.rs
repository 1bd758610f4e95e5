//! What a command is, and what it is given: the client that has sent it, and the server.
//!
//! The two need each other: a client that has said MULTI has a queue of commands.

use crate::acl::{Access, Acl, Login, User};
use crate::fault::{Fault, WRONG_TYPE};
use crate::numbers;
use crate::ops::Ops;
use crate::options::Model;
use crate::peer::Peer;
use crate::pubsub::{Left, PubSub, Subscriptions};
use crate::resp::{Args, Kept, Replies, Version};
use crate::shared::Shared;
use crate::value::Kind;
use crate::waiters::Ticket;
use manx::txn::{Error, Session};
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

/// What the server remembers of a client between two commands.
pub(crate) struct Client {
    pub(crate) peer: Arc<Peer>,
    /// As which user it has logged in: first as the default one.
    pub(super) login: Login,
    /// Whether it has said a password, or needed none.
    is_trusted: bool,
    /// What came since MULTI.
    pub(crate) multi: Option<Multi>,
    /// What it watches. A key may be here twice; then the first one counts, as the second cannot be
    /// fresher than what EXEC finds.
    pub(crate) watched: Vec<Watched>,
    /// The command that waits; nothing behind it is begun.
    pub(crate) waiting: Option<Box<Waiting>>,
    /// Nothing more is read from it.
    pub(crate) is_leaving: bool,
    pub(super) answers: Answers,
    /// Since it has subscribed to something, or tried to unsubscribe.
    pub(super) subscriptions: Option<Box<Subscriptions>>,
}

/// Which commands are answered (CLIENT REPLY).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answers {
    All,
    /// Neither this command nor the next one.
    SkipNext,
    /// Not this command.
    Skip,
    None,
}

/// What came since MULTI.
#[derive(Default)]
pub(crate) struct Multi {
    pub(crate) queued: Vec<(Chosen, Kept)>,
    /// The memory that `queued` takes.
    pub(crate) bytes: usize,
    /// One of the commands may need more memory.
    pub(crate) grows: bool,
    /// One of the commands was refused, so EXEC runs none.
    pub(crate) is_broken: bool,
}

/// A key that is watched, and which write it had last; none if it was not there.
pub(crate) struct Watched {
    pub(crate) key: Box<[u8]>,
    pub(crate) stamp: Option<u64>,
}

impl Watched {
    pub(crate) fn memory_bytes(&self) -> usize {
        size_of::<Watched>() + self.key.len()
    }
}

/// A command that waits.
pub(crate) struct Waiting {
    pub(super) chosen: Chosen,
    pub(super) run: Waits,
    pub(super) kept: Kept,
    pub(super) ticket: Ticket,
}

impl Waiting {
    pub(crate) fn memory_bytes(&self) -> usize {
        size_of::<Waiting>() + self.kept.memory_bytes() + self.ticket.memory_bytes()
    }
}

impl Client {
    pub(crate) fn new(peer: Arc<Peer>, acl: &Acl) -> Client {
        Client {
            peer,
            login: Login::new(Arc::clone(acl.default_user())),
            is_trusted: acl.is_open(),
            multi: None,
            watched: Vec::new(),
            waiting: None,
            is_leaving: false,
            answers: Answers::All,
            subscriptions: None,
        }
    }

    /// Whether something may come for it that it has not asked for just now.
    pub(crate) fn listens(&self) -> bool {
        self.waiting.is_some() || self.subscriptions.as_ref().is_some_and(|some| some.listens())
    }

    /// Whether it subscribes to something, and cannot tell a message from an answer.
    pub(super) fn only_listens(&self, version: Version) -> bool {
        version == Version::Two && self.subscriptions.as_ref().is_some_and(|some| !some.is_empty())
    }

    /// Moves messages for it to `out`, until that has this number of bytes.
    pub(crate) fn deliver(&self, out: &mut Replies, bytes: usize) -> Left {
        let some = self.subscriptions.as_ref().filter(|_| !self.is_leaving);
        some.map_or(Left::Nothing, |some| some.deliver(out, bytes))
    }

    /// It is leaving: nothing comes for it any more, and it is in no other client's way.
    #[cold]
    pub(crate) fn retire(&mut self, all: &PubSub) {
        self.waiting = None;
        self.unsubscribe(all);
        self.subscriptions = None;
    }

    /// Ends all its subscriptions.
    pub(crate) fn unsubscribe(&mut self, all: &PubSub) {
        if let Some(some) = &mut self.subscriptions {
            some.end(all);
        }
    }

    /// The memory that it takes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let queued = self.multi.as_ref().map_or(0, |multi| multi.bytes);
        let waiting = self.waiting.as_ref().map_or(0, |waiting| waiting.memory_bytes());
        queued + waiting + self.subscriptions.as_ref().map_or(0, |some| some.memory_bytes())
    }

    /// Whether it has said a password, or needs none.
    #[inline]
    pub(crate) fn is_known(&mut self, shared: &Shared) -> bool {
        self.is_trusted || self.needs_no_password(shared)
    }

    #[cold]
    fn needs_no_password(&mut self, shared: &Shared) -> bool {
        self.is_trusted = shared.acl.is_open();
        self.is_trusted
    }

    /// It has logged in as this user.
    pub(super) fn log_in(&mut self, user: Arc<User>) {
        self.peer.set_user(Arc::clone(&user));
        self.login = Login::new(user);
        self.is_trusted = true;
    }

    /// It is as when it came.
    pub(super) fn log_out(&mut self, acl: &Acl) {
        self.log_in(Arc::clone(acl.default_user()));
        self.is_trusted = acl.is_open();
    }

    /// Takes back what was answered since, if the client wants no answer. Messages are none.
    #[inline]
    pub(crate) fn silence(&mut self, out: &mut Replies, mark: usize) {
        self.answers = match self.answers {
            Answers::All => return,
            Answers::SkipNext => Answers::Skip,
            Answers::Skip => Answers::All,
            Answers::None => Answers::None,
        };
        out.cut(mark);
        self.deliver(out, usize::MAX);
    }

    /// A command was refused before it was queued.
    pub(super) fn refuse(&mut self) {
        if let Some(multi) = &mut self.multi {
            multi.is_broken = true;
        }
    }
}

/// The caller of a command.
pub(crate) struct Call<'c> {
    pub(crate) client: &'c mut Client,
    pub(crate) shared: &'c Shared,
}

impl Call<'_> {
    /// Prepares its connection for being woken. It comes before all by which others could wake it.
    ///
    /// # Errors
    /// The answer if that cannot be.
    pub(super) fn listen(&self) -> Result<(), String> {
        match self.shared.options.model {
            Model::Pool => Ok(()),
            Model::Threads => self.client.peer.make_bell(&self.shared.bells),
        }
    }
}

/// A command of data. It has answered once when it returns without an error.
type Data = fn(&mut Ops<'_, '_>, Args<'_>, &mut Replies) -> Result<(), Fault>;
/// A command that waits until there is something.
pub(super) type Waits = fn(&mut Ops<'_, '_>, Asked<'_>, &mut Replies) -> Result<Looked, Fault>;
/// A plain command.
pub(super) type Plain = fn(&mut Call<'_>, Args<'_>, &mut Replies);
/// A command that is about transactions. It is never in one.
type Outer = fn(&mut Call<'_>, &mut Session, Args<'_>, &mut Replies);

/// How a command works.
#[derive(Clone, Copy)]
pub(super) enum Run {
    Data(Data),
    Waiting(Waits),
    Plain(Plain),
    Outer(Outer),
}

/// What a command that waits is asked for.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) args: Args<'a>,
    /// Its client waits already.
    pub(super) again: bool,
}

impl Asked<'_> {
    /// What has been found. A client that waits already does not care what else the key has.
    pub(super) fn found<T>(&self, found: Result<Option<T>, Fault>) -> Result<Option<T>, Fault> {
        match found {
            Err(Fault::Message(why)) if self.again && why == WRONG_TYPE => Ok(None),
            found => found,
        }
    }
}

/// What a command that waits has found and answered.
#[derive(Clone, Copy, Debug)]
pub(super) enum Looked {
    Found,
    /// Nothing. It wants a collection of this kind, and would wait for this time, or for ever.
    Nothing {
        kind: Kind,
        timeout: Option<Duration>,
    },
}

/// A command.
#[derive(Clone, Copy)]
pub(crate) struct Command {
    /// Its number in the catalogue, and that of its first subcommand.
    pub(super) id: usize,
    pub(super) subcommand_id: usize,
    /// In small letters.
    pub(super) name: &'static str,
    pub(super) run: Run,
    /// The number of arguments, its name included; if negative, the least number.
    pub(super) arity: i32,
    /// [`WRITE`] and the like.
    pub(super) flags: u32,
    pub(super) keys: Keys,
    /// Since which version Redis has had it, and to which of its groups it belongs.
    pub(super) since: &'static str,
    pub(super) group: &'static str,
    pub(super) summary: &'static str,
    pub(super) subcommands: &'static [Subcommand],
}

/// Which arguments of a command are keys.
#[derive(Clone, Copy)]
pub(super) struct Keys {
    /// The first, the last (-1: of all), and each how many, as COMMAND tells it. Zeros if no key
    /// has a place of its own.
    pub(super) range: (i32, i32, i32),
    /// The argument that says how many further keys stand behind it.
    pub(super) counted_at: Option<usize>,
    /// Finds the place of a further key by the word before it, if there is one.
    pub(super) found_at: Option<fn(Args<'_>) -> Option<usize>>,
    /// How the first key is used, and how the others are, if the flags do not say it for all.
    pub(super) uses: Option<(Access, Access)>,
    /// Which arguments are channels. If some are, the range is theirs, and none is a key.
    pub(super) channels: Channels,
}

/// Which arguments of a command are channels, and which right to them it needs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Channels {
    None,
    First,
    All,
    /// Each is a pattern that has to be among the user's as it is.
    Patterns,
    /// All, and none needs a right.
    Free,
}

/// One of the commands that share a name, as CLIENT ID and CLIENT LIST do.
pub(crate) struct Subcommand {
    /// In small letters.
    pub(super) name: &'static str,
    /// As of a [`Command`]; both names are included.
    pub(super) arity: i32,
    pub(super) flags: u32,
    pub(super) keys: Keys,
}

/// It changes data.
pub(super) const WRITE: u32 = 1;
/// It reads data.
pub(super) const READ: u32 = 2;
/// It takes about the same time whatever there is.
pub(super) const FAST: u32 = 4;
/// A client that has not said the password may use it.
pub(super) const NO_AUTH: u32 = 8;
/// It cannot be queued.
pub(super) const NO_MULTI: u32 = 16;
/// It is done at once between MULTI and EXEC.
pub(super) const AT_ONCE: u32 = 32;
/// It is for the operators of the server.
pub(super) const ADMIN: u32 = 64;
/// It is about the connection, though it stands elsewhere in Redis's groups.
pub(super) const CONNECTION: u32 = 128;
/// It may do harm, or tell much, without being for operators alone.
pub(super) const DANGEROUS: u32 = 256;
/// It reads no more of a key than whether it is there, its type or its size.
pub(super) const METADATA: u32 = 512;
/// It writes, and answers what the key had or has.
pub(super) const RETURNS: u32 = 1024;
/// It may need more memory, so it is refused if there is none.
pub(super) const GROWS: u32 = 2048;
/// It is in Redis's category of commands for operators, though others may use it, too.
pub(super) const ADMIN_CATEGORY: u32 = 4096;
/// A subcommand that is in the category of commands about keys.
pub(super) const KEYSPACE: u32 = 8192;
/// Its client may have to wait.
pub(super) const BLOCKING: u32 = 16384;
/// It is about channels, though it may stand elsewhere in Redis's groups.
pub(super) const PUBSUB: u32 = 32768;
/// EXEC, which may have to begin again, does it after the commit, and so once.
pub(super) const ONCE: u32 = 65536;

impl Keys {
    pub(super) const NONE: Keys =
        Keys { range: (0, 0, 0), counted_at: None, found_at: None, uses: None, channels: Channels::None };

    /// Whether some have no place of their own.
    pub(super) fn are_movable(self) -> bool {
        self.counted_at.is_some() || self.found_at.is_some()
    }

    pub(super) fn are_none(self) -> bool {
        self.channels != Channels::None || self.range.0 == 0 && self.counted_at.is_none()
    }

    /// The keys among the arguments of a command; none if it counts them and the number is wrong.
    pub(super) fn among<'a>(
        self,
        args: Args<'a>,
    ) -> Option<impl Iterator<Item = &'a [u8]> + Clone + use<'a>> {
        let (first, last, step) = self.range;
        let last = if last < 0 { args.len() as i32 + last } else { last };
        let fixed =
            if self.are_none() || first == 0 { 0..0 } else { first as usize..(last + 1).max(0) as usize };
        let counted = match self.counted_at {
            Some(at) => {
                let count = usize::try_from(numbers::integer(args.get(at)?)?).ok()?;
                (count > 0 && count < args.len() - at).then_some(at + 1..at + 1 + count)?
            }
            None => 0..0,
        };
        let named = self.found_at.and_then(|find| find(args));
        let places = fixed.step_by(step.max(1) as usize).chain(counted).chain(named);
        Some(places.filter_map(move |place| args.get(place)))
    }
}

impl Command {
    /// Returns the command, or that of its subcommands which the arguments name.
    ///
    /// # Errors
    /// There is no such subcommand.
    #[inline]
    pub(super) fn choose(&'static self, args: Args<'_>) -> Result<Chosen, Unknown> {
        match args.get(1) {
            Some(word) if !self.subcommands.is_empty() => {
                let is_it = |known: &Subcommand| word.eq_ignore_ascii_case(known.name.as_bytes());
                let index = self.subcommands.iter().position(is_it).ok_or(Unknown)?;
                let (subcommand, id) = (Some(&self.subcommands[index]), self.subcommand_id + index);
                Ok(Chosen { command: self, subcommand, id })
            }
            _ => Ok(Chosen { command: self, subcommand: None, id: self.id }),
        }
    }
}

/// A command, or one of its subcommands.
#[derive(Clone, Copy)]
pub(crate) struct Chosen {
    pub(super) command: &'static Command,
    pub(super) subcommand: Option<&'static Subcommand>,
    /// Its number in the catalogue.
    pub(super) id: usize,
}

impl Chosen {
    pub(super) fn has(&self, flag: u32) -> bool {
        (self.command.flags | self.subcommand.map_or(0, |subcommand| subcommand.flags)) & flag != 0
    }

    pub(super) fn arity(&self) -> i32 {
        self.subcommand.map_or(self.command.arity, |subcommand| subcommand.arity)
    }

    pub(super) fn keys(&self) -> Keys {
        self.subcommand.map_or(self.command.keys, |subcommand| subcommand.keys)
    }

    /// Whether what it writes into a key depends on what other keys have.
    pub(super) fn copies(&self) -> bool {
        let reads_only = |access: Access| access.reads && !access.writes;
        self.keys().uses.is_some_and(|(first, others)| reads_only(first) || reads_only(others))
    }

    /// The whole name, as in `client|id`.
    pub(super) fn full_name(&self) -> Cow<'static, str> {
        match self.subcommand {
            None => self.command.name.into(),
            Some(subcommand) => format!("{}|{}", self.command.name, subcommand.name).into(),
        }
    }
}

/// There is no such subcommand.
#[derive(Debug)]
pub(super) struct Unknown;

/// Returns whether a command of this arity takes this number of arguments.
#[inline]
pub(super) fn takes(arity: i32, count: usize) -> bool {
    let wanted = arity.unsigned_abs() as usize;
    if arity < 0 { count >= wanted } else { count == wanted }
}

/// Does a command of data, and answers also if it cannot be done; then it returns None.
pub(super) fn perform<R>(
    ops: &mut Ops<'_, '_>,
    out: &mut Replies,
    run: impl FnOnce(&mut Ops<'_, '_>, &mut Replies) -> Result<R, Fault>,
) -> Result<Option<R>, Error> {
    let mark = out.mark();
    match run(ops, out) {
        Ok(done) => Ok(Some(done)),
        Err(Fault::Message(text)) => {
            out.cut(mark);
            out.error(&text);
            Ok(None)
        }
        Err(Fault::Store(error)) => Err(error),
    }
}
