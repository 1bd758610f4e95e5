//! The statistics of each lock, by its address, in a table that never grows.
//!
//! A slot belongs to the first address that claims it, by a compare-and-exchange, until statistics
//! begin anew. A search looks at [`PROBES_MAX`] neighbours; an event of a lock that finds none is
//! counted as dropped.
//!
//! A hold is timed from the slot if it is exclusive (there is one), and from a few words of the
//! reader's thread if it is shared; what is released by another thread than took it, or as the
//! ninth at once, is not timed. Numbers are relaxed atomics: each is right, and two of them are not
//! of the same instant.

use super::event::{Access, Place, WaitOutcome};
use super::histogram::Counts;
use platform::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use platform::clock;
use std::cell::Cell;
use std::panic::Location;
use std::sync::OnceLock;

/// How many locks have statistics of their own. About 5 MB, from when statistics are first
/// switched on.
pub const CAPACITY: usize = 1024;
/// How far from its place an address may be.
const PROBES_MAX: usize = 64;
/// How many shared holds of one thread are timed at once.
const READS: usize = 8;

/// What is known of a lock.
#[derive(Debug)]
pub(super) struct Slot {
    /// Its address; 0: the slot is free.
    pub address: AtomicUsize,
    /// Where it was first taken, or waited for.
    first: AtomicPtr<Location<'static>>,
    /// Threads that wait.
    waiting: AtomicU32,
    /// When its exclusive holder took it; 0: not known.
    held_since_ns: AtomicU64,
    pub acquisitions: AtomicU64,
    pub shared: AtomicU64,
    pub contended: AtomicU64,
    pub overtakes: AtomicU64,
    pub starving: AtomicU64,
    pub handed_over: AtomicU64,
    pub gave_up: AtomicU64,
    pub wait: Counts,
    pub hold: Counts,
}

/// All slots, and what found none.
#[derive(Debug)]
struct Table {
    slots: Box<[Slot]>,
    dropped: AtomicU64,
    /// When statistics began: a hold that is older is not timed.
    began_ns: AtomicU64,
}

static TABLE: OnceLock<Table> = OnceLock::new();

std::thread_local! {
    /// Addresses that this thread holds shared, and since when; address 0 is a free place.
    static READING: Cell<[(usize, u64); READS]> = const { Cell::new([(0, 0); READS]) };
}

impl Slot {
    const fn new() -> Slot {
        Slot {
            address: AtomicUsize::new(0),
            first: AtomicPtr::new(core::ptr::null_mut()),
            waiting: AtomicU32::new(0),
            held_since_ns: AtomicU64::new(0),
            acquisitions: AtomicU64::new(0),
            shared: AtomicU64::new(0),
            contended: AtomicU64::new(0),
            overtakes: AtomicU64::new(0),
            starving: AtomicU64::new(0),
            handed_over: AtomicU64::new(0),
            gave_up: AtomicU64::new(0),
            wait: Counts::new(),
            hold: Counts::new(),
        }
    }

    fn clear(&self) {
        self.waiting.store(0, Ordering::Relaxed);
        self.first.store(core::ptr::null_mut(), Ordering::Relaxed);
        for number in [
            &self.held_since_ns,
            &self.acquisitions,
            &self.shared,
            &self.contended,
            &self.overtakes,
            &self.starving,
            &self.handed_over,
            &self.gave_up,
        ] {
            number.store(0, Ordering::Relaxed);
        }
        self.wait.clear();
        self.hold.clear();
        self.address.store(0, Ordering::Relaxed);
    }

    /// Where the lock was first taken.
    pub fn first(&self) -> Option<Place> {
        // SAFETY: what is stored here is null or came from a reference that lives for ever.
        unsafe { self.first.load(Ordering::Relaxed).as_ref() }
    }
}

/// Begins anew.
pub(super) fn begin() {
    let table = TABLE.get_or_init(|| Table {
        slots: (0..CAPACITY).map(|_| Slot::new()).collect(),
        dropped: AtomicU64::new(0),
        began_ns: AtomicU64::new(0),
    });
    table.slots.iter().for_each(Slot::clear);
    table.dropped.store(0, Ordering::Relaxed);
    table.began_ns.store(clock::now_ns(), Ordering::Relaxed);
}

