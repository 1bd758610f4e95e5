//! Range locks across machines, over etcd.
//!
//! The same ranges, owners and errors as [`RangeLock`](super::RangeLock) has in one process, for
//! processes on several machines that share an etcd (3.4 or later). There is no server of ours:
//! each process reads and writes keys of etcd, which decides what came first. Needs the cargo
//! feature `cluster`.
//!
//! | promise | by |
//! | --- | --- |
//! | Ranges that conflict are never granted at the same time, while no session is lost | the order of creation in etcd, and one look at it: `rule.rs` |
//! | Waiters are served in the order of their arrival; ranges that do not overlap do not wait for each other | the same |
//! | The death of a holder frees its ranges within the time of its lease | [`Options::ttl`], `session.rs` |
//! | A holder that does not reach etcd any more is told before its ranges are given to others | [`Session::is_lost`], [`Session::on_lost`] |
//! | A holder that was stopped, and writes late, can be refused | [`RangeGuard::token`] |
//! | Of waiters in a circle the last one gets an error | [`Error::Deadlock`], `rule.rs` |
//! | The death of a member of etcd fails no call, as long as more than half of them live | `etcd/client.rs` |
//! | A range costs no more when thousands of others are held | `index.rs` |
//!
//! A free range costs one call of etcd, and its release another one; a waiter watches one key.
//!
//! | to take | for a thread | for a task |
//! | --- | --- | --- |
//! | one range | [`RangeLock::lock`], [`RangeLock::lock_until`] | [`RangeLock::lock_async`] |
//! | several ranges, all or none | [`RangeLock::lock_many`] | [`RangeLock::lock_many_async`] |
//! | one range after the other, as a transaction does | [`Owner::lock`] | [`Owner::lock_async`] |
//!
//! What differs from the lock in one process: waiters are never overtaken; guards cannot be cut;
//! circles are always looked for. An owner passes a waiter only if this one waits directly for a
//! range of the owner; if it waits for another waiter that waits for the owner, the owner gets
//! [`Error::Deadlock`].

mod driver;
mod error;
mod index;
mod lock;
mod many;
mod options;
mod owner;
mod portable;
mod queue;
mod request;
mod rule;
mod session;

pub use error::{Deadlock, Error, Link, Participant};
pub use lock::{Entry, RangeGuard, RangeLock};
pub use many::ManyGuard;
pub use options::{CONNECT_TIMEOUT, Options, TTL, Tls};
pub use owner::Owner;
pub use portable::Portable;
pub use session::Session;
