//! What a session still needs: the snapshot that it uses, or a snapshot that it is about to read.
//!
//! | a slot's `pin` | |
//! | --- | --- |
//! | 0 | nothing |
//! | sequence · 4 + 1 | it *reads* what is published, of this sequence or a later one |
//! | id · 4 + 2 | it *uses* a snapshot; this is the oldest id of that snapshot |
//! | sequence · 4 + 3 | it *holds* what is published, as with 1, but will not use it: it publishes the next one |
//!
//! A session pins before it reads, so a snapshot that was published, and was replaced before it was
//! read, is still there; and so is what it could show. While a session reads, no other one knows
//! which snapshot it will use, so the oldest id stays as it was: that is over in some ten
//! instructions, or when that thread runs again. Only what is given back waits for it, no thread
//! does.
//!
//! # Memory orderings
//! Pinning (the store, then a sequentially consistent fence, then the reading of what is published)
//! against giving back (what is published, then a fence, then the pins) is Dekker's pattern: a
//! thread that gives back sees the pin, or the session reads what was published by then, or later.

use super::session_slots::SessionSlots;
use platform::atomic::{AtomicU64, Ordering, fence};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pin {
    Nothing,
    Reads(u64),
    Uses(u64),
    Holds(u64),
}

fn pin_of(word: u64) -> Pin {
    match word & 3 {
        1 => Pin::Reads(word >> 2),
        2 => Pin::Uses(word >> 2),
        3 => Pin::Holds(word >> 2),
        _ => Pin::Nothing,
    }
}

/// The session reads what is published, which is of this sequence at least.
#[inline]
pub(super) fn reads(pin: &AtomicU64, sequence: u64) {
    // The fence: see above. Release: for a thread that sees this pin, what was read under the pin
    // before is read no more.
    pin.store(sequence << 2 | 1, Ordering::Release);
    fence(Ordering::SeqCst);
}

/// The session replaces what is published, which is of this sequence at least.
#[inline]
pub(super) fn holds(pin: &AtomicU64, sequence: u64) {
    // As for `reads`.
    pin.store(sequence << 2 | 3, Ordering::Release);
    fence(Ordering::SeqCst);
}

/// The session uses a snapshot that it has read before; `oldest` is the oldest id of that snapshot.
#[inline]
pub(super) fn uses(pin: &AtomicU64, oldest: u64) {
    // Release: the reading is over for a thread that sees this.
    pin.store(oldest << 2 | 2, Ordering::Release);
}

/// The session needs nothing.
#[inline]
pub(super) fn clear(pin: &AtomicU64) {
    // Release: so is the use.
    pin.store(0, Ordering::Release);
}

/// The oldest id that is in use, or `published`: the oldest one of a snapshot that was published
/// before. `None` if a session is reading.
pub(super) fn oldest(slots: &SessionSlots, published: u64) -> Option<u64> {
    fence(Ordering::SeqCst);
    let mut oldest = Some(published);
    slots.each_taken(|slot| match pin_of(slot.pin.load(Ordering::Acquire)) {
        Pin::Nothing | Pin::Holds(_) => {}
        Pin::Reads(_) => oldest = None,
        Pin::Uses(id) => oldest = oldest.map(|oldest| oldest.min(id)),
    });
    oldest
}

/// Calls `each` with the oldest id and the end of every snapshot that is in use, or of one that
/// began before it and one that ended after it. Returns false if a session is reading: what it will
/// use is not known. A session that pins later reads what is published now, or later.
pub(super) fn in_use(slots: &SessionSlots, mut each: impl FnMut(u64, u64)) -> bool {
    fence(Ordering::SeqCst);
    let mut all = true;
    slots.each_taken(|slot| match pin_of(slot.pin.load(Ordering::Acquire)) {
        Pin::Nothing | Pin::Holds(_) => {}
        Pin::Reads(_) => all = false,
        // Acquire: behind the pin, so it is this snapshot's end or a later one's. If it is a later
        // one's, this snapshot is used no more.
        Pin::Uses(oldest) => each(oldest, slot.end.load(Ordering::Acquire)),
    });
    all
}

/// The lowest sequence that a session may be reading; all below it may be given back if they were
/// replaced before the call.
pub(super) fn least_read(slots: &SessionSlots) -> u64 {
    fence(Ordering::SeqCst);
    let mut least = u64::MAX;
    slots.each_taken(|slot| {
        // Acquire: what was read was read before the pin changed.
        if let Pin::Reads(sequence) | Pin::Holds(sequence) = pin_of(slot.pin.load(Ordering::Acquire)) {
            least = least.min(sequence);
        }
    });
    least
}
