//! Which locks threads wait for, and what the holder does meanwhile.
//!
//! Each look groups the threads that wait for a word (`futex.rs`) by its address. Of the addresses
//! with waiters for a lock, the words behind it are read: the C library's mutex has its holder's
//! thread at offset 8. That is believed if the word is not 0 and the thread is one of the process
//! that does not itself wait there.
//!
//! Rules:
//! 1. An address counts as a lock only if no thread ever expected a value there that locks do not
//!    have.
//! 2. It counts only if something moves there in a tenth of the looks (a waiter ran in between, or
//!    others wait) or if a holder was seen. Threads that are parked are idle.
//! 3. An address with waits that have a time limit counts only if a holder was seen. A condition
//!    variable whose counter is 2 looks like a lock, and its waiters move when their time is over.
//!
//! The holder was *kept from running* if it wished to run at the look and had hardly run since the
//! look before. Waiters of a better priority than such a holder are *inverted*, unless the mutex
//! lends the holder their priority.

use super::futex::{FutexWait, Kind};
use super::memory;
use super::thread::{Priority, Track};
use super::waits::CallerWaits;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};

/// The maximum number of addresses that are followed.
const ADDRESSES_MAX: usize = 1024;
/// At a look, the words at this number of addresses are read.
const READ_MAX: usize = 64;
/// How many stacks of waiters are kept for each address.
const STACKS_MAX: usize = 8;
/// How many words of a stack are kept: the C library's own frames are small.
const STACK_WORDS: usize = 128;
/// A holder that ran for less than this part of the time between two looks was kept from running.
const HARDLY: f64 = 0.25;
/// At a contended lock something moves in at least one of this number of looks, on average.
const MOVES: u32 = 10;
const WORD: u64 = 0xffff_ffff;

/// A state of the holder is mentioned if it was seen in more than this part of the looks.
pub const OFTEN: f64 = 0.3;

/// What was seen of a lock.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LockEvidence {
    /// Where it is
    pub address: u64,
    /// What lies there, in words
    pub place: String,
    /// Whether it lends its holder the priority of waiters
    pub inherits: bool,
    /// In how many looks threads waited for it
    pub looks: u32,
    /// How many threads waited on average, over all looks
    pub waiters: f64,
    /// The most that waited at once
    pub waiters_max: usize,
    /// How often its holder was known
    pub held: u32,
    /// … and wished to run, but was kept from running
    pub holder_kept: u32,
    /// … and slept or waited for something else
    pub holder_slept: u32,
    /// How often nobody held it although threads waited: they were on their way
    pub free: u32,
    /// The threads that held it most often, and how often
    pub holders: Vec<(i32, u32)>,
    /// How many waiters of a better priority waited for a holder that was kept from running, on
    /// average over all looks
    pub inverted: f64,
    /// The priorities of such a waiter and of the holder
    pub inversion: Option<(Priority, Priority)>,
    /// The functions from which threads came to wait, and how often they were found
    pub callers: Vec<(String, u32)>,
    /// How long waits in each of these functions lasted, as far as they were seen
    pub waits: Vec<CallerWaits>,
}

impl LockEvidence {
    /// In which part of the looks at which threads waited something was seen.
    pub fn part(&self, count: u32) -> f64 {
        f64::from(count) / f64::from(self.looks.max(1))
    }

    /// Whether the holder often sleeps, or waits for something else, while it has the lock.
    pub fn holder_sleeps(&self) -> bool {
        self.part(self.holder_slept) > OFTEN
    }
}

/// A lock while it is watched.
#[derive(Debug, Default)]
struct LockTrack {
    evidence: LockEvidence,
    waiters: u64,
    inverted: u64,
    is_other: bool,
    is_timed: bool,
    /// In how many looks something had moved.
    moves: u32,
    holders: BTreeMap<i32, u32>,
    /// The waiters at the last look with how often they had been given a CPU.
    last: BTreeMap<i32, u64>,
    stacks: Vec<Vec<u64>>,
}

/// The locks of a process.
#[derive(Debug)]
pub struct Locks {
    pid: i32,
    looks: u32,
    tracks: HashMap<u64, LockTrack>,
}

impl Locks {
    /// The locks of a process, before the first look.
    pub fn of(pid: i32) -> Locks {
        Locks { pid, looks: 0, tracks: HashMap::new() }
    }