/// All that is known: the slots in use, and how many events found no room.
pub(super) fn known() -> (impl Iterator<Item = &'static Slot>, u64) {
    let table = TABLE.get();
    let slots = table.map_or(&[][..], |table| &table.slots);
    let used = slots.iter().filter(|slot| slot.address.load(Ordering::Relaxed) != 0);
    (used, table.map_or(0, |table| table.dropped.load(Ordering::Relaxed)))
}

/// The slot of a lock, a new one if there is none yet.
fn slot(address: usize, place: Option<Place>) -> Option<(&'static Table, &'static Slot)> {
    let table = TABLE.get()?;
    // Fibonacci hashing: addresses of neighbours differ in their middle bits.
    let hash = (address as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    for probe in 0..PROBES_MAX {
        let slot = &table.slots[(hash as usize + probe) % CAPACITY];
        let mut owner = slot.address.load(Ordering::Relaxed);
        if owner == 0 && place.is_some() {
            let claim = slot.address.compare_exchange(0, address, Ordering::Relaxed, Ordering::Relaxed);
            owner = claim.map_or_else(|other| other, |_| address);
        }
        if owner == address {
            if let Some(place) = place {
                let new = core::ptr::from_ref(place).cast_mut();
                let null = core::ptr::null_mut();
                let _ = slot.first.compare_exchange(null, new, Ordering::Relaxed, Ordering::Relaxed);
            }
            return Some((table, slot));
        }
        if owner == 0 {
            return None;
        }
    }
    table.dropped.fetch_add(1, Ordering::Relaxed);
    None
}

/// A lock was taken; `waited` if that was after a wait.
pub(super) fn acquired(address: usize, place: Place, access: Access, waited: Option<(u64, WaitOutcome)>) {
    let Some((_, slot)) = slot(address, Some(place)) else { return };
    let add = |number: &AtomicU64, condition: bool| {
        if condition {
            number.fetch_add(1, Ordering::Relaxed);
        }
    };
    add(&slot.acquisitions, true);
    add(&slot.shared, access.is_read());
    match waited {
        None => add(&slot.overtakes, slot.waiting.load(Ordering::Relaxed) > 0),
        Some((waited_ns, how)) => {
            leave(slot);
            add(&slot.contended, true);
            add(&slot.starving, how.starving);
            add(&slot.handed_over, how.handed_over);
            slot.wait.add(waited_ns);
        }
    }
    match access {
        Access::Exclusive | Access::Upgrade => slot.held_since_ns.store(clock::now_ns(), Ordering::Relaxed),
        Access::Shared | Access::Upgradable => shared_from_now(address),
    }
}

/// A thread is about to wait.
pub(super) fn waiting(address: usize, place: Place) {
    if let Some((_, slot)) = slot(address, Some(place)) {
        slot.waiting.fetch_add(1, Ordering::Relaxed);
    }
}

/// A thread waits no more, and has not got the lock.
pub(super) fn gave_up(address: usize) {
    if let Some((_, slot)) = slot(address, None) {
        leave(slot);
        slot.gave_up.fetch_add(1, Ordering::Relaxed);
    }
}

/// One waiter less; none, if statistics began while it waited.
fn leave(slot: &Slot) {
    let less = |waiting: u32| waiting.checked_sub(1);
    let _ = slot.waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
}

/// A lock is about to be released.
pub(super) fn released(address: usize, access: Access) {
    let Some((table, slot)) = slot(address, None) else { return };
    let since_ns = match access {
        Access::Exclusive | Access::Upgrade => slot.held_since_ns.swap(0, Ordering::Relaxed),
        Access::Shared | Access::Upgradable => shared_since(address),
    };
    if since_ns >= table.began_ns.load(Ordering::Relaxed) {
        slot.hold.add(clock::now_ns().saturating_sub(since_ns));
    }
}

/// The calling thread has begun to read.
pub(super) fn shared_from_now(address: usize) {
    let mut reading = READING.get();
    let began_ns = TABLE.get().map_or(0, |table| table.began_ns.load(Ordering::Relaxed));
    // A place with an older hold was left by a reader that statistics did not see release.
    if let Some(free) = reading.iter_mut().find(|(other, since_ns)| *other == 0 || *since_ns < began_ns) {
        *free = (address, clock::now_ns());
        READING.set(reading);
    }
}

/// Since when the calling thread has been reading, which ends; 0 if that is not known.
fn shared_since(address: usize) -> u64 {
    let mut reading = READING.get();
    let Some(mine) = reading.iter_mut().rfind(|(other, _)| *other == address) else { return 0 };
    let since_ns = core::mem::take(mine).1;
    READING.set(reading);
    since_ns
}
