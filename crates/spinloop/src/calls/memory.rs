//! Values, and the memory that other threads can write, as the code of a round uses it: what it
//! reads, and what it counts.
//!
//! Addresses are known by their base. So a place is an address, or a base and the distance from it,
//! and a function's places become its caller's with what the registers hold at the call.

use Value::{Constant, Stack, Unknown, Was};
use alloc::collections::BTreeSet;

/// Where a value can be kept: a general register by its number, or a slot of the frame by its
/// distance from the stack pointer at the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Location {
    Register(u8),
    Slot(i64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Value {
    Unknown,
    Constant(u64),
    /// What this location held at the start.
    Was(Location),
    /// The stack pointer at the start, plus this.
    Stack(i64),
}

/// A place in memory, as far as it is told from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    Address(u64),
    /// This far from a base.
    Distance(Value, i64),
}

impl Place {
    pub(super) fn at(base: Value, distance: i64) -> Place {
        match base {
            Constant(base) => Place::Address(base.wrapping_add(distance as u64)),
            base => Place::Distance(base, distance),
        }
    }
}

/// The memory that other threads can write, as some code uses it.
#[derive(Clone, Debug, Default)]
pub(super) struct Memory {
    /// It is read, besides the thread's own storage.
    pub(super) is_read: bool,
    /// The code itself reads it, besides functions that it calls.
    pub(super) is_read_here: bool,
    /// The time is told.
    pub(super) timed: bool,
    pub(super) read: BTreeSet<Used>,
    pub(super) counts: BTreeSet<Used>,
    /// The locations of the start that are written there, taken for constants.
    pub(super) stored: BTreeSet<Location>,
}

/// A place, and the number of its bytes.
pub(super) type Used = (Place, u64);

/// Whether a count may be what is read.
pub(super) fn may_be_one(count: &Used, read: &Used) -> bool {
    let (&(count, counted), &(read, bytes)) = (count, read);
    // Addresses may be anywhere.
    let overlap = |one: i64, other: i64| {
        (one.wrapping_sub(other) as u64) < bytes || (other.wrapping_sub(one) as u64) < counted
    };
    match (count, read) {
        (Place::Address(one), Place::Address(other)) => overlap(one as i64, other as i64),
        (Place::Distance(one, at), Place::Distance(other, from)) if one == other && overlap(at, from) => true,
        (Place::Distance(Unknown, _), _) | (_, Place::Distance(Unknown, _)) => counted == bytes,
        _ => false,
    }
}

impl Memory {
    /// Adds what a function uses that is called in this state. Returns whether it writes what is
    /// not known.
    #[must_use]
    pub(super) fn add(&mut self, called: &Memory, registers: &[Value; 16]) -> bool {
        let seen = |&(place, bytes): &Used| match place {
            Place::Distance(Was(Location::Register(number)), at) => {
                (Place::at(registers[usize::from(number)], at), bytes)
            }
            Place::Distance(Was(Location::Slot(_)), at) => (Place::Distance(Unknown, at), bytes),
            other => (other, bytes),
        };
        self.is_read |= called.is_read;
        self.timed |= called.timed;
        self.read.extend(called.read.iter().map(seen));
        self.counts.extend(called.counts.iter().map(seen));
        // The caller reads its own frame.
        let of_frame = |(place, _): &&Used| matches!(place, Place::Distance(Stack(_), _));
        self.read.extend(self.counts.iter().filter(of_frame));
        let mut works = false;
        for location in &called.stored {
            match *location {
                Location::Register(number) => works |= !self.may_store(registers[usize::from(number)]),
                Location::Slot(_) => works = true,
            }
        }
        works
    }

    /// Whether a value that is written may be taken for a constant.
    pub(super) fn may_store(&mut self, value: Value) -> bool {
        if let Was(location) = value {
            self.stored.insert(location);
        }
        matches!(value, Constant(_) | Was(_))
    }

    /// All of the code was followed. By 3.
    pub(super) fn finish(&mut self) {
        self.is_read |= self.is_read_here && !self.timed;
    }
}
