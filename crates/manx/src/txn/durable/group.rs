//! Group commit: what many threads have appended becomes durable with one sync.
//!
//! A batch is in the log's file, and has a place, when its thread comes here to wait. One thread at
//! a time is the *leader*: it syncs the file, for itself and for all whose batches are in it by
//! then. A thread that comes meanwhile *joins* the group that is being synced, if its batch is in
//! that; or else the next one, and the first thread of that one leads it.
//!
//! ```text
//!   come ──► no leader? ───── yes ──► lead: gather, take the group, sync, notify its members, pass the lead
//!                  │ no                  ▲
//!                  └──► join ──► first? ─┘ (when the lead is passed)
//!                                no ──► sleep until notified
//! ```
//!
//! # Gathering
//! Threads that commit one transaction after the other fall into two groups of half the size. Each
//! group waits while the other one is synced, because a thread whose commit has just returned comes
//! back a moment after the next leader has started. So a leader waits until as many batches were
//! appended as the last time, or many bytes. It waits for a quarter of the time of a recent sync at
//! most; each thread gains half a sync. After a wait in vain the next leaders do not wait. Their
//! number doubles with each further wait in vain.
//!
//! # Invariants
//! 1. `busy` is true while a thread leads, and from then on until no thread has joined. Only the
//!    thread that turns it to true, or is passed the lead, leads. So at most one thread leads.
//! 2. A leader takes the group first, and then looks which records the file has. So the sync has
//!    those of all members.
//! 3. `next` is there if and only if a thread has joined and no leader has taken the group. Its
//!    first member is notified once: either it leads the group, or an earlier leader that gathered
//!    has taken it.
//! 4. Each member of a group gets the same result after the one sync: the result of that.
//!
//! # Memory orderings
//! The two words of a group are changed with release after the result was written, and read with
//! acquire before the result is used. (The lead itself comes with the mutex.) A thread that appends
//! stores the place and then looks whether it is called; a leader calls and then looks at the
//! place: sequentially consistent, so one of the two sees the other.

use super::syncs::Syncs;
use crate::lock::Mutex;
use crate::txn::DataError;
use platform::atomic::{AtomicU32, AtomicU64, Ordering};
use platform::{clock, futex};
use std::sync::{Arc, OnceLock};

/// No leader gathers for longer than this, …
const GATHER_NS_MAX: u64 = 500_000;
/// … or for more than this part of what a sync takes, …
const GATHER_PART: u64 = 4;
/// … or beyond this number of bytes: all members wait until they are on the disk.
const GROUP_BYTES: u64 = 1 << 20;
/// As many groups are not gathered after vain waits, at most.
const VAIN_MAX: u32 = 64;

const NOT_YET: u32 = 0;
/// The first member is to lead.
const LEAD: u32 = 1;
/// The result is there.
const DONE: u32 = 2;

/// Threads that wait for the same sync.
#[derive(Debug, Default)]
struct Followers {
    /// What the first member waits for: [`LEAD`] or [`DONE`].
    turn: AtomicU32,
    /// What the others wait for: [`DONE`].
    done: AtomicU32,
    result: OnceLock<Result<(), DataError>>,
}

impl Followers {
    fn result(&self) -> Result<(), DataError> {
        self.result.get().cloned().unwrap_or(Ok(()))
    }
}

/// Sleeps until a word of a group has changed; returns the word.
fn wait(word: &AtomicU32) -> u32 {
    loop {
        // Acquire: see *Memory orderings*.
        match word.load(Ordering::Acquire) {
            NOT_YET => drop(futex::wait(word, NOT_YET)),
            changed => return changed,
        }
    }
}

/// Changes a word of a group and wakes the threads that sleep on it.
fn notify(word: &AtomicU32, what: u32) {
    // Release: see *Memory orderings*.
    word.store(what, Ordering::Release);
    futex::wake_all(word);
}

/// Whether a thread leads, and which threads have joined.
#[derive(Debug, Default)]
struct State {
    busy: bool,
    /// The group that is being synced, and the last place that the sync has.
    current: Option<(u64, Arc<Followers>)>,
    next: Option<Arc<Followers>>,
    /// The number of batches that came at once the last time.
    expected: u64,
    /// How long a sync takes lately.
    sync_ns: u64,
    /// The number of groups that are not to wait after the last vain wait, and the number of these
    /// that are still to come.
    vain: u32,
    skipped: u32,
}