    /// Adds the waits that a look saw, `interval_ns` after the look before.
    pub fn add(&mut self, waits: &[FutexWait], threads: &BTreeMap<i32, Track>, interval_ns: u64) {
        self.looks += 1;
        let mut by_address: HashMap<u64, Vec<&FutexWait>> = HashMap::new();
        for wait in waits {
            by_address.entry(wait.address).or_default().push(wait);
        }
        let mut by_address: Vec<_> = by_address.into_iter().collect();
        by_address.sort_unstable_by_key(|(address, waits)| (std::cmp::Reverse(waits.len()), *address));
        let mut read = 0;
        for (address, waits) in by_address {
            let is_known = self.tracks.contains_key(&address);
            let is_other = waits.iter().any(|wait| wait.kind == Kind::Other);
            if is_other && is_known {
                self.tracks.entry(address).or_default().is_other = true;
            }
            if is_other || (!is_known && self.tracks.len() >= ADDRESSES_MAX) {
                continue;
            }
            let track = self.tracks.entry(address).or_default();
            track.evidence.address = address;
            track.add_waiters(&waits, threads);
            read += 1;
            if read > READ_MAX {
                continue;
            }
            if let Some([lock, owner]) = memory::words::<2>(self.pid, address) {
                track.add_words(lock, owner, &waits, threads, interval_ns);
            }
            if track.stacks.len() < STACKS_MAX {
                track.stacks.push(memory::words_there::<STACK_WORDS>(self.pid, waits[0].stack));
            }
        }
    }

    /// Whether the words at an address are those of a mutex that one of these threads holds.
    pub fn is_held(&self, address: u64, threads: &BTreeMap<i32, Track>) -> bool {
        let is_held = |[lock, owner]: [u64; 2]| {
            (1..8).contains(&(lock & WORD)) && threads.contains_key(&((owner & WORD) as i32))
        };
        memory::words::<2>(self.pid, address).is_some_and(is_held)
    }

    /// Whether threads wait for a lock at this address, by what was seen until now.
    pub fn is_contended(&self, address: u64) -> bool {
        self.tracks.get(&address).is_some_and(LockTrack::counts)
    }

    /// What was seen, the lock with the most waiters first; each with the stacks of some waiters.
    pub fn evidence(self) -> Vec<(LockEvidence, Vec<Vec<u64>>)> {
        let looks = f64::from(self.looks.max(1));
        let of = |track: LockTrack| {
            let counts = track.counts();
            let mut holders: Vec<(i32, u32)> = track.holders.into_iter().collect();
            holders.sort_unstable_by_key(|&(tid, count)| (std::cmp::Reverse(count), tid));
            let evidence = LockEvidence {
                waiters: track.waiters as f64 / looks,
                inverted: track.inverted as f64 / looks,
                holders,
                ..track.evidence
            };
            counts.then_some((evidence, track.stacks))
        };
        let mut all: Vec<_> = self.tracks.into_values().filter_map(of).collect();
        all.sort_by(|(one, _), (other, _)| {
            other.waiters.total_cmp(&one.waiters).then(one.address.cmp(&other.address))
        });
        all
    }
}

impl LockTrack {
    /// Whether it is a lock that threads wait for, by rules 1 to 3.
    fn counts(&self) -> bool {
        let is_held = self.evidence.held > 0;
        !self.is_other && (is_held || !self.is_timed && self.is_moving())
    }

    fn is_moving(&self) -> bool {
        self.moves > 0 && self.moves * MOVES >= self.evidence.looks
    }

    fn add_waiters(&mut self, waits: &[&FutexWait], threads: &BTreeMap<i32, Track>) {
        let slices = |tid: i32| threads.get(&tid).map_or(0, |track| track.last().slices);
        let now: BTreeMap<i32, u64> = waits.iter().map(|wait| (wait.tid, slices(wait.tid))).collect();
        self.moves += u32::from(self.evidence.looks > 0 && now != self.last);
        self.last = now;
        self.evidence.looks += 1;
        self.evidence.waiters_max = self.evidence.waiters_max.max(waits.len());
        self.waiters += waits.len() as u64;
        self.is_timed |= waits.iter().any(|wait| wait.kind == Kind::Lock { timed: true });
        self.evidence.inherits |= waits.iter().any(|wait| wait.kind == Kind::Inheriting);
    }

