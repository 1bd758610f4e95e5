//! What the server can do: one table of all commands, from which they are found, checked and
//! described.
//!
//! A command of *data* works in a transaction (`Ops`): alone in one of its own, or together with
//! others between MULTI and EXEC. It may have to be done again if transactions conflict, so it does
//! nothing else, and checks its arguments before it writes. All other commands are *plain*: they
//! are about the connection or the server.
//!
//! | file | what |
//! | --- | --- |
//! | `strings.rs`, `set.rs`, `counters.rs`, `lcs.rs` | values: read, written and counted, and what two have in common |
//! | `bits.rs`, `bit_combine.rs`, `bit_fields.rs` | the bits of values, those of several, and numbers among them |
//! | `hashes.rs`, `lists.rs`, `sets.rs`, `sorted_sets.rs`, `sorted_ranges.rs`, `sorted_combine.rs`, `geo.rs`, `member_scan.rs` | collections: their members, and which there are |
//! | `pop_first.rs`, `random_members.rs`, `sort.rs` | collections: the first of several that is there, members at random, and in another order |
//! | `blocking.rs`, `blocking_pops.rs` | commands that wait until a collection is there |
//! | `keys.rs`, `rename.rs`, `expiry.rs`, `scan.rs` | keys: whether they are there, under which name, for how long, and which |
//! | `object.rs`, `memory_usage.rs` | keys: how what they have is kept, and in how much memory |
//! | `multi.rs` | MULTI, EXEC, WATCH |
//! | `connection.rs`, `client.rs` | HELLO, AUTH, CLIENT |
//! | `pubsub.rs` | SUBSCRIBE, PUBLISH, PUBSUB |
//! | `acl.rs`, `permission.rs` | ACL, and whether a client may do a command |
//! | `config.rs`, `info.rs`, `slowlog.rs` | the server about itself: CONFIG, INFO, ROLE, TIME, SLOWLOG |
//! | `definition.rs`, `syntax.rs` | what a command is, and what commands have in common |
//! | `subcommands.rs` | the second words of CLIENT and others |
//! | `table.rs` | all of them, and COMMAND, which describes them |
//! | `execute.rs` | from arguments to an answer |

mod acl;
mod backup;
mod bit_combine;
mod bit_fields;
mod bits;
mod blocking;
mod blocking_pops;
mod client;
mod config;
mod connection;
mod counters;
mod definition;
mod execute;
mod expiry;
mod geo;
mod hashes;
mod info;
mod keys;
mod lcs;
mod lists;
mod member_scan;
mod memory_usage;
mod multi;
mod object;
mod permission;
mod pop_first;
mod pubsub;
mod random_members;
mod rename;
mod scan;
mod set;
mod sets;
mod slowlog;
mod sort;
mod sorted_combine;
mod sorted_ranges;
mod sorted_sets;
mod strings;
mod subcommands;
mod syntax;
mod table;

pub(crate) use blocking::resume;
pub(crate) use definition::{Call, Client};
pub(crate) use execute::execute;
pub(crate) use table::catalogue;