/// See [the module](self).
#[derive(Debug)]
pub(super) struct Group {
    state: Mutex<State>,
    syncs: Arc<Syncs>,
    /// The last place that was given, and the last one whose batch is to be durable.
    appended: AtomicU64,
    wanted: AtomicU64,
    /// What was appended since a leader began to sync.
    bytes: AtomicU64,
    /// When this place is given the leader that gathers is woken. The highest number: no leader
    /// gathers.
    called_at: AtomicU64,
    /// Changes then.
    call: AtomicU32,
}

impl Group {
    /// All up to this place was appended before.
    pub(super) fn new(appended: u64, syncs: Arc<Syncs>) -> Group {
        Group {
            state: Mutex::default(),
            syncs,
            appended: AtomicU64::new(appended),
            wanted: AtomicU64::new(appended),
            bytes: AtomicU64::new(0),
            called_at: AtomicU64::new(u64::MAX),
            call: AtomicU32::new(0),
        }
    }

    /// A batch of this place is in the file, and is to be durable if `sync`. One thread at a time
    /// says so.
    pub(super) fn append(&self, place: u64, bytes: usize, sync: bool) {
        if sync {
            // Release: its own thread waits, or one that knows the place from it.
            self.wanted.store(place, Ordering::Release);
        }
        // SeqCst: see *Memory orderings*. Relaxed: a hint.
        self.appended.store(place, Ordering::SeqCst);
        let bytes = self.bytes.fetch_add(bytes as u64, Ordering::Relaxed) + bytes as u64;
        let called_at = self.called_at.load(Ordering::SeqCst);
        if called_at != u64::MAX && (place >= called_at || bytes >= GROUP_BYTES) {
            self.call.fetch_add(1, Ordering::Relaxed);
            futex::wake(&self.call, 1);
        }
    }

    /// Returns once the batch of this place is durable, with all before it, if it or a later one is
    /// to be. `sync` may run for it in this thread, or in another one: it tells which place is the
    /// last one that it has, and then syncs.
    pub(super) fn wait(
        &self,
        place: u64,
        sync: impl Fn(&mut dyn FnMut(u64)) -> Result<(), DataError>,
    ) -> Result<(), DataError> {
        let is_over = || self.syncs.durable() >= place;
        if is_over() || place > self.wanted.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut state = self.state.lock();
        if is_over() {
            return Ok(());
        }
        if let Some((last, current)) = &state.current
            && place <= *last
        {
            let current = Arc::clone(current);
            drop(state);
            wait(&current.done);
            return current.result();
        }
        if !state.busy {
            // Invariant 1.
            state.busy = true;
            drop(state);
            return self.lead(true, sync);
        }
        let first = state.next.is_none();
        let followers = Arc::clone(state.next.get_or_insert_with(Arc::default));
        drop(state);
        if wait(if first { &followers.turn } else { &followers.done }) == LEAD {
            return self.lead(false, sync);
        }
        followers.result()
    }

    /// Leads a group. If the caller `came` when no thread led, it has not joined that group.
    fn lead(
        &self,
        came: bool,
        sync: impl Fn(&mut dyn FnMut(u64)) -> Result<(), DataError>,
    ) -> Result<(), DataError> {
        let vain = self.gather();
        let before = self.syncs.durable();
        // Invariant 2.
        let followers = self.state.lock().next.take().unwrap_or_default();
        self.bytes.store(0, Ordering::Relaxed);
        let (began_ns, mut last) = (clock::now_ns(), before);
        let result = sync(&mut |place| {
            last = place;
            self.state.lock().current = Some((place, Arc::clone(&followers)));
        });
        let took_ns = clock::now_ns().saturating_sub(began_ns);
        // Invariant 4. Members come back first: the next leader gathers them.
        let _ = followers.result.set(result.clone());
        notify(&followers.done, DONE);
        if came {
            notify(&followers.turn, DONE);
        }
        let mut state = self.state.lock();
        state.current = None;
        // What the sync had, and what came meanwhile.
        state.expected = self.appended.load(Ordering::Relaxed).saturating_sub(before);
        state.sync_ns = took_ns;
        if let Some(vain) = vain {
            state.vain = if vain { (state.vain * 2).clamp(1, VAIN_MAX) } else { 0 };
            state.skipped = state.vain;
        }
        match state.next.clone() {
            // Invariant 3; it stays busy.
            Some(next) => {
                drop(state);
                notify(&next.turn, LEAD);
            }
            None => state.busy = false,
        }
        result
    }

