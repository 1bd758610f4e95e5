//! A store of transactions against a model of one: some sessions take turns, each step alone, and
//! each has to say what the model says.
//!
//! The model keeps every state that was ever committed, as a list of commits: a transaction of
//! snapshot isolation sees the first ones of them up to its number, without commits with a later
//! timestamp than it reads at, and over that what it wrote itself. Lower levels see all of them,
//! and the lowest one also what others have not committed. A transaction that writes a key that
//! another one at work has written, or another one since its snapshot, gets an error that names
//! that one. Serializable transactions wait for each other, so they cannot take turns: they are in
//! `txn_histories.rs`. `MANX_FULL` runs a hundred times as many.

#[path = "common/map.rs"]
mod map;

use manx::txn::{Error, Isolation, Options, Store, Transaction, Value};
use map::Map;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

const SESSIONS: usize = 4;
/// More than a scan looks for at once.
const KEYS: u8 = 90;

type Keys = (Bound<u8>, Bound<u8>);

#[derive(Clone, Debug)]
enum Step {
    Begin(Isolation),
    /// This number of timestamps below the last one.
    BeginAt(u64),
    Get(u8),
    Put(u8, u8),
    /// Keys from this one on, and how many.
    PutMany(u8, u8),
    Delete(u8),
    DeleteRange(Keys),
    Scan(Keys, bool),
    Commit,
    /// This number of timestamps below two above the last one.
    CommitAt(u64),
    Rollback,
    /// This number of timestamps below the last one.
    SetOldest(u64),
    /// The session ends, and another one begins: what is not needed is cleaned.
    Renew,
    /// What no transaction needs goes, also from between what is needed.
    Collect,
}

fn bound() -> impl Strategy<Value = Bound<u8>> {
    prop_oneof![
        4 => (0..KEYS).prop_map(Bound::Included),
        4 => (0..KEYS).prop_map(Bound::Excluded),
        1 => Just(Bound::Unbounded),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    // A few keys that all quarrel about, and others.
    let key = || prop_oneof![4 => 0..4u8, 1 => 0..KEYS];
    let isolation = prop_oneof![
        1 => Just(Isolation::ReadUncommitted),
        1 => Just(Isolation::ReadCommitted),
        4 => Just(Isolation::Snapshot),
    ];
    prop_oneof![
        4 => isolation.prop_map(Step::Begin),
        1 => (0..4u64).prop_map(Step::BeginAt),
        8 => key().prop_map(Step::Get),
        8 => (key(), any::<u8>()).prop_map(|(key, value)| Step::Put(key, value)),
        1 => (0..KEYS, 0..KEYS).prop_map(|(from, count)| Step::PutMany(from, count)),
        4 => key().prop_map(Step::Delete),
        1 => (bound(), bound()).prop_map(Step::DeleteRange),
        4 => (bound(), bound(), any::<bool>()).prop_map(|(from, to, descending)| Step::Scan((from, to), descending)),
        5 => Just(Step::Commit),
        2 => (0..4u64).prop_map(Step::CommitAt),
        2 => Just(Step::Rollback),
        1 => (0..4u64).prop_map(Step::SetOldest),
        2 => Just(Step::Renew),
        4 => Just(Step::Collect),
    ]
}

/// What a transaction changes: a value, or none, of each key.
type Changes = BTreeMap<u8, Option<u8>>;
type State = BTreeMap<u8, u8>;

/// A commit.
#[derive(Debug)]
struct Past {
    id: u64,
    /// 0, if it has none.
    timestamp: u64,
    changes: Changes,
}

/// A transaction of the model.
#[derive(Debug)]
struct Open {
    isolation: Isolation,
    /// The number of commits that it sees, if it stays with those.
    sees: usize,
    timestamp: Option<u64>,
    changes: Changes,
    failed: Option<Error>,
}

#[derive(Debug, Default)]
struct Model {
    past: Vec<Past>,
    open: [Option<Open>; SESSIONS],
    timestamp: u64,
    oldest: u64,
}

impl Model {
    fn visible(&self, open: &Open) -> Vec<&Past> {
        let keeps = open.isolation == Isolation::Snapshot;
        let sees = if keeps { open.sees } else { self.past.len() };
        self.past[..sees].iter().filter(|past| past.timestamp <= open.timestamp.unwrap_or(u64::MAX)).collect()
    }

    fn state(&self, session: usize) -> State {
        let open = self.open[session].as_ref().expect("it is open");
        let mut changes = Changes::new();
        for past in self.visible(open) {
            changes.extend(past.changes.iter());
        }
        if open.isolation == Isolation::ReadUncommitted {
            // No two at work have written the same key.
            for other in self.open.iter().flatten() {
                changes.extend(other.changes.iter());
            }
        }
        changes.extend(open.changes.iter());
        changes.into_iter().filter_map(|(key, value)| Some((key, value?))).collect()
    }

    /// Returns whether a key may be written; if not, the id of the commit that wrote it, or 0 if a
    /// transaction at work has written it.
    fn check_write(&self, session: usize, key: u8) -> Result<(), u64> {
        let open = self.open[session].as_ref().expect("it is open");
        let at_work = |(other, it): (usize, &Option<Open>)| {
            other != session && it.as_ref().is_some_and(|it| it.changes.contains_key(&key))
        };
        if self.open.iter().enumerate().any(at_work) {
            return Err(0);
        }
        if open.changes.contains_key(&key) {
            return Ok(());
        }
        let last = self.past.iter().enumerate().rfind(|(_, past)| past.changes.contains_key(&key));
        let is_seen = |at: usize, past: &Past| {
            (open.isolation != Isolation::Snapshot || at < open.sees)
                && past.timestamp <= open.timestamp.unwrap_or(u64::MAX)
        };
        match last {
            Some((at, past)) if !is_seen(at, past) => Err(past.id),
            _ => Ok(()),
        }
    }

    fn change(&mut self, session: usize, key: u8, value: Option<u8>) {
        self.open[session].as_mut().expect("it is open").changes.insert(key, value);
    }
}

/// Keys of one byte or two: some are the beginning of others.
fn name(key: u8) -> Vec<u8> {
    if key.is_multiple_of(3) { vec![b'k', key / 3] } else { vec![b'k', key / 3, key % 3] }
}

fn names((from, to): Keys) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    (from.map(name), to.map(name))
}

