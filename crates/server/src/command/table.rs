//! All commands, sorted by name, and COMMAND, which describes them.

use super::definition::{
    ADMIN, ADMIN_CATEGORY, AT_ONCE, BLOCKING, CONNECTION, Call, Channels, Command, DANGEROUS, FAST, GROWS,
    KEYSPACE, Keys, METADATA, NO_AUTH, NO_MULTI, ONCE, PUBSUB, READ, RETURNS, Run, Subcommand, WRITE, takes,
};
use super::geo::Form;
use super::set::{MILLISECONDS, SECONDS, UNIX_MILLISECONDS, UNIX_SECONDS};
use super::sets::Combine;
use super::sorted_combine::Then;
use super::sorted_ranges::By;
use super::syntax::help;
use super::{
    acl, backup, bit_combine, bit_fields, bits, blocking_pops, client, config, connection, counters, expiry,
    geo, hashes, info, keys, lcs, lists, member_scan, memory_usage, multi, object, pop_first, pubsub,
    random_members, rename, scan, set, sets, slowlog, sort, sorted_combine, sorted_ranges, sorted_sets,
    strings, subcommands,
};
use crate::acl::{Access, Catalogue, Categories, Entry};
use crate::collection::Side;
use crate::pubsub::Kind;
use crate::resp::{Args, Replies};
use std::sync::LazyLock;

const READS: Access = Access { reads: true, writes: false };
const WRITES: Access = Access { reads: false, writes: true };
const BOTH: Access = Access { reads: true, writes: true };

const NONE: Keys = Keys::NONE;
const ONE: Keys = Keys { range: (1, 1, 1), ..NONE };
const ALL: Keys = Keys { range: (1, -1, 1), ..NONE };
const TWO: Keys = Keys { range: (1, 2, 1), ..NONE };
const PAIRS: Keys = Keys { range: (1, -1, 2), ..NONE };
/// All but the last argument.
const ALL_BUT_LAST: Keys = Keys { range: (1, -2, 1), ..NONE };
/// As many as the first argument says, or the second one.
const COUNTED: Keys = Keys { counted_at: Some(1), ..NONE };
const COUNTED_SECOND: Keys = Keys { counted_at: Some(2), ..NONE };
/// Two: what the first one has, or a part of it, moves to the second.
const MOVED: Keys = Keys { range: (1, 2, 1), uses: Some((BOTH, WRITES)), ..NONE };
/// Two: the second one gets what the first one has.
const COPIED: Keys = Keys { uses: Some((READS, WRITES)), ..MOVED };
/// The first one gets what is made of the others: of all, of one, or of as many as the second
/// argument says.
const MADE: Keys = Keys { range: (1, -1, 1), uses: Some((WRITES, READS)), ..NONE };
const MADE_BEHIND: Keys = Keys { range: (2, -1, 1), ..MADE };
/// The first one, and what SORT finds in it is put into one that a word names.
const SORTED: Keys =
    Keys { range: (1, 1, 1), found_at: Some(sort::stored_at), uses: Some((READS, WRITES)), ..NONE };
/// The same of GEORADIUS.
const AROUND: Keys = Keys { found_at: Some(geo::stored_at), ..SORTED };
/// The first one, and those that patterns name.
const SORTED_ONLY: Keys = Keys { found_at: Some(|_| None), ..ONE };
const MADE_OF_ONE: Keys = Keys { range: (1, 2, 1), ..MADE };
const MADE_OF_COUNTED: Keys = Keys { range: (1, 1, 1), counted_at: Some(2), ..MADE };

/// Channels in place of keys. Those of shards are where a cluster looks for keys.
const CHANNEL: Keys = Keys { channels: Channels::First, ..NONE };
const CHANNELS: Keys = Keys { channels: Channels::All, ..NONE };
const PATTERNS: Keys = Keys { channels: Channels::Patterns, ..NONE };
const LEFT: Keys = Keys { channels: Channels::Free, ..NONE };
const SHARD: Keys = Keys { channels: Channels::First, ..ONE };
const SHARDS: Keys = Keys { channels: Channels::All, ..ALL };
const LEFT_SHARDS: Keys = Keys { channels: Channels::Free, ..ALL };

/// A function that does a command; behind `;` stands what else it is given, before its answers.
macro_rules! run {
    ($kind:ident $run:path) => { Run::$kind($run) };
    ($kind:ident $run:path; $($given:expr),+) => {
        Run::$kind(|ops, args, out| $run(ops, args, $($given),+, out))
    };
}

macro_rules! subcommands {
    () => {
        &[]
    };
    ($list:ident) => {
        subcommands::$list
    };
}

macro_rules! commands {
    ($($name:literal $kind:ident($($run:tt)+) $arity:literal $flags:expr, $keys:ident, $since:literal $group:literal $summary:literal $(=> $list:ident)?;)*) => {
        const COUNT: usize = [$($name),*].len();

        /// Sorted by name.
        static COMMANDS: [Command; COUNT] = numbered([$(Command {
            id: 0,
            subcommand_id: 0,
            name: $name,
            run: run!($kind $($run)+),
            arity: $arity,
            flags: $flags,
            keys: $keys,
            since: $since,
            group: $group,
            summary: $summary,
            subcommands: subcommands!($($list)?),
        }),*]);
    };
}

/// Numbers the commands, and behind them all subcommands.
const fn numbered(mut commands: [Command; COUNT]) -> [Command; COUNT] {
    let (mut id, mut next) = (0, COUNT);
    while id < COUNT {
        commands[id].id = id;
        commands[id].subcommand_id = next;
        next += commands[id].subcommands.len();
        id += 1;
    }
    commands
}

