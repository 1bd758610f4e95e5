//! Room for large commands that are being received.
//!
//! What a client sends is in a buffer until the command is whole. Twenty clients that send 16 MiB
//! each at the same time would need 320 MiB, and be done no sooner than one after the other. So a
//! command above [`LARGE`] bytes is received only while its connection has a *claim*, and all
//! claims together have [`ROOM`] bytes at most, or one command has more. The bytes of the others
//! stay in the kernel, which makes their clients wait.
//!
//! A client whose bytes come slowly must not keep others waiting: a claim ends by itself after
//! [`CLAIM`], unless [`RENEWAL`] bytes have come in that time. Such a client keeps what it has
//! sent, and claims again when more comes. So slow clients use memory beyond the room; the limits
//! of a client's buffer and of all buffers hold for them too (`buffers.rs`).

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A command that is not whole and has more bytes than this needs a claim.
pub(crate) const LARGE: usize = 1 << 20;
/// The bytes of all claims, unless there is only one.
const ROOM: usize = 64 << 20;
/// A claim lasts for this time …
const CLAIM: Duration = Duration::from_millis(100);
/// … and again after each of these bytes.
const RENEWAL: usize = 1 << 20;

/// See [the module](self).
#[derive(Default)]
pub(crate) struct Room {
    claims: Mutex<Vec<Claim>>,
    has_changed: Condvar,
}

struct Claim {
    peer: u64,
    bytes: usize,
    /// What came before it was made, or last renewed.
    received: usize,
    until: Instant,
}

impl Room {
    fn claims(&self) -> MutexGuard<'_, Vec<Claim>> {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The client of this number has sent `received` bytes of a command that has `bytes` at least.
    /// Returns whether more may be received now; then it has a claim.
    pub(crate) fn claim(&self, peer: u64, bytes: usize, received: usize) -> bool {
        self.claim_at(peer, bytes, received, Instant::now())
    }

    fn claim_at(&self, peer: u64, bytes: usize, received: usize, now: Instant) -> bool {
        let mut claims = self.claims();
        claims.retain(|claim| claim.until > now);
        if let Some(own) = claims.iter_mut().find(|claim| claim.peer == peer) {
            own.bytes = bytes;
            if received.saturating_sub(own.received) >= RENEWAL {
                (own.received, own.until) = (received, now + CLAIM);
            }
            return true;
        }
        let taken: usize = claims.iter().map(|claim| claim.bytes).sum();
        let fits = claims.is_empty() || taken.saturating_add(bytes) <= ROOM;
        if fits {
            claims.push(Claim { peer, bytes, received, until: now + CLAIM });
        }
        fits
    }

    /// The client of this number has no claim any more.
    pub(crate) fn release(&self, peer: u64) {
        self.claims().retain(|claim| claim.peer != peer);
        self.has_changed.notify_all();
    }

    /// Waits until a claim has been released, or one may have ended.
    pub(crate) fn wait(&self) {
        let claims = self.claims();
        let now = Instant::now();
        if let Some(first) = claims.iter().map(|claim| claim.until).min()
            && first > now
        {
            // Poisoned or not, the caller tries again.
            drop(self.has_changed.wait_timeout(claims, first - now));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn claims_have_their_room_or_one_has_more() {
        let (room, now) = (Room::default(), Instant::now());
        assert!(room.claim_at(1, 40 * MIB, 0, now));
        assert!(!room.claim_at(2, 25 * MIB, 0, now));
        assert!(room.claim_at(3, 24 * MIB, 0, now));
        assert!(room.claim_at(1, 40 * MIB, 0, now), "it has one");
        room.release(1);
        assert!(room.claim_at(2, 25 * MIB, 0, now));
        [2, 3].into_iter().for_each(|peer| room.release(peer));
        assert!(room.claim_at(4, 1_000 * MIB, 0, now));
        assert!(!room.claim_at(5, 2 * MIB, 0, now));
    }

    #[test]
    fn a_client_whose_bytes_come_slowly_keeps_none_waiting_for_long() {
        let (room, now) = (Room::default(), Instant::now());
        let at = |ms: u64| now + Duration::from_millis(ms);
        assert!(room.claim_at(1, ROOM, 0, now));
        assert!(room.claim_at(1, ROOM, RENEWAL - 1, at(99)));
        assert!(!room.claim_at(2, ROOM, 0, at(99)));
        assert!(room.claim_at(2, ROOM, 0, at(100)));
        // Now the slow one waits, and has its turn when the fast one is done.
        assert!(!room.claim_at(1, ROOM, RENEWAL, at(110)));
        for step in 1..10 {
            assert!(room.claim_at(2, ROOM, step as usize * RENEWAL, at(100 + step * 99)));
        }
        assert!(!room.claim_at(1, ROOM, RENEWAL, at(1_000)));
        room.release(2);
        assert!(room.claim_at(1, ROOM, RENEWAL, at(1_000)));
    }

    #[test]
    fn a_wait_ends_with_a_claim() {
        let room = Room::default();
        // With no claim there is nothing to wait for.
        room.wait();
        assert!(room.claim(1, ROOM, 0));
        let began = Instant::now();
        while !room.claim(2, ROOM, 0) {
            room.wait();
        }
        assert!(began.elapsed() >= CLAIM / 2);
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                while !room.claim(3, ROOM, 0) {
                    room.wait();
                }
            });
            room.release(2);
            waiter.join().unwrap();
        });
    }
}
