//! OBJECT: how a key's value is kept, and when and how often the key is used. To ask is no use.
//!
//! There is one form of each kind here. What OBJECT ENCODING answers is the form that Redis would
//! have chosen for this value, with its default limits, if the client had just set it.

use super::syntax::help;
use crate::collection::Collection;
use crate::fault::Fault;
use crate::numbers;
use crate::ops::{Enough, Ops};
use crate::resp::{Args, Replies};
use crate::value::{Found, Kind};

/// The longest string that Redis keeps beside its head.
const EMBEDDED_BYTES_MAX: usize = 44;
/// The most members of a hash or of a set of integers, and of a sorted set, that it packs, and the
/// longest one.
const PACKED_MAX: u64 = 512;
const SORTED_PACKED_MAX: u64 = 128;
const PACKED_BYTES_MAX: usize = 64;
/// Integers below this one are shared by all keys, and this is their count of references.
const SHARED_END: i64 = 10_000;
const SHARED_COUNT: i64 = i32::MAX as i64;

const NOT_BY_COUNT: &str = "ERR An LFU maxmemory policy is not selected, access frequency not tracked. \
     Please note that when switching between policies at runtime LRU and LFU data will take some time \
     to adjust.";
const BY_COUNT: &str = "ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that \
     when switching between policies at runtime LRU and LFU data will take some time to adjust.";
const NOT_BY_AGE: &str = "ERR idle time is tracked with --eviction allkeys-lru or volatile-lru only";

pub(super) fn object(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    let Some(key) = args.get(2) else {
        help("OBJECT", &HELP, out);
        return Ok(());
    };
    let Some(found) = ops.look_at(key)? else {
        out.null();
        return Ok(());
    };
    let (access, now_ms) = (ops.access(), ops.now_ms());
    match &*args[1].to_ascii_lowercase() {
        b"encoding" => out.bulk(encoding(ops, key, &found)?.as_bytes()),
        b"freq" => {
            let count = access.and_then(|access| access.frequency(key, now_ms));
            out.integer(count.ok_or(NOT_BY_COUNT)?.into());
        }
        b"idletime" => {
            let access = access.ok_or(NOT_BY_AGE)?;
            let idle_ms = access.idle_ms(key, now_ms).ok_or(BY_COUNT)?;
            out.integer((idle_ms / 1_000) as i64);
        }
        // REFCOUNT: values have one owner, but for what Redis shares.
        _ => {
            let is_shared = found.kind() == Kind::String
                && numbers::integer(found.bytes()).is_some_and(|number| (0..SHARED_END).contains(&number));
            out.integer(if is_shared { SHARED_COUNT } else { 1 });
        }
    }
    Ok(())
}

fn encoding(ops: &mut Ops<'_, '_>, key: &[u8], found: &Found) -> Result<&'static str, Fault> {
    let kind = found.kind();
    let (most, packed, other) = match kind {
        Kind::String if numbers::integer(found.bytes()).is_some() => return Ok("int"),
        Kind::String if found.bytes().len() <= EMBEDDED_BYTES_MAX => return Ok("embstr"),
        Kind::String => return Ok("raw"),
        Kind::List => return Ok("quicklist"),
        Kind::Hash => (PACKED_MAX, "listpack", "hashtable"),
        Kind::Set => (PACKED_MAX, "intset", "hashtable"),
        Kind::SortedSet => (SORTED_PACKED_MAX, "listpack", "skiplist"),
    };
    let Some(collection) = Collection::of(key, found) else { return Ok(other) };
    let fits = |member: &[u8], value: &[u8]| match kind {
        Kind::Set => numbers::integer(member).is_some(),
        _ => member.len().max(value.len()) <= PACKED_BYTES_MAX,
    };
    let mut is_packed = collection.len(ops)? <= most;
    if is_packed {
        collection.members(ops, &collection.all(), false, |member, value| {
            is_packed = fits(member, value);
            if is_packed { Enough::No } else { Enough::Yes }
        })?;
    }
    Ok(if is_packed { packed } else { other })
}

const HELP: [&str; 12] = [
    "ENCODING <key>",
    "    Return the kind of internal representation used in order to store the value",
    "    associated with a <key>.",
    "FREQ <key>",
    "    Return the access frequency index of the <key>. The returned integer is",
    "    proportional to the logarithm of the recent access frequency of the key.",
    "IDLETIME <key>",
    "    Return the idle time of the <key>, that is the approximated number of",
    "    seconds elapsed since the last access to the key.",
    "REFCOUNT <key>",
    "    Return the number of references of the value associated with the specified",
    "    <key>.",
];
