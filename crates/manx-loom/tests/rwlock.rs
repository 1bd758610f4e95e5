//! The readers-writer lock under loom: every order of steps that the memory model allows.
//!
//! Loom reports accesses to what the lock protects that are not ordered, and a deadlock if a wake-up is lost: who has an
//! unbounded window sleeps without a limit, and so does who is overdue. A window of 0 makes a waiter overdue
//! at once, so gates, turns and counts are all walked through. That loom would find what these tests look for is a
//! test of its own, at the end.

mod common;

use common::check;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use manx_loom::lock::RawRwLock;
use manx_loom::lock::bounded::{UNBOUNDED_NS, Wait};
use platform::futex::{Clock, Deadline};

/// May be overtaken for ever: asleep, never overdue.
const PATIENT: Wait = Wait { window_ns: Some(UNBOUNDED_NS), deadline: None, trusting: true };
/// Is overdue as soon as it waits.
const OVERDUE: Wait = Wait { window_ns: Some(0), deadline: None, trusting: true };
const SOON: Option<Deadline> = Some(Deadline { clock: Clock::Monotonic, ns: 2_000_000_000 });
/// Gives up: asleep, and overdue.
const HASTY: Wait = Wait { window_ns: Some(UNBOUNDED_NS), deadline: SOON, trusting: true };
const HASTY_OVERDUE: Wait = Wait { window_ns: Some(0), deadline: SOON, trusting: true };

/// A number, and how often it was written.
struct Shared {
    lock: RawRwLock,
    number: UnsafeCell<u32>,
}

// SAFETY: the number is used under the lock only, and that this suffices is what loom finds out.
unsafe impl Sync for Shared {}
// SAFETY: as above.
unsafe impl Send for Shared {}

impl Shared {
    fn new() -> Arc<Shared> {
        Arc::new(Shared { lock: RawRwLock::new(), number: UnsafeCell::new(0) })
    }

    fn write(&self, wait: &Wait) -> bool {
        let entered = self.lock.try_write() || self.lock.write_slow(wait).is_ok();
        if entered {
            self.add_one();
            // SAFETY: this thread is the writer.
            unsafe { self.lock.release_write() };
        }
        entered
    }

    fn read(&self, wait: &Wait) -> bool {
        let entered = self.lock.try_read() || self.lock.read_slow(wait).is_ok();
        if entered {
            self.look();
            // SAFETY: this thread is a reader.
            unsafe { self.lock.release_read() };
        }
        entered
    }

    fn write_and_downgrade(&self, wait: &Wait) {
        if !self.lock.try_write() {
            self.lock.write_slow(wait).unwrap();
        }
        self.add_one();
        let mine = self.look();
        // SAFETY: this thread is the writer.
        unsafe { self.lock.downgrade() };
        assert_eq!(self.look(), mine, "nobody writes in between");
        // SAFETY: this thread is a reader.
        unsafe { self.lock.release_read() };
    }

    /// By the writer.
    fn add_one(&self) {
        // SAFETY: the caller is the only one under the lock.
        self.number.with_mut(|number| unsafe { *number += 1 });
    }

    /// Under the lock.
    fn look(&self) -> u32 {
        // SAFETY: the caller has the lock, and nobody writes.
        self.number.with(|number| unsafe { *number })
    }
}

/// What a thread does.
#[derive(Clone, Copy)]
enum Role {
    Read(Wait),
    Write(Wait),
    Downgrade(Wait),
}

use Role::{Downgrade, Read, Write};

/// Each role in a thread of its own, the first one in this.
fn all_pass<const N: usize>(preemptions: usize, roles: [Role; N]) {
    check(preemptions, move || {
        let shared = Shared::new();
        let play = |shared: &Shared, role| match role {
            Read(wait) => shared.read(&wait),
            Write(wait) => shared.write(&wait),
            Downgrade(wait) => {
                shared.write_and_downgrade(&wait);
                true
            }
        };
        let others: Vec<_> = roles[1..]
            .iter()
            .map(|role| {
                let (shared, role) = (Arc::clone(&shared), *role);
                thread::spawn(move || play(&shared, role))
            })
            .collect();
        play(&shared, roles[0]);
        for other in others {
            other.join().unwrap();
        }
        assert!(!shared.lock.is_held());
        assert!(shared.lock.try_write(), "no gate is left closed");
    });
}

#[test]
fn writers_exclude_each_other() {
    all_pass(3, [Write(PATIENT), Write(PATIENT)]);
    all_pass(3, [Write(OVERDUE), Write(OVERDUE)]);
    all_pass(3, [Write(OVERDUE), Write(PATIENT)]);
}

