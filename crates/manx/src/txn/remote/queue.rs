//! What was appended and is on its way to the other side: groups of batches, and the threads that
//! wait.
//!
//! ```text
//!   append ──► entries (seen by readers) ──► the last group ... groups ──► flying ──► durable
//!                                                                            └──► broken: all that wait get its error
//! ```
//!
//! A batch joins the last group if the group still fits into one transaction there with it;
//! otherwise it begins a new one. While a group flies, the next one grows. So a commit costs as
//! many transactions as there are round trips in its time, and not as there are batches: *group
//! commit*.
//!
//! Invariants:
//! 1. Places rise by one with each batch, in the order in which the entries were changed: both are
//!    done under the mutex.
//! 2. Groups are committed in the order of their places, each as a whole. Of two changes of one key
//!    in a group only the later one is kept: it comes later in the order.
//! 3. `durable` is the last place of the last group that was committed.
//! 4. While there is no room on the other side nothing is appended. What was appended before stays,
//!    is tried until there is room, and is unknown to those that wait for it.
//! 5. After the queue is broken nothing is committed any more. A group that was on its way may be,
//!    if the error says so; none behind it is.
//!
//! Memory orderings: `durable` is stored with release after the commit, and read with acquire by a
//! thread that goes on because of it. All else is under the mutex; a group's word is changed after
//! `durable` or `broken` are, and a thread that was woken looks at those.

use crate::lock::{Condvar, Mutex};
use crate::txn::{Batch, Change, DataError, Outcome, Recovered, Value};
use platform::atomic::{AtomicU32, AtomicU64, Ordering};
use platform::futex;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::sleep;

/// How much of a group is one transaction at most.
#[derive(Clone, Copy, Debug)]
pub(in crate::txn) struct Size {
    pub(in crate::txn) changes_max: usize,
    /// Of keys and values, and a little for each change.
    pub(in crate::txn) bytes_max: usize,
}

/// When so much is on its way, further batches wait.
const BACKLOG_BYTES_MAX: usize = 64 << 20;
/// As many ids of transactions are known to have been appended.
const REMEMBERED: usize = 4096;

/// How often an owner looks whether there is room again.
const LOOK_FOR_ROOM_EVERY: Duration = Duration::from_millis(500);

/// What each change costs beside its key and value.
const CHANGE_BYTES: usize = 64;

/// What a group waits for: 0 until it is over.
#[derive(Debug, Default)]
struct Over(AtomicU32);

/// Batches that are committed together.
#[derive(Debug)]
pub(in crate::txn) struct Group {
    /// What each key gets; none: it goes.
    pub(in crate::txn) changes: BTreeMap<Value, Option<Value>>,
    /// What the record will say.
    pub(in crate::txn) known: Recovered,
    last_place: u64,
    batches: usize,
    /// More than a transaction's only if the group is one batch.
    pub(in crate::txn) bytes: usize,
    over: Arc<Over>,
}

/// Why nothing is changed any more.
#[derive(Clone, Debug)]
pub(in crate::txn) struct Broken {
    pub(in crate::txn) text: String,
    /// What became of the group that was on its way.
    pub(in crate::txn) flying: Outcome,
}

struct State {
    size: Size,
    /// What was appended so far.
    known: Recovered,
    groups: VecDeque<Group>,
    /// The last place of the group on its way, and what its threads wait for.
    flying: Option<(u64, Arc<Over>)>,
    place: u64,
    bytes: usize,
    /// The places of the last transactions, and their order.
    places: HashMap<u64, u64>,
    remembered: VecDeque<u64>,
    broken: Option<(Broken, u64)>,
    /// There is no room on the other side: what is said about that.
    full: Option<String>,
    is_closing: bool,
}

/// The queue.
pub(in crate::txn) struct Queue {
    state: Mutex<State>,
    /// There is room for another batch, or there never will be.
    room: Condvar,
    durable: AtomicU64,
    /// Tells the writer that there is something to do.
    pub(super) call: Notify,
}

impl Queue {
    pub(in crate::txn) fn new(size: Size) -> Queue {
        let state = State {
            size,
            known: Recovered::default(),
            groups: VecDeque::new(),
            flying: None,
            place: 0,
            bytes: 0,
            places: HashMap::new(),
            remembered: VecDeque::new(),
            broken: None,
            full: None,
            is_closing: false,
        };
        let (room, durable, call) = (Condvar::default(), AtomicU64::new(0), Notify::new());
        Queue { state: Mutex::new(state), room, durable, call }
    }