fn is_empty((from, to): Keys) -> bool {
    match (from, to) {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
        (Bound::Included(from), Bound::Included(to)) => from > to,
        (Bound::Included(from) | Bound::Excluded(from), Bound::Included(to) | Bound::Excluded(to)) => {
            from >= to
        }
    }
}

/// What a step said.
#[derive(Debug, PartialEq)]
enum Said {
    Nothing,
    Done(Result<(), Error>),
    Value(Result<Option<u8>, Error>),
    WasThere(Result<bool, Error>),
    Deleted(Result<usize, Error>),
    Entries(Result<Vec<(Vec<u8>, u8)>, Error>),
    Committed(Result<Option<u64>, Error>),
}

fn value(bytes: &Value) -> u8 {
    assert!(bytes.len() == 1, "one byte each");
    bytes[0]
}

/// A session, and a thread that does one step at a time in it.
fn serve(store: &Store, steps: &Receiver<Step>, said: &Sender<Said>) {
    let mut session = store.session().expect("a session");
    // `Begin` and `BeginAt` come only while there is no transaction, the others only while there is
    // one.
    while let Ok(step) = steps.recv() {
        let begun = match step {
            Step::Begin(isolation) => session.begin(isolation),
            Step::BeginAt(timestamp) => session.begin_at(timestamp),
            _ => {
                session = store.session().expect("a session");
                said.send(Said::Nothing).expect("waited for");
                continue;
            }
        };
        match begun {
            Err(error) => said.send(Said::Done(Err(error))).expect("waited for"),
            Ok(it) => {
                said.send(Said::Done(Ok(()))).expect("waited for");
                if !transact(it, steps, said) {
                    return;
                }
            }
        }
    }
}

/// Does steps until the transaction is over. Returns whether there may be more.
fn transact(mut it: Transaction<'_>, steps: &Receiver<Step>, said: &Sender<Said>) -> bool {
    while let Ok(step) = steps.recv() {
        let says = match step {
            Step::Get(key) => Said::Value(it.get(&name(key)).map(|found| found.as_ref().map(value))),
            Step::Put(key, value) => Said::Done(it.put(&name(key), &[value])),
            Step::PutMany(from, count) => {
                Said::Done((from..KEYS.min(from + count)).try_for_each(|key| it.put(&name(key), &[key])))
            }
            Step::Delete(key) => Said::WasThere(it.delete(&name(key))),
            Step::DeleteRange(range) => Said::Deleted(it.delete_range::<Vec<u8>, _>(names(range))),
            Step::Scan(range, descending) => {
                let scan = it.scan::<Vec<u8>, _>(names(range));
                let scan = if descending { scan.rev() } else { scan };
                Said::Entries(
                    scan.map(|entry| entry.map(|(key, found)| (key.to_vec(), value(&found)))).collect(),
                )
            }
            Step::Commit | Step::CommitAt(_) | Step::Rollback => {
                let committed = match step {
                    Step::Commit => it.commit().map(|committed| committed.id),
                    Step::CommitAt(timestamp) => it.commit_at(timestamp).map(|committed| committed.id),
                    _ => {
                        it.rollback();
                        Ok(None)
                    }
                };
                said.send(Said::Committed(committed)).expect("waited for");
                return true;
            }
            Step::Begin(_) | Step::BeginAt(_) | Step::SetOldest(_) | Step::Renew | Step::Collect => {
                Said::Nothing
            }
        };
        said.send(says).expect("waited for");
    }
    false
}