#[test]
fn three_writers_all_pass() {
    all_pass(2, [Write(PATIENT), Write(PATIENT), Write(PATIENT)]);
    all_pass(2, [Write(OVERDUE), Write(OVERDUE), Write(OVERDUE)]);
    all_pass(2, [Write(OVERDUE), Write(PATIENT), Write(OVERDUE)]);
    all_pass(2, [Write(PATIENT), Write(PATIENT), Write(OVERDUE)]);
}

#[test]
fn a_reader_and_a_writer_exclude_each_other() {
    all_pass(3, [Read(PATIENT), Write(PATIENT)]);
    all_pass(3, [Read(OVERDUE), Write(OVERDUE)]);
    all_pass(3, [Read(PATIENT), Write(OVERDUE)]);
    all_pass(3, [Read(OVERDUE), Write(PATIENT)]);
}

#[test]
fn two_readers_and_a_writer_all_pass() {
    all_pass(2, [Read(PATIENT), Read(PATIENT), Write(PATIENT)]);
    all_pass(2, [Read(OVERDUE), Read(OVERDUE), Write(OVERDUE)]);
    all_pass(2, [Read(PATIENT), Read(OVERDUE), Write(OVERDUE)]);
    all_pass(2, [Read(PATIENT), Read(PATIENT), Write(OVERDUE)]);
    all_pass(2, [Read(OVERDUE), Read(OVERDUE), Write(PATIENT)]);
}

#[test]
fn a_reader_and_two_writers_all_pass() {
    all_pass(2, [Read(PATIENT), Write(PATIENT), Write(PATIENT)]);
    all_pass(2, [Read(OVERDUE), Write(OVERDUE), Write(OVERDUE)]);
    all_pass(2, [Read(PATIENT), Write(OVERDUE), Write(PATIENT)]);
    all_pass(2, [Read(OVERDUE), Write(PATIENT), Write(OVERDUE)]);
    all_pass(2, [Read(OVERDUE), Write(PATIENT), Write(PATIENT)]);
}

#[test]
fn a_writer_that_becomes_a_reader_lets_no_writer_in_between() {
    all_pass(3, [Downgrade(PATIENT), Write(PATIENT)]);
    all_pass(2, [Downgrade(PATIENT), Write(OVERDUE), Read(PATIENT)]);
    all_pass(2, [Downgrade(OVERDUE), Write(PATIENT), Read(OVERDUE)]);
    all_pass(2, [Downgrade(OVERDUE), Write(OVERDUE), Read(OVERDUE)]);
}

#[test]
fn who_gives_up_takes_nobodys_wake_up() {
    all_pass(2, [Write(PATIENT), Write(PATIENT), Write(HASTY)]);
    all_pass(2, [Write(PATIENT), Read(PATIENT), Write(HASTY)]);
    all_pass(2, [Write(PATIENT), Write(PATIENT), Read(HASTY)]);
    all_pass(2, [Write(PATIENT), Read(PATIENT), Read(HASTY)]);
}

#[test]
fn who_gives_up_opens_its_gate() {
    all_pass(3, [Read(PATIENT), Write(HASTY_OVERDUE)]);
    all_pass(2, [Read(PATIENT), Read(PATIENT), Write(HASTY_OVERDUE)]);
    all_pass(2, [Write(PATIENT), Read(PATIENT), Write(HASTY_OVERDUE)]);
    all_pass(2, [Write(PATIENT), Write(OVERDUE), Read(HASTY_OVERDUE)]);
    all_pass(2, [Write(OVERDUE), Write(OVERDUE), Write(HASTY_OVERDUE)]);
    all_pass(2, [Write(OVERDUE), Read(OVERDUE), Write(HASTY_OVERDUE)]);
}

#[test]
#[should_panic(expected = "deadlock")]
fn loom_would_find_a_wake_up_that_is_lost() {
    check(2, || {
        // The standard library's: loom's own cannot be dropped once an execution has failed.
        let lock = std::sync::Arc::new(RawRwLock::new());
        lock.write();
        let waiter = thread::spawn({
            let lock = std::sync::Arc::clone(&lock);
            move || lock.read_slow(&PATIENT).is_ok()
        });
        // Never released.
        waiter.join().unwrap();
    });
}

#[test]
#[should_panic(expected = "Causality violation")]
fn loom_would_find_a_write_among_readers() {
    check(2, || {
        let shared = Shared::new();
        let reader = thread::spawn({
            let shared = Arc::clone(&shared);
            move || shared.read(&PATIENT)
        });
        shared.add_one();
        reader.join().unwrap();
    });
}
