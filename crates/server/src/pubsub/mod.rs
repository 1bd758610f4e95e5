//! Channels and patterns, the clients that subscribe to them, and messages from some clients to
//! others.
//!
//! | file | what |
//! | --- | --- |
//! | `mod.rs` | all subscriptions of all clients, and how a message finds its receivers |
//! | `mailbox.rs` | messages that wait for one client |
//! | `subscriptions.rs` | what one client subscribes to, and the answers that say so |
//!
//! A publisher puts a message into the mailbox of each receiver, under a lock that publishers
//! share, and wakes the receivers after it has left the lock. The connection of each receiver moves
//! what is in its mailbox to its output. A message is encoded once, and its receivers share the
//! bytes. Without any subscription, PUBLISH reads one number.
//!
//! Invariants:
//! 1. Messages of one publisher reach a receiver in their order, because a mailbox keeps its order.
//! 2. The answer to SUBSCRIBE is before the first message: it is put into the client's mailbox
//!    before the subscription is added. The answer to UNSUBSCRIBE is behind the last message: it is
//!    put in after the subscription is removed, which waits for the publishers in the lock.
//! 3. No lock is held while a connection is woken, or while anything is sent.
//! 4. A subscription is removed before its connection is gone ([`Subscriptions::end`]).

mod mailbox;
mod subscriptions;

pub(crate) use mailbox::Left;
pub(crate) use subscriptions::Subscriptions;

use crate::glob;
use crate::peer::Peer;
use crate::resp::{Replies, Version};
use crate::waker::Waker;
use mailbox::{Mailbox, Message};
use smallvec::SmallVec;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

/// What a client can subscribe to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Channel,
    /// All channels that fit it.
    Pattern,
    /// A channel of another namespace, which no pattern fits: of a shard, in a cluster of Redis.
    Shard,
}

const KINDS: [Kind; 3] = [Kind::Channel, Kind::Pattern, Kind::Shard];

/// Of a channel or a pattern. The subscriptions to it share the bytes.
type Name = Arc<[u8]>;
/// By the number of their connection.
type Subscribers = BTreeMap<u64, Arc<Mailbox>>;
/// Each has a subscriber.
type Topics = HashMap<Name, Subscribers>;

/// All subscriptions.
#[derive(Default)]
pub(crate) struct PubSub {
    /// By [`Kind`].
    topics: RwLock<[Topics; 3]>,
    /// How many topics there are of all kinds; changed under the lock.
    topic_count: AtomicUsize,
}

/// What became of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Published {
    /// A client counts once for its channel, and once for each of its patterns.
    pub(crate) receivers: usize,
    /// The publisher is one of them.
    pub(crate) is_own: bool,
}

impl PubSub {
    fn read(&self) -> RwLockReadGuard<'_, [Topics; 3]> {
        self.topics.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn change<R>(&self, change: impl FnOnce(&mut [Topics; 3]) -> R) -> R {
        let mut topics = self.topics.write().unwrap_or_else(PoisonError::into_inner);
        let result = change(&mut topics);
        // Release: pairs with `publish`.
        self.topic_count.store(topics.iter().map(HashMap::len).sum(), Ordering::Release);
        result
    }

    /// Adds a subscription. Returns the name, as all subscriptions to it share it.
    fn add(&self, kind: Kind, name: &[u8], mailbox: &Arc<Mailbox>) -> Name {
        self.change(|topics| {
            let topics = &mut topics[kind as usize];
            let name = topics.get_key_value(name).map_or_else(|| name.into(), |(name, _)| Arc::clone(name));
            let subscribers = topics.entry(Arc::clone(&name)).or_default();
            subscribers.insert(mailbox.peer.id, Arc::clone(mailbox));
            name
        })
    }

