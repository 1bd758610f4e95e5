//! Group commit: the batches of many threads become durable with one write and one sync.
//!
//! One thread at a time is the *leader*. It writes and syncs for itself and for the threads that
//! joined while the previous leader did so. Threads that come meanwhile *join* the next group and
//! sleep; the first of them leads that group.
//!
//! ```text
//!   come ──► no leader? ───── yes ──► lead: gather, take the group, commit it, notify its members, pass the lead
//!                  │ no                  ▲
//!                  └──► join ──► first? ─┘ (when the lead is passed)
//!                                no ──► sleep until notified
//! ```
//!
//! # Gathering
//! Threads that commit one transaction after the other fall into two groups of half the size. Each
//! group waits while the other one is synced, because a thread whose commit has just returned comes
//! back a moment after the next leader has started. So a leader waits until as many threads have
//! joined as the last time. It waits for a quarter of the time of a recent commit at most; each
//! thread gains half a commit. After a wait in vain the next leaders do not wait. Their number
//! doubles with each further wait in vain.
//!
//! # Invariants
//! 1. `busy` is true while a thread leads, and from then on until no thread has joined. Only the
//!    thread that turns it to true, or is passed the lead, leads. So at most one thread commits.
//! 2. A group's batches are in the order in which their threads came, each whole. A thread that
//!    comes again comes after the return of its last commit; so its batches are in its order.
//! 3. `next` is there if and only if a thread has joined and no leader has taken the group. Its
//!    first member is notified once: either it leads the group, or an earlier leader that gathered
//!    has committed it.
//! 4. Each member of a group gets the same result after the one commit: the result of that.
//!
//! # Memory orderings
//! The mutex orders the batches: the leader that takes them has it after the threads that joined.
//! The two words of a group are changed with release after the result was written, and read with
//! acquire before the result is used. (The lead itself comes with the mutex.)

use crate::lock::Mutex;
use crate::txn::{Change, DataError};
use platform::atomic::{AtomicU32, Ordering};
use platform::{clock, futex};
use std::sync::{Arc, OnceLock};

/// No leader gathers for longer than this.
const GATHER_NS_MAX: u64 = 500_000;
/// It waits for at most this part of what a commit takes.
const GATHER_PART: u64 = 4;
/// As many groups are not gathered after vain waits, at most.
const VAIN_MAX: u32 = 64;

const NOT_YET: u32 = 0;
/// The first member is to lead.
const LEAD: u32 = 1;
/// The result is there.
const DONE: u32 = 2;

/// The threads whose batches are committed together with another thread's.
#[derive(Debug, Default)]
struct Followers {
    /// What the first member waits for: [`LEAD`] or [`DONE`].
    turn: AtomicU32,
    /// What the others wait for: [`DONE`].
    done: AtomicU32,
    result: OnceLock<Result<(), DataError>>,
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

/// Whether a thread leads, and what the threads that joined want.
#[derive(Debug, Default)]
struct State {
    busy: bool,
    next: Option<Arc<Followers>>,
    joined: Vec<Vec<Change>>,
    /// A thread that joined wants it to be durable.
    sync: bool,
    /// When this number of threads have joined, the leader that gathers is woken; 0: no leader
    /// gathers.
    called_at: usize,
    /// The number of threads that came at once the last time.
    expected: usize,
    /// How long a commit with a sync takes lately.
    commit_ns: u64,
    /// The number of groups that are not to wait after the last vain wait, and the number of these
    /// that are still to come.
    vain: u32,
    skipped: u32,
}

/// What commits a group: batches in order, and whether they are to be durable.
pub(super) trait Commit: Fn(&[&[Change]], bool) -> Result<(), DataError> {}
impl<F: Fn(&[&[Change]], bool) -> Result<(), DataError>> Commit for F {}

/// Groups of batches.
#[derive(Debug, Default)]
pub(super) struct Group {
    state: Mutex<State>,
    /// Changes when the last thread has joined for which a leader gathers.
    call: AtomicU32,
}

impl Group {
    /// Commits a batch, alone or with others'; `commit` may run for them in this thread, or in
    /// another for this one.
    pub(super) fn apply(&self, batch: &[Change], sync: bool, commit: impl Commit) -> Result<(), DataError> {
        let mut state = self.state.lock();
        if !state.busy {
            // Invariant 1.
            state.busy = true;
            drop(state);
            return self.lead(Some(batch), sync, commit);
        }
        let first = state.next.is_none();
        let followers = Arc::clone(state.next.get_or_insert_with(Arc::default));
        state.joined.push(batch.to_vec());
        state.sync |= sync;
        let last = state.joined.len() == state.called_at;
        drop(state);
        if last {
            // Relaxed: what it tells is under the mutex.
            self.call.fetch_add(1, Ordering::Relaxed);
            futex::wake(&self.call, 1);
        }
        if wait(if first { &followers.turn } else { &followers.done }) == LEAD {
            return self.lead(None, false, commit);
        }
        followers.result.get().cloned().unwrap_or(Ok(()))
    }

