//! What threads see of a range lock can be explained by one order of their calls.
//!
//! Threads take and give back ranges for a few calls each, and note when each call began and when
//! it ended, on a counter that they share. Then an order is looked for in which each call stands at
//! one moment between its two, and its answer is what a list of held ranges would have answered (J.
//! M. Wing and C. Gong, "Testing and verifying concurrent objects", 1993): calls are put behind
//! each other in all ways that their times allow. What is held after some calls does not depend on
//! their order, so a set of calls that led nowhere is not tried again.
//!
//! A `try_lock` that fails has to be explained, too: by a range that is in its way at that moment.
//! Where a lock gives back a range part by part, or looks for what is in the way without stopping
//! the others, a range that is given back meanwhile will do ([`Failure::WhileGivenBack`]).
//!
//! The tests of the default lock use this, and those of the package `baselines`.
#![allow(dead_code, reason = "each test uses a part of it")]

use fastrand::Rng;
use manx::range::{Access, RawRangeLock, Span};
use std::collections::HashSet;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// What explains a `try_lock` that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// A range in the way is held at that moment.
    WhileHeld,
    /// Or it is given back during the call.
    WhileGivenBack,
}

#[derive(Clone, Debug)]
pub enum What {
    Try {
        span: Span<u64>,
        access: Access,
        had: bool,
    },
    /// Of what the call with this number took.
    Unlock {
        taken: usize,
    },
}

/// A call, and when it began and ended.
#[derive(Clone, Debug)]
pub struct Call {
    pub began: u64,
    pub ended: u64,
    pub what: What,
}

/// Whether what two calls take cannot be held together.
fn conflict(one: &Call, other: &Call) -> bool {
    match (&one.what, &other.what) {
        (What::Try { span, access, .. }, What::Try { span: other, access: its, .. }) => {
            access.conflicts_with(*its) && span.overlaps(other)
        }
        _ => false,
    }
}

/// Looks for an order that explains a history of at most 64 calls.
struct Search<'a> {
    calls: &'a [Call],
    failure: Failure,
    /// Sets of calls that lead nowhere.
    vain: HashSet<u64>,
}

impl Search<'_> {
    /// Returns whether the calls that are not among `done` can come after the calls that are.
    fn from(&mut self, done: u64) -> bool {
        if done.count_ones() as usize == self.calls.len() {
            return true;
        }
        if self.vain.contains(&done) {
            return false;
        }
        let left = || (0..self.calls.len()).filter(|at| done & 1 << at == 0);
        // Whatever comes next began before any of the others had ended.
        let first_end = left().map(|at| self.calls[at].ended).min().expect("some are left");
        let next: Vec<usize> =
            left().filter(|&at| self.calls[at].began < first_end && self.is_explained(at, done)).collect();
        let found = next.into_iter().any(|at| self.from(done | 1 << at));
        if !found {
            self.vain.insert(done);
        }
        found
    }

    fn is_explained(&self, at: usize, done: u64) -> bool {
        let call = &self.calls[at];
        let What::Try { had, .. } = call.what else { return true };
        let mut given_back = 0_u64;
        let mut given_back_meanwhile = 0_u64;
        for (unlock, other) in self.calls.iter().enumerate() {
            if let What::Unlock { taken } = other.what {
                if done & 1 << unlock != 0 {
                    given_back |= 1 << taken;
                }
                if other.began < call.ended && call.began < other.ended {
                    given_back_meanwhile |= 1 << taken;
                }
            }
        }
        let in_the_way = |among: u64| {
            self.calls.iter().enumerate().any(|(taken, other)| {
                matches!(other.what, What::Try { had: true, .. })
                    && among & 1 << taken != 0
                    && conflict(call, other)
            })
        };
        let is_held = in_the_way(done & !given_back);
        match (had, self.failure) {
            (true, _) => !is_held,
            (false, Failure::WhileHeld) => is_held,
            (false, Failure::WhileGivenBack) => is_held || in_the_way(given_back_meanwhile),
        }
    }
}

