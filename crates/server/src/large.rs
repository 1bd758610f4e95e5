//! A large argument, which is received where it is to stay.
//!
//! The store keeps a client's string behind a short head (`value.rs`). Were a large one received
//! like all else, the server would have it twice until it is stored, and copy it. So its bytes go
//! from the socket into the memory that the store keeps, behind the head of a string that does not
//! expire. A command that needs something else makes a copy of them.
//!
//! A client pays for the memory that it takes, also here: a page of memory is taken when something
//! is written there, and no more is written than is received, but for what a read gets room for
//! ([`STEP`]).
//!
//! Invariants:
//! 1. Of `memory`, all before `ready` has been written; `came <= ready`.
//! 2. Nothing else has `memory`.

use crate::value::{HEAD, string_head};
use manx::txn::Value;
use std::mem::MaybeUninit;
use std::sync::Arc;

/// The most that is prepared for a read, here and in a buffer (`input.rs`).
pub(crate) const STEP: usize = 256 * 1024;

/// See [the module](self).
pub(crate) enum Large {
    /// Some is missing.
    Part { memory: Arc<[MaybeUninit<u8>]>, ready: usize, came: usize },
    /// As the store would have it.
    Whole(Value),
}

impl Large {
    /// For an argument of this length, with the stamp that it will have if it is stored.
    pub(crate) fn new(length: usize, stamp: u64) -> Large {
        let mut memory = Arc::new_uninit_slice(HEAD + length);
        Arc::get_mut(&mut memory).expect("it is new")[..HEAD].write_copy_of_slice(&string_head(stamp));
        let mut large = Large::Part { memory, ready: HEAD, came: HEAD };
        // It may have no bytes.
        large.came(0);
        large
    }

    /// Room for more; none if nothing is missing.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        let Large::Part { memory, ready, came } = self else { return &mut [] };
        let memory = Arc::get_mut(memory).expect("Invariant 2");
        if came == ready {
            let end = memory.len().min(*ready + STEP);
            for byte in &mut memory[*ready..end] {
                byte.write(0);
            }
            *ready = end;
        }
        // SAFETY: it has been written (Invariant 1).
        unsafe { memory[*came..*ready].assume_init_mut() }
    }

    /// Takes over this number of bytes, which were put into the room.
    pub(crate) fn came(&mut self, count: usize) {
        let Large::Part { memory, ready, came } = self else { return };
        *came += count;
        assert!(came <= ready, "more than there was room for");
        if *came == memory.len() {
            // SAFETY: all of it has been written (Invariant 1).
            *self = Large::Whole(unsafe { Arc::clone(memory).assume_init() });
        }
    }

    /// The number of bytes of the argument.
    pub(crate) fn length(&self) -> usize {
        let length = match self {
            Large::Part { memory, .. } => memory.len(),
            Large::Whole(value) => value.len(),
        };
        length - HEAD
    }

    /// How many of them have come.
    pub(crate) fn received(&self) -> usize {
        match self {
            Large::Part { came, .. } => came - HEAD,
            Large::Whole(_) => self.length(),
        }
    }

    /// The argument, if nothing is missing.
    pub(crate) fn whole(&self) -> Option<&Value> {
        match self {
            Large::Part { .. } => None,
            Large::Whole(value) => Some(value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Found;

    #[test]
    fn what_comes_in_pieces_is_a_string() {
        let bytes: Vec<u8> = (0..3 * STEP + 5).map(|at| at as u8).collect();
        for length in [0, 1, STEP, STEP + 1, bytes.len()] {
            let mut large = Large::new(length, 7);
            assert_eq!(large.length(), length);
            while large.whole().is_none() {
                let (had, room) = (large.received(), large.room());
                assert!((1..=STEP).contains(&room.len()));
                let count = room.len().min(had % 1000 + 1);
                room[..count].copy_from_slice(&bytes[had..had + count]);
                large.came(count);
            }
            assert_eq!((large.received(), large.length(), large.room().len()), (length, length, 0));
            let found = Found::read(large.whole().unwrap().clone()).unwrap();
            assert!(found.bytes() == &bytes[..length]);
            assert_eq!((found.stamp(), found.expires_ms()), (7, None));
            assert_eq!(Arc::strong_count(large.whole().unwrap()), 2);
        }
    }
}