commands! {
    "acl" Plain(acl::acl; acl::Known { catalogue: catalogue(), find }) -2 0, NONE, "6.0.0" "server" "A container for Access List Control commands." => ACL;
    "append" Data(strings::append) 3 WRITE | GROWS | FAST, ONE, "2.0.0" "string" "Append a value to a key";
    "auth" Plain(connection::auth) -2 FAST | NO_AUTH, NONE, "1.0.0" "connection" "Authenticate to the server";
    "bgsave" Plain(backup::bgsave) -1 ADMIN, NONE, "1.0.0" "server" "Asynchronously save the dataset to disk";
    "bitcount" Data(bits::bit_count) -2 READ, ONE, "2.6.0" "bitmap" "Count set bits in a string";
    "bitfield" Data(bit_fields::bit_field; false) -2 WRITE | GROWS | RETURNS, ONE, "3.2.0" "bitmap" "Perform arbitrary bitfield integer operations on strings";
    "bitfield_ro" Data(bit_fields::bit_field; true) -2 READ | FAST, ONE, "6.0.0" "bitmap" "Perform arbitrary bitfield integer operations on strings. Read-only variant of BITFIELD";
    "bitop" Data(bit_combine::bit_op) -4 WRITE | GROWS, MADE_BEHIND, "2.6.0" "bitmap" "Perform bitwise operations between strings";
    "bitpos" Data(bits::bit_position) -3 READ, ONE, "2.8.7" "bitmap" "Find first bit set or clear in a string";
    "blmove" Waiting(blocking_pops::blmove) 6 WRITE | GROWS | BLOCKING, MOVED, "6.2.0" "list" "Pop an element from a list, push it to another list and return it; or block until one is available";
    "blmpop" Waiting(blocking_pops::lists) -5 WRITE | RETURNS | BLOCKING, COUNTED_SECOND, "7.0.0" "list" "Pop elements from a list, or block until one is available";
    "blpop" Waiting(blocking_pops::pop; Side::Left) -3 WRITE | RETURNS | BLOCKING, ALL_BUT_LAST, "2.0.0" "list" "Remove and get the first element in a list, or block until one is available";
    "brpop" Waiting(blocking_pops::pop; Side::Right) -3 WRITE | RETURNS | BLOCKING, ALL_BUT_LAST, "2.0.0" "list" "Remove and get the last element in a list, or block until one is available";
    "brpoplpush" Waiting(blocking_pops::move_element; Side::Right, Side::Left) 4 WRITE | GROWS | BLOCKING, MOVED, "2.2.0" "list" "Pop an element from a list, push it to another list and return it; or block until one is available";
    "bzmpop" Waiting(blocking_pops::sorted_sets) -5 WRITE | RETURNS | BLOCKING, COUNTED_SECOND, "7.0.0" "sorted-set" "Remove and return members with scores in a sorted set or block until one is available";
    "bzpopmax" Waiting(blocking_pops::pop_scored; true) -3 WRITE | RETURNS | FAST | BLOCKING, ALL_BUT_LAST, "5.0.0" "sorted-set" "Remove and return the member with the highest score from one or more sorted sets, or block until one is available";
    "bzpopmin" Waiting(blocking_pops::pop_scored; false) -3 WRITE | RETURNS | FAST | BLOCKING, ALL_BUT_LAST, "5.0.0" "sorted-set" "Remove and return the member with the lowest score from one or more sorted sets, or block until one is available";
    "client" Plain(client::client) -2 0, NONE, "2.4.0" "connection" "A container for client connection commands" => CLIENT;
    "command" Plain(command) -1 CONNECTION, NONE, "2.8.13" "server" "Get array of command details" => COMMAND;
    "config" Plain(config::config) -2 0, NONE, "2.0.0" "server" "A container for server configuration commands" => CONFIG;
    "copy" Data(rename::copy) -3 WRITE | GROWS, COPIED, "6.2.0" "generic" "Copy a key";
    "dbsize" Data(scan::dbsize) 1 READ | FAST, NONE, "1.0.0" "server" "Return the number of keys in the selected database";
    "decr" Data(counters::add; -1) 2 WRITE | GROWS | RETURNS | FAST, ONE, "1.0.0" "string" "Decrement the integer value of a key by one";
    "decrby" Data(counters::decr_by) 3 WRITE | GROWS | RETURNS | FAST, ONE, "1.0.0" "string" "Decrement the integer value of a key by the given number";
    "del" Data(keys::del) -2 WRITE, ALL, "1.0.0" "generic" "Delete a key";
    "discard" Plain(multi::discard) 1 FAST | AT_ONCE, NONE, "2.0.0" "transactions" "Discard all commands issued after MULTI";
    "echo" Plain(connection::echo) 2 FAST, NONE, "1.0.0" "connection" "Echo the given string";
    "exec" Outer(multi::exec) 1 AT_ONCE, NONE, "1.2.0" "transactions" "Execute all commands issued after MULTI";
    "exists" Data(keys::exists) -2 READ | METADATA | FAST, ALL, "1.0.0" "generic" "Determine if a key exists";
    "expire" Data(expiry::expire; SECONDS) -3 WRITE | FAST, ONE, "1.0.0" "generic" "Set a key's time to live in seconds";
    "expireat" Data(expiry::expire; UNIX_SECONDS) -3 WRITE | FAST, ONE, "1.2.0" "generic" "Set the expiration for a key as a UNIX timestamp";
    "expiretime" Data(expiry::expires; UNIX_SECONDS) 2 READ | FAST, ONE, "7.0.0" "generic" "Get the expiration Unix timestamp for a key";
    "flushall" Data(keys::flush) -1 WRITE | DANGEROUS, NONE, "1.0.0" "server" "Remove all keys from all databases";
    "flushdb" Data(keys::flush) -1 WRITE | DANGEROUS, NONE, "1.0.0" "server" "Remove all keys from the current database";
    "geoadd" Data(geo::add) -5 WRITE | GROWS, ONE, "3.2.0" "geo" "Add one or more geospatial items in the geospatial index represented using a sorted set";
    "geodist" Data(geo::distance) -4 READ, ONE, "3.2.0" "geo" "Returns the distance between two members of a geospatial index";
    "geohash" Data(geo::hash) -2 READ, ONE, "3.2.0" "geo" "Returns members of a geospatial index as standard geohash strings";
    "geopos" Data(geo::position) -2 READ, ONE, "3.2.0" "geo" "Returns longitude and latitude of members of a geospatial index";
    "georadius" Data(geo::search_in_form; Form::Around { member: false, stores: true }) -6 WRITE | GROWS, AROUND, "3.2.0" "geo" "Query a sorted set representing a geospatial index to fetch members matching a given maximum distance from a point";
    "georadius_ro" Data(geo::search_in_form; Form::Around { member: false, stores: false }) -6 READ, ONE, "3.2.10" "geo" "A read-only variant for GEORADIUS";
    "georadiusbymember" Data(geo::search_in_form; Form::Around { member: true, stores: true }) -5 WRITE | GROWS, AROUND, "3.2.0" "geo" "Query a sorted set representing a geospatial index to fetch members matching a given maximum distance from a member";
    "georadiusbymember_ro" Data(geo::search_in_form; Form::Around { member: true, stores: false }) -5 READ, ONE, "3.2.10" "geo" "A read-only variant for GEORADIUSBYMEMBER";
    "geosearch" Data(geo::search_in_form; Form::Search) -7 READ, ONE, "6.2.0" "geo" "Query a sorted set representing a geospatial index to fetch members inside an area of a box or a circle.";
    "geosearchstore" Data(geo::search_in_form; Form::Store) -8 WRITE | GROWS, MADE_OF_ONE, "6.2.0" "geo" "Query a sorted set representing a geospatial index to fetch members inside an area of a box or a circle, and store the result in another key.";
    "get" Data(strings::get) 2 READ | FAST, ONE, "1.0.0" "string" "Get the value of a key";
    "getbit" Data(bits::get_bit) 3 READ | FAST, ONE, "2.2.0" "bitmap" "Returns the bit value at offset in the string value stored at key";
    "getdel" Data(strings::get_del) 2 WRITE | RETURNS | FAST, ONE, "6.2.0" "string" "Get the value of a key and delete the key";
    "getex" Data(set::get_ex) -2 WRITE | RETURNS | FAST, ONE, "6.2.0" "string" "Get the value of a key and optionally set its expiration";
    "getrange" Data(strings::get_range) 4 READ, ONE, "2.4.0" "string" "Get a substring of the string stored at a key";
    "getset" Data(strings::get_set) 3 WRITE | GROWS | RETURNS | FAST, ONE, "1.0.0" "string" "Set the string value of a key and return its old value";
    "hdel" Data(hashes::hdel) -3 WRITE | FAST, ONE, "2.0.0" "hash" "Delete one or more hash fields";
    "hello" Plain(connection::hello) -1 FAST | NO_AUTH, NONE, "6.0.0" "connection" "Handshake with Redis";
    "hexists" Data(hashes::hexists) 3 READ | METADATA | FAST, ONE, "2.0.0" "hash" "Determine if a hash field exists";
    "hget" Data(hashes::hget) 3 READ | FAST, ONE, "2.0.0" "hash" "Get the value of a hash field";
    "hgetall" Data(hashes::hgetall) 2 READ, ONE, "2.0.0" "hash" "Get all the fields and values in a hash";
    "hincrby" Data(hashes::hincrby) 4 WRITE | GROWS | RETURNS | FAST, ONE, "2.0.0" "hash" "Increment the integer value of a hash field by the given number";
    "hincrbyfloat" Data(hashes::hincrbyfloat) 4 WRITE | GROWS | RETURNS | FAST, ONE, "2.6.0" "hash" "Increment the float value of a hash field by the given amount";
    "hkeys" Data(hashes::hkeys) 2 READ, ONE, "2.0.0" "hash" "Get all the fields in a hash";
    "hlen" Data(hashes::hlen) 2 READ | METADATA | FAST, ONE, "2.0.0" "hash" "Get the number of fields in a hash";
    "hmget" Data(hashes::hmget) -3 READ | FAST, ONE, "2.0.0" "hash" "Get the values of all the given hash fields";
    "hmset" Data(hashes::hmset) -4 WRITE | GROWS | FAST, ONE, "2.0.0" "hash" "Set multiple hash fields to multiple values";
    "hrandfield" Data(random_members::hrandfield) -2 READ, ONE, "6.2.0" "hash" "Get one or multiple random fields from a hash";
    "hscan" Data(member_scan::hscan) -3 READ, ONE, "2.8.0" "hash" "Incrementally iterate hash fields and associated values";
    "hset" Data(hashes::hset) -4 WRITE | GROWS | FAST, ONE, "2.0.0" "hash" "Set the string value of a hash field";
    "hsetnx" Data(hashes::hsetnx) 4 WRITE | GROWS | FAST, ONE, "2.0.0" "hash" "Set the value of a hash field, only if the field does not exist";
    "hstrlen" Data(hashes::hstrlen) 3 READ | METADATA | FAST, ONE, "3.2.0" "hash" "Get the length of the value of a hash field";
    "hvals" Data(hashes::hvals) 2 READ, ONE, "2.0.0" "hash" "Get all the values in a hash";
    "incr" Data(counters::add; 1) 2 WRITE | GROWS | RETURNS | FAST, ONE, "1.0.0" "string" "Increment the integer value of a key by one";
    "incrby" Data(counters::incr_by) 3 WRITE | GROWS | RETURNS | FAST, ONE, "1.0.0" "string" "Increment the integer value of a key by the given amount";
    "incrbyfloat" Data(counters::incr_by_float) 3 WRITE | GROWS | RETURNS | FAST, ONE, "2.6.0" "string" "Increment the float value of a key by the given amount";
    "info" Plain(info::info) -1 DANGEROUS, NONE, "1.0.0" "server" "Get information and statistics about the server";
    "keys" Data(scan::keys) 2 READ | DANGEROUS, NONE, "1.0.0" "generic" "Find all keys matching the given pattern";
    "lastsave" Plain(backup::lastsave) 1 ADMIN_CATEGORY | DANGEROUS | FAST, NONE, "1.0.0" "server" "Get the UNIX time stamp of the last successful save to disk";
    "lcs" Data(lcs::lcs) -3 READ, TWO, "7.0.0" "string" "Find longest common substring";
    "lindex" Data(lists::lindex) 3 READ, ONE, "1.0.0" "list" "Get an element from a list by its index";
    "linsert" Data(lists::linsert) 5 WRITE | GROWS, ONE, "2.2.0" "list" "Insert an element before or after another element in a list";
    "llen" Data(lists::llen) 2 READ | METADATA | FAST, ONE, "1.0.0" "list" "Get the length of a list";
    "lmove" Data(lists::lmove) 5 WRITE | GROWS, MOVED, "6.2.0" "list" "Pop an element from a list, push it to another list and return it";
    "lmpop" Data(pop_first::lists) -4 WRITE | RETURNS, COUNTED, "7.0.0" "list" "Pop elements from a list";
    "lpop" Data(lists::pop; Side::Left) -2 WRITE | RETURNS | FAST, ONE, "1.0.0" "list" "Remove and get the first elements in a list";
    "lpos" Data(lists::lpos) -3 READ, ONE, "6.0.6" "list" "Return the index of matching elements on a list";
    "lpush" Data(lists::push; Side::Left, false) -3 WRITE | GROWS | FAST, ONE, "1.0.0" "list" "Prepend one or multiple elements to a list";
    "lpushx" Data(lists::push; Side::Left, true) -3 WRITE | GROWS | FAST, ONE, "2.2.0" "list" "Prepend an element to a list, only if the list exists";
    "lrange" Data(lists::lrange) 4 READ, ONE, "1.0.0" "list" "Get a range of elements from a list";
    "lrem" Data(lists::lrem) 4 WRITE, ONE, "1.0.0" "list" "Remove elements from a list";
    "lset" Data(lists::lset) 4 WRITE | GROWS, ONE, "1.0.0" "list" "Set the value of an element in a list by its index";
    "ltrim" Data(lists::ltrim) 4 WRITE, ONE, "1.0.0" "list" "Trim a list to the specified range";
    "memory" Data(memory_usage::memory) -2 0, NONE, "4.0.0" "server" "A container for memory diagnostics commands" => MEMORY;
    "mget" Data(strings::mget) -2 READ | FAST, ALL, "1.0.0" "string" "Get the values of all the given keys";
    "mset" Data(strings::mset) -3 WRITE | GROWS | GROWS, PAIRS, "1.0.1" "string" "Set multiple keys to multiple values";
    "msetnx" Data(strings::mset_nx) -3 WRITE | GROWS | GROWS, PAIRS, "1.0.1" "string" "Set multiple keys to multiple values, only if none of the keys exist";
    "multi" Plain(multi::multi) 1 FAST | AT_ONCE, NONE, "1.2.0" "transactions" "Mark the start of a transaction block";
    "object" Data(object::object) -2 0, NONE, "2.2.3" "generic" "A container for object introspection commands" => OBJECT;
    "persist" Data(expiry::persist) 2 WRITE | FAST, ONE, "2.2.0" "generic" "Remove the expiration from a key";
    "pexpire" Data(expiry::expire; MILLISECONDS) -3 WRITE | FAST, ONE, "2.6.0" "generic" "Set a key's time to live in milliseconds";
    "pexpireat" Data(expiry::expire; UNIX_MILLISECONDS) -3 WRITE | FAST, ONE, "2.6.0" "generic" "Set the expiration for a key as a UNIX timestamp specified in milliseconds";
    "pexpiretime" Data(expiry::expires; UNIX_MILLISECONDS) 2 READ | FAST, ONE, "7.0.0" "generic" "Get the expiration Unix timestamp for a key in milliseconds";
    "ping" Plain(connection::ping) -1 ONCE | FAST, NONE, "1.0.0" "connection" "Ping the server";
    "psetex" Data(set::set_expiring; MILLISECONDS) 4 WRITE | GROWS | GROWS, ONE, "2.6.0" "string" "Set the value and expiration in milliseconds of a key";
    "psubscribe" Plain(pubsub::subscribe; Kind::Pattern) -2 PUBSUB | ONCE, PATTERNS, "2.0.0" "pubsub" "Listen for messages published to channels matching the given patterns";
    "pttl" Data(expiry::expires; MILLISECONDS) 2 READ | FAST, ONE, "2.6.0" "generic" "Get the time to live for a key in milliseconds";
    "publish" Plain(pubsub::publish; Kind::Channel) 3 PUBSUB | ONCE | FAST, CHANNEL, "2.0.0" "pubsub" "Post a message to a channel";
    "pubsub" Plain(pubsub::pubsub) -2 ONCE, NONE, "2.8.0" "pubsub" "A container for Pub/Sub commands" => PUBSUB;
    "punsubscribe" Plain(pubsub::unsubscribe; Kind::Pattern) -1 PUBSUB | ONCE, LEFT, "2.0.0" "pubsub" "Stop listening for messages posted to channels matching the given patterns";
    "quit" Plain(connection::quit) -1 FAST | NO_AUTH | AT_ONCE, NONE, "1.0.0" "connection" "Close the connection";
    "randomkey" Data(keys::random) 1 READ, NONE, "1.0.0" "generic" "Return a random key from the keyspace";
    "rename" Data(rename::rename; false) 3 WRITE, MOVED, "1.0.0" "generic" "Rename a key";
    "renamenx" Data(rename::rename; true) 3 WRITE | FAST, MOVED, "1.0.0" "generic" "Rename a key, only if the new key does not exist";
    "reset" Plain(connection::reset) 1 FAST | NO_AUTH | AT_ONCE, NONE, "6.2.0" "connection" "Reset the connection";
    "role" Plain(info::role) 1 FAST | ADMIN_CATEGORY | DANGEROUS, NONE, "2.8.12" "server" "Return the role of the instance in the context of replication";
    "rpop" Data(lists::pop; Side::Right) -2 WRITE | RETURNS | FAST, ONE, "1.0.0" "list" "Remove and get the last elements in a list";
    "rpoplpush" Data(lists::move_element; Side::Right, Side::Left) 3 WRITE | GROWS, MOVED, "1.2.0" "list" "Remove the last element in a list, prepend it to another list and return it";
    "rpush" Data(lists::push; Side::Right, false) -3 WRITE | GROWS | FAST, ONE, "1.0.0" "list" "Append one or multiple elements to a list";
    "rpushx" Data(lists::push; Side::Right, true) -3 WRITE | GROWS | FAST, ONE, "2.2.0" "list" "Append an element to a list, only if the list exists";
    "sadd" Data(sets::sadd) -3 WRITE | GROWS | FAST, ONE, "1.0.0" "set" "Add one or more members to a set";
    "scan" Data(scan::scan) -2 READ, NONE, "2.8.0" "generic" "Incrementally iterate the keys space";
    "scard" Data(sets::scard) 2 READ | METADATA | FAST, ONE, "1.0.0" "set" "Get the number of members in a set";
    "sdiff" Data(sets::combine; Combine::Difference) -2 READ, ALL, "1.0.0" "set" "Subtract multiple sets";
    "sdiffstore" Data(sets::combine_into; Combine::Difference) -3 WRITE | GROWS, MADE, "1.0.0" "set" "Subtract multiple sets and store the resulting set in a key";
    "select" Plain(connection::select) 2 FAST, NONE, "1.0.0" "connection" "Change the selected database for the current connection";
    "set" Data(set::set) -3 WRITE | GROWS | GROWS, ONE, "1.0.0" "string" "Set the string value of a key";
    "setbit" Data(bits::set_bit) 4 WRITE | GROWS | RETURNS, ONE, "2.2.0" "bitmap" "Sets or clears the bit at offset in the string value stored at key";
    "setex" Data(set::set_expiring; SECONDS) 4 WRITE | GROWS | GROWS, ONE, "2.0.0" "string" "Set the value and expiration of a key";
    "setnx" Data(set::setnx) 3 WRITE | GROWS | FAST, ONE, "1.0.0" "string" "Set the value of a key, only if the key does not exist";
    "setrange" Data(strings::set_range) 4 WRITE | GROWS | GROWS, ONE, "2.2.0" "string" "Overwrite part of a string at key starting at the specified offset";
    "shutdown" Plain(connection::shutdown) -1 ADMIN | NO_MULTI, NONE, "1.0.0" "server" "Synchronously save the dataset to disk and then shut down the server";
    "sinter" Data(sets::combine; Combine::Intersection) -2 READ, ALL, "1.0.0" "set" "Intersect multiple sets";
    "sintercard" Data(sets::count_common) -3 READ, COUNTED, "7.0.0" "set" "Intersect multiple sets and return the cardinality of the result";
    "sinterstore" Data(sets::combine_into; Combine::Intersection) -3 WRITE | GROWS, MADE, "1.0.0" "set" "Intersect multiple sets and store the resulting set in a key";
    "sismember" Data(sets::sismember) 3 READ | FAST, ONE, "1.0.0" "set" "Determine if a given value is a member of a set";
    "slowlog" Plain(slowlog::slowlog) -2 0, NONE, "2.2.12" "server" "A container for slow log commands" => SLOWLOG;
    "smembers" Data(sets::smembers) 2 READ, ONE, "1.0.0" "set" "Get all the members in a set";
    "smismember" Data(sets::smismember) -3 READ | FAST, ONE, "6.2.0" "set" "Returns the membership associated with the given elements for a set";
    "smove" Data(sets::smove) 4 WRITE | FAST, MOVED, "1.0.0" "set" "Move a member from one set to another";
    "sort" Data(sort::sort; true) -2 WRITE | GROWS | DANGEROUS, SORTED, "1.0.0" "generic" "Sort the elements in a list, set or sorted set";
    "sort_ro" Data(sort::sort; false) -2 READ | DANGEROUS, SORTED_ONLY, "7.0.0" "generic" "Sort the elements in a list, set or sorted set. Read-only variant of SORT.";
    "spop" Data(sets::spop) -2 WRITE | RETURNS | FAST, ONE, "1.0.0" "set" "Remove and return one or multiple random members from a set";
    "spublish" Plain(pubsub::publish; Kind::Shard) 3 PUBSUB | ONCE | FAST, SHARD, "7.0.0" "pubsub" "Post a message to a shard channel";
    "srandmember" Data(random_members::srandmember) -2 READ, ONE, "1.0.0" "set" "Get one or multiple random members from a set";
    "srem" Data(sets::srem) -3 WRITE | FAST, ONE, "1.0.0" "set" "Remove one or more members from a set";
    "sscan" Data(member_scan::sscan) -3 READ, ONE, "2.8.0" "set" "Incrementally iterate Set elements";
    "ssubscribe" Plain(pubsub::subscribe; Kind::Shard) -2 PUBSUB | ONCE, SHARDS, "7.0.0" "pubsub" "Listen for messages published to the given shard channels";
    "strlen" Data(strings::strlen) 2 READ | METADATA | FAST, ONE, "2.2.0" "string" "Get the length of the value stored in a key";
    "subscribe" Plain(pubsub::subscribe; Kind::Channel) -2 PUBSUB | ONCE, CHANNELS, "2.0.0" "pubsub" "Listen for messages published to the given channels";
    "substr" Data(strings::get_range) 4 READ, ONE, "1.0.0" "string" "Get a substring of the string stored at a key";
    "sunion" Data(sets::combine; Combine::Union) -2 READ, ALL, "1.0.0" "set" "Add multiple sets";
    "sunionstore" Data(sets::combine_into; Combine::Union) -3 WRITE | GROWS, MADE, "1.0.0" "set" "Add multiple sets and store the resulting set in a key";
    "sunsubscribe" Plain(pubsub::unsubscribe; Kind::Shard) -1 PUBSUB | ONCE, LEFT_SHARDS, "7.0.0" "pubsub" "Stop listening for messages posted to the given shard channels";
    "time" Plain(info::time) 1 FAST, NONE, "2.6.0" "server" "Return the current server time";
    "touch" Data(keys::exists) -2 READ | METADATA | FAST, ALL, "3.2.1" "generic" "Alters the last access time of a key(s). Returns the number of existing keys specified.";
    "ttl" Data(expiry::expires; SECONDS) 2 READ | FAST, ONE, "1.0.0" "generic" "Get the time to live for a key in seconds";
    "type" Data(keys::kind) 2 READ | METADATA | FAST, ONE, "1.0.0" "generic" "Determine the type stored at key";
    "unlink" Data(keys::del) -2 WRITE | FAST, ALL, "4.0.0" "generic" "Delete a key asynchronously in another thread. Otherwise it is just as DEL, but non blocking.";
    "unsubscribe" Plain(pubsub::unsubscribe; Kind::Channel) -1 PUBSUB | ONCE, LEFT, "2.0.0" "pubsub" "Stop listening for messages posted to the given channels";
    "unwatch" Plain(multi::unwatch) 1 FAST, NONE, "2.2.0" "transactions" "Forget about all watched keys";
    "wait" Plain(connection::wait) 3 CONNECTION, NONE, "3.0.0" "generic" "Wait for the synchronous replication of all the write commands sent in the context of the current connection";
    "watch" Outer(multi::watch) -2 FAST | AT_ONCE, ALL, "2.2.0" "transactions" "Watch the given keys to determine execution of the MULTI/EXEC block";
    "zadd" Data(sorted_sets::zadd) -4 WRITE | GROWS | FAST, ONE, "1.2.0" "sorted-set" "Add one or more members to a sorted set, or update its score if it already exists";
    "zcard" Data(sorted_sets::zcard) 2 READ | METADATA | FAST, ONE, "1.2.0" "sorted-set" "Get the number of members in a sorted set";
    "zcount" Data(sorted_ranges::count; By::Score) 4 READ | FAST, ONE, "2.0.0" "sorted-set" "Count the members in a sorted set with scores within the given values";
    "zdiff" Data(sorted_combine::combine; Combine::Difference, Then::Show) -3 READ, COUNTED, "6.2.0" "sorted-set" "Subtract multiple sorted sets";
    "zdiffstore" Data(sorted_combine::combine; Combine::Difference, Then::Store) -4 WRITE | GROWS, MADE_OF_COUNTED, "6.2.0" "sorted-set" "Subtract multiple sorted sets and store the resulting sorted set in a new key";
    "zincrby" Data(sorted_sets::zincrby) 4 WRITE | GROWS | RETURNS | FAST, ONE, "1.2.0" "sorted-set" "Increment the score of a member in a sorted set";
    "zinter" Data(sorted_combine::combine; Combine::Intersection, Then::Show) -3 READ, COUNTED, "6.2.0" "sorted-set" "Intersect multiple sorted sets";
    "zintercard" Data(sorted_combine::combine; Combine::Intersection, Then::Count) -3 READ, COUNTED, "7.0.0" "sorted-set" "Intersect multiple sorted sets and return the cardinality of the result";
    "zinterstore" Data(sorted_combine::combine; Combine::Intersection, Then::Store) -4 WRITE | GROWS, MADE_OF_COUNTED, "2.0.0" "sorted-set" "Intersect multiple sorted sets and store the resulting sorted set in a new key";
    "zlexcount" Data(sorted_ranges::count; By::Member) 4 READ | FAST, ONE, "2.8.9" "sorted-set" "Count the number of members in a sorted set between a given lexicographical range";
    "zmpop" Data(pop_first::sorted_sets) -4 WRITE | RETURNS, COUNTED, "7.0.0" "sorted-set" "Remove and return members with scores in a sorted set";
    "zmscore" Data(sorted_sets::zmscore) -3 READ | FAST, ONE, "6.2.0" "sorted-set" "Get the score associated with the given members in a sorted set";
    "zpopmax" Data(sorted_ranges::pop; true) -2 WRITE | RETURNS | FAST, ONE, "5.0.0" "sorted-set" "Remove and return members with the highest scores in a sorted set";
    "zpopmin" Data(sorted_ranges::pop; false) -2 WRITE | RETURNS | FAST, ONE, "5.0.0" "sorted-set" "Remove and return members with the lowest scores in a sorted set";
    "zrandmember" Data(random_members::zrandmember) -2 READ, ONE, "6.2.0" "sorted-set" "Get one or multiple random elements from a sorted set";
    "zrange" Data(sorted_ranges::range; None, None) -4 READ, ONE, "1.2.0" "sorted-set" "Return a range of members in a sorted set";
    "zrangebylex" Data(sorted_ranges::range; Some(By::Member), Some(false)) -4 READ, ONE, "2.8.9" "sorted-set" "Return a range of members in a sorted set, by lexicographical range";
    "zrangebyscore" Data(sorted_ranges::range; Some(By::Score), Some(false)) -4 READ, ONE, "1.0.5" "sorted-set" "Return a range of members in a sorted set, by score";
    "zrangestore" Data(sorted_ranges::store_range) -5 WRITE | GROWS, MADE_OF_ONE, "6.2.0" "sorted-set" "Store a range of members from sorted set into another key";
    "zrank" Data(sorted_sets::rank; false) 3 READ | FAST, ONE, "2.0.0" "sorted-set" "Determine the index of a member in a sorted set";
    "zrem" Data(sorted_sets::zrem) -3 WRITE | FAST, ONE, "1.2.0" "sorted-set" "Remove one or more members from a sorted set";
    "zremrangebylex" Data(sorted_ranges::remove; By::Member) 4 WRITE, ONE, "2.8.9" "sorted-set" "Remove all members in a sorted set between the given lexicographical range";
    "zremrangebyrank" Data(sorted_ranges::remove; By::Index) 4 WRITE, ONE, "2.0.0" "sorted-set" "Remove all members in a sorted set within the given indexes";
    "zremrangebyscore" Data(sorted_ranges::remove; By::Score) 4 WRITE, ONE, "1.2.0" "sorted-set" "Remove all members in a sorted set within the given scores";
    "zrevrange" Data(sorted_ranges::range; Some(By::Index), Some(true)) -4 READ, ONE, "1.2.0" "sorted-set" "Return a range of members in a sorted set, by index, with scores ordered from high to low";
    "zrevrangebylex" Data(sorted_ranges::range; Some(By::Member), Some(true)) -4 READ, ONE, "2.8.9" "sorted-set" "Return a range of members in a sorted set, by lexicographical range, ordered from higher to lower strings.";
    "zrevrangebyscore" Data(sorted_ranges::range; Some(By::Score), Some(true)) -4 READ, ONE, "2.2.0" "sorted-set" "Return a range of members in a sorted set, by score, with scores ordered from high to low";
    "zrevrank" Data(sorted_sets::rank; true) 3 READ | FAST, ONE, "2.0.0" "sorted-set" "Determine the index of a member in a sorted set, with scores ordered from high to low";
    "zscan" Data(member_scan::zscan) -3 READ, ONE, "2.8.0" "sorted-set" "Incrementally iterate sorted sets elements and associated scores";
    "zscore" Data(sorted_sets::zscore) 3 READ | FAST, ONE, "1.2.0" "sorted-set" "Get the score associated with the given member in a sorted set";
    "zunion" Data(sorted_combine::combine; Combine::Union, Then::Show) -3 READ, COUNTED, "6.2.0" "sorted-set" "Add multiple sorted sets";
    "zunionstore" Data(sorted_combine::combine; Combine::Union, Then::Store) -4 WRITE | GROWS, MADE_OF_COUNTED, "2.0.0" "sorted-set" "Add multiple sorted sets and store the resulting sorted set in a new key";
}

