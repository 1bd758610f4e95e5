//! Checkpoints of the durable store beside commits: a checkpoint that stands still holds up no
//! thread, and what was committed meanwhile is seen, and kept.

#[path = "common/copied.rs"]
mod copied;
#[path = "common/wrapped.rs"]
mod wrapped;

use copied::copied;
use manx::txn::durable::{Durable, DurableOptions, Folder, Medium};
use manx::txn::{Batch, Change, Data, Value};
use std::io;
use std::ops::Bound;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;
use testing::{Stop, until};
use wrapped::{Fault, Wrapped};

const LOG_BYTES: usize = 64 << 10;
const OPTIONS: DurableOptions = DurableOptions::new().log_bytes(LOG_BYTES).cache_bytes(1 << 20);
/// What stands still goes on after this time, and the test has failed.
const LIMIT: Duration = Duration::from_secs(60);

/// Where the syncs of the base wait.
#[derive(Debug, Default)]
struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
    /// The next sync of the base fails.
    broken: AtomicBool,
}

#[derive(Debug, Default)]
struct GateState {
    closed: bool,
    waiting: u32,
    gave_up: bool,
}

impl Gate {
    fn close(&self) {
        self.state.lock().unwrap().closed = true;
    }

    fn open(&self) {
        let mut state = self.state.lock().unwrap();
        state.closed = false;
        self.changed.notify_all();
        assert!(!state.gave_up, "commits waited for a checkpoint");
    }

    fn pass(&self) {
        let mut state = self.state.lock().unwrap();
        state.waiting += 1;
        self.changed.notify_all();
        let (mut state, timeout) =
            self.changed.wait_timeout_while(state, LIMIT, |state| state.closed).unwrap();
        state.gave_up |= timeout.timed_out();
        state.waiting -= 1;
    }

    /// Until a checkpoint stands still here.
    fn until_a_thread_waits(&self) {
        let state = self.state.lock().unwrap();
        let (state, _) = self.changed.wait_timeout_while(state, LIMIT, |state| state.waiting == 0).unwrap();
        assert!(state.waiting > 0, "no checkpoint was begun");
    }
}

impl Fault for Gate {
    fn sync(&self, name: &str, file: &dyn Medium) -> io::Result<()> {
        if name == "data.redb" {
            self.pass();
            if self.broken.load(SeqCst) {
                return Err(io::Error::other("I/O error"));
            }
        }
        file.sync()
    }
}

/// A folder whose base has a gate.
fn gated(folder: &Path) -> (Durable, Arc<Gate>) {
    let gate = Arc::new(Gate::default());
    let disk = Wrapped(Folder::open(folder).expect("taken"), gate.clone());
    (Durable::open_on(Box::new(disk), OPTIONS).expect("opened"), gate)
}

fn put(key: &str, value: &str) -> Change {
    Change::Put { key: key.as_bytes().into(), value: value.as_bytes().into() }
}

fn delete(key: &str) -> Change {
    Change::Delete { key: key.as_bytes().into() }
}

fn text(value: &Value) -> String {
    String::from_utf8_lossy(value).into_owned()
}

fn scanned(store: &Durable, descending: bool, limit: usize) -> Vec<String> {
    let found = store.scan((Bound::Unbounded, Bound::Unbounded), descending, limit).expect("scanned");
    found.iter().map(|(key, value)| format!("{}={}", text(key), text(value))).collect()
}

#[test]
fn commits_go_on_while_a_checkpoint_stands_still_and_are_seen_and_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let (store, gate) = gated(folder.path());
    store
        .apply(Batch::new(&[put("a", "1"), put("b", "1"), put("d", "1"), put("f", "1")], true))
        .expect("applied");
    gate.close();
    thread::scope(|scope| {
        let checkpoint = scope.spawn(|| store.checkpoint());
        gate.until_a_thread_waits();
        store.apply(Batch::new(&[put("b", "2"), delete("d"), put("e", "2")], true)).expect("applied");
        store
            .apply(Batch::new(&[put("c", "3"), put("c", "4"), delete("f"), delete("nothing")], false))
            .expect("applied");
        let expected = ["a=1", "b=2", "c=4", "e=2"];
        let see = |store: &Durable| {
            assert_eq!(scanned(store, false, usize::MAX), expected);
            assert_eq!(scanned(store, true, usize::MAX), ["e=2", "c=4", "b=2", "a=1"]);
            assert_eq!(scanned(store, false, 3), expected[..3]);
            assert_eq!(scanned(store, true, 1), ["e=2"]);
            assert_eq!(store.get(b"d").expect("read"), None);
            assert_eq!(store.get(b"c").expect("read").as_ref().map(text).as_deref(), Some("4"));
            assert_eq!(store.get(b"a").expect("read").as_ref().map(text).as_deref(), Some("1"));
        };
        see(&store);
        let copy = copied(folder.path());
        see(&Durable::open(copy.path(), OPTIONS).expect("opened"));
        gate.open();
        checkpoint.join().expect("no panic").expect("made");
        see(&store);
        // What came meanwhile is in the log still.
        let copy = copied(folder.path());
        see(&Durable::open(copy.path(), OPTIONS).expect("opened"));
    });
    drop(store);
    let store = Durable::open(folder.path(), OPTIONS).expect("opened");
    assert_eq!(scanned(&store, false, usize::MAX), ["a=1", "b=2", "c=4", "e=2"]);
}

