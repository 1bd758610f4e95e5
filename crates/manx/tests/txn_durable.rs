//! The durable data component in normal use: it does what an ordered map does, across openings, and
//! says clearly what it cannot do.

#[path = "common/copied.rs"]
mod copied;
#[path = "common/wrapped.rs"]
mod wrapped;

use copied::copied;
use fastrand::Rng;
use manx::txn::durable::{Durable, DurableOptions, Folder, Medium};
use manx::txn::{Batch, Change, Data, Entry, Outcome, Value};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::io;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use wrapped::{Fault, Wrapped};

/// A short log, so that laps and checkpoints are really walked.
const SHORT: DurableOptions = DurableOptions::new().log_bytes(4 << 10).cache_bytes(1 << 20);

fn put(key: &[u8], value: &[u8]) -> Change {
    Change::Put { key: key.into(), value: value.into() }
}

fn delete(key: &[u8]) -> Change {
    Change::Delete { key: key.into() }
}

fn all(store: &Durable) -> Vec<Entry> {
    store.scan((Bound::Unbounded, Bound::Unbounded), false, usize::MAX).expect("scanned")
}

/// What the model does and the store must do as well.
#[derive(Clone, Debug)]
enum Step {
    Apply(Vec<(Vec<u8>, Option<Vec<u8>>)>, bool),
    Get(Vec<u8>),
    Scan(Bound<Vec<u8>>, Bound<Vec<u8>>, bool, usize),
    Checkpoint,
    Reopen,
}

/// Few keys that sort in all ways, the empty one among them.
fn keys() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop::sample::select(vec![0, 1, b'a', b'b', 255]), 0..3)
}

fn bounds() -> impl Strategy<Value = Bound<Vec<u8>>> {
    prop_oneof![keys().prop_map(Bound::Included), keys().prop_map(Bound::Excluded), Just(Bound::Unbounded)]
}

fn steps() -> impl Strategy<Value = Step> {
    let value = prop_oneof![
        9 => prop::collection::vec(any::<u8>(), 0..20),
        1 => prop::collection::vec(any::<u8>(), 6_000..7_000),
    ];
    let change = (keys(), prop::option::weighted(0.7, value));
    prop_oneof![
        5 => (prop::collection::vec(change, 0..6), any::<bool>()).prop_map(|(batch, sync)| Step::Apply(batch, sync)),
        3 => keys().prop_map(Step::Get),
        4 => (bounds(), bounds(), any::<bool>(), 0..12_usize)
            .prop_map(|(from, to, descending, limit)| Step::Scan(from, to, descending, limit)),
        1 => Just(Step::Checkpoint),
        1 => Just(Step::Reopen),
    ]
}

fn within(key: &[u8], from: &Bound<Vec<u8>>, to: &Bound<Vec<u8>>) -> bool {
    let above = match from {
        Bound::Included(from) => key >= &from[..],
        Bound::Excluded(from) => key > &from[..],
        Bound::Unbounded => true,
    };
    let below = match to {
        Bound::Included(to) => key <= &to[..],
        Bound::Excluded(to) => key < &to[..],
        Bound::Unbounded => true,
    };
    above && below
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn it_does_what_an_ordered_map_does(steps in prop::collection::vec(steps(), 1..60)) {
        let folder = tempfile::tempdir().expect("a folder");
        let mut store = Durable::open(folder.path(), SHORT).expect("made");
        let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Apply(batch, sync) => {
                    let change = |(key, value): &(Vec<u8>, Option<Vec<u8>>)| match value {
                        Some(value) => put(key, value),
                        None => delete(key),
                    };
                    store.apply(Batch::new(&batch.iter().map(change).collect::<Vec<_>>(), sync)).expect("applied");
                    for (key, value) in batch {
                        match value {
                            Some(value) => model.insert(key, value),
                            None => model.remove(&key),
                        };
                    }
                }
                Step::Get(key) => {
                    let found = store.get(&key).expect("read");
                    prop_assert_eq!(found.as_deref(), model.get(&key).map(|value| &value[..]));
                }
                Step::Scan(from, to, descending, limit) => {
                    let bounds = (from.as_ref().map(|key| &key[..]), to.as_ref().map(|key| &key[..]));
                    let found = store.scan(bounds, descending, limit).expect("scanned");
                    let mut expected: Vec<_> = model.iter().filter(|(key, _)| within(key, &from, &to)).collect();
                    if descending {
                        expected.reverse();
                    }
                    expected.truncate(limit);
                    let found: Vec<_> = found.iter().map(|(key, value)| (key.to_vec(), value.to_vec())).collect();
                    let expected: Vec<_> = expected.into_iter().map(|(key, value)| (key.clone(), value.clone())).collect();
                    prop_assert_eq!(found, expected);
                }
                Step::Checkpoint => store.checkpoint().expect("made"),
                Step::Reopen => {
                    drop(store);
                    store = Durable::open(folder.path(), SHORT).expect("opened");
                }
            }
        }
    }
}