    /// An owner begins with what it found. Transactions are known by their epoch and id.
    pub(super) fn begin(&self, known: Recovered) {
        let mut state = self.state.lock();
        state.known = known;
        state.places.clear();
        state.remembered.clear();
    }

    /// Gives a batch its place; `apply` makes its changes seen.
    pub(super) fn append(&self, batch: &Batch<'_>, apply: impl FnOnce()) -> Result<u64, DataError> {
        let mut state = self.state.lock();
        loop {
            if batch.epoch != state.known.epoch || state.known.epoch == 0 {
                let (text, outcome) = match (state.known.epoch, batch.epoch) {
                    (0, _) => ("the store was not taken over: call `recover` first", Outcome::NotApplied),
                    (now, epoch) if epoch < now => ("a later owner has the store", Outcome::Fenced),
                    _ => ("no owner has this epoch", Outcome::NotApplied),
                };
                return Err(DataError::new(text).with_outcome(outcome));
            }
            // The same batch again.
            if let Some(&place) = state.places.get(&batch.id) {
                return state.fate(place, self.durable()).unwrap_or(Ok(())).map(|()| place);
            }
            if let Some((broken, _)) = &state.broken {
                return Err(broken.refusal());
            }
            if let Some(full) = &state.full {
                return Err(DataError::new(full.clone()));
            }
            if state.bytes < BACKLOG_BYTES_MAX {
                break;
            }
            self.room.wait(&mut state);
        }
        apply();
        let place = state.add(batch);
        let is_first = state.flying.is_none();
        drop(state);
        if is_first {
            self.call.notify_one();
        }
        Ok(place)
    }

    /// Waits until a place is durable.
    pub(super) fn wait(&self, place: u64) -> Result<(), DataError> {
        loop {
            if self.durable() >= place {
                return Ok(());
            }
            let state = self.state.lock();
            if let Some(fate) = state.fate(place, self.durable()) {
                return fate;
            }
            let Some(over) = state.over(place) else { return Ok(()) };
            drop(state);
            // Relaxed: what it tells is looked at under the mutex.
            while over.0.load(Ordering::Relaxed) == 0 {
                futex::wait(&over.0, 0);
            }
        }
    }

    pub(super) fn durable(&self) -> u64 {
        // Acquire: see *Memory orderings*.
        self.durable.load(Ordering::Acquire)
    }

    /// The last place that was given.
    pub(super) fn last_place(&self) -> u64 {
        self.state.lock().place
    }

    /// Why nothing is changed any more, if that is so.
    pub(super) fn refusal(&self) -> Option<DataError> {
        self.state.lock().broken.as_ref().map(|(broken, _)| broken.refusal())
    }

    /// Takes the next group, for the writer: it is on its way from now on.
    pub(super) fn take(&self) -> Option<Group> {
        let mut state = self.state.lock();
        let group = state.groups.pop_front()?;
        state.flying = Some((group.last_place, Arc::clone(&group.over)));
        Some(group)
    }

    /// The group that was taken is durable.
    pub(super) fn done(&self, group: &Group) {
        let mut state = self.state.lock();
        state.bytes -= group.bytes;
        let flying = state.flying.take();
        // Release: see *Memory orderings*.
        self.durable.store(group.last_place, Ordering::Release);
        drop(state);
        flying.iter().for_each(|(_, over)| notify(over));
        self.room.notify_all();
    }

    /// There is no room on the other side, and this is said about it (Invariant 4): waits a little
    /// before the next attempt. Not if the store is closed.
    pub(in crate::txn) async fn waits_for_room(&self, full: String) -> bool {
        if self.is_closing() {
            return false;
        }
        self.refuse(full);
        sleep(LOOK_FOR_ROOM_EVERY).await;
        true
    }

    fn refuse(&self, full: String) {
        let mut state = self.state.lock();
        state.full = Some(full);
        let State { groups, flying, .. } = &mut *state;
        let waited =
            groups.iter_mut().map(|group| &mut group.over).chain(flying.iter_mut().map(|it| &mut it.1));
        let over: Vec<_> = waited.map(std::mem::take).collect();
        drop(state);
        over.iter().for_each(|over| notify(over));
        self.room.notify_all();
    }

    /// There is room again.
    pub(in crate::txn) fn admit(&self) {
        self.state.lock().full = None;
    }