impl Model {
    fn it(&mut self, session: usize) -> &mut Open {
        self.open[session].as_mut().expect("it is open")
    }

    /// Writes keys as long as that may be, and compares why it may not.
    fn write_all(&mut self, session: usize, changes: &[(u8, Option<u8>)], error: Option<&Error>) {
        for &(key, value) in changes {
            if let Err(id) = self.check_write(session, key) {
                let Some(Error::Conflict { key: conflicting, with }) = error else {
                    panic!("{error:?} instead of a conflict about {key} with {id}");
                };
                assert_eq!(**conflicting, *name(key));
                assert!(id == 0 || id == *with, "{with} instead of {id}");
                self.it(session).failed = error.cloned();
                return;
            }
            self.change(session, key, value);
        }
        assert_eq!(error, None);
    }

    /// What a step changes, and whether what was said of it is right.
    fn step(&mut self, session: usize, step: &Step, said: &Said) {
        if self.it(session).failed.is_some() {
            let is_bad_range = matches!(step, Step::DeleteRange(range) if is_empty(*range));
            let is_nothing = match step {
                Step::Scan(range, _) => is_empty(*range),
                Step::PutMany(_, count) => *count == 0,
                _ => false,
            };
            match said {
                Said::Done(Ok(())) | Said::Entries(Ok(_)) => assert!(is_nothing, "{step:?} {said:?}"),
                Said::Deleted(Err(Error::InvalidRange(_))) => assert!(is_bad_range),
                Said::Done(Err(error)) | Said::Value(Err(error)) | Said::WasThere(Err(error)) => {
                    assert_eq!(*error, Error::Failed)
                }
                Said::Deleted(Err(error)) | Said::Entries(Err(error)) => assert_eq!(*error, Error::Failed),
                other => panic!("{step:?} of what has failed: {other:?}"),
            }
            return;
        }
        let state = self.state(session);
        let within = |range: Keys| {
            let keys: Vec<u8> =
                if is_empty(range) { vec![] } else { state.range(range).map(|(&key, _)| key).collect() };
            keys
        };
        match (step, said) {
            (Step::Get(key), Said::Value(said)) => assert_eq!(*said, Ok(state.get(key).copied()), "{key}"),
            (Step::Put(key, value), Said::Done(said)) => {
                self.write_all(session, &[(*key, Some(*value))], said.as_ref().err());
            }
            (Step::PutMany(from, count), Said::Done(said)) => {
                let changes: Vec<_> = (*from..KEYS.min(from + count)).map(|key| (key, Some(key))).collect();
                self.write_all(session, &changes, said.as_ref().err());
            }
            (Step::Delete(key), Said::WasThere(said)) => {
                let was_there = state.contains_key(key);
                let changes = [(*key, None)];
                self.write_all(session, if was_there { &changes } else { &[] }, said.as_ref().err());
                assert!(said.as_ref().is_ok_and(|&said| said == was_there) || said.is_err());
            }
            (Step::DeleteRange(range), Said::Deleted(said)) => {
                if is_empty(*range) {
                    assert!(matches!(said, Err(Error::InvalidRange(_))), "{said:?}");
                    return;
                }
                let changes: Vec<_> = within(*range).into_iter().map(|key| (key, None)).collect();
                self.write_all(session, &changes, said.as_ref().err());
                assert!(said.as_ref().is_ok_and(|&said| said == changes.len()) || said.is_err(), "{said:?}");
            }
            (Step::Scan(range, descending), Said::Entries(said)) => {
                let mut entries: Vec<_> =
                    within(*range).into_iter().map(|key| (name(key), state[&key])).collect();
                if *descending {
                    entries.reverse();
                }
                assert_eq!(*said, Ok(entries));
            }
            other => panic!("{other:?}"),
        }
    }

