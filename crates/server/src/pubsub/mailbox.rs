//! Messages for one client, from when they are published until its connection moves them to its
//! output.
//!
//! A connection moves only as much as it can send at once, so what waits for a slow client is
//! shared with the other receivers. It has the bound of unread answers. A mailbox above it is
//! emptied, takes nothing any more, and its connection ends with its next turn.
//!
//! Invariants:
//! 1. What was put in first comes out first.
//! 2. While something is in it, its connection has a turn to come. [`Mailbox::put`] into an empty
//!    mailbox says that one is needed. A turn that leaves something in it says so ([`Left::Some`]),
//!    and is followed by another one, at once or when the client has read.

use crate::peer::Peer;
use crate::resp::Replies;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A push, encoded; its receivers share it.
pub(super) type Message = Arc<[u8]>;

/// After each of this number of bytes the connection has a turn, which reports the memory.
const STEP_BYTES: usize = 64 * 1024;
/// The memory that a message takes beside its bytes: its place, and its two counts.
const MESSAGE_BYTES: usize = size_of::<Message>() + 2 * size_of::<usize>();
/// Of an empty mailbox.
const KEPT_MESSAGES: usize = 16;

/// See [the module](self).
pub(super) struct Mailbox {
    pub(super) peer: Arc<Peer>,
    bytes_max: usize,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    messages: VecDeque<Message>,
    /// Their memory.
    bytes: usize,
    /// There were too many.
    is_over: bool,
}

/// What is left in a mailbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    Nothing,
    Some,
    /// There was more than may wait.
    TooMuch,
}

impl Mailbox {
    pub(super) fn new(peer: Arc<Peer>, bytes_max: usize) -> Mailbox {
        Mailbox { peer, bytes_max, inner: Mutex::default() }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether the connection needs a turn: there may be none to come yet.
    pub(super) fn put(&self, message: &Message) -> bool {
        let mut inner = self.inner();
        if inner.is_over {
            return false;
        }
        let before = inner.bytes;
        inner.bytes += message.len() + MESSAGE_BYTES;
        if inner.bytes > self.bytes_max {
            *inner = Inner { is_over: true, ..Inner::default() };
            return true;
        }
        inner.messages.push_back(Arc::clone(message));
        before == 0 || before / STEP_BYTES != inner.bytes / STEP_BYTES
    }

    /// Moves messages to `out`, until it has this number of bytes.
    pub(super) fn take(&self, out: &mut Replies, bytes: usize) -> Left {
        let mut inner = self.inner();
        if !inner.messages.is_empty() {
            out.begin();
        }
        while out.bytes().len() < bytes
            && let Some(message) = inner.messages.pop_front()
        {
            inner.bytes -= message.len() + MESSAGE_BYTES;
            out.encoded_push(&message);
        }
        if inner.is_over {
            return Left::TooMuch;
        }
        if !inner.messages.is_empty() {
            return Left::Some;
        }
        inner.messages.shrink_to(KEPT_MESSAGES);
        Left::Nothing
    }

    /// The memory of its messages.
    pub(super) fn bytes(&self) -> usize {
        self.inner().bytes
    }
}
