//! The readers-writer lock under randomized schedules: more threads and rounds than loom can try,
//! windows that end and deadlines that pass at any step, and a kernel that wakes any thread it
//! likes.
//!
//! A lost wake-up is a deadlock here, and an execution that goes on for ever is reported, so
//! starvation is found as well.

// The tests of both checkers call the twin of manx by one name.
extern crate manx_shuttle as manx;

mod common;
#[path = "../../../loom/manx/tests/common/rwlock.rs"]
mod rwlock;

use common::together;
use manx::lock::bounded::{UNBOUNDED_NS, Wait};
use platform::explore::check;
use platform::futex::{Clock, Deadline};
use platform::{clock, site};
use rwlock::Shared;
use shuttle::sync::Arc;

const THREADS: u32 = 6;
const ROUNDS: u32 = 3;
/// Some deadlines pass soon and some late.
const LIMIT_NS: u64 = 20_000;
const PATIENT: Option<u64> = Some(UNBOUNDED_NS);
const STARVING: Option<u64> = Some(0);
/// Ends while a thread waits, or does not.
const SHORT: Option<u64> = Some(10_000);

fn wait(window_ns: Option<u64>) -> Wait<'static> {
    Wait { window_ns, ..Wait::default() }
}

fn wait_briefly(window_ns: Option<u64>) -> Wait<'static> {
    let deadline = Deadline { clock: Clock::Monotonic, ns: clock::now_ns() + LIMIT_NS };
    Wait { window_ns, deadline: Some(deadline), ..Wait::default() }
}

/// Writes, in the second round as one that becomes a reader.
fn write(shared: &Shared, wait: &Wait, round: u32) -> bool {
    if round == 1 { shared.write_and_downgrade(wait) } else { shared.write(wait) }
}

/// As many readers as writers, with these windows in turn.
fn all_pass(windows: [Option<u64>; 3]) -> impl Fn() + Send + Sync {
    move || {
        let shared = Arc::new((Shared::new(), windows));
        together(THREADS, &shared, |(shared, windows), number| {
            let wait = wait(windows[number as usize / 2]);
            for round in 0..ROUNDS {
                assert!(if number % 2 == 0 { write(shared, &wait, round) } else { shared.read(&wait) });
            }
        });
        assert_eq!(shared.0.look(), THREADS / 2 * ROUNDS);
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
                    0 | 1 => assert!(write(shared, &wait(window_ns), round)),
                    2 => assert!(shared.read(&wait(window_ns))),
                    3 | 4 => assert!(shared.upgrade(&wait(window_ns), &wait(window_ns))),
                    _ if round == 1 => _ = shared.upgrade(&wait_briefly(window_ns), &wait_briefly(window_ns)),
                    _ => _ = shared.read_upgradably(&wait_briefly(window_ns)),
                }
            }
        });
        let written = shared.look();
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
                    0 | 1 => assert!(write(shared, &wait(window_ns), round)),
                    2 | 3 => assert!(shared.read(&wait(window_ns))),
                    4 => _ = shared.write(&wait_briefly(window_ns)),
                    _ => _ = shared.read(&wait_briefly(window_ns)),
                }
            }
        });
        shared.assert_free();
    });
}

#[test]
fn a_writer_passes_though_readers_never_leave_the_lock_free() {
    check(site!(), passes_among_readers(|shared| assert!(shared.write(&wait(SHORT)))));
}

#[test]
fn an_upgrade_passes_though_readers_never_leave_the_lock_free() {
    check(site!(), passes_among_readers(|shared| assert!(shared.upgrade(&wait(SHORT), &wait(SHORT)))));
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
                let written = shared.look() > 0;
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
        assert_eq!(shared.look(), 1);
        shared.assert_free();
    }
}
