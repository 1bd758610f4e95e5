//! Copies of a store that is in use: of one moment, whole or not there, and opened again.

use manx::txn::durable::{Durable, DurableOptions};
use manx::txn::{Batch, Bounds, Data, DataError, Entry, Error, Isolation, Options, Recovered, Store, Value};
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;
use testing::{Stop, until};

const ACCOUNTS: u64 = 2_000;
const EACH: u64 = 100;

fn account(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

fn amount(value: &[u8]) -> u64 {
    u64::from_le_bytes(value.try_into().expect("8 bytes"))
}

fn open(folder: &Path) -> Store {
    let data = Durable::open(folder, DurableOptions::new()).expect("opened");
    Store::open(Options::default(), Box::new(data)).expect("recovered")
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("listed");
    entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("text")).collect()
}

/// The number of accounts, and what they have together.
fn total(store: &Store) -> (usize, u64) {
    let all = store.run(Isolation::Snapshot, |it| it.scan::<[u8], _>(..).collect::<Result<Vec<_>, _>>());
    let all = all.expect("readable");
    (all.len(), all.iter().map(|(_, value)| amount(value)).sum())
}

/// Moves money between two accounts, until it is told to stop.
fn move_money(store: &Store, moved: &AtomicU64, stop: &AtomicBool) {
    let mut session = store.session().expect("a session");
    while !stop.load(SeqCst) {
        let (from, to) = (fastrand::u64(..ACCOUNTS), fastrand::u64(..ACCOUNTS));
        let mut it = session.begin(Isolation::Snapshot).expect("begun");
        let moves = |it: &mut manx::txn::Transaction<'_>| -> Result<(), Error> {
            let has = amount(&it.get(&account(from))?.expect("there"));
            if has > 0 && from != to {
                let other = amount(&it.get(&account(to))?.expect("there"));
                it.put(&account(from), &(has - 1).to_le_bytes())?;
                it.put(&account(to), &(other + 1).to_le_bytes())?;
            }
            Ok(())
        };
        match moves(&mut it).and_then(|()| it.commit()) {
            Ok(_) => drop(moved.fetch_add(1, SeqCst)),
            Err(error) => assert!(error.is_retryable(), "{error}"),
        }
    }
}

#[test]
fn a_copy_beside_writers_is_of_one_moment() {
    let folder = tempfile::tempdir().expect("made");
    let files = folder.path().join("files");
    fs::create_dir(&files).expect("made");
    for (at, store) in [Store::in_memory(Options::default()), open(&files)].into_iter().enumerate() {
        let fill = |it: &mut manx::txn::Transaction<'_>| {
            (0..ACCOUNTS).try_for_each(|number| it.put(&account(number), &EACH.to_le_bytes()))
        };
        store.run(Isolation::Snapshot, fill).expect("filled");
        let (moved, stop) = (AtomicU64::new(0), AtomicBool::new(false));
        thread::scope(|scope| {
            let _stop = Stop(&stop);
            for _ in 0..2 {
                scope.spawn(|| move_money(&store, &moved, &stop));
            }
            for copy in 0..5 {
                let before = moved.load(SeqCst);
                until("money is moved", || moved.load(SeqCst) > before + 10);
                let copy = folder.path().join(format!("{at}/copies/{copy}"));
                let backup = store.backup(&copy).expect("copied");
                assert_eq!((backup.entries, backup.bytes), (ACCOUNTS, ACCOUNTS * 16));
                assert_eq!(total(&open(&copy)), (ACCOUNTS as usize, ACCOUNTS * EACH));
            }
        });
        assert_eq!(names(&folder.path().join(format!("{at}/copies"))).len(), 5, "nothing else is left");
    }
}