/// The longest name that is found at once.
const NAME_MAX: usize = size_of::<u128>();

/// The beginnings of the names as numbers, which are compared at once: in the same order.
static NUMBERS: [u128; COUNT] = {
    let mut numbers = [0; COUNT];
    let mut at = 0;
    while at < COUNT {
        let (name, mut bytes) = (COMMANDS[at].name.as_bytes(), [0; NAME_MAX]);
        let length = if name.len() < NAME_MAX { name.len() } else { NAME_MAX };
        bytes.split_at_mut(length).0.copy_from_slice(name.split_at(length).0);
        numbers[at] = u128::from_be_bytes(bytes);
        at += 1;
    }
    numbers
};

/// The command of this name, in any case.
pub(super) fn find(name: &[u8]) -> Option<&'static Command> {
    let mut small = [0; NAME_MAX];
    let Some(beginning) = small.get_mut(..name.len()) else { return find_long(name) };
    beginning.copy_from_slice(name);
    small.make_ascii_lowercase();
    let found = &COMMANDS[NUMBERS.binary_search(&u128::from_be_bytes(small)).ok()?];
    // Zeros at a name's end are in no number.
    (found.name.len() == name.len()).then_some(found)
}

#[cold]
fn find_long(name: &[u8]) -> Option<&'static Command> {
    COMMANDS.iter().find(|command| name.eq_ignore_ascii_case(command.name.as_bytes()))
}