    /// Adds the mutex's first two words of eight bytes: the lock word and a count, the holder and a
    /// count of users.
    fn add_words(
        &mut self,
        lock: u64,
        owner: u64,
        waits: &[&FutexWait],
        threads: &BTreeMap<i32, Track>,
        interval_ns: u64,
    ) {
        if lock & WORD == 0 {
            self.evidence.free += 1;
            return;
        }
        // A mutex with inheritance has its holder in the lock word itself.
        let owner = if self.evidence.inherits { lock & 0x3fff_ffff } else { owner & WORD };
        let owner = owner as i32;
        let is_waiter = waits.iter().any(|wait| wait.tid == owner);
        let Some(holder) = threads.get(&owner).filter(|_| !is_waiter) else { return };
        self.evidence.held += 1;
        *self.holders.entry(owner).or_default() += 1;
        let look = holder.last();
        if look.state != 'R' {
            self.evidence.holder_slept += 1;
        } else if (holder.ran_ns as f64) < HARDLY * interval_ns as f64 {
            self.evidence.holder_kept += 1;
            if !self.evidence.inherits {
                let priority = |wait: &&FutexWait| Some(threads.get(&wait.tid)?.last().priority);
                let better: Vec<Priority> =
                    waits.iter().filter_map(priority).filter(|it| *it > look.priority).collect();
                self.inverted += better.len() as u64;
                if let Some(best) = better.into_iter().max() {
                    self.evidence.inversion = Some((best, look.priority));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::thread::ThreadLook;
    use super::*;

    const MS: u64 = 1_000_000;

    fn thread(tid: i32, state: char, slices: u64, nice: i64) -> (i32, Track) {
        let look = ThreadLook { state, slices, priority: Priority::new(0, 0, nice), ..ThreadLook::default() };
        (tid, Track::begin(tid, look, true))
    }

    fn wait(tid: i32, kind: Kind) -> FutexWait {
        // Nothing can be read at this address.
        FutexWait { tid, address: 8, kind, value: 2, stack: 8 }
    }

    const UNTIMED: Kind = Kind::Lock { timed: false };

    #[test]
    fn waiters_that_come_and_go_wait_for_a_lock_and_parked_ones_do_not() {
        for (slices, is_lock) in [(1, false), (2, true)] {
            let mut locks = Locks::of(std::process::id() as i32);
            let waits = [wait(1, UNTIMED), wait(2, UNTIMED)];
            locks.add(&waits, &[thread(1, 'S', 1, 0), thread(2, 'S', 1, 0)].into(), MS);
            locks.add(&waits, &[thread(1, 'S', slices, 0), thread(2, 'S', 1, 0)].into(), MS);
            locks.add(&[], &BTreeMap::new(), MS);
            locks.add(&[], &BTreeMap::new(), MS);
            let is_contended = locks.is_contended(8);
            let seen = locks.evidence();
            assert_eq!((seen.len(), is_contended), (usize::from(is_lock), is_lock));
            assert!(seen.iter().all(|(lock, _)| lock.waiters == 1.0 && lock.waiters_max == 2));
        }
    }

    #[test]
    fn workers_that_park_one_after_the_other_are_idle() {
        let mut locks = Locks::of(std::process::id() as i32);
        for look in 0..40 {
            let parked = 1 + look / 20;
            let waits: Vec<FutexWait> = (0..parked).map(|tid| wait(tid, UNTIMED)).collect();
            locks.add(&waits, &BTreeMap::new(), MS);
        }
        assert!(locks.evidence().is_empty());
    }

    #[test]
    fn a_counter_that_was_two_for_a_while_is_no_lock() {
        let mut locks = Locks::of(std::process::id() as i32);
        locks.add(&[wait(1, UNTIMED)], &[thread(1, 'S', 1, 0)].into(), MS);
        locks.add(&[wait(1, UNTIMED)], &[thread(1, 'S', 2, 0)].into(), MS);
        locks.add(&[wait(1, Kind::Other)], &[thread(1, 'S', 3, 0)].into(), MS);
        assert!(locks.evidence().is_empty());
    }

    #[test]
    fn a_wait_with_a_limit_needs_a_holder() {
        let mut locks = Locks::of(std::process::id() as i32);
        for slices in 1..4 {
            let waits = [wait(1, Kind::Lock { timed: true })];
            locks.add(&waits, &[thread(1, 'S', slices, 0)].into(), MS);
        }
        assert!(locks.evidence().is_empty());
    }

    #[test]
    fn a_holder_that_is_kept_from_running_inverts_waiters_of_better_priority() {
        let threads: BTreeMap<_, _> =
            [thread(1, 'S', 1, 0), thread(2, 'S', 1, 19), thread(9, 'R', 1, 10)].into();
        let waits = [wait(1, UNTIMED), wait(2, UNTIMED)];
        let waits: Vec<&FutexWait> = waits.iter().collect();
        let mut track = LockTrack::default();
        track.add_words(2, 9 | 1 << 32, &waits, &threads, MS);
        assert_eq!((track.evidence.held, track.evidence.holder_kept, track.inverted), (1, 1, 1));
        let (better, worse) = track.evidence.inversion.unwrap();
        assert_eq!((better.to_string(), worse.to_string()), ("nice 0".into(), "nice 10".into()));
    }

    #[test]
    fn a_holder_is_believed_only_if_it_is_a_thread_that_does_not_wait_there() {
        let threads: BTreeMap<_, _> = [thread(1, 'S', 1, 0)].into();
        let waits = [wait(1, UNTIMED)];
        let waits: Vec<&FutexWait> = waits.iter().collect();
        for (lock, owner, held, free) in [(2, 1, 0, 0), (2, 77, 0, 0), (0, 1, 0, 1)] {
            let mut track = LockTrack::default();
            track.add_words(lock, owner, &waits, &threads, MS);
            assert_eq!((track.evidence.held, track.evidence.free), (held, free), "{lock} {owner}");
        }
    }
}
