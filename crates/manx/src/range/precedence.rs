//! Who of those in the room goes before whom.
//!
//! Whoever came first and excludes somebody goes before it. With one exception, or some would wait for ever: nobody has
//! to wait for a waiter that waits for it. A waiter waits for the holders of what is in its way, and for those before it; so one
//! that waits for the asker's ranges is *stuck* on the asker, and so is whoever is excluded by a stuck one that came earlier.
//! The asker passes all of them. (They lose nothing by it: they could not go on before the asker has given back what it has.)
//!
//! The asker's ranges are those that it names, and those of its thread or owner. A circle through somebody who holds something
//! and waits in another place is not seen here, but by `deadlock.rs`.

use super::key::Key;
use super::request::Request;
use super::room::{List, Node};
use super::table::Table;
use std::ptr;

/// The waiters before `until`, or all, that go before who makes the request. The room's mutex is held as long as the result is
/// used.
pub(super) fn before<'r, K: Key, const SHARDS: usize, const SLOTS: usize>(
    table: &'r Table<K, SHARDS, SLOTS>,
    list: &List<K>,
    request: Request<'r, K>,
    until: *const Node<K>,
) -> impl Iterator<Item = &'r Node<K>> + use<'r, K, SHARDS, SLOTS> {
    let holds = request.holder.is_known() || !request.own.is_empty();
    let mut stuck: Vec<&Node<K>> = Vec::new();
    list.nodes().take_while(move |node| !ptr::eq(*node, until)).filter(move |node| {
        let wanted = node.request();
        let is_stuck = holds
            && (stuck.iter().any(|earlier| earlier.request().excludes(&wanted))
                || table.waits_for(&wanted, &request));
        if is_stuck {
            stuck.push(node);
        }
        !is_stuck && wanted.excludes(&request)
    })
}
