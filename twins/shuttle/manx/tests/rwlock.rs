//! The readers-writer lock under randomized schedules: more threads and rounds than loom can try,
//! windows that end and deadlines that pass at any step, and a kernel that wakes any thread it
//! likes.
//!
//! A lost wake-up is a deadlock here, and an execution that goes on for ever is reported, so
//! starvation is found as well.

mod common;

use common::together;
use manx_shuttle::lock::RawRwLock;
use manx_shuttle::lock::bounded::{UNBOUNDED_NS, Wait};
use platform::cell::UnsafeCell;
use platform::explore::check;
use platform::futex::{Clock, Deadline};
use platform::{clock, site};
use shuttle::sync::Arc;

const THREADS: u32 = 6;
const ROUNDS: u32 = 3;
/// Some deadlines pass soon and some late.
const LIMIT_NS: u64 = 20_000;
const PATIENT: Option<u64> = Some(UNBOUNDED_NS);
const STARVING: Option<u64> = Some(0);
/// Ends while a thread waits, or does not.
const SHORT: Option<u64> = Some(10_000);

/// A number that is written under the lock, and read.
struct Shared {
    lock: RawRwLock,
    number: UnsafeCell<u32>,
}

// SAFETY: the number is used under the lock only, and that this suffices is what is tested: the
// cell panics otherwise.
unsafe impl Sync for Shared {}
// SAFETY: as above.
unsafe impl Send for Shared {}

impl Shared {
    fn new() -> Arc<Shared> {
        Arc::new(Shared { lock: RawRwLock::new(), number: UnsafeCell::new(0) })
    }

    fn write(&self, wait: &Wait, downgrade: bool) -> bool {
        if !self.lock.try_write() && self.lock.write_slow(wait).is_err() {
            return false;
        }
        // SAFETY: this thread is the writer.
        let mine = self.number.with_mut(|number| unsafe {
            *number += 1;
            *number
        });
        if downgrade {
            // SAFETY: this thread is the writer, and then a reader.
            unsafe {
                self.lock.downgrade();
                assert_eq!(self.number(), mine, "nobody writes in between");
                self.lock.release_read();
            }
        } else {
            // SAFETY: this thread is the writer.
            unsafe { self.lock.release_write() };
        }
        true
    }

    fn read(&self, wait: &Wait) -> bool {
        if !self.lock.try_read() && self.lock.read_slow(wait).is_err() {
            return false;
        }
        self.number();
        // SAFETY: this thread is a reader.
        unsafe { self.lock.release_read() };
        true
    }

    /// Reads upgradably, and writes without leaving in between; or leaves as a reader.
    fn read_upgradably(&self, wait: &Wait, upgrade: bool) -> bool {
        if !self.lock.try_read_upgradably() && self.lock.read_upgradably_slow(wait).is_err() {
            return false;
        }
        let mine = self.number();
        // SAFETY: this thread is the upgradable reader.
        if upgrade && unsafe { self.lock.upgrade_slow(wait) }.is_ok() {
            assert_eq!(self.number(), mine, "no thread writes in between");
            // SAFETY: this thread is the writer.
            unsafe {
                self.number.with_mut(|number| *number += 1);
                self.lock.release_write();
            }
            return true;
        }
        // SAFETY: this thread is the upgradable reader, and then a reader.
        unsafe {
            self.lock.downgrade_upgradable();
            self.lock.release_read();
        }
        false
    }

    /// Under the lock, or when the others have ended.
    fn number(&self) -> u32 {
        // SAFETY: no thread writes.
        self.number.with(|number| unsafe { *number })
    }

    /// Afterwards nothing is left behind.
    fn assert_free(&self) {
        assert!(!self.lock.is_held());
        assert!(self.lock.try_write(), "a gate is left closed");
    }
}

fn wait(window_ns: Option<u64>) -> Wait {
    Wait { window_ns, ..Wait::default() }
}

fn wait_briefly(window_ns: Option<u64>) -> Wait {
    let deadline = Deadline { clock: Clock::Monotonic, ns: clock::now_ns() + LIMIT_NS };
    Wait { window_ns, deadline: Some(deadline), ..Wait::default() }
}

