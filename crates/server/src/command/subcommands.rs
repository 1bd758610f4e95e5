//! The subcommands of the commands that have some. A word that is not here is refused before the
//! command sees it, and so is a wrong number of arguments.

use super::definition::{
    ADMIN, CONNECTION, KEYSPACE, Keys, METADATA, NO_MULTI, ONCE, PUBSUB as OF_CHANNELS, READ, Subcommand,
};

const fn subcommand(name: &'static str, arity: i32, flags: u32) -> Subcommand {
    Subcommand { name, arity, flags, keys: Keys::NONE }
}

/// One about a key, which stands behind it.
const fn of_key(name: &'static str, arity: i32, flags: u32) -> Subcommand {
    Subcommand { name, arity, flags, keys: Keys { range: (2, 2, 1), ..Keys::NONE } }
}

/// EXEC may have to run commands again: what would then do more or answer otherwise cannot be
/// queued.
const CONTROL: u32 = ADMIN | CONNECTION | NO_MULTI;

pub(super) const ACL: &[Subcommand] = &[
    subcommand("cat", -2, 0),
    subcommand("deluser", -3, ADMIN | NO_MULTI),
    subcommand("dryrun", -4, ADMIN),
    subcommand("genpass", -2, 0),
    subcommand("getuser", 3, ADMIN),
    subcommand("help", 2, 0),
    subcommand("list", 2, ADMIN),
    subcommand("load", 2, ADMIN | NO_MULTI),
    subcommand("log", -2, ADMIN | NO_MULTI),
    subcommand("save", 2, ADMIN | NO_MULTI),
    subcommand("setuser", -3, ADMIN | NO_MULTI),
    subcommand("users", 2, ADMIN),
    subcommand("whoami", 2, 0),
];

pub(super) const CLIENT: &[Subcommand] = &[
    subcommand("getname", 2, CONNECTION),
    subcommand("help", 2, CONNECTION),
    subcommand("id", 2, CONNECTION),
    subcommand("info", 2, CONNECTION),
    subcommand("kill", -3, CONTROL),
    subcommand("list", -2, ADMIN | CONNECTION),
    subcommand("no-evict", 3, ADMIN | CONNECTION),
    subcommand("no-touch", 3, CONNECTION),
    subcommand("reply", 3, CONNECTION | NO_MULTI),
    subcommand("setinfo", 4, CONNECTION),
    subcommand("setname", 3, CONNECTION),
    subcommand("unblock", -3, ADMIN | CONNECTION | ONCE),
];

pub(super) const COMMAND: &[Subcommand] = &[
    subcommand("count", 2, CONNECTION),
    subcommand("docs", -2, CONNECTION),
    subcommand("getkeys", -4, CONNECTION),
    subcommand("help", 2, CONNECTION),
    subcommand("info", -2, CONNECTION),
    subcommand("list", -2, CONNECTION),
];

pub(super) const CONFIG: &[Subcommand] = &[
    subcommand("get", -3, ADMIN),
    subcommand("help", 2, 0),
    subcommand("resetstat", 2, ADMIN),
    subcommand("rewrite", 2, ADMIN),
    subcommand("set", -4, ADMIN),
];

pub(super) const PUBSUB: &[Subcommand] = &[
    subcommand("channels", -2, OF_CHANNELS),
    subcommand("help", 2, 0),
    subcommand("numpat", 2, OF_CHANNELS),
    subcommand("numsub", -2, OF_CHANNELS),
    subcommand("shardchannels", -2, OF_CHANNELS),
    subcommand("shardnumsub", -2, OF_CHANNELS),
];

pub(super) const SLOWLOG: &[Subcommand] = &[
    subcommand("get", -2, ADMIN),
    subcommand("help", 2, 0),
    subcommand("len", 2, ADMIN),
    subcommand("reset", 2, ADMIN),
];

pub(super) const MEMORY: &[Subcommand] = &[subcommand("help", 2, 0), of_key("usage", -3, READ | METADATA)];

pub(super) const OBJECT: &[Subcommand] = &[
    of_key("encoding", 3, READ | METADATA | KEYSPACE),
    of_key("freq", 3, READ | METADATA | KEYSPACE),
    subcommand("help", 2, KEYSPACE),
    of_key("idletime", 3, READ | METADATA | KEYSPACE),
    of_key("refcount", 3, READ | METADATA | KEYSPACE),
];
