//! The components that this package has do what a component has to (`common/component.rs`).

#[path = "common/component.rs"]
mod component;
#[path = "common/copied.rs"]
mod copied;
#[path = "common/map.rs"]
mod map;

use copied::copied;
use manx::txn::durable::{Durable, DurableOptions};
use manx::txn::{Error, Isolation, Options, Store};
use map::Map;
use std::path::Path;

/// A log that is full after some tens of batches.
const SHORT: DurableOptions = DurableOptions::new().log_bytes(4 << 10).cache_bytes(1 << 20);

#[test]
fn a_map_conforms() {
    component::conforms(Map::default);
    let map = Map::default();
    component::survives(|| map.clone());
}

#[test]
fn a_folder_conforms() {
    let folders = tempfile::tempdir().expect("a folder");
    let mut count = 0;
    component::conforms(|| {
        count += 1;
        let folder = folders.path().join(count.to_string());
        std::fs::create_dir(&folder).expect("made");
        Durable::open(folder, SHORT).expect("opened")
    });
    let folder = tempfile::tempdir().expect("a folder");
    component::survives(|| Durable::open(folder.path(), SHORT).expect("opened"));
}

/// What is so after each opening: what was seen at a timestamp is seen at it still, or is too old.
fn timestamps_survive(mut reopen: impl FnMut(Option<Store>) -> Store) {
    let store = reopen(None);
    let mut session = store.session().unwrap();
    for (timestamp, value) in [(10, b"old"), (20, b"new")] {
        let mut it = session.begin(Isolation::Snapshot).unwrap();
        it.put(b"key", value).unwrap();
        it.commit_at(timestamp).unwrap();
    }
    let last = store.stats().current_id;
    assert_eq!(session.begin_at(15).unwrap().get(b"key").unwrap().as_deref(), Some(&b"old"[..]));
    drop(session);
    let store = reopen(Some(store));
    let mut session = store.session().unwrap();
    for timestamp in [20, 25] {
        let mut it = session.begin_at(timestamp).unwrap();
        assert_eq!(it.get(b"key").unwrap().as_deref(), Some(&b"new"[..]));
    }
    // No history is kept.
    assert_eq!(session.begin_at(19).err(), Some(Error::TooOld { asked: 19, oldest: 20 }));
    let commit = |store: &Store, key: &[u8], timestamp| {
        let mut session = store.session().unwrap();
        let mut it = session.begin(Isolation::Snapshot).unwrap();
        it.put(key, b"later").unwrap();
        it.commit_at(timestamp)
    };
    for key in [&b"key"[..], b"another"] {
        assert_eq!(commit(&store, key, 20), Err(Error::BadTimestamp { asked: 20, above: 20 }));
    }
    let committed = commit(&store, b"key", 21).unwrap();
    assert!(committed.id >= Some(last), "{committed:?}: no id is given twice");
    store.set_oldest_timestamp(40);
    store.run(Isolation::Snapshot, |it| it.put(b"other", b"1")).unwrap();
    drop(session);
    let store = reopen(Some(store));
    assert_eq!(store.stats().oldest_timestamp, 40);
    let mut session = store.session().unwrap();
    assert_eq!(session.begin_at(39).err(), Some(Error::TooOld { asked: 39, oldest: 40 }));
    assert_eq!(session.begin_at(40).unwrap().get(b"key").unwrap().as_deref(), Some(&b"later"[..]));
    assert_eq!(commit(&store, b"key", 40), Err(Error::BadTimestamp { asked: 40, above: 40 }));
}

#[test]
fn timestamps_survive_an_opening() {
    let map = Map::default();
    timestamps_survive(|_| Store::open(Options::new(), Box::new(map.clone())).unwrap());
    let open = |folder: &Path| {
        let data = Durable::open(folder, SHORT).expect("opened");
        Store::open(Options::new(), Box::new(data)).expect("taken over")
    };
    // By the last checkpoint.
    let folder = tempfile::tempdir().expect("a folder");
    timestamps_survive(|before| {
        drop(before);
        open(folder.path())
    });
    // By the log alone: the files are taken from under a store that goes on.
    let mut folders = vec![tempfile::tempdir().expect("a folder")];
    let mut before_all = Vec::new();
    timestamps_survive(|before| {
        if before.is_some() {
            folders.push(copied(folders.last().expect("one").path()));
        }
        before_all.extend(before);
        open(folders.last().expect("one").path())
    });
}
