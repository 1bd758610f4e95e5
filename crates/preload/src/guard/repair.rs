//! One site: a jump from the loop into its copy, or left alone with a reason; and given up again.
//!
//! The order of the writes is the argument. First what no thread can reach yet: the loop's copy, and, where the
//! jump is a short one, the jumps in dead bytes that lead to the copy. Then the jump itself, in one store while other threads
//! may run through it. A thread runs the loop as it was or the finished way, nothing in between. A copy lives as long as
//! its module: its room is free only when the code that led to it is unmapped. Unwind data stand behind the copy ([`super::frames`]).

use super::frames;
use super::room::{Content, Piece, Room};
use super::site::Site;
use super::text::Text;
use core::ops::Range;
use core::sync::atomic::Ordering;
use preload_abi::live::How;
use spinloop::{COPY_BYTES_MAX, CallFrame, Image, Jump, Kind, Loop, Original, Way, near_jump, short_jump};

const NOT_WRITABLE: &str = "its text cannot be written";
const TOO_FAR: &str = "its way is too far";

/// A site that was repaired, and what is needed to give it up.
pub struct Repair {
    /// The site.
    pub site: &'static Site,
    /// Where the jump stands.
    at: usize,
    /// What stands there now, and how much of it.
    head: [u8; 5],
    length: usize,
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
    /// Where its table of functions is (`.eh_frame_hdr`), if it has one.
    pub unwind: Option<u64>,
}

/// A loop's copy that nothing leads to yet.
pub struct Copied {
    piece: Piece,
    entry: usize,
    spins: bool,
}

impl Copied {
    /// Whether its first rounds are spun without a visit.
    pub fn spins(&self) -> bool {
        self.spins
    }
}

impl Workshop<'_> {
    /// Makes the copy of `found`, which is entered through `way`, with `site` told to the waiter.
    ///
    /// # Errors
    /// Why there is none, in a few words.
    pub fn copy(
        &mut self,
        site: &'static Site,
        image: &dyn Image,
        found: &Loop,
        way: &Way,
    ) -> Result<Copied, &'static str> {
        let replaced = [way.replaced.clone()];
        let is_loop = found.kind.is_loop();
        let parts = if is_loop { found.parts.as_slice() } else { replaced.as_slice() };
        let only_pivot = matches!(found.kind, Kind::Counted(_));
        let original =
            Original { parts, pivot: found.pivot, entered_at: way.replaced.start, is_loop, only_pivot };
        let frame = self.unwind.and_then(|header| CallFrame::of(image, header, parts));
        let (mut entry, mut spins) = (0, false);
        let piece =
            self.room.fill(self.text, &self.module, COPY_BYTES_MAX + frames::BYTES_MAX, |at, word| {
                let hooks = super::hooks(site, word)?;
                let copy = spinloop::copy(image, &original, at as u64, &hooks)?;
                (entry, spins) = (copy.entry as usize, copy.spins);
                let mut bytes = copy.bytes;
                let frame = frame
                    .as_ref()
                    .and_then(|frame| frames::append(&mut bytes, at, &copy.depths, original.pivot, frame));
                Some(Content { bytes, frame })
            });
        let piece = piece.ok_or("it cannot be copied")?;
        Ok(Copied { piece, entry, spins: spins && is_loop })
    }

    /// Leads threads through `way` into the loop's copy.
    ///
    /// # Safety
    /// The way must be the finder's for this loop, and the module's text as the finder saw it; a [`Jump::Row`] needs that no thread
    /// stands between its instructions; with `alone` there must be no other thread.
    ///
    /// # Errors
    /// The copy, and why the site stayed as it was, in a few words.
    pub unsafe fn jump(
        &mut self,
        site: &'static Site,
        copied: Copied,
        way: &Way,
        alone: bool,
    ) -> Result<Repair, (Copied, &'static str)> {
        // SAFETY: as the caller promised; the copy is complete.
        match unsafe { self.write_way(way, copied.entry, alone) } {
            Ok((head, length)) => {
                site.set_how(How::Jump);
                // A site that keeps statistics counts every round.
                if copied.spins && site.record().is_none() {
                    site.rounds.store(core::ptr::from_ref(copied.piece.word()).cast_mut(), Ordering::Release);
                    site.set_spins(super::visit::bound(site));
                }
                Ok(Repair { site, at: way.replaced.start as usize, head, length, copy: copied.piece })
            }
            Err(reason) => Err((copied, reason)),
        }
    }

    /// # Safety
    /// As [`Workshop::jump`].
    unsafe fn write_way(
        &self,
        way: &Way,
        entry: usize,
        alone: bool,
    ) -> Result<([u8; 5], usize), &'static str> {
        let at = way.replaced.start;
        let (head, length) = match &way.jump {
            Jump::Whole | Jump::Row => (near_jump(at, entry as u64).ok_or(TOO_FAR)?, 5),
            Jump::Short(route) => {
                let landing = near_jump(route.landing, entry as u64).ok_or(TOO_FAR)?;
                // SAFETY: these bytes are dead, as the caller promised.
                unsafe { self.text.write(route.landing as usize, &landing).map_err(|_| NOT_WRITABLE)? };
                let mut head = [0; 5];
                for (from, to) in route.short_jumps(at).rev() {
                    let jump = short_jump(from, to).ok_or(TOO_FAR)?;
                    if from == at {
                        head[..2].copy_from_slice(&jump);
                    } else {
                        // SAFETY: these bytes are dead, as the caller promised.
                        unsafe { self.text.write(from as usize, &jump).map_err(|_| NOT_WRITABLE)? };
                    }
                }
                (head, 2)
            }
        };
        let (at, bytes) = (at as usize, &head[..length]);
        // SAFETY: as the caller promised. A row is written as if nobody ran: no thread stands in it.
        let written = unsafe {
            if alone || way.jump == Jump::Row {
                self.text.write(at, bytes)
            } else {
                // The dead bytes and the copy must be seen by every core before the jump that leads there.
                let _ = platform::memory::synchronise_cores();
                self.text.write_live(at, bytes)
            }
        };
        written.map_err(|_| NOT_WRITABLE)?;
        Ok((head, length))
    }

    /// Gives up a copy that nothing leads to.
    pub fn drop_copy(&mut self, copied: Copied) {
        self.room.give_back(copied.piece);
    }
}

impl Repair {
    /// Where the loop's copy is.
    pub fn copy(&self) -> &Range<usize> {
        &self.copy.code
    }

    /// Whether the module still holds what was written (it may have been closed and opened again).
    ///
    /// # Safety
    /// The site's module must be mapped.
    pub unsafe fn stands(&self) -> bool {
        // SAFETY: as the caller promised.
        unsafe { super::text::holds(self.at, &self.head[..self.length]) }
    }

    /// Forgets a site whose module is gone.
    pub fn close(self, room: &mut Room) -> &'static Site {
        self.site.set_how(How::Closed);
        self.site.rounds.store(core::ptr::null_mut(), Ordering::Release);
        room.give_back(self.copy);
        self.site
    }
}
