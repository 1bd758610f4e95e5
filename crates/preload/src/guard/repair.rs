//! One site: repaired by a jump, by a breakpoint, or left alone with a reason; and given up again.
//!
//! The order of the writes is the argument. First what no thread can reach yet: the loop's copy, the jump
//! in the dead bytes, the hops towards it. Then the PAUSE: its two bytes become `jmp rel8` in one store, or
//! its first becomes INT3. A thread runs the PAUSE or the finished way, nothing in between. Giving up goes
//! the other way round: the copy's room is free only when the code that led to it is unmapped.

use super::room::{Piece, Room};
use super::site::Site;
use super::text::{Refused, Text};
use core::ops::Range;
use core::sync::atomic::Ordering;
use preload_abi::live::How;
use spinloop::{COPY_BYTES_MAX, Image, Route, near_jump, short_jump};

/// PAUSE.
const PAUSE: [u8; 2] = [0xf3, 0x90];
/// INT3, in the place of PAUSE's first byte; what is left of it is a NOP.
const BREAKPOINT: u8 = 0xcc;

const NOT_WRITABLE: &str = "its text cannot be written";

/// A site that was repaired, and what is needed to give it up.
pub struct Repair {
    /// The site.
    pub site: &'static Site,
    /// The address of its PAUSE.
    pub pause: usize,
    /// What stands there now.
    head: [u8; 2],
    /// Where the loop's copy is.
    copy: Piece,
}

/// What repairing needs to know of the moment and of the module.
pub struct Workshop<'a> {
    /// The way to write text.
    pub text: &'a Text,
    /// Where copies go.
    pub room: &'a mut Room,
    /// All that the module takes.
    pub module: Range<usize>,
}

/// A loop's copy that nothing leads to yet.
pub struct Copied {
    piece: Piece,
    entry: usize,
    spins: bool,
}

