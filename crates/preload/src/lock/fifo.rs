//! Mutexes that pass in the order of arrival: `--lock=fifo`.
//!
//! A queue lock whose nodes are on the waiters' stacks (Mellor-Crummey and Scott, 1991, in the K42
//! system's variant: a node is in the queue only while its thread waits, so `unlock` needs none).
//! The first waiter in line competes for `word` only with callers of `trylock`, callers with a
//! limit, and the C library's own functions. When it gets `word` it lets the next waiter be first.
//! So exclusion is by `word` alone, in the C library's protocol, and the queue decides which thread
//! asks. Waiters spin for a little, then sleep: the first on `word`, the others on their nodes.
//!
//! `tail` is the last node's address and, in its upper 16 bits, the [generation](platform::fork) of
//! the process. In a child that was forked while others waited, what it finds there is of another
//! generation, and the line is empty.
//!
//! Invariants:
//! 1. A node is reached by its successor and its predecessor only. The successor writes `next`
//!    once, before it waits; the predecessor writes `state` last, and then touches the node no
//!    more.
//! 2. A thread leaves `acquire` when its node is in the line no more: either no waiter is behind it
//!    and `tail` was made empty, or the waiter behind it was told that it is first.
//!
//! # Memory orderings
//! A thread that enters releases `tail` and `next`, and the thread that tells it acquires them;
//! `state` likewise the other way round. What the mutex protects is ordered by `word`.

use super::object::Mutex;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use manx::lock::bounded;
use platform::{cpu, fork, futex};

/// `word`: held, and perhaps a thread sleeps.
const SLEEPERS: u32 = 2;
/// How often a waiter looks before it sleeps.
const SPINS: u32 = 200;

/// How long a holder sleeps at a time for a successor that was preempted between two instructions.
const SLEEP_NS: u64 = 20_000;

/// `state`: another waiter is before this one.
const WAITING: u32 = 0;
/// `state`: another waiter is before this one, and this one sleeps.
const ASLEEP: u32 = 1;
/// `state`: this waiter is the first.
const FIRST: u32 = 2;

struct Node {
    next: AtomicPtr<Node>,
    state: AtomicU32,
}

const ADDRESS: u64 = (1 << 48) - 1;

/// The generation of the process, as it stands in `tail`.
fn generation() -> u64 {
    u64::from(fork::generation()) << ADDRESS.count_ones()
}

/// Takes the mutex if it is free and no thread stands in line.
pub(super) fn try_acquire(mutex: &Mutex) -> bool {
    let tail = mutex.tail.load(Ordering::Relaxed);
    let empty = tail == 0 || tail & !ADDRESS != generation();
    empty && bounded::try_acquire(&mutex.word)
}

/// Stands in line until the mutex is had.
pub(super) fn acquire(mutex: &Mutex) {
    let node = Node { next: AtomicPtr::new(core::ptr::null_mut()), state: AtomicU32::new(WAITING) };
    let generation = generation();
    let me = core::ptr::from_ref(&node) as u64 & ADDRESS | generation;
    let before = mutex.tail.swap(me, Ordering::AcqRel);
    if before & ADDRESS != 0 && before & !ADDRESS == generation {
        let before = (before & ADDRESS) as *const Node;
        // SAFETY: by Invariant 2 the node before this one is in the line until it has seen `next`.
        unsafe { (*before).next.store(core::ptr::from_ref(&node).cast_mut(), Ordering::Release) };
        wait_for_turn(&node);
    }
    take_word(mutex);
    let empty = mutex.tail.compare_exchange(me, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok();
    if empty {
        return;
    }
    let mut next = node.next.load(Ordering::Acquire);
    let mut looks = 0_u32;
    while next.is_null() {
        // It has entered, and is about to say so: a few instructions, unless it was preempted
        // there. Then a real-time thread that merely yielded would never let it run.
        looks = looks.saturating_add(1);
        if looks > SPINS {
            platform::thread::sleep_ns(SLEEP_NS)
        } else {
            cpu::pause()
        }
        next = node.next.load(Ordering::Acquire);
    }
    // SAFETY: the next one waits in the line until this step (Invariant 1).
    let state = unsafe { &(*next).state };
    let place = &raw const *state;
    if state.swap(FIRST, Ordering::AcqRel) == ASLEEP {
        // The node may be gone: its address is enough.
        futex::wake(place, 1);
    }
}

fn wait_for_turn(node: &Node) {
    for _ in 0..SPINS {
        if node.state.load(Ordering::Acquire) == FIRST {
            return;
        }
        cpu::pause();
    }
    let asleep = node.state.compare_exchange(WAITING, ASLEEP, Ordering::AcqRel, Ordering::Acquire);
    if asleep.is_ok() {
        while node.state.load(Ordering::Acquire) != FIRST {
            futex::wait(&node.state, ASLEEP);
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
