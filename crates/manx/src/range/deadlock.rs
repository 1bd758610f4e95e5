//! Those who wait for each other: found when the one comes who would close the circle.
//!
//! The graph is not kept. When somebody enters the waiting room, it is walked from there: a waiter waits for the holders of
//! what is in its way, and for whoever is before it in the list and excludes it. The room's mutex is held, so that
//! nobody comes or goes meanwhile; a range that is released while we look makes the graph smaller, never larger.
//! Without the setting, only the shortest circle is looked for, and only by those who upgrade: two that share a range and both want
//! it alone.
//!
//! Who is who is told by [`Holder`]: threads for guards, and owners. A task's guard is nobody's, and no circle goes through
//! it.

use super::error::LockError;
use super::holder::Holder;
use super::key::Key;
use super::lock::RangeLock;
use super::precedence;
use super::room::{Inside, Node};
use super::slot;
use std::fmt;
use std::ops::ControlFlow;
use std::ptr;

/// One who waits in a circle, and for whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Who waits.
    pub waiter: Holder,
    /// The ranges that it wants.
    pub wants: String,
    /// For whom.
    pub holder: Holder,
    /// What that one holds of it; or wants as well, if it came first.
    pub holds: String,
}

/// A circle of waiters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deadlock {
    /// The first one is who came last; the last one waits for the first.
    pub links: Vec<Link>,
}

impl fmt::Display for Deadlock {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("nobody could go on: ")?;
        for (index, link) in self.links.iter().enumerate() {
            if index > 0 {
                to.write_str("; ")?;
            }
            let Link { waiter, wants, holder, holds } = link;
            write!(to, "{waiter} waits for {wants}, of which {holder} has {holds}")?;
        }
        Ok(())
    }
}

/// Whether `node` may wait, which has just come.
pub(super) fn check<K: Key, const SHARDS: usize, const SLOTS: usize>(
    lock: &RangeLock<K, SHARDS, SLOTS>,
    room: &Inside<'_, K>,
    node: &Node<K>,
) -> Result<(), LockError> {
    // SAFETY: the room's mutex is held, here and below.
    if unsafe { node.guarded() }.upgrades {
        let stuck = room.nodes().any(|other| {
            !ptr::eq(other, node)
                // SAFETY: as above.
                && unsafe { other.guarded() }.upgrades
                && lock.table.waits_for(&other.request(), &node.request())
                && lock.table.waits_for(&node.request(), &other.request())
        });
        if stuck {
            return Err(LockError::UpgradeDeadlock);
        }
    }
    if !lock.table.options().detects || !node.request().holder.is_known() {
        return Ok(());
    }
    let mut walk = Walk { lock, room, goal: node.request().holder, seen: Vec::new(), path: Vec::new() };
    match walk.from(node) {
        true => Err(LockError::Deadlock(Box::new(Deadlock { links: walk.path }))),
        false => Ok(()),
    }
}

struct Walk<'a, 'r, K, const SHARDS: usize, const SLOTS: usize> {
    lock: &'a RangeLock<K, SHARDS, SLOTS>,
    room: &'a Inside<'r, K>,
    goal: Holder,
    /// Holders whose waits were looked at, or are.
    seen: Vec<Holder>,
    path: Vec<Link>,
}

impl<K: Key, const SHARDS: usize, const SLOTS: usize> Walk<'_, '_, K, SHARDS, SLOTS> {
    /// Whether the goal is waited for by `node`, or by whom it waits for. If so the path leads there.
    fn from(&mut self, node: &Node<K>) -> bool {
        let mut edges: Vec<(Holder, String)> = Vec::new();
        let add = |edges: &mut Vec<(Holder, String)>, holder: Holder, holds: String| {
            if holder.is_known() && edges.iter().all(|(known, _)| *known != holder) {
                edges.push((holder, holds));
            }
        };
        let _ = self.lock.table.blockers(&node.request(), |slot, state| {
            // SAFETY: the word of the slot's shard is held while it is shown.
            let span = unsafe { &slot.entry().span };
            add(&mut edges, slot::holder(state), format!("{span:?}"));
            ControlFlow::<()>::Continue(())
        });
        for earlier in precedence::before(&self.lock.table, self.room, node.request(), node) {
            add(&mut edges, earlier.request().holder, written(earlier));
        }
        for (holder, holds) in edges {
            self.path.push(Link { waiter: node.request().holder, wants: written(node), holder, holds });
            if holder == self.goal {
                return true;
            }
            if !self.seen.contains(&holder) {
                self.seen.push(holder);
                for next in self.room.nodes().filter(|next| next.request().holder == holder) {
                    if self.from(next) {
                        return true;
                    }
                }
            }
            self.path.pop();
        }
        false
    }
}

/// What a waiter wants.
fn written<K: Key>(node: &Node<K>) -> String {
    let spans: Vec<String> = node.request().spans.iter().map(|span| format!("{span:?}")).collect();
    spans.join(", ")
}
