//! Mutexes that pass in the order of arrival: `--lock=fifo`.
//!
//! The threads of `--lock=asl` whose window is 0 stand in such a line, too.
//!
//! A queue lock (Mellor-Crummey and Scott, 1991, in the K42 system's variant: a node is in the
//! queue only while its thread waits, so `unlock` needs none). The first waiter in line competes
//! for `word` only with callers of `trylock`, callers with a limit, and the C library's own
//! functions. When it gets `word` it lets the next waiter be first. So exclusion is by `word`
//! alone, in the C library's protocol, and the queue decides which thread asks. Waiters spin for a
//! little, then sleep: the first on `word`, the others on their nodes.
//!
//! **A waiter may vanish.** A handler of a signal may leave the wait by `siglongjmp`, and
//! asynchronous cancellation ends the thread there. Then its node stays in the line, and nobody
//! passes the mutex on. So nodes are places in a table of this library, and not on stacks: such a
//! node is lost, but nothing else is. And a waiter behind it that twice, `PATIENCE_NS` apart,
//! finds the mutex free, or handed off to a thread that does not come, waits for its turn no more,
//! but asks, and goes on as the first waiter does.
//!
//! `tail` is the number of the last node, from 1, and in its upper half the
//! [generation](platform::fork) of the process. In a child that was forked while others waited,
//! what it finds there is of another generation, and the line is empty.
//!
//! | `state` | the node's waiter |
//! | --- | --- |
//! | `WAITING` | another waiter is before it |
//! | `ASLEEP` | the same, and it sleeps |
//! | `FIRST` | it is the first |
//! | `LEFT` | it has left before it was the first |
//!
//! Invariants:
//! 1. A node is written by its owner, its successor and its predecessor only. The successor writes
//!    `next` once, before it waits. The predecessor makes `state` `FIRST` once, after it has read
//!    `next`.
//! 2. A thread leaves `acquire` when either no waiter was behind it and `tail` was made empty, or
//!    the waiter behind it was told that it is first.
//! 3. Of the two steps of a node's `state` to `FIRST` and to `LEFT`, the second one gives the
//!    node back. A node is not given back if its predecessor has vanished, or if its successor has
//!    vanished before it wrote `next`.
//!
//! # Memory orderings
//! A thread that enters releases `tail` and `next`, and the thread that tells it acquires them;
//! `state` likewise the other way round, and `owner` when the node is given back. What the mutex
//! protects is ordered by `word`.

use super::object::Mutex;
use crate::thread;
use core::sync::atomic::{AtomicU32, Ordering};
use manx::lock::bounded;
use platform::futex::Outcome;
use platform::{cpu, fork, futex};

/// `word`: held, and perhaps a thread sleeps.
const SLEEPERS: u32 = 2;
/// How often a waiter looks before it sleeps.
const SPINS: u32 = 200;

/// How long a holder sleeps at a time for a successor that was preempted between two instructions …
const SLEEP_NS: u64 = 20_000;
/// … and how often at most: for a second and more.
const SLEEPS_MAX: u32 = 50_000;
/// How long a waiter sleeps before it looks whether the mutex is free although nobody takes it.
const PATIENCE_NS: u64 = 50_000_000;

/// See the module's text, here and below.
const WAITING: u32 = 0;
const ASLEEP: u32 = 1;
const FIRST: u32 = 2;
const LEFT: u32 = 3;

/// A place in line. Alone on its cache line, since its waiter looks at it.
#[repr(align(64))]
struct Node {
    /// The generation of the process in which it is used; another one: it is free.
    owner: AtomicU32,
    /// The number of the node behind it; 0: not yet known, or none.
    next: AtomicU32,
    state: AtomicU32,
}

/// How many threads can stand in line, at all mutexes together.
const NODES: usize = 1024;
static TABLE: [Node; NODES] =
    [const { Node { owner: AtomicU32::new(0), next: AtomicU32::new(0), state: AtomicU32::new(WAITING) } };
        NODES];

/// The node of a number that is not 0.
fn node(number: u32) -> &'static Node {
    &TABLE[(number as usize - 1) % NODES]
}

/// A free node's number.
fn take_node() -> Option<u32> {
    let (generation, first) = (fork::generation(), thread::tid() as usize);
    (first..first + NODES).map(|at| (at % NODES) as u32 + 1).find(|&number| {
        let node = node(number);
        let owner = node.owner.load(Ordering::Relaxed);
        let taken = owner != generation
            && node.owner.compare_exchange(owner, generation, Ordering::Acquire, Ordering::Relaxed).is_ok();
        if taken {
            node.next.store(0, Ordering::Relaxed);
            node.state.store(WAITING, Ordering::Relaxed);
        }
        taken
    })
}