    /// Waits for further batches where that pays. If it waited, returns whether that was in vain.
    fn gather(&self) -> Option<bool> {
        let mut state = self.state.lock();
        let due = self.syncs.durable() + state.expected;
        let is_short =
            || self.appended.load(Ordering::SeqCst) < due && self.bytes.load(Ordering::Relaxed) < GROUP_BYTES;
        if !is_short() {
            return None;
        }
        if state.skipped > 0 {
            state.skipped -= 1;
            return None;
        }
        let until_ns = clock::now_ns() + (state.sync_ns / GATHER_PART).min(GATHER_NS_MAX);
        drop(state);
        // Relaxed: the other thread changes it after it has seen `called_at`.
        let seen = self.call.load(Ordering::Relaxed);
        self.called_at.store(due, Ordering::SeqCst);
        while is_short()
            && self.call.load(Ordering::Relaxed) == seen
            && futex::wait_until(&self.call, seen, until_ns) != futex::Outcome::TimedOut
        {}
        self.called_at.store(u64::MAX, Ordering::SeqCst);
        Some(is_short())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

    /// A log that keeps the numbers of the batches alone.
    struct Fake {
        group: Group,
        syncs: Arc<Syncs>,
        appended: Mutex<u64>,
        busy: AtomicBool,
        times: AtomicUsize,
    }

    impl Fake {
        fn new() -> Fake {
            let syncs = Arc::new(Syncs::new(0));
            let group = Group::new(0, Arc::clone(&syncs));
            let (busy, times) = (AtomicBool::new(false), AtomicUsize::new(0));
            Fake { group, syncs, appended: Mutex::new(0), busy, times }
        }

        fn append(&self, sync: bool) -> u64 {
            let mut appended = self.appended.lock();
            *appended += 1;
            self.group.append(*appended, 1, sync);
            *appended
        }

        fn wait(&self, place: u64) -> Result<(), DataError> {
            self.group.wait(place, |covers| {
                assert!(!self.busy.swap(true, SeqCst), "two lead");
                let last = *self.appended.lock();
                covers(last);
                std::thread::yield_now();
                self.times.fetch_add(1, SeqCst);
                self.syncs.note(last);
                self.busy.store(false, SeqCst);
                Ok(())
            })
        }
    }

    #[test]
    fn a_place_is_durable_when_its_wait_returns() {
        let fake = Fake::new();
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let fake = &fake;
                scope.spawn(move || {
                    for number in 0..100 {
                        let place = fake.append(true);
                        // As a reader does that waits for what another one wrote.
                        let place = if (thread + number) % 4 == 0 { place.saturating_sub(2) } else { place };
                        fake.wait(place).expect("synced");
                        assert!(fake.syncs.durable() >= place, "told before it was durable");
                    }
                });
            }
        });
        assert!(!fake.group.state.lock().busy);
        assert!(fake.times.load(SeqCst) <= 800);
    }

    #[test]
    fn what_is_not_to_be_durable_is_not_waited_for_unless_a_later_one_is() {
        let fake = Fake::new();
        let first = fake.append(false);
        fake.wait(first).expect("nothing to do");
        assert_eq!(fake.syncs.durable(), 0);
        fake.append(true);
        fake.wait(first).expect("synced");
        assert_eq!(fake.syncs.durable(), 2);
    }

    #[test]
    fn threads_that_come_during_a_sync_are_one_group_with_one_result() {
        let fake = Fake::new();
        let (first, failures) = (fake.append(true), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            fake.group
                .wait(first, |covers| {
                    covers(first);
                    for _ in 0..5 {
                        let (fake, failures) = (&fake, &failures);
                        scope.spawn(move || {
                            let result = fake.group.wait(fake.append(true), |covers| {
                                covers(*fake.appended.lock());
                                Err(DataError::new("full"))
                            });
                            assert_eq!(result, Err(DataError::new("full")));
                            failures.fetch_add(1, SeqCst);
                        });
                    }
                    // And one whose batch is in this one.
                    scope.spawn(|| fake.wait(first).expect("synced"));
                    while *fake.appended.lock() < 6 || fake.group.state.lock().next.is_none() {
                        std::thread::yield_now();
                    }
                    fake.syncs.note(first);
                    Ok(())
                })
                .expect("synced");
        });
        assert_eq!(failures.into_inner(), 5);
        fake.wait(fake.append(true)).expect("the next group is not to blame");
    }
}
