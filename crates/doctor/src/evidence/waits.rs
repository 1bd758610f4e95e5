//! How long each wait for a lock lasts, and in which function: off-CPU time by caller.
//!
//! Looks tell how many threads wait and where, ten times a second. They do not tell whether a
//! thread waited once for a second or a thousand times for a millisecond. So threads that were seen
//! at contended locks (`locks.rs`) are followed by `platform::perf::OffCpu`, which notes each sleep
//! with its length, the arguments of the system call, and the top of the stack. The first argument
//! is the lock (`futex.rs`), and the stack tells the function (`code.rs`). Sleeps for other reasons
//! are left out. A wait is one sleep: a thread that wakes, finds the lock taken and sleeps again
//! has waited twice, so to take a lock that others take first may last much longer than a wait. A
//! wait lasts until the thread runs again, so a wait for a CPU after it is in it.
//!
//! This needs the right to observe the kernel (`perf_event_paranoid` of at most 1, `CAP_PERFMON` or
//! root). Without it there are no such figures, and the rest of the evidence is as always.
//!
//! *Cost.* A noted sleep costs the program about 1 µs. At most [`THREADS_MAX`] threads are
//! followed, and of each at most `OffCpu::SLEEPS_MAX` sleeps between two looks, after which the
//! kernel stops noting. At ten looks a second these are 1,280 sleeps a second, or 0.13 % of one
//! CPU. A thread that sleeps very often pays at each switch for an event that stands still, too, so
//! it rests: it is followed between two looks of five only. Threads that sleep often are seen in
//! the first sleeps after a look, whatever their length. So the percentiles of each thread are
//! right, but in those of a function a thread that sleeps often counts for less than its part.
//!
//! Which threads: at each look one at each lock where no thread is followed, then the others. A
//! thread that was not seen at a lock for a while gives its place to another one, and so does a
//! thread with enough waits, so that a thread that waits longer than others is found.
//!
//! 1. At most [`THREADS_MAX`] threads are followed, and no more than the process was given.
//! 2. At most `TALLIES_MAX` pairs of a lock and a stack are told apart. The waits of further ones
//!    count for their lock, without a function, or, if there is no room for that either, are
//!    counted as left out.

use super::futex;
use super::sampler::points_into;
use platform::perf::{OffCpu, Sleep, State};
use preload_abi::histogram::{Counts, bucket_of};
use serde::Serialize;
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// How many threads are followed at once.
pub const THREADS_MAX: usize = 8;
/// How many pairs of a lock and a stack are told apart.
const TALLIES_MAX: usize = 256;
/// How many words of a stack that point into code are kept: the first is the caller, if it is no
/// leftover of an earlier call, and no function of the program that takes locks.
const CALLERS_MAX: usize = 4;
/// A thread that was seen at no lock for this number of looks is followed no longer.
const LOOKS_IDLE: u32 = 20;
/// After this number of waits a thread gives its place to another one that waits.
const WAITS_ENOUGH: u64 = 64;
/// A thread that sleeps as often as is noted at most in a shorter time rests: 1,600 times a second.
const RESTS_NS: u64 = 10_000_000;
/// … for this number of looks.
const LOOKS_REST: u32 = 4;
/// How many functions are kept for each lock.
const FUNCTIONS_MAX: usize = 16;
/// Fewer waits have no 99th percentile: it would be the maximum.
const P99_MIN: u64 = 100;
/// The name of a function that could not be found out.
const UNKNOWN: &str = "an unknown function";

/// The waits for a lock in one function, as far as they were seen.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CallerWaits {
    /// The function from which threads came to wait, and its module
    pub function: String,
    /// How many waits were seen
    pub count: u64,
    /// How long they took in all, in ns
    pub waited_ns: u64,
    /// The median, at most a tenth too long, in ns
    pub p50_ns: u64,
    /// The 99th percentile, at most a tenth too long, in ns; `None` of fewer than 100 waits
    pub p99_ns: Option<u64>,
    /// The longest one, in ns
    pub max_ns: u64,
    /// Where each bucket that is not empty ends, in ns, and how many waits it has
    pub histogram: Vec<(u64, u64)>,
}