    /// Nothing is changed any more.
    pub(super) fn give_up(&self, broken: Broken) {
        let mut state = self.state.lock();
        if state.broken.is_some() {
            return;
        }
        let last = state.flying.as_ref().map_or(0, |(place, _)| *place);
        state.broken = Some((broken, last));
        let over: Vec<_> = state.groups.drain(..).map(|group| group.over).collect();
        let flying = state.flying.take().map(|(_, over)| over);
        drop(state);
        flying.iter().chain(&over).for_each(|over| notify(over));
        self.room.notify_all();
    }

    /// No batch comes any more.
    pub(super) fn close(&self) {
        self.state.lock().is_closing = true;
        self.call.notify_one();
    }

    pub(super) fn is_closing(&self) -> bool {
        self.state.lock().is_closing
    }
}

/// Wakes the threads of a group that is over.
fn notify(over: &Over) {
    // Relaxed: a thread that sees it takes the mutex.
    over.0.store(1, Ordering::Relaxed);
    futex::wake_all(&over.0);
}

impl State {
    /// By Invariants 1 and 2.
    fn add(&mut self, batch: &Batch<'_>) -> u64 {
        let bytes = batch.changes.iter().map(bytes_of).sum::<usize>();
        let size = self.size;
        let fits = |group: &&mut Group| {
            group.changes.len() + batch.changes.len() <= size.changes_max
                && group.bytes + bytes <= size.bytes_max
        };
        self.known.note(batch);
        self.place += 1;
        self.bytes += bytes;
        if batch.id != 0 {
            self.places.insert(batch.id, self.place);
            self.remembered.push_back(batch.id);
            if self.remembered.len() > REMEMBERED {
                self.remembered.pop_front().map(|id| self.places.remove(&id));
            }
        }
        if self.groups.back_mut().filter(fits).is_none() {
            self.groups.push_back(Group {
                changes: BTreeMap::new(),
                known: self.known,
                last_place: 0,
                batches: 0,
                bytes: 0,
                over: Arc::default(),
            });
        }
        if let Some(group) = self.groups.back_mut() {
            for change in batch.changes {
                let (key, value) = match change {
                    Change::Put { key, value } => (key, Some(value.clone())),
                    Change::Delete { key } => (key, None),
                };
                group.changes.insert(key.clone(), value);
            }
            (group.known, group.last_place) = (self.known, self.place);
            group.batches += 1;
            group.bytes += bytes;
        }
        self.place
    }

    /// What became of a place, if that is known.
    fn fate(&self, place: u64, durable: u64) -> Option<Result<(), DataError>> {
        if place <= durable {
            return Some(Ok(()));
        }
        // Invariant 5.
        let Some((broken, flying)) = &self.broken else {
            let full = self.full.as_ref()?;
            let text = format!("{full}. Whether the last changes are made is known then");
            return Some(Err(DataError::new(text).with_outcome(Outcome::Unknown)));
        };
        Some(Err(if place <= *flying { broken.of_flying() } else { broken.refusal() }))
    }

    /// What the threads of a place wait for.
    fn over(&self, place: u64) -> Option<Arc<Over>> {
        if let Some((last, over)) = &self.flying
            && place <= *last
        {
            return Some(Arc::clone(over));
        }
        let index = self.groups.partition_point(|group| group.last_place < place);
        self.groups.get(index).map(|group| Arc::clone(&group.over))
    }
}

impl Broken {
    /// The error of a batch that was never sent.
    fn refusal(&self) -> DataError {
        let outcome = match self.flying {
            Outcome::Fenced => Outcome::Fenced,
            _ => Outcome::NotApplied,
        };
        DataError::new(self.text.clone()).with_outcome(outcome)
    }

    fn of_flying(&self) -> DataError {
        DataError::new(self.text.clone()).with_outcome(self.flying)
    }
}

