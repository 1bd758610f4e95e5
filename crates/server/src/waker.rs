//! Has a connection served although its client has sent nothing: a message for the client has come,
//! or what its command waits for.
//!
//! A connection that *listens* is served once more after each [`Waker::wake`]. A pool serves it as
//! if its client had sent something. A connection's own thread waits in the kernel, so such a
//! connection has a bell (`bell.rs`), from which that thread reads as well.

use crate::peer::Peer;
use std::sync::OnceLock;

/// See [the module](self).
#[derive(Default)]
pub(crate) struct Waker(OnceLock<Box<Wake>>);

type Wake = dyn Fn(&Peer) + Send + Sync;

impl Waker {
    /// From now on `wake` wakes. The first call counts.
    pub(crate) fn set(&self, wake: impl Fn(&Peer) + Send + Sync + 'static) {
        let _ = self.0.set(Box::new(wake));
    }

    /// Has the peer's connection served, and so shown what the caller did before.
    pub(crate) fn wake(&self, peer: &Peer) {
        if let Some(wake) = self.0.get() {
            wake(peer);
        }
    }
}