/// Waits that were seen.
#[derive(Clone, Debug, Default)]
struct Tally {
    counts: Counts,
    waited_ns: u64,
    max_ns: u64,
}

impl Tally {
    fn add(&mut self, ns: u64) {
        self.counts.0[bucket_of(ns)] += 1;
        self.waited_ns = self.waited_ns.saturating_add(ns);
        self.max_ns = self.max_ns.max(ns);
    }

    fn merge(&mut self, other: &Tally) {
        self.counts.add(&other.counts);
        self.waited_ns = self.waited_ns.saturating_add(other.waited_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    fn evidence(&self, function: String) -> CallerWaits {
        let count = self.counts.count();
        // A bucket ends behind the longest wait that it has.
        let percentile = |share| self.counts.percentile(share).unwrap_or(0).min(self.max_ns);
        CallerWaits {
            function,
            count,
            waited_ns: self.waited_ns,
            p50_ns: percentile(0.5),
            p99_ns: (count >= P99_MIN).then(|| percentile(0.99)),
            max_ns: self.max_ns,
            histogram: self.counts.filled().map(|(end_ns, count)| (end_ns.min(self.max_ns), count)).collect(),
        }
    }
}

/// The lock, and the first words of the stack that point into code outside of the C library.
type Key = (u64, [u64; CALLERS_MAX]);

/// A thread that is followed.
#[derive(Debug)]
struct Followed {
    off_cpu: OffCpu,
    /// The lock where it was seen last, and at which look.
    lock: u64,
    look: u32,
    waits: u64,
}

/// The waits of a process.
#[derive(Debug)]
pub struct Waits {
    most: usize,
    /// Where callers are: code outside of the C library.
    code: Vec<Range<u64>>,
    looks: u32,
    open: HashMap<i32, Followed>,
    /// Threads that rest, and since which look.
    resting: HashMap<i32, u32>,
    /// Why threads cannot be followed.
    refused: Option<i32>,
    tallies: HashMap<Key, Tally>,
    left_out: u64,
    lost: u64,
}

impl Waits {
    /// Follows at most this many threads.
    pub fn new(most: usize) -> Waits {
        Waits {
            most: most.min(THREADS_MAX),
            code: Vec::new(),
            looks: 0,
            open: HashMap::new(),
            resting: HashMap::new(),
            refused: None,
            tallies: HashMap::new(),
            left_out: 0,
            lost: 0,
        }
    }

    /// Says where there is code outside of the C library, in ascending order.
    pub fn set_code(&mut self, code: Vec<Range<u64>>) {
        self.code = code;
    }

    /// Collects what was noted since the last call, of these locks.
    pub fn drain(&mut self, is_lock: impl Fn(u64) -> bool) {
        let Waits { open, resting, looks, tallies, code, left_out, lost, .. } = self;
        open.retain(|tid, Followed { off_cpu, waits, .. }| {
            let state = off_cpu.drain(|sleep| {
                if let Some(key) = key(&sleep, code, &is_lock) {
                    *waits += 1;
                    add(tallies, key, sleep.ns, left_out);
                }
            });
            *lost += off_cpu.lost();
            match state {
                State::Noting => true,
                State::Stopped { took_ns } if took_ns < RESTS_NS => {
                    resting.insert(*tid, *looks);
                    false
                }
                State::Stopped { .. } => {
                    off_cpu.resume();
                    true
                }
                // It notes nothing any more, and may be followed again.
                State::Lost => false,
            }
        });
    }

    /// Follows threads that wait for contended locks at this look: each with its lock. It leaves
    /// threads that have ended or that wait no more.
    pub fn follow(&mut self, waiting: &[(i32, u64)], is_there: impl Fn(i32) -> bool) {
        self.looks += 1;
        for (tid, lock) in waiting {
            if let Some(followed) = self.open.get_mut(tid) {
                (followed.lock, followed.look) = (*lock, self.looks);
            }
        }
        let looks = self.looks;
        self.open.retain(|tid, followed| is_there(*tid) && looks - followed.look <= LOOKS_IDLE);
        self.resting.retain(|_, since| looks - *since <= LOOKS_REST);
        let mut locks: HashSet<u64> = self.open.values().map(|followed| followed.lock).collect();
        let is_new = |tid| !self.open.contains_key(tid) && !self.resting.contains_key(tid);
        let new = waiting.iter().filter(|(tid, _)| is_new(tid));
        let (first, others): (Vec<_>, Vec<_>) = new.partition(|(_, lock)| locks.insert(*lock));
        let mut is_full = false;
        for &(tid, lock) in first.into_iter().chain(others) {
            if self.refused.is_some() {
                return;
            }
            if self.open.len() >= self.most {
                // One place is changed at each look.
                if is_full || !self.leave_one() {
                    return;
                }
                is_full = true;
            }
            match OffCpu::of_thread(tid.cast_unsigned()) {
                Ok(off_cpu) => {
                    self.open.insert(tid, Followed { off_cpu, lock, look: looks, waits: 0 });
                }
                // It has ended meanwhile.
                Err(libc::ESRCH) => {}
                Err(error) => self.refused = Some(error),
            }
        }
    }

    /// Stops following the thread with the most waits, if it has at least [`WAITS_ENOUGH`] of them.
    /// Returns whether there was one.
    fn leave_one(&mut self) -> bool {
        let known = self.open.iter().filter(|(_, followed)| followed.waits >= WAITS_ENOUGH);
        let most = known.max_by_key(|(tid, followed)| (followed.waits, **tid)).map(|(tid, _)| *tid);
        most.is_some_and(|tid| self.open.remove(&tid).is_some())
    }

    /// Why threads could not be followed, if none was.
    pub fn refusal(&self) -> Option<i32> {
        self.refused.filter(|_| self.open.is_empty() && self.tallies.is_empty())
    }

    /// How many records were lost.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// How many waits there was no room for.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// The waits for a lock by function, those that took longest in all first. `caller` names the
    /// function of a stack.
    pub fn at(&self, lock: u64, mut caller: impl FnMut(&[u64]) -> Option<String>) -> Vec<CallerWaits> {
        let mut functions: HashMap<String, Tally> = HashMap::new();
        for ((_, words), tally) in self.tallies.iter().filter(|((address, _), _)| *address == lock) {
            let function = caller(words).unwrap_or_else(|| UNKNOWN.to_owned());
            functions.entry(function).or_default().merge(tally);
        }
        let named = functions.into_iter().map(|(function, tally)| tally.evidence(function));
        let mut waits: Vec<CallerWaits> = named.collect();
        waits.sort_by(|one, other| {
            other.waited_ns.cmp(&one.waited_ns).then_with(|| one.function.cmp(&other.function))
        });
        waits.truncate(FUNCTIONS_MAX);
        waits
    }
}

/// Where a sleep counts; `None` if it is no wait for a lock.
fn key(sleep: &Sleep<'_>, code: &[Range<u64>], is_lock: impl Fn(u64) -> bool) -> Option<Key> {
    let lock = futex::locks(sleep.call.as_ref()?).find(|lock| is_lock(*lock))?;
    let mut callers = [0; CALLERS_MAX];
    let words = sleep.stack.iter().filter(|word| points_into(code, **word));
    callers.iter_mut().zip(words).for_each(|(caller, word)| *caller = *word);
    Some((lock, callers))
}

/// Counts a wait (Invariant 2).
fn add(tallies: &mut HashMap<Key, Tally>, key: Key, ns: u64, left_out: &mut u64) {
    let without = (key.0, [0; CALLERS_MAX]);
    let has_room = tallies.len() < TALLIES_MAX;
    let key = if has_room || tallies.contains_key(&key) { key } else { without };
    if has_room || tallies.contains_key(&key) {
        tallies.entry(key).or_default().add(ns);
    } else {
        *left_out += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use platform::perf::Call;

    const US: u64 = 1_000;

    fn sleep(arguments: [u64; 4], stack: &[u64]) -> Sleep<'_> {
        Sleep { ns: US, call: Some(Call { number: None, arguments }), stack }
    }

    #[test]
    fn a_wait_counts_for_its_lock_and_for_words_that_point_into_code() {
        let code = [100..200, 300..400];
        let stack = [7, 150, 250, 399, 100, 101, 102];
        let wait = sleep([0x4000, 128, 2, 0], &stack);
        let is_lock = |address| address == 0x4000;
        assert_eq!(key(&wait, &code, is_lock), Some((0x4000, [150, 399, 100, 101])));
        assert_eq!(key(&wait, &[], is_lock), Some((0x4000, [0; 4])));
        assert_eq!(
            key(&sleep([0x4000, 128 | 9, 40, 0], &stack), &code, is_lock),
            None,
            "a condition variable"
        );
        assert_eq!(key(&Sleep { call: None, ..wait }, &code, is_lock), None);
    }

    #[test]
    fn functions_have_percentiles_and_the_one_that_waited_longest_comes_first() {
        let (mut waits, mut left_out) = (Waits::new(1), 0);
        for (word, ns, count) in [(1, 80 * US, 95), (2, 80 * US, 100), (1, 3_000 * US, 5), (3, US, 1)] {
            let key = (8, [word, 0, 0, 0]);
            (0..count).for_each(|_| add(&mut waits.tallies, key, ns, &mut left_out));
        }
        add(&mut waits.tallies, (16, [1; 4]), 9_000 * US, &mut left_out);
        let name = |words: &[u64]| ["take_order (app)", "pay (app)"].get(words[0] as usize - 1);
        let seen = waits.at(8, |words| name(words).map(ToString::to_string));
        let functions: Vec<&str> = seen.iter().map(|it| it.function.as_str()).collect();
        assert_eq!(functions, ["take_order (app)", "pay (app)", UNKNOWN]);
        let first = &seen[0];
        assert_eq!((first.count, first.max_ns, first.waited_ns), (100, 3_000 * US, 22_600 * US));
        assert!((80 * US..89 * US).contains(&first.p50_ns), "{first:?}");
        assert_eq!(first.p99_ns, Some(3_000 * US), "no more than the maximum");
        assert_eq!(first.histogram.len(), 2);
        assert_eq!(first.histogram.iter().map(|(_, count)| count).sum::<u64>(), 100);
        assert_eq!((seen[2].p50_ns, seen[2].p99_ns, seen[2].max_ns), (US, None, US));
    }

    #[test]
    fn more_stacks_than_there_is_room_for_count_for_their_lock() {
        let (mut tallies, mut left_out) = (HashMap::new(), 0);
        add(&mut tallies, (8, [0; 4]), US, &mut left_out);
        for word in 1..=2 * TALLIES_MAX as u64 {
            add(&mut tallies, (8, [word; 4]), US, &mut left_out);
        }
        assert_eq!((tallies.len(), left_out), (TALLIES_MAX, 0));
        assert_eq!(tallies[&(8, [0; 4])].counts.count(), TALLIES_MAX as u64 + 2);
        add(&mut tallies, (16, [1; 4]), US, &mut left_out);
        assert_eq!((tallies.len(), left_out), (TALLIES_MAX, 1));
    }

    #[test]
    fn no_more_threads_are_followed_than_there_is_room_for() {
        let own = platform::thread::id() as i32;
        let mut none = Waits::new(0);
        none.follow(&[(own, 8)], |_| true);
        assert!(none.refusal().is_none() && none.open.is_empty());
        let mut one = Waits::new(1);
        one.follow(&[(own, 8), (own, 16)], |_| true);
        assert!(one.open.len() == 1 || one.refusal().is_some());
        one.follow(&[], |_| false);
        assert!(one.open.is_empty());
    }

    #[test]
    fn a_thread_that_waits_no_more_is_left() {
        let own = platform::thread::id() as i32;
        let mut waits = Waits::new(1);
        waits.follow(&[(own, 8)], |_| true);
        if waits.refusal().is_some() {
            return;
        }
        (0..LOOKS_IDLE).for_each(|_| waits.follow(&[], |_| true));
        assert_eq!(waits.open.len(), 1);
        waits.follow(&[], |_| true);
        assert!(waits.open.is_empty());
    }
}
