//! The graph of waiting threads, in which deadlocks are found.
//!
//! It knows the holders of locks, and the threads that wait without a limit. A thread that waits
//! for a lock waits for each of its holders. A reader waits for the writers that wait for the lock,
//! too: while others read, only these writers keep it out. A cycle of threads that each wait for
//! the next never ends, since each waits for *all* that it waits for. Edges come when a thread
//! begins to wait, so the last thread that does closes the cycle, and looking from it is enough.
//!
//! What can be missed, and what can be reported though it would end:
//! - Locks taken before observation began are not known, nor are locks that another observation
//!   does not cover.
//! - A reader that waits behind a writer *with* a limit, while another writer waits without one, is
//!   taken to wait for the latter. Reading twice in one thread around a waiting writer is wrong in
//!   any case.
//! - A holder may give its guard to another thread. The graph keeps the thread that took the lock.
//!
//! Memory is bounded by what is held and waited for. One standard lock protects the graph; under it
//! no thread waits.

use super::event::{Access, Place};
use super::names::named;
use crate::lock::circle::circle;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread::{self, ThreadId};

/// A thread, by number and name.
#[derive(Clone, Debug)]
struct ThreadLabel {
    id: ThreadId,
    name: Option<String>,
}

/// A thread that has a lock.
#[derive(Clone, Debug)]
struct Holder {
    who: ThreadLabel,
    place: Place,
    access: Access,
}

/// A thread that waits for a lock.
#[derive(Clone, Debug)]
struct Waiter {
    who: ThreadLabel,
    address: usize,
    place: Place,
    access: Access,
}

/// Holders by lock, waiters by thread.
#[derive(Debug, Default)]
pub(super) struct Graph {
    holders: HashMap<usize, Vec<Holder>>,
    waiters: HashMap<ThreadId, Waiter>,
}

/// Runs `work` on the graph, which no other thread uses meanwhile.
pub(super) fn exclusively<R>(work: impl FnOnce(&mut Graph) -> R) -> R {
    static GRAPH: OnceLock<Mutex<Graph>> = OnceLock::new();
    work(&mut GRAPH.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner))
}

impl ThreadLabel {
    fn me() -> ThreadLabel {
        let thread = thread::current();
        ThreadLabel { id: thread.id(), name: thread.name().map(str::to_owned) }
    }
}

impl Graph {
    /// Forgets all holders and all waiters.
    pub(super) fn forget_all(&mut self) {
        *self = Graph::default();
    }

    /// The calling thread has taken a lock.
    pub(super) fn hold(&mut self, address: usize, place: Place, access: Access) {
        self.give_up();
        let holders = self.holders.entry(address).or_default();
        // No other thread can hold it, or not alone, whatever was not seen.
        holders.retain(|other| !access.waits_for(other.access));
        holders.push(Holder { who: ThreadLabel::me(), place, access });
    }

    /// The calling thread waits no more.
    pub(super) fn give_up(&mut self) {
        self.waiters.remove(&thread::current().id());
    }

    /// The calling thread, which took a lock or was given its guard, is about to release it.
    pub(super) fn release(&mut self, address: usize, access: Access) {
        let Some(holders) = self.holders.get_mut(&address) else { return };
        let me = thread::current().id();
        let mine = holders.iter().rposition(|holder| holder.access == access && holder.who.id == me);
        let one = mine.or_else(|| holders.iter().rposition(|holder| holder.access == access));
        if let Some(one) = one {
            holders.remove(one);
        }
        if holders.is_empty() {
            self.holders.remove(&address);
        }
    }

    /// The holder that has a lock as `from` has it as `to` from now on.
    pub(super) fn change(&mut self, address: usize, from: Access, to: Access) {
        let holders = self.holders.get_mut(&address).into_iter().flatten();
        holders.filter(|holder| holder.access == from).for_each(|holder| holder.access = to);
    }

    /// Adds a wait of the calling thread. Returns a deadlock if the wait would never end; then it
    /// is not added.
    pub(super) fn wait(&mut self, address: usize, place: Place, access: Access) -> Option<Deadlock> {
        let who = ThreadLabel::me();
        let me = who.id;
        self.waiters.insert(me, Waiter { who, address, place, access });
        let path = circle(me, |thread| self.edges(thread))?;
        self.waiters.remove(&me);
        Some(Deadlock { path })
    }

    /// Returns the threads that a thread waits for, and each wait.
    fn edges(&self, thread: ThreadId) -> Vec<(ThreadId, Link)> {
        let Some(waiter) = self.waiters.get(&thread) else { return Vec::new() };
        let next = self.waits_for(waiter).into_iter();
        next.map(|next| (next.who().id, Link { waiter: waiter.clone(), next })).collect()
    }

    /// Returns the threads that a waiter waits for.
    fn waits_for(&self, waiter: &Waiter) -> Vec<Next> {
        let holders = self.holders.get(&waiter.address).into_iter().flatten();
        let in_its_way = |holder: &&Holder| waiter.access.waits_for(holder.access);
        let mut next: Vec<Next> = holders.filter(in_its_way).cloned().map(Next::Holder).collect();
        if waiter.access.is_read() {
            let writers = self.waiters.values();
            let writers = writers.filter(|other| other.address == waiter.address && !other.access.is_read());
            next.extend(writers.cloned().map(Next::Writer));
        }
        next
    }
}

/// What a thread waits for.
#[derive(Clone, Debug)]
enum Next {
    /// A holder of the lock.
    Holder(Holder),
    /// A writer that waits, and keeps readers out.
    Writer(Waiter),
}

impl Next {
    fn who(&self) -> &ThreadLabel {
        match self {
            Next::Holder(holder) => &holder.who,
            Next::Writer(writer) => &writer.who,
        }
    }
}

/// A wait for a thread.
#[derive(Clone, Debug)]
struct Link {
    waiter: Waiter,
    next: Next,
}

/// Threads that each wait for the next, and the last for the first.
#[derive(Debug)]
pub(super) struct Deadlock {
    path: Vec<Link>,
}

/// One paragraph for each thread, beginning with the thread that would have closed the cycle.
impl fmt::Display for Deadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.len() {
            1 => writeln!(f, "deadlock: a thread would wait for itself")?,
            count => writeln!(f, "deadlock: {count} threads would wait for each other")?,
        }
        for Link { waiter, next } in &self.path {
            let verb = if waiter.access.is_read() { "read" } else { "take" };
            let lock = Lock(waiter.address);
            writeln!(f, "  {} waits at {} to {verb} {lock},", waiter.who, waiter.place)?;
            match next {
                Next::Holder(holder) => {
                    let how = if holder.access.is_read() { "reads" } else { "holds" };
                    writeln!(f, "    which {} {how} since {}", holder.who, holder.place)?;
                }
                Next::Writer(writer) => {
                    writeln!(f, "    for which {} waits as a writer at {}", writer.who, writer.place)?;
                }
            }
        }
        write!(f, "help: take locks in the same order everywhere, and release one before waiting for another")
    }
}

impl fmt::Display for ThreadLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "thread {name:?} ({:?})", self.id),
            None => write!(f, "a thread without a name ({:?})", self.id),
        }
    }
}

/// A lock, by its name if it has one.
struct Lock(usize);

impl fmt::Display for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match named(self.0) {
            Some(name) => write!(f, "lock {name:?} ({:#x})", self.0),
            None => write!(f, "the lock at {:#x}", self.0),
        }
    }
}