#[test]
fn values_of_megabytes_and_an_empty_key_are_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let large: Vec<u8> = (0..5_000_000_u32).map(|number| (number / 7) as u8).collect();
    // A value that goes through the log, and a value that is longer than it.
    for options in [SHORT.log_bytes(16 << 20), SHORT] {
        let store = Durable::open(folder.path(), options).expect("opened");
        store
            .apply(Batch::new(&[put(b"", b"empty"), put(b"large", &large), put(b"small", b"1")], true))
            .expect("applied");
        store.apply(Batch::new(&[delete(b"small")], true)).expect("applied");
        drop(store);
        let store = Durable::open(folder.path(), options).expect("opened");
        assert_eq!(store.get(b"").expect("read").as_deref(), Some(&b"empty"[..]));
        assert!(store.get(b"large").expect("read").as_deref() == Some(&large[..]));
        assert_eq!(store.get(b"small"), Ok(None));
        store.apply(Batch::new(&[delete(b"large")], true)).expect("applied");
    }
}

#[test]
fn changes_that_many_threads_apply_are_all_there() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Durable::open(folder.path(), SHORT).expect("made");
    std::thread::scope(|scope| {
        for thread in 0..8_u8 {
            let store = &store;
            scope.spawn(move || {
                for number in 0..50_u8 {
                    store
                        .apply(Batch::new(&[put(&[thread, number], &[number])], number % 3 == 0))
                        .expect("applied");
                    let found = store.get(&[thread, number]).expect("read");
                    assert_eq!(found.as_deref(), Some(&[number][..]), "acknowledged before it can be seen");
                }
            });
        }
    });
    let expected: Vec<_> =
        (0..8).flat_map(|thread| (0..50).map(move |number| vec![thread, number])).collect();
    let found = |store: &Durable| all(store).iter().map(|entry| entry.0.to_vec()).collect::<Vec<_>>();
    assert_eq!(found(&store), expected);
    drop(store);
    assert_eq!(found(&Durable::open(folder.path(), SHORT).expect("opened")), expected);
}

fn refused(path: &Path) -> String {
    Durable::open(path, SHORT).map(drop).expect_err("refused").to_string()
}

#[test]
fn a_folder_that_is_not_there_not_ours_or_in_use_is_refused_in_words() {
    let folder = tempfile::tempdir().expect("a folder");
    let missing = refused(&folder.path().join("missing"));
    assert!(missing.contains("no such folder") && missing.contains("mkdir"), "{missing}");
    let file = folder.path().join("file");
    std::fs::write(&file, "text").expect("written");
    let no_folder = refused(&file);
    assert!(no_folder.contains("is no folder"), "{no_folder}");
    let foreign = refused(folder.path());
    assert!(foreign.contains("something else") && foreign.contains("file"), "{foreign}");
    assert_eq!(std::fs::read_dir(folder.path()).expect("listed").count(), 1, "left as it was");
    let ours = tempfile::tempdir().expect("a folder");
    let store = Durable::open(ours.path(), SHORT).expect("made");
    let used = refused(ours.path());
    assert!(used.contains("in use"), "{used}");
    drop(store);
    Durable::open(ours.path(), SHORT).expect("free again");
}

const SAMPLE: [u8; 100] = [7; 100];

/// A store with some data that was closed in order.
fn closed() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Durable::open(folder.path(), DurableOptions::default()).expect("made");
    for number in 0..2_000_u32 {
        store.apply(Batch::new(&[put(&number.to_be_bytes(), &SAMPLE)], false)).expect("applied");
    }
    drop(store);
    folder
}