    /// Commits a group; the caller's batch is the first of the threads that joined, unless given.
    fn lead(&self, own: Option<&[Change]>, own_sync: bool, commit: impl Commit) -> Result<(), DataError> {
        let (followers, joined, sync, vain) = self.gather(usize::from(own.is_some()), own_sync);
        let batches: Vec<&[Change]> = own.into_iter().chain(joined.iter().map(Vec::as_slice)).collect();
        let began_ns = clock::now_ns();
        let result = commit(&batches, sync);
        let took_ns = clock::now_ns().saturating_sub(began_ns);
        if let Some(followers) = followers {
            // Invariant 4. Members come back first: the next leader gathers them.
            let _ = followers.result.set(result.clone());
            notify(&followers.done, DONE);
            if own.is_some() {
                notify(&followers.turn, DONE);
            }
        }
        let mut state = self.state.lock();
        state.expected = batches.len() + state.joined.len();
        if sync {
            state.commit_ns = took_ns;
        }
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

    /// Waits for other threads where that pays, and takes the group that has joined. Returns the
    /// group, whether it is to be durable, and, if it waited, whether it waited in vain.
    #[expect(clippy::type_complexity, reason = "one caller")]
    fn gather(
        &self,
        own: usize,
        own_sync: bool,
    ) -> (Option<Arc<Followers>>, Vec<Vec<Change>>, bool, Option<bool>) {
        let mut state = self.state.lock();
        let sync = |state: &State| own_sync || state.sync;
        let short = |state: &State| own + state.joined.len() < state.expected;
        let mut vain = None;
        if sync(&state) && short(&state) {
            if state.skipped > 0 {
                state.skipped -= 1;
            } else {
                state.called_at = state.expected - own;
                // Relaxed: only a thread that joins after the mutex is released changes it for this
                // leader.
                let seen = self.call.load(Ordering::Relaxed);
                let until_ns = clock::now_ns() + (state.commit_ns / GATHER_PART).min(GATHER_NS_MAX);
                drop(state);
                while self.call.load(Ordering::Relaxed) == seen
                    && futex::wait_until(&self.call, seen, until_ns) != futex::Outcome::TimedOut
                {
                }
                state = self.state.lock();
                state.called_at = 0;
                vain = Some(short(&state));
            }
        }
        let sync = sync(&state);
        state.sync = false;
        let joined = std::mem::take(&mut state.joined);
        (state.next.take(), joined, sync, vain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

    fn change(thread: usize, number: u32) -> Change {
        Change::Put { key: thread.to_le_bytes().into(), value: number.to_le_bytes().into() }
    }

    /// Threads commit to a list; returns it.
    fn run(threads: usize, each: u32, sync: bool) -> Vec<Change> {
        let (group, busy) = (Group::default(), AtomicBool::new(false));
        let list = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let (group, busy, list) = (&group, &busy, &list);
                scope.spawn(move || {
                    for number in 0..each {
                        let commit = |batches: &[&[Change]], synced: bool| {
                            assert!(!busy.swap(true, SeqCst), "two lead");
                            assert!(synced || !sync, "somebody wanted it to be durable");
                            std::thread::yield_now();
                            list.lock().extend(batches.concat());
                            busy.store(false, SeqCst);
                            Ok(())
                        };
                        group.apply(&[change(thread, number)], sync, commit).expect("committed");
                        let own = list.lock().iter().any(|found| *found == change(thread, number));
                        assert!(own, "told before it was committed");
                    }
                });
            }
        });
        assert!(!group.state.lock().busy);
        list.into_inner()
    }

    #[test]
    fn each_batch_is_committed_once_in_its_threads_order() {
        for sync in [false, true] {
            let list = run(8, 100, sync);
            assert_eq!(list.len(), 800);
            for thread in 0..8_usize {
                let own: Vec<_> =
                    list.iter().filter(|change| **change.key() == thread.to_le_bytes()).collect();
                let expected: Vec<_> = (0..100).map(|number| change(thread, number)).collect();
                assert_eq!(own, expected.iter().collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn batches_that_come_during_a_commit_are_one_group_with_one_result() {
        let (group, failures) = (Group::default(), AtomicUsize::new(0));
        let refuse = |_: &[&[Change]], _: bool| Err(DataError::new("full"));
        std::thread::scope(|scope| {
            let leader = |batches: &[&[Change]], _: bool| {
                assert_eq!(batches.len(), 1);
                for number in 0..5 {
                    let (group, failures) = (&group, &failures);
                    scope.spawn(move || {
                        let result =
                            group.apply(&[change(1, number)], true, |batches: &[&[Change]], sync| {
                                assert_eq!(batches.len(), 5, "one group");
                                refuse(batches, sync)
                            });
                        assert_eq!(result, Err(DataError::new("full")));
                        failures.fetch_add(1, SeqCst);
                    });
                }
                while group.state.lock().joined.len() < 5 {
                    std::thread::yield_now();
                }
                Ok(())
            };
            group.apply(&[change(0, 0)], true, leader).expect("committed");
        });
        assert_eq!(failures.into_inner(), 5);
        group
            .apply(&[change(0, 1)], true, |_: &[&[Change]], _| Ok(()))
            .expect("the next group is not to blame");
    }
}