fn give_back(number: u32) {
    node(number).owner.store(0, Ordering::Release);
}

const NUMBER: u64 = u32::MAX as u64;

/// The generation of the process, as it stands in `tail`.
fn generation() -> u64 {
    u64::from(fork::generation()) << u32::BITS
}

/// Takes the mutex if it is free and no thread stands in line.
pub(super) fn try_acquire(mutex: &Mutex) -> bool {
    is_empty(mutex) && bounded::try_acquire(&mutex.word)
}

/// Whether no thread stands in line.
#[inline]
pub(super) fn is_empty(mutex: &Mutex) -> bool {
    let tail = mutex.tail.load(Ordering::Relaxed);
    tail == 0 || tail & !NUMBER != generation()
}

/// Stands in line until the mutex is had. Without a place in line, asks out of turn.
pub(super) fn acquire(mutex: &Mutex) {
    acquire_by(mutex, || take_word(mutex));
}

/// The same; the first in line gets the mutex by `take`.
pub(super) fn acquire_by<R>(mutex: &Mutex, take: impl FnOnce() -> R) -> R {
    let Some(number) = take_node() else { return take() };
    let (me, generation) = (node(number), generation());
    let tail = u64::from(number) | generation;
    let before = mutex.tail.swap(tail, Ordering::AcqRel);
    if before & NUMBER != 0 && before & !NUMBER == generation {
        node(before as u32).next.store(number, Ordering::Release);
        wait_for_turn(me, mutex);
    } else {
        me.state.store(FIRST, Ordering::Relaxed);
    }
    let taken = take();
    if mutex.tail.compare_exchange(tail, 0, Ordering::AcqRel, Ordering::Relaxed).is_err() {
        match successor(me) {
            Some(next) => tell(next),
            // It has vanished, or comes and finds nobody who would tell it. By Invariant 3 the node
            // is lost.
            None => return taken,
        }
    }
    if me.state.swap(LEFT, Ordering::AcqRel) == FIRST {
        give_back(number);
    }
    taken
}

/// The node behind this one, which has entered the line. It is about to say so: in a few
/// instructions, unless it was preempted there. Then a real-time thread that merely yielded would
/// never let it run. `None` if it has vanished.
fn successor(me: &Node) -> Option<u32> {
    for look in 0..SPINS + SLEEPS_MAX {
        let next = me.next.load(Ordering::Acquire);
        if next != 0 {
            return Some(next);
        }
        if look < SPINS { cpu::pause() } else { platform::thread::sleep_ns(SLEEP_NS) }
    }
    None
}

/// Tells a waiter that it is the first.
fn tell(number: u32) {
    let state = &node(number).state;
    match state.swap(FIRST, Ordering::AcqRel) {
        // Another waiter may have the node by now, and is woken in vain.
        ASLEEP => {
            futex::wake(state, 1);
        }
        LEFT => give_back(number),
        _ => {}
    }
}

fn wait_for_turn(me: &Node, mutex: &Mutex) {
    for _ in 0..SPINS {
        if me.state.load(Ordering::Acquire) == FIRST {
            return;
        }
        cpu::pause();
    }
    let asleep = me.state.compare_exchange(WAITING, ASLEEP, Ordering::AcqRel, Ordering::Acquire);
    let mut was_free = false;
    while asleep.is_ok() && me.state.load(Ordering::Acquire) != FIRST {
        if futex::wait_for(&me.state, ASLEEP, PATIENCE_NS) == Outcome::TimedOut {
            // Relaxed: the step that takes it acquires.
            let is_free = mutex.word.load(Ordering::Relaxed) == 0 || mutex.is_handed_off();
            if is_free && was_free {
                return;
            }
            was_free = is_free;
        }
    }
}

/// As the C library's slow path.
fn take_word(mutex: &Mutex) {
    for _ in 0..SPINS {
        if bounded::try_acquire(&mutex.word) {
            return;
        }
        cpu::pause();
    }
    while mutex.word.swap(SLEEPERS, Ordering::Acquire) != 0 {
        futex::wait(&mutex.word, SLEEPERS);
    }
}

/// Releases a mutex on whose `word` a thread may sleep.
pub(super) fn release(mutex: &Mutex) {
    if mutex.word.swap(0, Ordering::Release) > 1 {
        futex::wake(&mutex.word, 1);
    }
}