#[test]
fn damage_is_an_error_and_never_a_panic() {
    let sample = closed();
    let bytes = std::fs::read(sample.path().join("data.redb")).expect("read");
    let entry = |number: u32| (Value::from(number.to_be_bytes()), Value::from(SAMPLE));
    let expected: Vec<Entry> = (0..2_000).map(entry).collect();
    let mut random = Rng::with_seed(1);
    let mut seen = 0;
    for round in 0..40 {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["MANX", "log", "log2"] {
            std::fs::copy(sample.path().join(name), folder.path().join(name)).expect("copied");
        }
        let mut bytes = bytes.clone();
        if round % 4 == 0 {
            bytes.truncate(bytes.len() * round / 40);
        } else {
            for _ in 0..round * 3 {
                let at = random.usize(..bytes.len());
                bytes[at] ^= 1 << random.u8(..8);
            }
        }
        std::fs::write(folder.path().join("data.redb"), bytes).expect("written");
        let check = SHORT.check(true);
        match Durable::open(folder.path(), check) {
            Err(error) => {
                let why = error.to_string();
                assert!(why.contains("data.redb"), "{why}");
                seen += 1;
            }
            // Where the changes hit nothing that is in use, all is as it was.
            Ok(store) => assert!(all(&store) == expected, "round {round}: it is something else"),
        }
    }
    assert!(seen > 10, "{seen} of 40 were seen");
}

/// A disk that is full, or breaks at a sync, when the test says so.
#[derive(Debug, Default)]
struct Failing {
    full: AtomicBool,
    broken: AtomicBool,
}

impl Fault for Failing {
    fn write(&self, _: &str, file: &dyn Medium, bytes: &[u8], offset: u64) -> io::Result<()> {
        if self.full.load(SeqCst) {
            // A part of it fits.
            file.write(&bytes[..bytes.len() / 2], offset)?;
            return Err(io::ErrorKind::StorageFull.into());
        }
        file.write(bytes, offset)
    }

    fn set_length(&self, _: &str, file: &dyn Medium, bytes: u64) -> io::Result<()> {
        if self.full.load(SeqCst) && bytes > file.length()? {
            return Err(io::ErrorKind::StorageFull.into());
        }
        file.set_length(bytes)
    }

    fn sync(&self, _: &str, file: &dyn Medium) -> io::Result<()> {
        if self.broken.load(SeqCst) { Err(io::Error::other("I/O error")) } else { file.sync() }
    }
}

/// A store on such a disk, and the disk.
fn failing(folder: &Path, options: DurableOptions) -> (Durable, Arc<Failing>) {
    let disk = Arc::<Failing>::default();
    let wrapped = Wrapped(Folder::open(folder).expect("taken"), Arc::clone(&disk));
    (Durable::open_on(Box::new(wrapped), options).expect("opened"), disk)
}

fn keys_of(store: &Durable) -> Vec<Vec<u8>> {
    all(store).into_iter().map(|(key, _)| key.to_vec()).collect()
}

/// In the first lap of the log, which grows, and in a later one, where the file is as long as it
/// gets.
#[test]
fn a_full_disk_changes_nothing_and_what_comes_after_it_is_taken() {
    for before in [0, 200] {
        let folder = tempfile::tempdir().expect("a folder");
        let (store, disk) = failing(folder.path(), SHORT);
        for _ in 0..before {
            store.apply(Batch::new(&[put(b"a", &[0; 100])], false)).expect("applied");
        }
        // None runs any more, which would find no room either.
        store.checkpoint().expect("made");
        store.apply(Batch::new(&[put(b"a", b"1")], true)).expect("applied");
        disk.full.store(true, SeqCst);
        let error =
            store.apply(Batch::new(&[put(b"a", b"2"), put(b"b", &[1; 300])], true)).expect_err("full");
        assert!(error.to_string().contains("make room"), "{error}");
        assert_eq!(store.get(b"a").expect("read").as_deref(), Some(&b"1"[..]));
        let copy = copied(folder.path());
        assert_eq!(keys_of(&Durable::open(copy.path(), SHORT).expect("opened")), [b"a"], "and a crash");
        disk.full.store(false, SeqCst);
        store.apply(Batch::new(&[put(b"c", b"3")], true)).expect("there is room again");
        // As after a crash: nothing is closed in order.
        broken_off(store);
        let copy = copied(folder.path());
        let store = Durable::open(copy.path(), SHORT).expect("opened");
        assert_eq!(keys_of(&store), [b"a", b"c"]);
        assert_eq!(store.get(b"a").expect("read").as_deref(), Some(&b"1"[..]));
    }
}

