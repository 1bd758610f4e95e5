//! A client of etcd, for what stands on an etcd cluster.
//!
//! | file | what |
//! | --- | --- |
//! | `address.rs` | which members there are, how they are reached, and the prefix of the keys |
//! | `client.rs` | calls, which are repeated at another member until an answer comes |
//! | `messages.rs` | the messages of its protocol |
//! | `plain.rs` | single calls, for tests |
//!
//! The messages are written by hand: there are few, and crates that generate them from etcd's own
//! files need a compiler (`protoc`) wherever the project is built.

// Each of the two features uses a part.
#![cfg_attr(not(all(feature = "cluster", feature = "etcd")), allow(dead_code))]

mod address;
pub(crate) mod client;
pub(crate) mod messages;
mod plain;

pub use crate::address_error::AddressError;
pub use address::Address;
// For tests.
#[doc(hidden)]
pub use plain::Plain;