fn bytes_of(change: &Change) -> usize {
    CHANGE_BYTES
        + match change {
            Change::Put { key, value } => key.len() + value.len(),
            Change::Delete { key } => key.len(),
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: Size = Size { changes_max: 120, bytes_max: 1 << 20 };

    fn put(key: &str, value: &str) -> Change {
        Change::Put { key: key.as_bytes().into(), value: value.as_bytes().into() }
    }

    fn queue() -> Queue {
        let queue = Queue::new(SIZE);
        queue.begin(Recovered { epoch: 2, ..Recovered::default() });
        queue
    }

    fn append(queue: &Queue, id: u64, changes: &[Change]) -> Result<u64, DataError> {
        queue.append(&Batch { epoch: 2, id, ..Batch::new(changes, true) }, || {})
    }

    #[test]
    fn batches_that_come_meanwhile_are_one_group() {
        let queue = queue();
        assert_eq!(append(&queue, 5, &[put("a", "1")]), Ok(1));
        let first = queue.take().unwrap();
        assert_eq!(append(&queue, 7, &[put("a", "2"), put("b", "1")]), Ok(2));
        assert_eq!(append(&queue, 6, &[Change::Delete { key: (*b"b").into() }]), Ok(3));
        assert_eq!(append(&queue, 7, &[put("a", "2")]), Ok(2), "the same again");
        queue.done(&first);
        assert_eq!((queue.durable(), queue.wait(1)), (1, Ok(())));
        let second = queue.take().unwrap();
        let changes: Vec<_> = second.changes.values().map(|value| value.as_deref()).collect();
        assert_eq!(changes, [Some(&b"2"[..]), None]);
        assert_eq!((second.last_place, second.batches, second.known.last_id), (3, 2, 7));
        assert!(queue.take().is_none());
    }

    #[test]
    fn a_group_stays_within_the_limits_of_a_transaction() {
        let queue = queue();
        for id in 1..=300 {
            append(&queue, id, &[put(&id.to_string(), "x")]).unwrap();
        }
        let large: Vec<_> = (0..=SIZE.changes_max).map(|number| put(&format!("k{number}"), "v")).collect();
        append(&queue, 301, &large).unwrap();
        append(&queue, 302, &[put("z", "v")]).unwrap();
        let sizes: Vec<_> = std::iter::from_fn(|| queue.take()).map(|group| group.batches).collect();
        assert_eq!(sizes, [120, 120, 60, 1, 1]);
    }

    #[test]
    fn after_an_error_only_what_was_on_its_way_is_unknown() {
        let queue = queue();
        append(&queue, 1, &[put("a", "1")]).unwrap();
        let group = queue.take().unwrap();
        append(&queue, 2, &[put("a", "2")]).unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| queue.wait(2).unwrap_err().outcome());
            queue.give_up(Broken { text: "no answer".into(), flying: Outcome::Unknown });
            assert_eq!(waiting.join().unwrap(), Outcome::NotApplied);
        });
        assert_eq!(queue.wait(1).unwrap_err().outcome(), Outcome::Unknown);
        assert_eq!(append(&queue, 1, &[]).unwrap_err().outcome(), Outcome::Unknown, "the same again");
        assert_eq!(append(&queue, 3, &[]).unwrap_err().outcome(), Outcome::NotApplied);
        drop(group);
    }

    #[test]
    fn while_there_is_no_room_nothing_is_appended_and_nothing_is_lost() {
        let queue = queue();
        append(&queue, 1, &[put("a", "1")]).unwrap();
        let group = queue.take().unwrap();
        append(&queue, 2, &[put("a", "2")]).unwrap();
        std::thread::scope(|scope| {
            let waiting = [1, 2].map(|place| {
                let queue = &queue;
                scope.spawn(move || queue.wait(place).unwrap_err().outcome())
            });
            queue.refuse("no room".into());
            assert_eq!(waiting.map(|it| it.join().unwrap()), [Outcome::Unknown; 2]);
        });
        assert_eq!(queue.wait(1).unwrap_err().outcome(), Outcome::Unknown);
        let error = append(&queue, 3, &[]).unwrap_err();
        assert_eq!((error.outcome(), error.to_string()), (Outcome::NotApplied, "no room".into()));
        queue.admit();
        assert_eq!(append(&queue, 3, &[]), Ok(3));
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| queue.wait(1));
            queue.done(&group);
            assert_eq!(waiting.join().unwrap(), Ok(()));
        });
        assert_eq!(queue.take().unwrap().last_place, 3);
    }

    #[test]
    fn only_the_owner_of_the_epoch_appends() {
        let queue = queue();
        let of = |epoch| queue.append(&Batch { epoch, ..Batch::default() }, || {}).unwrap_err().outcome();
        assert_eq!((of(1), of(3)), (Outcome::Fenced, Outcome::NotApplied));
        let new = Queue::new(SIZE);
        assert!(new.append(&Batch::default(), || {}).unwrap_err().to_string().contains("recover"));
    }
}
