//! From the ids of a thread's epochs to the numbers of their records: a hash table.
//!
//! Ids are numbers that the program chooses, sparse or dense. The table has open addressing and
//! doubles before it is more than half full. Nothing is ever removed from it. Its memory is mapped
//! and does not come from `malloc`, so that the preload library may keep it as well.
//!
//! Invariants:
//! 1. `start` points to `len` places of mapped memory, which this value alone uses. All of them are
//!    initialized: a place that is all-zero is free.
//! 2. `len` is a power of two, and at least one place is free. So a search ends.

use platform::memory::{READ, WRITE, map_zeroes, unmap};

/// An id and the number of its record plus 1; 0: a free place.
#[derive(Clone, Copy)]
#[repr(C)]
struct Place {
    id: u64,
    record: u32,
}

/// The table; its memory is given back when it is dropped.
pub(super) struct Index {
    start: *mut Place,
    len: usize,
}

impl Index {
    /// An empty table with `len` places, a power of two; `None` if there is no memory.
    pub(super) fn map(len: usize) -> Option<Index> {
        debug_assert!(len.is_power_of_two());
        let start = map_zeroes(len * size_of::<Place>(), READ | WRITE).ok()?.cast();
        Some(Index { start, len })
    }

    fn places(&mut self) -> &mut [Place] {
        // SAFETY: Invariant 1.
        unsafe { core::slice::from_raw_parts_mut(self.start, self.len) }
    }

    /// Where the id is, or the free place where it would be.
    #[inline]
    fn probe(&mut self, id: u64) -> &mut Place {
        let places = self.places();
        let last = places.len() - 1;
        // Fibonacci hashing, by the upper bits of the product.
        let mut at = (id.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - places.len().ilog2())) as usize;
        // Invariant 2: it ends.
        while places[at].record != 0 && places[at].id != id {
            at = (at + 1) & last;
        }
        &mut places[at]
    }

    /// The number of an id's record, if there is one.
    #[inline]
    pub(super) fn find(&mut self, id: u64) -> Option<u32> {
        self.probe(id).record.checked_sub(1)
    }

    /// The id of a record: rarely asked for, so it is searched.
    #[cold]
    pub(super) fn id_of(&mut self, record: u32) -> Option<u64> {
        self.places().iter().find(|place| place.record == record + 1).map(|place| place.id)
    }

    /// Adds an id that is not there, with its record, whose number is at least that of the ids so
    /// far. `None` if there is no memory; then nothing has changed.
    #[cold]
    pub(super) fn add(&mut self, id: u64, record: u32) -> Option<()> {
        if 2 * (record as usize + 1) > self.len {
            self.grow()?;
        }
        *self.probe(id) = Place { id, record: record + 1 };
        Some(())
    }

    /// Doubles the table.
    fn grow(&mut self) -> Option<()> {
        let mut larger = Index::map(self.len * 2)?;
        for place in self.places().iter().filter(|place| place.record != 0) {
            *larger.probe(place.id) = *place;
        }
        *self = larger;
        Some(())
    }
}

impl Drop for Index {
    fn drop(&mut self) {
        // SAFETY: Invariant 1; no reference into it is left.
        let _ = unsafe { unmap(self.start.cast(), self.len * size_of::<Place>()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        #[test]
        fn it_holds_what_a_map_holds(ids in prop::collection::vec(prop_oneof![0..50_u64, any::<u64>()], 0..300)) {
            let (mut index, mut model) = (Index::map(4).expect("memory"), HashMap::new());
            for id in ids {
                let next = model.len() as u32;
                prop_assert_eq!(index.find(id), model.get(&id).copied());
                if let std::collections::hash_map::Entry::Vacant(entry) = model.entry(id) {
                    entry.insert(next);
                    index.add(id, next).expect("memory");
                }
                prop_assert!(index.len >= 2 * model.len() && index.len.is_power_of_two());
            }
            for (id, record) in model {
                prop_assert_eq!((index.find(id), index.id_of(record)), (Some(record), Some(id)));
            }
        }
    }
}
