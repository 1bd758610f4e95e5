//! What the server remembers of a client between two commands.

use crate::command::Command;
use crate::peer::Peer;
use crate::resp::Kept;
use std::sync::Arc;

/// A client.
pub(crate) struct Client {
    pub(crate) peer: Arc<Peer>,
    /// Whether it has said the password, or there is none.
    pub(crate) is_trusted: bool,
    /// What came since MULTI.
    pub(crate) multi: Option<Multi>,
    /// What it watches. A key may be here twice; then the first one counts, as the second cannot be
    /// fresher than what EXEC finds.
    pub(crate) watched: Vec<Watched>,
    /// Nothing more is read from it.
    pub(crate) is_leaving: bool,
}

/// What came since MULTI.
#[derive(Default)]
pub(crate) struct Multi {
    pub(crate) queued: Vec<(&'static Command, Kept)>,
    /// What that takes.
    pub(crate) bytes: usize,
    /// One of them was refused, so all will be.
    pub(crate) is_broken: bool,
}

/// A key that is watched, and which write it had last; none if it was not there.
pub(crate) struct Watched {
    pub(crate) key: Box<[u8]>,
    pub(crate) stamp: Option<u64>,
}

impl Watched {
    pub(crate) fn memory_bytes(&self) -> usize {
        size_of::<Watched>() + self.key.len()
    }
}

impl Client {
    pub(crate) fn new(peer: Arc<Peer>, is_trusted: bool) -> Client {
        Client { peer, is_trusted, multi: None, watched: Vec::new(), is_leaving: false }
    }

    /// A command was refused before it was queued.
    pub(crate) fn refuse(&mut self) {
        if let Some(multi) = &mut self.multi {
            multi.is_broken = true;
        }
    }
}
