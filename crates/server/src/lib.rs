//! The store of transactions as a server that clients of Redis can talk to.
//!
//! ```
//! use manx::txn::Store;
//! use server::{Options, Server};
//! use std::io::{Read as _, Write as _};
//! use std::net::TcpStream;
//!
//! let options = Options { listen: "127.0.0.1:0".parse()?, ..Options::default() };
//! let server = Server::start(options, Store::in_memory(manx::txn::Options::default()))?;
//! let mut client = TcpStream::connect(server.address())?;
//! client.write_all(b"SET greeting hello\r\n")?;
//! let mut answer = [0; 5];
//! client.read_exact(&mut answer)?;
//! assert_eq!(&answer, b"+OK\r\n");
//! server.stop();
//! server.wait();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | where | what |
//! | --- | --- |
//! | `resp/` | the protocol |
//! | `command/` | the commands |
//! | `transact.rs`, `retry_locks.rs`, `turn.rs`, `ops.rs`, `fault.rs` | commands in transactions |
//! | `waiters.rs` | clients that wait for a list or a sorted set |
//! | `names.rs`, `value.rs`, `collection/`, `random_key.rs`, `keyspace.rs`, `key_count.rs` | what is stored, and how |
//! | `numbers.rs`, `extended.rs`, `scores.rs`, `geo.rs`, `glob.rs` | what arguments mean |
//! | `connection.rs`, `input.rs`, `large.rs`, `transport.rs`, `buffers.rs`, `room.rs` | one connection, its bytes, and those of all |
//! | `memory.rs`, `eviction.rs`, `candidates.rs`, `access.rs` | how much memory is used, and which keys go |
//! | `pubsub/` | channels, and messages from some clients to others |
//! | `model/`, `waker.rs`, `bell.rs` | the threads that serve connections |
//! | `listeners.rs`, `unix_socket.rs`, `accept.rs`, `descriptors.rs`, `stop.rs` | how connections begin and end |
//! | `housekeeping.rs` | what is done periodically |
//! | `slowlog.rs` | the commands that took long |
//! | `acl/`, `password.rs` | users, and what they may do |
//! | `peer.rs`, `shared.rs` | the clients, and what all parts of a server share |

mod accept;
mod access;
mod acl;
mod backups;
mod bell;
mod buffers;
mod candidates;
mod collection;
mod command;
mod connection;
mod cursors;
mod descriptors;
mod eviction;
mod expired;
mod extended;
mod fault;
mod geo;
mod glob;
mod housekeeping;
mod input;
mod key_count;
mod keyspace;
mod large;
mod listeners;
mod memory;
mod model;
mod names;
mod numbers;
mod ops;
mod options;
mod password;
mod peer;
mod pubsub;
mod random_key;
pub mod resp;
mod retry_locks;
mod room;
mod scores;
mod server;
mod shared;
mod slowlog;
mod stop;
mod tls;
mod transact;
mod transport;
mod turn;
mod unix_socket;
mod value;
mod waiters;
mod waker;

pub use options::{Eviction, Model, Options};
pub use password::Password;
pub use server::{SESSIONS_BESIDE, Server, StartError, Stopper};
pub use tls::Tls;
