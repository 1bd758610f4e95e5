//! Which addresses are breakpoints of ours.
//!
//! The handler reads the table while the holder of the guard's latch changes it, without a lock.
//!
//! Invariants:
//! 1. One writer at a time. A slot's site is stored before its address (release), and read after it
//!    (acquire); an address of zero means that the slot is free.
//! 2. Slots at and beyond `USED` have never been written.
//! 3. A handler that is late may read the site that took the slot over: it waits a round at that site's
//!    cost, no worse, since a site's memory is never given back.

use crate::guard::site::Site;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// The most breakpoints at a time. A process has a handful: most sites are reached by a jump.
pub const CAPACITY: usize = 256;

struct Slot {
    pause: AtomicUsize,
    site: AtomicPtr<Site>,
}

static SLOTS: [Slot; CAPACITY] =
    [const { Slot { pause: AtomicUsize::new(0), site: AtomicPtr::new(core::ptr::null_mut()) } }; CAPACITY];
static USED: AtomicUsize = AtomicUsize::new(0);

fn used() -> &'static [Slot] {
    &SLOTS[..USED.load(Ordering::Acquire).min(CAPACITY)]
}

/// Adds a breakpoint, or gives the one at `pause` another site; false if there is no room.
pub fn add(site: &'static Site, pause: usize) -> bool {
    let site = core::ptr::from_ref(site).cast_mut();
    let slot = used()
        .iter()
        .find(|slot| slot.pause.load(Ordering::Relaxed) == pause)
        .or_else(|| used().iter().find(|slot| slot.pause.load(Ordering::Relaxed) == 0));
    let slot = match slot {
        Some(slot) => slot,
        None => {
            let next = USED.load(Ordering::Relaxed);
            let Some(slot) = SLOTS.get(next) else { return false };
            USED.store(next + 1, Ordering::Release);
            slot
        }
    };
    slot.site.store(site, Ordering::Release);
    slot.pause.store(pause, Ordering::Release);
    true
}

/// Forgets the breakpoint at `pause`, if it is this site's: a library that was opened again at its old
/// place may have another one there by now.
pub fn remove(site: &Site, pause: usize) {
    for slot in used().iter().filter(|slot| slot.pause.load(Ordering::Relaxed) == pause) {
        if core::ptr::eq(slot.site.load(Ordering::Relaxed), site) {
            slot.pause.store(0, Ordering::Release);
        }
    }
}

/// The site of the breakpoint at `pause`. For the handler.
#[inline]
pub fn find(pause: usize) -> Option<&'static Site> {
    let slot = used().iter().find(|slot| slot.pause.load(Ordering::Acquire) == pause)?;
    // SAFETY: by Invariant 1 it points to a site, whose memory is never given back.
    unsafe { slot.site.load(Ordering::Acquire).as_ref() }
}

/// Calls `visit` for each breakpoint.
pub fn each(mut visit: impl FnMut(&'static Site, usize)) {
    for slot in used() {
        let pause = slot.pause.load(Ordering::Acquire);
        if let Some(site) = find(pause).filter(|_| pause != 0) {
            visit(site, pause);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_added_is_found_until_removed_and_the_table_fills() {
        let sites: Vec<&'static Site> = (0..=CAPACITY).map(|_| &*Box::leak(Box::default())).collect();
        for (n, &site) in sites.iter().enumerate() {
            assert_eq!(add(site, 0x1000 + n), n < CAPACITY);
        }
        assert!(core::ptr::eq(find(0x1007).expect("known"), sites[7]));
        assert!(add(sites[9], 0x1007), "another site at a known address needs no room");
        assert!(core::ptr::eq(find(0x1007).expect("known"), sites[9]));
        let mut count = 0;
        each(|_, _| count += 1);
        assert_eq!(count, CAPACITY);
        remove(sites[7], 0x1007);
        assert!(find(0x1007).is_some(), "it is another site's by now");
        remove(sites[9], 0x1007);
        assert!(find(0x1007).is_none());
        assert!(add(sites[CAPACITY], 0x9000), "a slot is free again");
        assert!(core::ptr::eq(find(0x9000).expect("known"), sites[CAPACITY]));
        (0..=CAPACITY).for_each(|n| remove(sites[n], 0x1000 + n));
        remove(sites[CAPACITY], 0x9000);
        each(|_, _| panic!("empty"));
    }
}