/// Two files are all there are: a thread that fills the second one waits until the first one is
/// free.
#[test]
fn a_thread_that_fills_the_other_file_too_waits_for_the_checkpoint() {
    let folder = tempfile::tempdir().expect("a folder");
    let (store, gate) = gated(folder.path());
    let large = "x".repeat(LOG_BYTES / 5);
    let apply = |number: u32| {
        store.apply(Batch::new(&[put(&format!("{number:03}"), &large)], true)).expect("applied")
    };
    gate.close();
    let applied = AtomicU32::new(0);
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for number in 0..20 {
                apply(number);
                applied.fetch_add(1, SeqCst);
            }
        });
        gate.until_a_thread_waits();
        // Four are in one file, four in the other.
        until("eight", || applied.load(SeqCst) >= 8);
        assert_eq!(applied.load(SeqCst), 8, "as long as there is room no thread waits, and then all do");
        let copy = copied(folder.path());
        assert!(scanned(&Durable::open(copy.path(), OPTIONS).expect("opened"), false, usize::MAX).len() >= 8);
        gate.open();
        writer.join().expect("no panic");
    });
    // A group that is longer than a file, too.
    store.apply(Batch::new(&[put("long", &large.repeat(6)), delete("000")], true)).expect("applied");
    let copy = copied(folder.path());
    for store in [&Durable::open(copy.path(), OPTIONS).expect("opened"), &store] {
        let all = scanned(store, false, usize::MAX);
        assert!(all.len() == 20 && all[0].starts_with("001") && all[19].starts_with("long"), "{}", all.len());
    }
}

#[test]
fn after_a_checkpoint_that_failed_nothing_is_taken_and_all_is_still_there() {
    let folder = tempfile::tempdir().expect("a folder");
    let (store, gate) = gated(folder.path());
    store.apply(Batch::new(&[put("a", "1")], true)).expect("applied");
    gate.close();
    thread::scope(|scope| {
        let checkpoint = scope.spawn(|| store.checkpoint());
        gate.until_a_thread_waits();
        store.apply(Batch::new(&[put("b", "2")], true)).expect("applied");
        gate.broken.store(true, SeqCst);
        gate.open();
        let error = checkpoint.join().expect("no panic").expect_err("the sync failed").to_string();
        assert!(error.contains("I/O error") && error.contains("open it again"), "{error}");
    });
    let error = store.apply(Batch::new(&[put("c", "3")], true)).expect_err("refused").to_string();
    assert!(error.contains("takes no changes"), "{error}");
    assert_eq!(scanned(&store, false, usize::MAX), ["a=1", "b=2"]);
    gate.broken.store(false, SeqCst);
    drop(store);
    let store = Durable::open(folder.path(), OPTIONS).expect("opened");
    assert_eq!(scanned(&store, false, usize::MAX), ["a=1", "b=2"]);
}

/// Readers beside commits and checkpoints: each sees whole groups, never an earlier one than it has
/// seen before.
#[test]
fn a_group_is_seen_whole_before_during_and_after_checkpoints() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = OPTIONS.log_bytes(4 << 10);
    let store = Durable::open(folder.path(), options).expect("made");
    let over = AtomicBool::new(false);
    let group = |number: u32| {
        let value = format!("{number:06}");
        // Another key comes and goes.
        let third = if number.is_multiple_of(2) { put("c", &value) } else { delete("c") };
        [put("a", &value), put("b", &value), third]
    };
    store.apply(Batch::new(&group(0), true)).expect("applied");
    thread::scope(|scope| {
        for descending in [false, true] {
            let (store, over) = (&store, &over);
            scope.spawn(move || {
                let mut last = 0;
                while !over.load(SeqCst) {
                    let mut all = scanned(store, descending, usize::MAX);
                    all.sort();
                    let number: u32 = all[0].trim_start_matches("a=").parse().expect("a number");
                    assert_eq!(all[1], format!("b={number:06}"), "{all:?}");
                    assert_eq!(
                        all.get(2).cloned(),
                        number.is_multiple_of(2).then(|| format!("c={number:06}"))
                    );
                    assert!(last <= number, "{number} after {last}");
                    last = number;
                }
            });
        }
        scope.spawn(|| {
            while !over.load(SeqCst) {
                store.checkpoint().expect("made");
            }
        });
        let _ends = Stop(&over);
        for number in 1..=1_500 {
            store.apply(Batch::new(&group(number), number.is_multiple_of(16))).expect("applied");
            let found = store.get(b"a").expect("read");
            assert_eq!(
                found.as_ref().map(text),
                Some(format!("{number:06}")),
                "acknowledged before it is seen"
            );
        }
    });
}
