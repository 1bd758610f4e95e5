//! What a transaction has read, as far as its writes and its end depend on that.
//!
//! 1. It may have seen what is not settled (`component.rs`). Then it succeeds only when that does:
//!    `depends` is the last place of it. (A transaction that writes gets a later place itself.)
//! 2. What it has read below the table it need not read again to write there. If the table has no
//!    versions of the key still, no transaction has changed it since the snapshot: the snapshot
//!    would keep them. So this goes only for a transaction that keeps its snapshot, and reads at no
//!    timestamp.

use super::data::Value;
use std::cell::{Cell, RefCell};

/// The number of keys that are remembered.
const REMEMBERED: usize = 16;

/// See [the module](self).
#[derive(Debug, Default)]
pub(super) struct Reads {
    depends: Cell<u64>,
    remembers: Cell<bool>,
    below: RefCell<Vec<(Value, Option<Value>)>>,
}

impl Reads {
    /// A transaction begins, which keeps its snapshot or not.
    pub(super) fn begin(&self, keeps: bool) {
        self.depends.set(0);
        self.remembers.set(keeps);
        self.below.borrow_mut().clear();
    }

    /// It has seen what has this place; 0 for what is settled.
    #[inline]
    pub(super) fn depend_on(&self, place: u64) {
        if place > self.depends.get() {
            self.depends.set(place);
        }
    }

    /// The place that it has to wait for; 0 if there is none.
    pub(super) fn depends(&self) -> u64 {
        self.depends.get()
    }

    /// It has found this below the table.
    pub(super) fn remember(&self, key: &[u8], found: &Option<Value>) {
        let mut below = self.below.borrow_mut();
        if self.remembers.get() && below.len() < REMEMBERED {
            below.push((key.into(), found.clone()));
        }
    }

    /// What it has found below the table under this key, if that is remembered.
    pub(super) fn recall(&self, key: &[u8]) -> Option<Option<Value>> {
        let below = self.below.borrow();
        below.iter().find(|(its, _)| **its == *key).map(|(_, found)| found.clone())
    }
}