    /// Removes these subscriptions of the connection of this number.
    fn remove<'n>(&self, id: u64, some: impl Iterator<Item = (Kind, &'n Name)>) {
        self.change(|topics| {
            for (kind, name) in some {
                let topics = &mut topics[kind as usize];
                if let Some(subscribers) = topics.get_mut(name) {
                    subscribers.remove(&id);
                    if subscribers.is_empty() {
                        topics.remove(name);
                    }
                }
            }
        });
    }

    /// Sends `text` to the subscribers of a channel, and to those of the patterns that it fits. All
    /// are woken but the publisher, whose connection has this number.
    pub(crate) fn publish(
        &self,
        kind: Kind,
        channel: &[u8],
        text: &[u8],
        publisher: u64,
        waker: &Waker,
    ) -> Published {
        // Acquire: a subscription was counted before its client was told of it. So it is seen here
        // if that client has asked, in whatever way, for this message.
        if self.topic_count.load(Ordering::Acquire) == 0 {
            return Published::default();
        }
        let mut published = Published::default();
        let mut to_wake = SmallVec::<[Arc<Mailbox>; 8]>::new();
        let mut put = |subscribers: &Subscribers, parts: &[&[u8]]| {
            let message = encoded(parts);
            for mailbox in subscribers.values().filter(|mailbox| !mailbox.peer.is_killed()) {
                published.receivers += 1;
                let needs_turn = mailbox.put(&message);
                if mailbox.peer.id == publisher {
                    published.is_own = true;
                } else if needs_turn {
                    to_wake.push(Arc::clone(mailbox));
                }
            }
        };
        let topics = self.read();
        let word: &[u8] = if kind == Kind::Shard { b"smessage" } else { b"message" };
        if let Some(subscribers) = topics[kind as usize].get(channel) {
            put(subscribers, &[word, channel, text]);
        }
        if kind == Kind::Channel {
            for (pattern, subscribers) in &topics[Kind::Pattern as usize] {
                if glob::matches(pattern, channel) {
                    put(subscribers, &[b"pmessage", pattern, channel, text]);
                }
            }
        }
        // Invariant 3.
        drop(topics);
        to_wake.iter().for_each(|mailbox| waker.wake(&mailbox.peer));
        published
    }

    /// The names of this kind that have a subscriber and fit the pattern.
    pub(crate) fn names(&self, kind: Kind, pattern: &[u8]) -> Vec<Arc<[u8]>> {
        let topics = self.read();
        topics[kind as usize].keys().filter(|name| glob::matches(pattern, name)).cloned().collect()
    }

    /// How many names of this kind have a subscriber.
    pub(crate) fn count(&self, kind: Kind) -> usize {
        self.read()[kind as usize].len()
    }

    /// How many clients subscribe to this.
    pub(crate) fn subscriber_count(&self, kind: Kind, name: &[u8]) -> usize {
        self.read()[kind as usize].get(name).map_or(0, BTreeMap::len)
    }

    /// The clients that subscribe to something that is not allowed; some of them more than once.
    pub(crate) fn without_right(&self, allows: impl Fn(Kind, &[u8]) -> bool) -> Vec<Arc<Peer>> {
        let topics = self.read();
        let all =
            KINDS.iter().flat_map(|kind| topics[*kind as usize].iter().map(move |topic| (*kind, topic)));
        let forbidden = all.filter(|(kind, (name, _))| !allows(*kind, name));
        forbidden
            .flat_map(|(_, (_, found))| found.values())
            .map(|mailbox| Arc::clone(&mailbox.peer))
            .collect()
    }
}

/// A message of these parts. [`Replies::encoded_push`] sends it in the version of each receiver.
fn encoded(parts: &[&[u8]]) -> Message {
    encode(Version::Two, parts.len(), |push| parts.iter().for_each(|part| push.bulk(part)))
}

fn encode(version: Version, parts: usize, write: impl FnOnce(&mut Replies)) -> Message {
    let mut push = Replies::new(usize::MAX);
    push.set_version(version);
    push.push(parts);
    write(&mut push);
    push.bytes().into()
}

#[cfg(test)]
mod tests;
