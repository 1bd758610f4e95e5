//! What one client subscribes to.
//!
//! The answers to SUBSCRIBE and UNSUBSCRIBE are pushes, as messages are, and go through the
//! client's mailbox with them: so the order is right (Invariant 2 of [the module](super)).

use super::mailbox::{Left, Mailbox};
use super::{KINDS, Kind, Name, PubSub, encode};
use crate::peer::Peer;
use crate::resp::{Replies, Version};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The memory of a subscription beside its name, about: its places here and among all.
const SUBSCRIPTION_BYTES: usize = 128;

/// See [the module](self).
pub(crate) struct Subscriptions {
    mailbox: Arc<Mailbox>,
    /// By [`Kind`].
    names: [BTreeSet<Name>; 3],
    /// The memory that the names take.
    bytes: usize,
}

impl Subscriptions {
    /// None yet. At most `bytes_max` may wait for the client.
    pub(crate) fn new(peer: Arc<Peer>, bytes_max: usize) -> Subscriptions {
        let mailbox = Arc::new(Mailbox::new(peer, bytes_max));
        Subscriptions { mailbox, names: Default::default(), bytes: 0 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.names.iter().all(BTreeSet::is_empty)
    }

    /// Whether something may come, or waits.
    pub(crate) fn listens(&self) -> bool {
        !self.is_empty() || self.mailbox.bytes() > 0
    }

    /// How many, as the answers tell it: those to channels of shards, or the others.
    fn count(&self, kind: Kind) -> usize {
        let [channels, patterns, shards] = self.names.each_ref().map(BTreeSet::len);
        if kind == Kind::Shard { shards } else { channels + patterns }
    }

    /// The memory of the names, and of what waits for the client.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes + self.mailbox.bytes()
    }

    /// The memory that these names would take.
    pub(crate) fn bytes_of<'n>(names: impl Iterator<Item = &'n [u8]>) -> usize {
        names.map(|name| name.len() + SUBSCRIPTION_BYTES).sum()
    }

    /// The memory of the names.
    pub(crate) fn names_bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn add(&mut self, all: &PubSub, kind: Kind, name: &[u8]) {
        let is_new = !self.names[kind as usize].contains(name);
        self.answer(kind, "subscribe", Some(name), self.count(kind) + usize::from(is_new), Version::Two);
        if is_new {
            self.bytes += Subscriptions::bytes_of([name].into_iter());
            let name = all.add(kind, name, &self.mailbox);
            self.names[kind as usize].insert(name);
            self.report();
        }
    }

    /// Removes one, if it is there, and answers.
    pub(crate) fn remove(&mut self, all: &PubSub, kind: Kind, name: &[u8]) {
        if let Some(name) = self.names[kind as usize].take(name) {
            self.bytes -= Subscriptions::bytes_of([&*name].into_iter());
            all.remove(self.mailbox.peer.id, [(kind, &name)].into_iter());
            self.report();
        }
        self.answer(kind, "unsubscribe", Some(name), self.count(kind), Version::Two);
    }

    /// Removes all of a kind, and answers to each; or once, if there is none, in this version.
    pub(crate) fn remove_all(&mut self, all: &PubSub, kind: Kind, version: Version) {
        let names = self.names[kind as usize].clone();
        if names.is_empty() {
            self.answer(kind, "unsubscribe", None, self.count(kind), version);
        }
        names.iter().for_each(|name| self.remove(all, kind, name));
    }

    /// Removes all without an answer.
    pub(crate) fn end(&mut self, all: &PubSub) {
        if self.is_empty() {
            return;
        }
        let names = std::mem::take(&mut self.names);
        let each = KINDS.iter().flat_map(|kind| names[*kind as usize].iter().map(move |name| (*kind, name)));
        all.remove(self.mailbox.peer.id, each);
        self.bytes = 0;
        self.report();
    }

    /// Tells others how many there are.
    fn report(&self) {
        self.mailbox.peer.record_subscriptions(self.names.each_ref().map(BTreeSet::len));
    }

    fn answer(&self, kind: Kind, word: &str, name: Option<&[u8]>, count: usize, version: Version) {
        let letter = match kind {
            Kind::Channel => "",
            Kind::Pattern => "p",
            Kind::Shard => "s",
        };
        // The turn that is needed is the present one.
        self.mailbox.put(&encode(version, 3, |push| {
            push.bulk([letter, word].concat().as_bytes());
            push.bulk_or_null(name);
            push.count(count);
        }));
    }

    /// Moves what waits for the client to `out`, until that has this number of bytes.
    pub(crate) fn deliver(&self, out: &mut Replies, bytes: usize) -> Left {
        self.mailbox.take(out, bytes)
    }
}