    /// The transaction is over, at this timestamp unless it is 0.
    fn end(&mut self, session: usize, step: &Step, timestamp: u64, said: &Result<Option<u64>, Error>) {
        let open = self.open[session].take().expect("it is open");
        let has_timestamp = matches!(step, Step::CommitAt(_));
        let last = |key| self.past.iter().rev().find(|past| past.changes.contains_key(key));
        let above = open.changes.keys().filter_map(last).map(|past| past.timestamp).max().unwrap_or(0);
        // The oldest timestamp is asked first, before what failed, and the keys behind that.
        let above = if timestamp <= self.oldest { self.oldest } else { above };
        let bad = has_timestamp && timestamp <= above && (above == self.oldest || open.failed.is_none());
        match (step, said) {
            (Step::Rollback, _) => {}
            (_, Err(Error::BadTimestamp { asked, above: reported })) => {
                assert!(bad && *asked == timestamp && *reported == above)
            }
            (_, Err(error)) => assert!(!bad && open.failed.as_ref() == Some(error), "{error}"),
            (_, Ok(id)) => {
                assert!(!bad && open.failed.is_none());
                assert_eq!(id.is_some(), !open.changes.is_empty());
                if let Some(id) = *id {
                    self.past.push(Past { id, timestamp, changes: open.changes });
                }
                self.timestamp = self.timestamp.max(timestamp);
            }
        }
    }

    fn begin(&mut self, session: usize, isolation: Isolation, timestamp: Option<u64>) {
        let sees = self.past.len();
        let changes = Changes::new();
        self.open[session] = Some(Open { isolation, sees, timestamp, changes, failed: None });
    }
}

fn play(store: &Store, steps: &[(usize, Step)]) -> State {
    let mut model = Model::default();
    thread::scope(|scope| {
        let sessions: Vec<_> = (0..SESSIONS)
            .map(|_| {
                let ((step, steps), (says, said)) = (channel(), channel());
                scope.spawn(move || serve(store, &steps, &says));
                (step, said)
            })
            .collect();
        let ask = |session: usize, step: Step| {
            let (steps, said): &(Sender<Step>, Receiver<Said>) = &sessions[session];
            steps.send(step).expect("it is there");
            said.recv().expect("it is there")
        };
        for (session, step) in steps {
            let (session, is_open) = (*session, model.open[*session].is_some());
            match step {
                Step::SetOldest(less) => {
                    let timestamp = model.timestamp.saturating_sub(*less);
                    store.set_oldest_timestamp(timestamp);
                    model.oldest = model.oldest.max(timestamp);
                }
                Step::Collect => store.collect(),
                Step::Begin(_) | Step::BeginAt(_) | Step::Renew if is_open => {}
                Step::Renew => assert_eq!(ask(session, Step::Renew), Said::Nothing),
                Step::Begin(isolation) => {
                    assert_eq!(ask(session, step.clone()), Said::Done(Ok(())));
                    model.begin(session, *isolation, None);
                }
                Step::BeginAt(less) => {
                    let asked = model.timestamp.saturating_sub(*less);
                    match ask(session, Step::BeginAt(asked)) {
                        Said::Done(Ok(())) if asked >= model.oldest => {
                            model.begin(session, Isolation::Snapshot, Some(asked))
                        }
                        said => {
                            assert_eq!(said, Said::Done(Err(Error::TooOld { asked, oldest: model.oldest })))
                        }
                    }
                }
                _ => {
                    if !is_open {
                        assert_eq!(ask(session, Step::Begin(Isolation::Snapshot)), Said::Done(Ok(())));
                        model.begin(session, Isolation::Snapshot, None);
                    }
                    let (step, timestamp) = match step {
                        Step::CommitAt(less) => {
                            let timestamp = (model.timestamp + 2).saturating_sub(*less);
                            (Step::CommitAt(timestamp), timestamp)
                        }
                        step => (step.clone(), 0),
                    };
                    match ask(session, step.clone()) {
                        Said::Committed(said) => model.end(session, &step, timestamp, &said),
                        said => model.step(session, &step, &said),
                    }
                }
            }
        }
    });
    // The sessions are over, and what they had not committed is rolled back.
    model.open = Default::default();
    model.begin(0, Isolation::Snapshot, None);
    let state = model.state(0);
    let mut session = store.session().expect("a session");
    let mut it = session.begin(Isolation::Snapshot).expect("as many as like to");
    let entries: Vec<_> = it.scan::<[u8], _>(..).map(|entry| entry.expect("readable")).collect();
    let expected: Vec<_> =
        state.iter().map(|(&key, &value)| (Value::from(name(key)), Value::from([value]))).collect();
    assert_eq!(entries, expected);
    state
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if testing::full() { 20_000 } else { 200 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn each_step_says_what_the_model_says(steps in prop::collection::vec((0..SESSIONS, step()), 0..150)) {
        play(&Store::in_memory(Options::default()), &steps);
        let map = Map::default();
        let state = play(&Store::open(Options::default(), Box::new(map.clone())).unwrap(), &steps);
        // All that was committed is below.
        let below = map.0.lock().expect("whole").clone();
        let expected = state.iter().map(|(&key, &value)| (Value::from(name(key)), Value::from([value]))).collect();
        prop_assert_eq!(below, expected);
    }
}