/// As many readers as writers, with these windows in turn.
fn all_pass(windows: [Option<u64>; 3]) -> impl Fn() + Send + Sync {
    move || {
        let shared = Arc::new((Shared::new(), windows));
        together(THREADS, &shared, |(shared, windows), number| {
            let wait = wait(windows[number as usize / 2]);
            for round in 0..ROUNDS {
                let passed =
                    if number % 2 == 0 { shared.write(&wait, round == 1) } else { shared.read(&wait) };
                assert!(passed);
            }
        });
        assert_eq!(shared.0.number(), THREADS / 2 * ROUNDS);
        shared.0.assert_free();
    }
}

#[test]
fn threads_that_may_be_overtaken_for_ever_all_pass() {
    check(site!(), all_pass([PATIENT; 3]));
}

#[test]
fn starving_threads_all_pass() {
    check(site!(), all_pass([STARVING; 3]));
}

#[test]
fn threads_whose_windows_end_somewhere_all_pass() {
    check(site!(), all_pass([SHORT; 3]));
}

#[test]
fn all_pass_whatever_their_windows() {
    check(site!(), all_pass([PATIENT, STARVING, SHORT]));
}

#[test]
fn all_pass_beside_upgradable_readers() {
    check(site!(), || {
        let shared = Shared::new();
        together(THREADS, &shared, |shared, number| {
            let window_ns = [PATIENT, STARVING, SHORT][number as usize % 3];
            for round in 0..ROUNDS {
                match number {
                    0 | 1 => assert!(shared.write(&wait(window_ns), round == 1)),
                    2 => assert!(shared.read(&wait(window_ns))),
                    3 | 4 => assert!(shared.read_upgradably(&wait(window_ns), true)),
                    _ => _ = shared.read_upgradably(&wait_briefly(window_ns), round == 1),
                }
            }
        });
        let written = shared.number();
        assert!((4 * ROUNDS..=4 * ROUNDS + 1).contains(&written), "{written}");
        shared.assert_free();
    });
}

#[test]
fn a_waiter_that_gives_up_takes_no_wake_up_of_others_and_leaves_no_gate_closed() {
    check(site!(), || {
        let shared = Shared::new();
        together(THREADS, &shared, |shared, number| {
            let window_ns = if number % 3 == 0 { STARVING } else { PATIENT };
            for round in 0..ROUNDS {
                match number {
                    0 | 1 => assert!(shared.write(&wait(window_ns), round == 1)),
                    2 | 3 => assert!(shared.read(&wait(window_ns))),
                    4 => drop(shared.write(&wait_briefly(window_ns), false).then_some(())),
                    _ => drop(shared.read(&wait_briefly(window_ns)).then_some(())),
                }
            }
        });
        shared.assert_free();
    });
}

#[test]
fn a_writer_passes_though_readers_never_leave_the_lock_free() {
    check(site!(), passes_among_readers(|shared| assert!(shared.write(&wait(SHORT), false))));
}

#[test]
fn an_upgrade_passes_though_readers_never_leave_the_lock_free() {
    check(site!(), passes_among_readers(|shared| assert!(shared.read_upgradably(&wait(SHORT), true))));
}

fn passes_among_readers(writes: fn(&Shared)) -> impl Fn() + Send + Sync {
    move || {
        // Two readers hand the lock to each other: one enters before the other leaves. They do so
        // until the writer has been there. If it were never served, this would go on for ever,
        // which is reported.
        let shared = Shared::new();
        assert!(shared.lock.try_read());
        together(3, &shared, move |shared, number| {
            if number == 0 {
                writes(shared);
                return;
            }
            while shared.lock.try_read() {
                platform::thread::yield_now();
                let written = shared.number() > 0;
                // SAFETY: entered above.
                unsafe { shared.lock.release_read() };
                if written {
                    break;
                }
            }
            if number == 1 {
                // The gate is closed, or the writer has been there: the first reader may go.
                // SAFETY: entered at the beginning, on behalf of this thread.
                unsafe { shared.lock.release_read() };
            }
        });
        assert_eq!(shared.number(), 1);
        shared.assert_free();
    }
}
