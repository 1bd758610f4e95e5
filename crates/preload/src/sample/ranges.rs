//! Which addresses are busy-wait loops.
//!
//! The handler reads the table while the holder of the guard's latch changes it, without a lock; it looks
//! a few hundred times a second at most, so the table is simply walked.
//!
//! Invariants:
//! 1. One writer at a time. A slot's end and site are stored before its start (release) and read after it
//!    (acquire); a start of zero means that the slot is free.
//! 2. Slots at and beyond `USED` have never been written.
//! 3. A reader that meets a slot in the middle of being given away may see the wrong site: one sample is
//!    then counted elsewhere. A site's memory is never given back.

use crate::guard::site::Site;
use core::ops::Range;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// The most parts of loops. A large program has some dozens.
const CAPACITY: usize = 1024;

struct Slot {
    start: AtomicUsize,
    end: AtomicUsize,
    site: AtomicPtr<Site>,
}

static SLOTS: [Slot; CAPACITY] = [const {
    Slot { start: AtomicUsize::new(0), end: AtomicUsize::new(0), site: AtomicPtr::new(core::ptr::null_mut()) }
}; CAPACITY];
static USED: AtomicUsize = AtomicUsize::new(0);

fn used() -> &'static [Slot] {
    &SLOTS[..USED.load(Ordering::Acquire).min(CAPACITY)]
}

impl Slot {
    fn read(&self) -> Option<(Range<usize>, &'static Site)> {
        let start = self.start.load(Ordering::Acquire);
        if start == 0 {
            return None;
        }
        // SAFETY: by Invariant 1 it points to a site, whose memory is never given back.
        let site = unsafe { self.site.load(Ordering::Acquire).as_ref() }?;
        Some((start..self.end.load(Ordering::Acquire), site))
    }
}

/// Adds a part of a loop; false if there is no room.
pub fn add(range: Range<usize>, site: &'static Site) -> bool {
    let free = used().iter().find(|slot| slot.start.load(Ordering::Relaxed) == 0);
    let slot = match free {
        Some(slot) => slot,
        None => {
            let next = USED.load(Ordering::Relaxed);
            let Some(slot) = SLOTS.get(next) else { return false };
            USED.store(next + 1, Ordering::Release);
            slot
        }
    };
    slot.end.store(range.end, Ordering::Release);
    slot.site.store(core::ptr::from_ref(site).cast_mut(), Ordering::Release);
    slot.start.store(range.start, Ordering::Release);
    true
}

/// Forgets the parts that `gone` names.
pub fn remove(mut gone: impl FnMut(&Range<usize>, &'static Site) -> bool) {
    for slot in used() {
        if slot.read().is_some_and(|(range, site)| gone(&range, site)) {
            slot.start.store(0, Ordering::Release);
        }
    }
}

/// Whether there is no loop.
pub fn is_empty() -> bool {
    !used().iter().any(|slot| slot.start.load(Ordering::Relaxed) != 0)
}

/// The loop that `address` lies in. For the handler.
pub fn find(address: usize) -> Option<&'static Site> {
    used().iter().filter_map(Slot::read).find(|(range, _)| range.contains(&address)).map(|(_, site)| site)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_belong_to_loops_until_these_are_gone_and_the_table_fills() {
        let (one, two): (&'static Site, &'static Site) =
            (Box::leak(Box::default()), Box::leak(Box::default()));
        assert!(is_empty() && find(0).is_none());
        assert!(add(0x1000..0x1010, one) && add(0x2000..0x2008, two) && add(0x1020..0x1022, one));
        let is = |address, site: &Site| find(address).is_some_and(|found| core::ptr::eq(found, site));
        assert!(is(0x1000, one) && is(0x100f, one) && is(0x1021, one) && is(0x2007, two));
        assert!(find(0x1010).is_none() && find(0xfff).is_none() && find(0x1022).is_none());
        remove(|_, site| core::ptr::eq(site, one));
        assert!(find(0x1000).is_none() && find(0x1021).is_none() && is(0x2000, two));
        let fitted = (0..CAPACITY).take_while(|n| add(0x10_0000 + n..0x10_0001 + n, one)).count();
        assert_eq!(fitted, CAPACITY - 1);
        remove(|_, _| true);
        assert!(is_empty());
    }
}
