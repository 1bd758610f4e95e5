//! Which waiter in the wait queue goes before which other one.
//!
//! A waiter that came first goes before a later one that it excludes. There is one exception,
//! without which some would wait for ever: no asker has to wait for a waiter that waits for this
//! asker. A waiter waits for the holders of the ranges in its way, and for the waiters before it.
//! If such a holder waits itself, the waiter also waits for what the holder waits for. A waiter
//! that waits for the asker in the end is *stuck* on it, and the asker passes it. (The stuck waiter
//! loses nothing by that: it could not go on before the asker has released its ranges.)
//!
//! The asker's ranges are the ranges that it names, and the ranges of its thread, task or owner
//! ([`Holder`]). A future that no task polls (`task.rs`) has no identity, and passes no waiter.
//!
//! A newcomer may close a circle that others are in already: they queue behind a waiter that is
//! stuck on them only now. So a newcomer that stays looks at the holders that it waits for
//! ([`waited_for`]).
//!
//! The walk here may find too many waiters to be stuck, because it does not ask whether a waiter
//! would itself pass an earlier one. That costs a waiter its turn. The walk in `deadlock.rs` asks,
//! because what it finds is an error.

use super::holder::Holder;
use super::key::Key;
use super::request::Request;
use super::slot;
use super::table::Table;
use super::wait_queue::{List, Node, Nodes};
use std::ops::ControlFlow;
use std::ptr;

/// Returns the waiters that go before the maker of the request. Only waiters before `until` count,
/// or all of them if `until` is not in the list. The wait queue's mutex is held as long as the
/// result is used.
pub(super) fn before<'r, K: Key, const SHARDS: usize, const SLOTS: usize>(
    table: &'r Table<K, SHARDS, SLOTS>,
    list: &List<K>,
    request: Request<'r, K>,
    until: *const Node<K>,
) -> impl Iterator<Item = &'r Node<K>> + use<'r, K, SHARDS, SLOTS> {
    let waiters = list.nodes();
    let holds = request.holder.is_known() || !request.own.is_empty();
    // Each way to the asker ends with a waiter for what the asker holds. Without such a waiter none
    // is stuck, and the walks, whose cost grows with the square of the crowd, are left out.
    let mut is_wanted = None;
    waiters.clone().take_while(move |node| !ptr::eq(*node, until)).filter(move |node| {
        let mut any_stuck = || {
            let wants_its = |waiter: &Node<K>| table.waits_for(&waiter.request(), &request);
            *is_wanted.get_or_insert_with(|| holds && waiters.clone().any(wants_its))
        };
        node.request().conflicts_with(&request)
            && !(any_stuck() && Walk::new(table, waiters.clone(), Some(&request)).reaches_goal(node))
    })
}

/// Returns the holders of something that `node` waits for, in the end.
pub(super) fn waited_for<K: Key, const SHARDS: usize, const SLOTS: usize>(
    table: &Table<K, SHARDS, SLOTS>,
    list: &List<K>,
    node: &Node<K>,
) -> Vec<Holder> {
    let mut walk = Walk::new(table, list.nodes(), None);
    walk.reaches_goal(node);
    walk.holders
}

/// A walk along the waits: from a waiter to the holders and waiters that it waits for.
struct Walk<'w, 'r, 'n, K, const SHARDS: usize, const SLOTS: usize> {
    table: &'w Table<K, SHARDS, SLOTS>,
    /// All waiters in the wait queue, from the first on.
    waiters: Nodes<'n, K>,
    /// The request of the asker that is looked for.
    goal: Option<&'w Request<'r, K>>,
    seen: Vec<*const Node<K>>,
    holders: Vec<Holder>,
}

impl<'w, 'r, 'n, K: Key, const SHARDS: usize, const SLOTS: usize> Walk<'w, 'r, 'n, K, SHARDS, SLOTS> {
    fn new(
        table: &'w Table<K, SHARDS, SLOTS>,
        waiters: Nodes<'n, K>,
        goal: Option<&'w Request<'r, K>>,
    ) -> Self {
        Walk { table, waiters, goal, seen: Vec::new(), holders: Vec::new() }
    }

    /// Whether `node` waits for the goal in the end.
    fn reaches_goal(&mut self, node: &Node<K>) -> bool {
        if self.seen.iter().any(|seen| ptr::eq(*seen, node)) {
            return false;
        }
        self.seen.push(node);
        let wanted = node.request();
        let known = self.holders.len();
        let (goal, holders) = (self.goal, &mut self.holders);
        let arrived = self.table.blockers(&wanted, |slot, state| {
            // SAFETY: the words of what is in the way are held, and the goal holds what it calls
            // its own.
            if goal.is_some_and(|goal| unsafe { goal.holds(slot, state) }) {
                return ControlFlow::Break(());
            }
            let holder = slot::holder(state);
            if holder.is_known() && !holders.contains(&holder) {
                holders.push(holder);
            }
            ControlFlow::Continue(())
        });
        if arrived.is_break() {
            return true;
        }
        // The waiters among these holders, and the waiters that came before this one and exclude
        // it.
        let found: Vec<Holder> = self.holders[known..].to_vec();
        let mut earlier = true;
        let next = self.waiters.clone().filter(move |other| {
            earlier &= !ptr::eq(*other, node);
            earlier && other.request().conflicts_with(&wanted) || found.contains(&other.request().holder)
        });
        let next: Vec<&Node<K>> = next.collect();
        next.into_iter().any(|other| self.reaches_goal(other))
    }
}
