//! The memory of all clients' buffers together, which may be limited: what has come and is not
//! done, what is queued, and what is answered and not sent.
//!
//! Each client has limits of its own. Many clients that stay below them may still fill the memory.
//! Then the one with the most is disconnected, as Redis does it, until the rest is little enough.

use crate::peer::{Peer, Peers};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// See [the module](self).
pub(crate) struct Buffers {
    bytes_max: Option<u64>,
    bytes: AtomicU64,
}

impl Buffers {
    pub(crate) fn new(bytes_max: Option<u64>) -> Buffers {
        Buffers { bytes_max, bytes: AtomicU64::new(0) }
    }

    /// Of all clients that are not being disconnected. (Relaxed, all of it: a client is seen too
    /// late or too early by the bytes of a moment.)
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// A client's buffers have this number of bytes now. Disconnects others, or it, if all together
    /// have too many; `evicted` counts them.
    #[inline]
    pub(crate) fn record(&self, peer: &Peer, bytes: u64, peers: &Peers, evicted: &AtomicU64) {
        let before = peer.buffer_bytes.load(Relaxed);
        if before != bytes && !peer.is_killed() {
            self.change(peer, bytes);
            if bytes > before && self.is_too_much() {
                self.evict(peers, evicted);
            }
        }
    }

    /// A client is gone, or about to be.
    pub(crate) fn forget(&self, peer: &Peer) {
        self.change(peer, 0);
    }

    fn change(&self, peer: &Peer, bytes: u64) {
        let before = peer.buffer_bytes.swap(bytes, Relaxed);
        self.bytes.fetch_add(bytes.wrapping_sub(before), Relaxed);
    }

    fn is_too_much(&self) -> bool {
        self.bytes_max.is_some_and(|max| self.bytes() > max)
    }

    #[cold]
    fn evict(&self, peers: &Peers, evicted: &AtomicU64) {
        while self.is_too_much() {
            let living = peers.filter(|peer| !peer.is_killed());
            let Some(largest) = living.iter().max_by_key(|peer| peer.buffer_bytes.load(Relaxed)) else {
                break;
            };
            largest.kill();
            self.forget(largest);
            evicted.fetch_add(1, Relaxed);
        }
    }
}
