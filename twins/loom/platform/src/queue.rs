//! The queues of a futex: ordinary memory outside of the model. One thread runs at a time, and
//! nothing switches threads while they are locked.

use crate::atomic::{AtomicU32, AtomicU64};
use crate::checker::thread::{self, Thread};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A thread in a queue. Places stand for words; a ticket is nobody else's in its execution.
pub(crate) struct Waiter {
    pub place: usize,
    pub ticket: u64,
    pub set: u32,
    pub expected: u32,
    /// The word was compared, and had the value expected.
    pub compared: bool,
    /// The word changed, under the kernel's lock, before it was compared.
    pub changed: bool,
    pub woken: bool,
    pub thread: Thread,
}

/// All queues, in the order of arrival.
#[derive(Default)]
pub(crate) struct Queues {
    pub waiters: Vec<Waiter>,
    tickets: u64,
}

crate::global! {
    static QUEUES: Mutex<Queues> = Mutex::new(Queues::default());
}

/// Never held across a step of the model, so it is always free.
pub(crate) fn queues() -> MutexGuard<'static, Queues> {
    let queues: &'static Mutex<Queues> = &QUEUES;
    queues.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn place(word: *const AtomicU32) -> usize {
    word.addr()
}

/// The key of a word's upper half; here, the address of the whole.
pub const fn upper(word: *const AtomicU64) -> *const AtomicU32 {
    word.cast()
}

/// Stands in the queue of `word`; returns its ticket.
pub(crate) fn enter(word: *const AtomicU32, expected: u32, set: u32) -> u64 {
    let thread = thread::current();
    let mut queues = queues();
    queues.tickets += 1;
    let ticket = queues.tickets;
    let (compared, changed, woken) = (false, false, false);
    queues.waiters.push(Waiter {
        place: place(word),
        ticket,
        set,
        expected,
        compared,
        changed,
        woken,
        thread,
    });
    ticket
}

/// Takes the waiter with this ticket out of its queue, if it was woken or nobody waits for that.
pub(crate) fn leave(ticket: u64, only_if_woken: bool) -> bool {
    let mut queues = queues();
    let at = queues.waiters.iter().position(|waiter| waiter.ticket == ticket).expect("it is queued");
    let woken = queues.waiters[at].woken;
    if woken || !only_if_woken {
        queues.waiters.remove(at);
    }
    woken
}

/// Whether the waiter with this ticket sleeps, having seen this value.
pub(crate) fn compare(ticket: u64, seen: u32) -> bool {
    let mut queues = queues();
    let waiter = queues.waiters.iter_mut().find(|waiter| waiter.ticket == ticket).expect("it is queued");
    waiter.compared = seen == waiter.expected && !waiter.changed;
    waiter.compared
}