pub fn is_linearizable(calls: &[Call], failure: Failure) -> bool {
    assert!(calls.len() <= 64, "a set of calls is a word");
    Search { calls, failure, vain: HashSet::new() }.from(0)
}

pub const KEYS: u64 = 8;
const TRIES: usize = 6;

/// Some calls of one thread, the numbers in `Unlock` being those of its own calls.
fn run<L: RawRangeLock>(lock: &L, time: &AtomicU64, draw: &mut Rng) -> Vec<Call> {
    let now = || time.fetch_add(1, Ordering::SeqCst);
    let mut calls: Vec<Call> = Vec::new();
    let mut held: Vec<(usize, L::Held)> = Vec::new();
    let mut tries = 0;
    loop {
        if tries == TRIES && held.is_empty() {
            return calls;
        }
        if tries == TRIES || draw.u64(..3) == 0 && !held.is_empty() {
            let (taken, what) = held.swap_remove(draw.u64(..held.len() as u64) as usize);
            let began = now();
            // SAFETY: taken below, and given back once.
            unsafe { lock.unlock(what) };
            calls.push(Call { began, ended: now(), what: What::Unlock { taken } });
            continue;
        }
        tries += 1;
        let (one, other) = (draw.u64(..KEYS), draw.u64(..KEYS));
        let span = match draw.u64(..8) {
            0 => Span::all(),
            1..3 => Span::point(one),
            _ => Span::new(one.min(other), one.max(other) + 1).expect("it has a key"),
        };
        let access = if L::SHARES && draw.u64(..2) == 0 { Access::Shared } else { Access::Exclusive };
        let began = now();
        let result = lock.try_lock(&span, access);
        let ended = now();
        let had = result.is_some();
        held.extend(result.map(|result| (calls.len(), result)));
        calls.push(Call { began, ended, what: What::Try { span, access, had } });
        if draw.u64(..4) == 0 {
            thread::yield_now();
        }
    }
}

/// Histories of two to four threads; returns how many calls of different threads ran at the same
/// time.
pub fn histories_are_linearizable<L: RawRangeLock>(make: impl Fn() -> L, failure: Failure) {
    const ROUNDS: u64 = 3_000;
    let rounds = if testing::full() { 100 * ROUNDS } else { ROUNDS };
    let together = AtomicU64::new(0);
    for threads in 2..=4 {
        let lock = make();
        let time = AtomicU64::new(0);
        let begin = Barrier::new(threads);
        let mut histories: Vec<Vec<Vec<Call>>> = Vec::new();
        thread::scope(|scope| {
            let running: Vec<_> = (0..threads)
                .map(|me| {
                    let (lock, time, begin) = (&lock, &time, &begin);
                    scope.spawn(move || {
                        let mut draw = Rng::with_seed(me as u64);
                        (0..rounds)
                            .map(|_| {
                                begin.wait();
                                run(lock, time, &mut draw)
                            })
                            .collect::<Vec<_>>()
                    })
                })
                .collect();
            histories.extend(running.into_iter().map(|thread| thread.join().expect("all rounds")));
        });
        for round in 0..rounds as usize {
            let mut calls: Vec<Call> = Vec::new();
            for history in &histories {
                let before = calls.len();
                calls.extend(history[round].iter().cloned());
                for call in &mut calls[before..] {
                    if let What::Unlock { taken } = &mut call.what {
                        *taken += before;
                    }
                }
            }
            let overlaps = calls
                .iter()
                .any(|one| calls.iter().any(|other| one.began < other.began && other.began < one.ended));
            together.fetch_add(u64::from(overlaps), Ordering::Relaxed);
            assert!(is_linearizable(&calls, failure), "{}: no order explains {calls:#?}", L::NAME);
        }
    }
    println!("{}: {} of {} histories had calls at the same time", L::NAME, together.into_inner(), 3 * rounds);
}
