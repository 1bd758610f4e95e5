//! Savepoints: moments in a transaction to which it can take its writes back.
//!
//! A key has one version of a transaction, the last. So from the first savepoint on, each write
//! remembers what it has replaced. To take back is to undo the writes, the last one first: a first
//! write of a key is taken out of the key's versions, and any other one is written over with what
//! it has replaced.
//!
//! Invariant: the first writes since a savepoint are the last keys of the transaction's `written`,
//! in the same order.

use super::data::Value;
use super::table::Written;
use std::sync::atomic::{AtomicU64, Ordering};

/// A moment in a transaction: [`Transaction::savepoint`](super::Transaction::savepoint) makes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Savepoint(u64);

/// The savepoints of a session's transaction, and how its writes since the first one are undone.
#[derive(Debug, Default)]
pub(super) struct Savepoints {
    /// The number of each, and the number of writes before it.
    all: Vec<(u64, usize)>,
    undo: Vec<Undo>,
    /// Keys whose writes were taken back.
    undone: Vec<Written>,
}

/// How a write is undone.
#[derive(Debug)]
pub(super) enum Undo {
    /// The transaction had not written the key.
    First,
    /// It had written this.
    Over(Written, Option<Value>),
}

impl Savepoints {
    /// A write has replaced what the transaction itself had written, or was its first one of a key.
    #[inline]
    pub(super) fn record(&mut self, own: Option<(&Written, Option<&Value>)>) {
        if self.all.is_empty() {
            return;
        }
        self.undo.push(match own {
            None => Undo::First,
            Some((key, value)) => Undo::Over(key.clone(), value.cloned()),
        });
    }

    /// This moment.
    pub(super) fn add(&mut self) -> Savepoint {
        // Of the process, so that no transaction takes another one's for its own.
        static NEXT: AtomicU64 = AtomicU64::new(0);
        // Relaxed: each number is taken once.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        self.all.push((number, self.undo.len()));
        Savepoint(number)
    }

    /// Returns how the writes since this savepoint are undone, the last one last; none if there is
    /// no such savepoint. Those that were added later are gone.
    pub(super) fn since(&mut self, savepoint: Savepoint) -> Option<Vec<Undo>> {
        let at = self.all.iter().position(|(number, _)| *number == savepoint.0)?;
        let kept = self.all[at].1;
        self.all.truncate(at + 1);
        Some(self.undo.split_off(kept))
    }

    /// The transaction has not written this key after all.
    pub(super) fn undone(&mut self, key: Written) {
        self.undone.push(key);
    }

    /// The transaction is over: adds keys that it has not written after all to those that it has,
    /// which are to be cleaned.
    pub(super) fn end(&mut self, written: &mut Vec<Written>) {
        written.append(&mut self.undone);
        self.all.clear();
        self.undo.clear();
    }
}
