//! The subscriptions of some clients, compared with a plain list of them.

use super::*;
use crate::acl::{Rights, User};
use crate::resp::Reply;
use proptest::collection::vec;
use proptest::prelude::*;
use socket2::{Domain, Socket, Type};
use std::collections::BTreeSet;

const CLIENTS: usize = 4;
const NAMES: [&str; 6] = ["a", "ab", "b", "a*", "*", "[ab]"];

fn peer(id: usize) -> Arc<Peer> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    let user = Arc::new(User::new(b"u", Rights::default()));
    Arc::new(Peer::new(id as u64, socket, ("".into(), "".into()), false, user))
}

fn replies(bytes: &[u8]) -> Vec<Reply> {
    let (mut at, mut all) = (0, Vec::new());
    while let Some((reply, taken)) = Reply::read(&bytes[at..]).unwrap() {
        all.push(reply);
        at += taken;
    }
    assert_eq!(at, bytes.len());
    all
}

fn bulk(text: &str) -> Reply {
    Reply::Bulk(text.into())
}

#[derive(Clone, Debug)]
enum Step {
    Add(usize, Kind, &'static str),
    Remove(usize, Kind, &'static str),
    RemoveAll(usize, Kind),
    End(usize),
    Publish(usize, Kind, &'static str),
}

fn step() -> impl Strategy<Value = Step> {
    let kind = || prop::sample::select(KINDS.to_vec());
    let name = || prop::sample::select(NAMES.to_vec());
    let published = prop::sample::select(vec![Kind::Channel, Kind::Shard]);
    prop_oneof![
        6 => (0..CLIENTS, kind(), name()).prop_map(|(client, kind, name)| Step::Add(client, kind, name)),
        3 => (0..CLIENTS, kind(), name()).prop_map(|(client, kind, name)| Step::Remove(client, kind, name)),
        1 => (0..CLIENTS, kind()).prop_map(|(client, kind)| Step::RemoveAll(client, kind)),
        1 => (0..CLIENTS).prop_map(Step::End),
        6 => (0..CLIENTS, published, name()).prop_map(|(client, kind, name)| Step::Publish(client, kind, name)),
    ]
}

/// Client, kind and name of each subscription.
type Model = BTreeSet<(usize, usize, &'static str)>;

fn count(model: &Model, client: usize, kind: Kind) -> i64 {
    let is_of_shards = |kind: usize| kind == Kind::Shard as usize;
    let same = |found: usize| is_of_shards(found) == is_of_shards(kind as usize);
    model.iter().filter(|(owner, found, _)| *owner == client && same(*found)).count() as i64
}

fn answer(model: &Model, client: usize, kind: Kind, word: &str, name: Reply) -> Reply {
    let letter = ["", "p", "s"][kind as usize];
    let count = Reply::Integer(count(model, client, kind));
    Reply::Array(vec![bulk(&format!("{letter}{word}")), name, count])
}

/// What each client gets.
fn messages(model: &Model, client: usize, kind: Kind, name: &str) -> Vec<Reply> {
    let mine = model.iter().filter(|(owner, ..)| *owner == client);
    let fitting = mine.filter_map(|(_, found, own)| match kind {
        Kind::Shard if *found == Kind::Shard as usize && *own == name => {
            Some(vec![bulk("smessage"), bulk(name), bulk("text")])
        }
        Kind::Channel if *found == Kind::Channel as usize && *own == name => {
            Some(vec![bulk("message"), bulk(name), bulk("text")])
        }
        Kind::Channel
            if *found == Kind::Pattern as usize && glob::matches(own.as_bytes(), name.as_bytes()) =>
        {
            Some(vec![bulk("pmessage"), bulk(own), bulk(name), bulk("text")])
        }
        _ => None,
    });
    fitting.map(Reply::Array).collect()
}

proptest! {
    #[test]
    fn clients_get_what_they_subscribe_to(steps in vec(step(), 1..60)) {
        let (all, waker) = (PubSub::default(), Waker::default());
        let peers: Vec<_> = (0..CLIENTS).map(peer).collect();
        let mut clients: Vec<_> = peers.iter().map(|peer| Subscriptions::new(Arc::clone(peer), 1 << 20)).collect();
        let mut model = Model::new();
        for step in steps {
            let mut expected: Vec<Vec<Reply>> = vec![Vec::new(); CLIENTS];
            match step.clone() {
                Step::Add(client, kind, name) => {
                    clients[client].add(&all, kind, name.as_bytes());
                    model.insert((client, kind as usize, name));
                    expected[client].push(answer(&model, client, kind, "subscribe", bulk(name)));
                }
                Step::Remove(client, kind, name) => {
                    clients[client].remove(&all, kind, name.as_bytes());
                    model.remove(&(client, kind as usize, name));
                    expected[client].push(answer(&model, client, kind, "unsubscribe", bulk(name)));
                }
                Step::RemoveAll(client, kind) => {
                    clients[client].remove_all(&all, kind, Version::Two);
                    let names = model.iter().filter(|(owner, found, _)| (*owner, *found) == (client, kind as usize));
                    // In the order of the bytes, which is that of the model.
                    for one in names.copied().collect::<Vec<_>>() {
                        model.remove(&one);
                        expected[client].push(answer(&model, client, kind, "unsubscribe", bulk(one.2)));
                    }
                    if expected[client].is_empty() {
                        expected[client].push(answer(&model, client, kind, "unsubscribe", Reply::Null));
                    }
                }
                Step::End(client) => {
                    clients[client].end(&all);
                    model.retain(|(owner, ..)| *owner != client);
                }
                Step::Publish(client, kind, name) => {
                    for (client, expected) in expected.iter_mut().enumerate() {
                        *expected = messages(&model, client, kind, name);
                    }
                    let published = all.publish(kind, name.as_bytes(), b"text", client as u64, &waker);
                    prop_assert_eq!(published.receivers, expected.iter().map(Vec::len).sum::<usize>());
                    prop_assert_eq!(published.is_own, !expected[client].is_empty());
                }
            }
            for (client, expected) in expected.iter_mut().enumerate() {
                let mut out = Replies::new(usize::MAX);
                prop_assert_eq!(clients[client].deliver(&mut out, usize::MAX), Left::Nothing);
                let mut got = replies(out.bytes());
                // Those of several patterns come in any order.
                if matches!(step, Step::Publish(..)) {
                    got.sort_by_key(|reply| format!("{reply:?}"));
                    expected.sort_by_key(|reply| format!("{reply:?}"));
                }
                prop_assert_eq!(&got, expected, "client {} after {:?}", client, step);
                let is_empty = model.iter().all(|(owner, ..)| *owner != client);
                prop_assert_eq!((clients[client].is_empty(), peers[client].is_subscriber()), (is_empty, !is_empty));
                prop_assert_eq!(clients[client].memory_bytes() == 0, is_empty);
            }
            for kind in KINDS {
                let of_kind = |name: &str| model.iter().filter(|(_, found, own)| (*found, *own) == (kind as usize, name)).count();
                prop_assert_eq!(all.count(kind), NAMES.iter().filter(|name| of_kind(name) > 0).count());
                prop_assert_eq!(all.names(kind, b"*").len(), all.count(kind));
                for name in NAMES {
                    prop_assert_eq!(all.subscriber_count(kind, name.as_bytes()), of_kind(name));
                }
            }
            prop_assert_eq!(all.topic_count.load(Ordering::Relaxed), KINDS.iter().map(|kind| all.count(*kind)).sum::<usize>());
        }
    }
}

/// Puts this text into the mailbox of the only client; returns whether it needs a turn.
fn put(all: &PubSub, text: &[u8]) -> bool {
    let woken = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let (seen, waker) = (Arc::clone(&woken), Waker::default());
    waker.set(move |_| seen.store(true, Ordering::Relaxed));
    assert_eq!(all.publish(Kind::Channel, b"c", text, 99, &waker).receivers, 1);
    woken.load(Ordering::Relaxed)
}

#[test]
fn a_turn_is_asked_for_when_it_may_not_come_anyway() {
    let all = PubSub::default();
    let mut client = Subscriptions::new(peer(1), 1 << 20);
    client.add(&all, Kind::Channel, b"c");
    let mut out = Replies::new(usize::MAX);
    assert_eq!(client.deliver(&mut out, usize::MAX), Left::Nothing);
    assert_eq!([put(&all, b"1"), put(&all, b"2"), put(&all, b"3")], [true, false, false]);
    // A turn that takes a part has another one behind it.
    let sent = out.bytes().len();
    assert_eq!(client.deliver(&mut out, sent + 1), Left::Some);
    assert!(!put(&all, b"4"));
    assert_eq!(client.deliver(&mut out, usize::MAX), Left::Nothing);
    assert!(put(&all, b"5"));
    assert_eq!(client.deliver(&mut out, usize::MAX), Left::Nothing);
    let texts: Vec<_> = replies(out.bytes())[1..]
        .iter()
        .map(|reply| match reply {
            Reply::Array(parts) => parts[2].clone(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(texts, ["1", "2", "3", "4", "5"].map(bulk));
    // What piles up is reported from time to time.
    assert!(put(&all, b"6"));
    assert_eq!((0..300).filter(|_| put(&all, &[b'x'; 1000])).count(), 4);
}

#[test]
fn too_many_messages_are_dropped_and_the_client_is_told_of() {
    let all = PubSub::default();
    let mut client = Subscriptions::new(peer(1), 1_000);
    client.add(&all, Kind::Channel, b"c");
    let before = client.memory_bytes();
    assert!(!put(&all, &[b'x'; 500]));
    assert!(client.memory_bytes() > before + 500);
    assert!(put(&all, &[b'x'; 500]));
    assert!(client.memory_bytes() < before);
    assert!(!put(&all, b"x"));
    assert_eq!(client.deliver(&mut Replies::new(usize::MAX), 0), Left::TooMuch);
}

#[test]
fn those_without_a_right_are_found() {
    let all = PubSub::default();
    let mut clients = [1, 2].map(|id| Subscriptions::new(peer(id), 1_000));
    clients[0].add(&all, Kind::Channel, b"a");
    clients[1].add(&all, Kind::Pattern, b"a");
    let found = all.without_right(|kind, name| kind == Kind::Channel && name == b"a");
    assert_eq!(found.iter().map(|peer| peer.id).collect::<Vec<_>>(), [2]);
    assert!(all.without_right(|_, _| true).is_empty());
}