impl Workshop<'_> {
    /// Makes the copy of the loop of these `parts` around `pause`, with `site` told to the waiter.
    ///
    /// # Errors
    /// Why there is none, in a few words.
    pub fn copy(
        &mut self,
        site: &'static Site,
        image: &dyn Image,
        parts: &[Range<u64>],
        pause: usize,
    ) -> Result<Copied, &'static str> {
        let (mut entry, mut spins) = (0, false);
        let piece = self.room.fill(self.text, &self.module, COPY_BYTES_MAX, |at, word| {
            let hooks = super::hooks(site, word)?;
            let copy = spinloop::copy(image, parts, pause as u64, at as u64, &hooks)?;
            (entry, spins) = (copy.entry as usize, copy.spins);
            Some(copy.bytes)
        });
        let piece = piece.ok_or("it cannot be copied")?;
        site.entry.store(entry, Ordering::Release);
        Ok(Copied { piece, entry, spins })
    }

    /// Leads the PAUSE at `pause` through `route` to the loop's copy.
    ///
    /// # Safety
    /// The route's bytes must be dead, the PAUSE a whole instruction that no jump enters in the middle; with
    /// `alone` there must be no other thread.
    ///
    /// # Errors
    /// The copy, and why the site stayed as it was, in a few words.
    pub unsafe fn jump(
        &mut self,
        site: &'static Site,
        copied: Copied,
        pause: usize,
        route: &Route,
        alone: bool,
    ) -> Result<Repair, (Copied, &'static str)> {
        // SAFETY: the route's bytes are dead and the PAUSE is an instruction, as the caller promised; the
        // copy is complete.
        match unsafe { self.write_way(pause, route, copied.entry, alone) } {
            Ok(head) => {
                site.set_how(How::Jump);
                // A site that keeps statistics counts every round; one behind a breakpoint (below) must be
                // seen to have short waits, or it could never be let go.
                if copied.spins && site.record().is_none() {
                    site.rounds.store(core::ptr::from_ref(copied.piece.word()).cast_mut(), Ordering::Release);
                    site.set_spins(super::visit::bound(site));
                }
                Ok(Repair { site, pause, head, copy: copied.piece })
            }
            Err(reason) => Err((copied, reason)),
        }
    }

    /// # Safety
    /// As [`Workshop::jump`].
    unsafe fn write_way(
        &self,
        pause: usize,
        route: &Route,
        entry: usize,
        alone: bool,
    ) -> Result<[u8; 2], &'static str> {
        const FAR: &str = "its way is too far";
        let landing = near_jump(route.landing, entry as u64).ok_or(FAR)?;
        // SAFETY: as the caller promised.
        unsafe {
            self.text.write(route.landing as usize, &landing).map_err(|_| NOT_WRITABLE)?;
            let mut head = PAUSE;
            for (from, to) in route.short_jumps(pause as u64).rev() {
                let jump = short_jump(from, to).ok_or(FAR)?;
                if from == pause as u64 {
                    head = jump;
                } else {
                    self.text.write(from as usize, &jump).map_err(|_| NOT_WRITABLE)?;
                }
            }
            if alone {
                self.text.write(pause, &head).map_err(|_| NOT_WRITABLE)?;
            } else {
                // The dead bytes must be seen by every core before the jump that leads there.
                let _ = platform::memory::synchronise_cores();
                self.text.write_live(pause, head).map_err(|refused| match refused {
                    Refused::CrossesWord => "it crosses a word, and threads run",
                    Refused::NotWritable => NOT_WRITABLE,
                })?;
            }
            Ok(head)
        }
    }

    /// Puts a breakpoint in the place of the PAUSE, whose handler leads to the loop's copy.
    ///
    /// # Safety
    /// The PAUSE must be a whole instruction, and the trap handler ready for its address.
    ///
    /// # Errors
    /// The copy, and why the site stayed as it was, in a few words.
    pub unsafe fn trap(
        &mut self,
        site: &'static Site,
        copied: Copied,
        pause: usize,
    ) -> Result<Repair, (Copied, &'static str)> {
        // SAFETY: INT3 and then the NOP that is PAUSE's second byte: one byte makes the whole change.
        match unsafe { self.text.write_live_byte(pause, BREAKPOINT) } {
            Ok(()) => {
                site.set_how(How::Trap);
                Ok(Repair { site, pause, head: [BREAKPOINT, PAUSE[1]], copy: copied.piece })
            }
            Err(_) => Err((copied, NOT_WRITABLE)),
        }
    }

    /// Gives up a copy that nothing leads to.
    pub fn drop_copy(&mut self, site: &Site, copied: Copied) {
        site.entry.store(0, Ordering::Release);
        self.room.give_back(copied.piece);
    }
}

impl Repair {
    /// Whether the module still holds what was written (it may have been closed and opened again).
    ///
    /// # Safety
    /// The site's module must be mapped.
    pub unsafe fn stands(&self) -> bool {
        // SAFETY: as the caller promised. A released breakpoint is a PAUSE again.
        unsafe {
            super::text::holds(self.pause, &self.head)
                || self.site.how() == How::Released && super::text::holds(self.pause, &PAUSE)
        }
    }

    /// A breakpoint that was let go stands again: there are more threads now, which may wait for longer.
    ///
    /// # Safety
    /// The site's module must be mapped and hold what was written, and the trap handler be ready.
    pub unsafe fn rearm(&self, text: &Text) {
        if self.site.how() == How::Released {
            self.site.set_how(How::Trap);
            // SAFETY: the PAUSE is an instruction, as when the breakpoint stood there first.
            if unsafe { text.write_live_byte(self.pause, BREAKPOINT) }.is_err() {
                self.site.set_how(How::Released);
            }
        }
    }

    /// Forgets a site whose module is gone.
    pub fn close(self, room: &mut Room) -> &'static Site {
        self.site.set_how(How::Closed);
        self.site.rounds.store(core::ptr::null_mut(), Ordering::Release);
        room.give_back(self.copy);
        self.site
    }
}