/// The names and categories of all commands and subcommands, by number.
pub(crate) fn catalogue() -> &'static Catalogue {
    static CATALOGUE: LazyLock<Catalogue> = LazyLock::new(|| {
        let commands = COMMANDS.iter().map(|command| Entry {
            name: command.name.to_owned(),
            categories: categories(command.flags, groups(command)),
            parent: None,
        });
        let of_subcommand = |command: &'static Command| {
            command.subcommands.iter().map(|subcommand| Entry {
                name: format!("{}|{}", command.name, subcommand.name),
                categories: categories(subcommand.flags, &[]),
                parent: Some(command.id),
            })
        };
        Catalogue::new(commands.chain(COMMANDS.iter().flat_map(of_subcommand)).collect())
    });
    &CATALOGUE
}

/// The categories of a command by its group.
fn groups(command: &'static Command) -> &'static [&'static str] {
    match command.group {
        _ if !command.subcommands.is_empty() => &[],
        _ if command.name.starts_with("sort") => &["set", "sortedset", "list"],
        "generic" if command.flags & CONNECTION != 0 => &[],
        "generic" => &["keyspace"],
        "server" if command.flags & (READ | WRITE) != 0 => &["keyspace"],
        "sorted-set" => &["sortedset"],
        "transactions" => &["transaction"],
        "server" => &[],
        _ => std::slice::from_ref(&command.group),
    }
}

fn categories(flags: u32, groups: &[&str]) -> Categories {
    let by_flag = [
        (WRITE, "write"),
        (READ, "read"),
        (FAST, "fast"),
        (ADMIN | ADMIN_CATEGORY, "admin"),
        (ADMIN | DANGEROUS, "dangerous"),
        (CONNECTION, "connection"),
        (BLOCKING, "blocking"),
        (PUBSUB, "pubsub"),
        (KEYSPACE, "keyspace"),
    ];
    let mut names: Vec<&str> =
        by_flag.iter().filter(|(flag, _)| flags & flag != 0).map(|(_, name)| *name).collect();
    names.extend((flags & FAST == 0).then_some("slow"));
    names.extend(groups);
    Categories::of(&names)
}

fn command(_: &mut Call<'_>, args: Args<'_>, out: &mut Replies) {
    let word = args.get(1).map(<[u8]>::to_ascii_lowercase);
    match word.as_deref() {
        None => {
            out.array(COMMANDS.len());
            COMMANDS.iter().for_each(|command| details(command, out));
        }
        Some(b"count") => out.count(COMMANDS.len()),
        Some(b"list") => {
            out.set(COMMANDS.len());
            COMMANDS.iter().for_each(|command| out.bulk(command.name.as_bytes()));
        }
        Some(b"info") => {
            let wanted: Vec<_> = if args.len() == 2 {
                COMMANDS.iter().map(Some).collect()
            } else {
                args.from(2).map(find).collect()
            };
            out.array(wanted.len());
            for command in wanted {
                match command {
                    Some(command) => details(command, out),
                    None => out.null_array(),
                }
            }
        }
        Some(b"docs") => {
            let wanted: Vec<_> = if args.len() == 2 {
                COMMANDS.iter().collect()
            } else {
                args.from(2).filter_map(find).collect()
            };
            out.map(wanted.len());
            wanted.into_iter().for_each(|command| docs(command, out));
        }
        Some(b"getkeys") => get_keys(args.behind(2), out),
        Some(_) => help("COMMAND", &HELP, out),
    }
}

fn get_keys(args: Args<'_>, out: &mut Replies) {
    let Some(Ok(chosen)) = find(&args[0]).map(|command| command.choose(args)) else {
        return out.error("ERR Invalid command specified");
    };
    if chosen.keys().are_none() {
        out.error("ERR The command has no key arguments");
    } else if !takes(chosen.arity(), args.len()) {
        out.error("ERR Invalid number of arguments specified for command");
    } else if let Some(keys) = chosen.keys().among(args) {
        let keys: Vec<_> = keys.collect();
        out.array(keys.len());
        keys.into_iter().for_each(|key| out.bulk(key));
    } else {
        out.error("ERR Invalid arguments specified for command");
    }
}

const FLAGS: [(u32, &str); 9] = [
    (WRITE, "write"),
    (GROWS, "denyoom"),
    (READ, "readonly"),
    (FAST, "fast"),
    (NO_AUTH, "no_auth"),
    (NO_MULTI, "no_multi"),
    (ADMIN, "admin"),
    (BLOCKING, "blocking"),
    (PUBSUB, "pubsub"),
];

fn details(command: &Command, out: &mut Replies) {
    one(command.id, command.arity, command.flags, command.keys, out);
    out.array(command.subcommands.len());
    for (index, Subcommand { arity, flags, keys, .. }) in command.subcommands.iter().enumerate() {
        one(command.subcommand_id + index, *arity, *flags, *keys, out);
        out.array(0);
    }
}

/// All that is said of a command but for its subcommands.
fn one(id: usize, arity: i32, flags: u32, keys: Keys, out: &mut Replies) {
    let Entry { name, categories, .. } = &catalogue().entries[id];
    out.array(10);
    out.bulk(name.as_bytes());
    out.integer(i64::from(arity));
    let by_flag = FLAGS.iter().filter(|(flag, _)| flags & flag != 0).map(|(_, name)| *name);
    let flags: Vec<_> = by_flag.chain(keys.are_movable().then_some("movablekeys")).collect();
    out.set(flags.len());
    flags.iter().for_each(|name| out.simple(name));
    let (first, last, step) = keys.range;
    for number in [first, last, step] {
        out.integer(i64::from(number));
    }
    out.set(categories.names().count());
    categories.names().for_each(|name| out.simple(&format!("@{name}")));
    // Hints and key specifications: there are none.
    out.array(0);
    out.array(0);
}

fn docs(command: &Command, out: &mut Replies) {
    out.bulk(command.name.as_bytes());
    out.map(3);
    for (name, value) in [("summary", command.summary), ("since", command.since), ("group", command.group)] {
        out.bulk(name.as_bytes());
        out.bulk(value.as_bytes());
    }
}

const HELP: [&str; 12] = [
    "(no subcommand)",
    "    Return details about all commands.",
    "COUNT",
    "    Return the total number of commands in this server.",
    "DOCS [<command-name> ...]",
    "    Return documentation of commands.",
    "GETKEYS <full-command>",
    "    Return the keys from a full command.",
    "INFO [<command-name> ...]",
    "    Return details about commands.",
    "LIST",
    "    Return the names of all commands.",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_found() {
        for command in &COMMANDS {
            let found = find(command.name.to_ascii_uppercase().as_bytes()).unwrap();
            assert_eq!(found.name, command.name);
            assert_eq!(catalogue().entries[command.id].name, command.name);
            for (index, subcommand) in command.subcommands.iter().enumerate() {
                let name = format!("{}|{}", command.name, subcommand.name);
                assert_eq!(catalogue().entries[command.subcommand_id + index].name, name);
            }
        }
        // Each has a bit in the rights of a user.
        assert!(catalogue().entries.len() <= crate::acl::COMMANDS_MAX);
        for name in [
            &b""[..],
            b"gets",
            b"ge",
            b"get\0",
            b"\0",
            b"a name that is longer than any",
            b"georadiusbymembe",
        ] {
            assert!(find(name).is_none());
        }
    }

    #[test]
    fn data_is_read_or_written_and_nothing_else_is() {
        // Of OBJECT and MEMORY, the subcommands are.
        for command in COMMANDS.iter().filter(|command| command.subcommands.is_empty()) {
            let is_data = matches!(command.run, Run::Data(_) | Run::Waiting(_));
            let has = |flag| command.flags & flag != 0;
            assert_eq!(is_data, has(READ) != has(WRITE), "{}", command.name);
        }
    }
}