#[test]
fn a_disk_that_is_full_at_a_checkpoint_loses_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let (store, disk) = failing(folder.path(), DurableOptions::default());
    let value = |number: u32| vec![number as u8; 1_000];
    for number in 0..2_000_u32 {
        store.apply(Batch::new(&[put(&number.to_be_bytes(), &value(number))], false)).expect("applied");
    }
    disk.full.store(true, SeqCst);
    let error = store.checkpoint().expect_err("full").to_string();
    assert!(error.contains("make room") && error.contains("data.redb"), "{error}");
    let error = store.apply(Batch::new(&[put(b"later", b"1")], true)).expect_err("refused").to_string();
    assert!(error.contains("takes no changes"), "{error}");
    drop(store);
    disk.full.store(false, SeqCst);
    let store = Durable::open(folder.path(), SHORT).expect("there is room again");
    assert_eq!(all(&store).len(), 2_000);
    for number in 0..2_000_u32 {
        let found = store.get(&number.to_be_bytes()).expect("read");
        assert!(found.as_deref() == Some(&value(number)[..]), "{number}");
    }
    store.apply(Batch::new(&[put(b"later", b"1")], true)).expect("applied");
}

/// A client that may write values, and knows how a log is written, writes a log as a value: that of
/// another store, of a later generation.
#[test]
fn a_value_may_look_like_the_log() {
    let other = tempfile::tempdir().expect("a folder");
    for _ in 0..5 {
        let store = Durable::open(other.path(), SHORT).expect("opened");
        store.apply(Batch::new(&[put(b"a", b"forged"), put(b"forged", b"2")], true)).expect("applied");
    }
    let log = std::fs::read(other.path().join("log")).expect("read");
    assert!(log.len() > 40, "the sample has no record");
    let folder = tempfile::tempdir().expect("a folder");
    let store = Durable::open(folder.path(), SHORT).expect("made");
    store.apply(Batch::new(&[put(b"a", b"1")], true)).expect("applied");
    store.apply(Batch::new(&[put(b"value", &log)], true)).expect("applied");
    let copy = copied(folder.path());
    drop(store);
    // After a crash, after an end in order, and each time after that.
    for folder in [&copy, &copy, &folder, &folder] {
        let store = Durable::open(folder.path(), SHORT).expect("opened");
        assert_eq!(store.get(b"a").expect("read").as_deref(), Some(&b"1"[..]));
        assert!(store.get(b"value").expect("read").as_deref() == Some(&log[..]));
        assert_eq!(all(&store).len(), 2);
    }
}

/// Leaves a store open for ever.
fn broken_off(store: Durable) {
    std::mem::forget(store);
}

#[test]
fn after_a_sync_that_failed_nothing_is_taken_until_it_is_opened_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let (store, disk) = failing(folder.path(), DurableOptions::default());
    store.apply(Batch::new(&[put(b"a", b"1")], true)).expect("applied");
    disk.broken.store(true, SeqCst);
    // Each member of a group gets the error.
    let errors = std::thread::scope(|scope| {
        let tell = |thread: u8| {
            let store = &store;
            move || store.apply(Batch::new(&[put(&[b'b', thread], b"2")], true)).expect_err("the sync failed")
        };
        let threads: Vec<_> = (0..8).map(|thread| scope.spawn(tell(thread))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect::<Vec<_>>()
    });
    assert!(errors.iter().any(|error| error.outcome() == Outcome::Unknown), "{errors:?}");
    let errors: Vec<_> = errors.iter().map(ToString::to_string).collect();
    assert!(
        errors.iter().all(|why| why.contains("open it again") || why.contains("open the store again")),
        "{errors:?}"
    );
    disk.broken.store(false, SeqCst);
    let later = store.apply(Batch::new(&[put(b"c", b"3")], true)).expect_err("still refused").to_string();
    assert!(later.contains("takes no changes") && later.contains("I/O error"), "{later}");
    assert!(store.checkpoint().is_err());
    assert_eq!(store.get(b"a").expect("reads go on").as_deref(), Some(&b"1"[..]));
    assert_eq!(store.durable(), 1, "what was appended is seen, and not taken for durable");
    drop(store);
    let store = Durable::open(folder.path(), SHORT).expect("opened");
    assert_eq!(store.get(b"a").expect("read").as_deref(), Some(&b"1"[..]));
    store.apply(Batch::new(&[put(b"c", b"3")], true)).expect("applied");
}
