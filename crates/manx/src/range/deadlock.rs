//! Circles of waiters: a circle is found when the waiter that would close it comes.
//!
//! The graph is not kept. When a waiter enters the wait queue, the graph is walked from this
//! waiter on: a waiter waits for the holders of what is in its way, and for the waiters before it
//! in the list that exclude it. The wait queue's mutex is held, so that no waiter comes or goes
//! meanwhile. A range that is released while we look makes the graph smaller, never larger. Without
//! the setting, only upgrades look for a circle, and only for the shortest one: two holders share a
//! range, and both want it alone. With the setting, that circle is reported with its ranges as
//! well.
//!
//! A [`Holder`] identifies a holder or a waiter: the thread or the task that took a guard, or an
//! owner. A future that no task polls has no identity, so no circle goes through its ranges. A task
//! that polls several futures in turns may wait several times at once. A circle through one of
//! these waits counts as a circle of the task (`task.rs` says so to its users).

use super::error::{Deadlock, Link, LockError};
use super::holder::Holder;
use super::key::Key;
use super::precedence;
use super::request::NO_TAG;
use super::slot;
use super::span::Span;
use super::table::Table;
use super::wait_queue::{LockedQueue, Node};
use crate::lock::circle::circle;
use std::fmt;
use std::ops::ControlFlow;
use std::ptr;

/// Whether `node` may wait, which has just come.
pub(super) fn check<K: Key, const SHARDS: usize, const SLOTS: usize>(
    table: &Table<K, SHARDS, SLOTS>,
    queue: &LockedQueue<'_, K>,
    node: &Node<K>,
) -> Result<(), LockError> {
    if table.options().detects && node.request().holder.is_known() {
        // The goal may not be in the wait queue. The other members of a circle wait there, and
        // their nodes have their tags.
        let (goal, start) = (node, node.request().holder);
        let edges = |holder| {
            let waiting = queue.nodes().filter(|its| holder != start && its.request().holder == holder);
            let mut edges = Vec::new();
            for node in waiting.chain((holder == start).then_some(goal)) {
                let request = node.request();
                let (waiter, waiter_tag, wants) = (request.holder, tag(node), written(node));
                for (holder, holds) in waits_for(table, queue, node) {
                    let its = queue.nodes().chain([goal]).find(|its| its.request().holder == holder);
                    let holder_tag = its.and_then(tag);
                    let wants = wants.clone();
                    edges.push((holder, Link { waiter, waiter_tag, wants, holder, holder_tag, holds }));
                }
            }
            edges
        };
        // The last wait of a circle is for what the newcomer holds, or for another wait of its own.
        // In a crowd that waits for one range there is none, and no graph to walk.
        let leads_to_start = |its: &Node<K>| {
            table.waits_for(&its.request(), &goal.request())
                || !ptr::eq(its, goal) && its.request().holder == start
        };
        let is_possible = queue.nodes().chain([goal]).any(leads_to_start);
        if let Some(links) = is_possible.then(|| circle(start, edges)).flatten() {
            return Err(LockError::Deadlock(Box::new(Deadlock { links })));
        }
    }
    // SAFETY: the wait queue's mutex is held, here and below.
    if unsafe { node.guarded() }.upgrades {
        let stuck = queue.nodes().any(|other| {
            !ptr::eq(other, node)
                // SAFETY: as above.
                && unsafe { other.guarded() }.upgrades
                && table.waits_for(&other.request(), &node.request())
                && table.waits_for(&node.request(), &other.request())
        });
        if stuck {
            return Err(LockError::UpgradeDeadlock);
        }
    }
    Ok(())
}

/// The holders that a waiter waits for, and what each of them holds, or wants as well.
fn waits_for<K: Key, const SHARDS: usize, const SLOTS: usize>(
    table: &Table<K, SHARDS, SLOTS>,
    queue: &LockedQueue<'_, K>,
    node: &Node<K>,
) -> Vec<(Holder, String)> {
    let mut edges: Vec<(Holder, String)> = Vec::new();
    let add = |edges: &mut Vec<(Holder, String)>, holder: Holder, holds: String| {
        if holder.is_known() && edges.iter().all(|(known, _)| *known != holder) {
            edges.push((holder, holds));
        }
    };
    let _ = table.blockers(&node.request(), |slot, state| {
        // SAFETY: the word of the slot's shard is held while it is shown.
        let span = unsafe { &slot.entry().span };
        add(&mut edges, slot::holder(state), shown(span));
        ControlFlow::<()>::Continue(())
    });
    for earlier in precedence::before(table, queue, node.request(), node) {
        add(&mut edges, earlier.request().holder, written(earlier));
    }
    edges
}

/// What a waiter wants.
fn written<K: Key>(node: &Node<K>) -> String {
    let spans: Vec<String> = node.request().spans.iter().map(shown).collect();
    spans.join(", ")
}

fn shown<K: Key>(span: &Span<K>) -> String {
    struct Shown<'a, K>(&'a Span<K>);
    impl<K: Key> fmt::Display for Shown<'_, K> {
        fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
            self.0.write(to, K::show)
        }
    }
    Shown(span).to_string()
}

/// How a waiter is called.
fn tag<K: Key>(node: &Node<K>) -> Option<u64> {
    Some(node.request().tag).filter(|&tag| tag != NO_TAG)
}