#[test]
fn a_copy_needs_a_place_of_its_own_and_an_empty_store_has_one_too() {
    let folder = tempfile::tempdir().expect("made");
    let store = Store::in_memory(Options::default());
    let copy = folder.path().join("copy");
    fs::create_dir(&copy).expect("made");
    assert_eq!(store.backup(&copy).expect("into an empty folder").entries, 0);
    assert_eq!(total(&open(&copy)), (0, 0));
    let again = store.backup(&copy).expect_err("it is there").to_string();
    assert!(again.contains("is not empty"), "{again}");
    fs::write(folder.path().join("file"), "").expect("written");
    let below = store.backup(folder.path().join("file/copy")).expect_err("below a file").to_string();
    assert!(below.contains("could not be made"), "{below}");
    let nameless = store.backup("/").expect_err("no name").to_string();
    assert!(nameless.contains("add a name"), "{nameless}");
    let mut left = names(folder.path());
    left.sort();
    assert_eq!(left, ["copy", "file"]);
}

/// A component with many entries. Reading the last ones fails.
struct Failing;

impl Data for Failing {
    fn recover(&self) -> Result<Recovered, DataError> {
        Ok(Recovered::default())
    }

    fn get_many(&self, keys: &[&[u8]]) -> Result<Vec<Option<Value>>, DataError> {
        Ok(vec![None; keys.len()])
    }

    fn scan(&self, bounds: Bounds<'_>, _descending: bool, limit: usize) -> Result<Vec<Entry>, DataError> {
        let from = match bounds.0 {
            std::ops::Bound::Unbounded => 0,
            std::ops::Bound::Included(key) => u64::from_be_bytes(key.try_into().expect("8 bytes")),
            std::ops::Bound::Excluded(key) => u64::from_be_bytes(key.try_into().expect("8 bytes")) + 1,
        };
        if from > 3_000 {
            return Err(DataError::new("a page is damaged"));
        }
        Ok((from..from + limit as u64).map(|key| (account(key)[..].into(), vec![0; 1_000].into())).collect())
    }

    fn append(&self, _: Batch<'_>) -> Result<u64, DataError> {
        Ok(1)
    }

    fn wait(&self, _: u64) -> Result<(), DataError> {
        Ok(())
    }

    fn durable(&self) -> u64 {
        u64::MAX
    }
}

#[test]
fn a_copy_that_is_cut_off_is_not_there() {
    let folder = tempfile::tempdir().expect("made");
    let store = Store::open(Options::default(), Box::new(Failing)).expect("recovered");
    let error = store.backup(folder.path().join("copy")).expect_err("cut off");
    assert_eq!(error, Error::Data(DataError::new("a page is damaged")));
    // The program may break it off, too.
    let mut copied = Vec::new();
    let error = store.backup_with(folder.path().join("copy"), |so_far| {
        copied.push(so_far.entries);
        if copied.len() == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert!(error.expect_err("broken off").to_string().contains("broken off"));
    assert!(0 < copied[0] && copied[0] < copied[1] && copied[1] < 3_000, "{copied:?}");
    assert!(names(folder.path()).is_empty());
}

#[test]
fn a_copy_keeps_the_oldest_timestamp() {
    let folder = tempfile::tempdir().expect("made");
    let store = Store::in_memory(Options::default());
    store.set_oldest_timestamp(10);
    let mut session = store.session().expect("a session");
    let mut it = session.begin(Isolation::Snapshot).expect("begun");
    it.put(b"key", b"value").expect("written");
    it.commit_at(20).expect("committed");
    store.backup(folder.path().join("copy")).expect("copied");
    let restored = open(&folder.path().join("copy"));
    let mut session = restored.session().expect("a session");
    let oldest = restored.stats().oldest_timestamp;
    assert!(oldest >= 10);
    assert!(matches!(session.begin_at(oldest - 1), Err(Error::TooOld { .. })));
    let mut it = session.begin_at(oldest).expect("begun");
    assert_eq!(it.get(b"key").expect("read").as_deref(), Some(&b"value"[..]));
}
