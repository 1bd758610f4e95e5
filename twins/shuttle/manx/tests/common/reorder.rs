//! The reorderable lock and the asymmetry-aware one over any lock beneath, under randomized
//! schedules: epochs with all sorts of windows, and which threads pass one whose window is over.
//! The tests of the package `baselines-shuttle` use this, too.
//!
//! The clock is virtual, so a window ends between any two steps, and nothing here waits for it.

#[path = "guarded.rs"]
pub mod guarded;

use crate::common::{join, together};
use guarded::Guarded;
use manx_shuttle::cpu::{Class, set_class_of_this_thread};
use manx_shuttle::lock::{Asl, Fifo, RawLock, Reorderable};
use manx_shuttle::slo::set_window_ns_of_this_thread;
use platform::explore::{Site, check};
use platform::thread;
use shuttle::rand::{RngCore, thread_rng};
use shuttle::sync::Arc;
use std::time::Duration;

const THREADS: u32 = 5;
const ROUNDS: u32 = 3;
/// No epoch; first in, first out; shorter than a look; spun; slept; longer than any test.
const WINDOWS_NS: [Option<u64>; 6] = [None, Some(0), Some(1), Some(15_000), Some(300_000), Some(u64::MAX)];

fn any_class() -> Class {
    if thread_rng().next_u64().is_multiple_of(2) { Class::Little } else { Class::Big }
}

fn any_epoch() -> Option<u64> {
    WINDOWS_NS[thread_rng().next_u64() as usize % WINDOWS_NS.len()]
}

/// Threads of both classes, in epochs with any window and in none, take and try two locks, one
/// inside of the other.
pub fn epochs_of_all_sorts<L: RawLock + 'static>(site: Site) {
    check(site, || {
        let both = Arc::new([Guarded::over(Asl::over(L::new())), Guarded::over(Asl::over(L::new()))]);
        both[0].lock.set_window_max(Some(Duration::from_micros(200)));
        together(THREADS, &both, |[outer, inner], number| {
            for round in 0..ROUNDS {
                set_class_of_this_thread(Some(any_class()));
                set_window_ns_of_this_thread(any_epoch());
                let tried = if round == 1 { outer.lock.try_lock() } else { None };
                let held = tried.unwrap_or_else(|| outer.lock.lock());
                outer.write_down(number);
                // An epoch may begin while a lock is held.
                set_window_ns_of_this_thread(any_epoch());
                inner.lock(number);
                // SAFETY: by `held`, as the lock returned it.
                unsafe { outer.lock.unlock(held) };
                inner.lock(number);
            }
        });
        assert_eq!(both[0].order().len() as u32, THREADS * ROUNDS);
        assert_eq!(both[1].order().len() as u32, 2 * THREADS * ROUNDS);
    });
}

macro_rules! over_each_lock {
    ($($name:ident: $beneath:ty;)*) => {
        mod epochs_of_all_sorts {
            use super::*;

            $(
                #[test]
                fn $name() {
                    crate::reorder::epochs_of_all_sorts::<$beneath>(site!());
                }
            )*
        }
    };
}

pub(crate) use over_each_lock;

fn in_line<L: Fifo, T>(line: &L, come: impl FnOnce() -> T) -> T {
    let before = line.last_in_line();
    let came = come();
    while line.last_in_line() == before {
        thread::yield_now();
    }
    came
}

/// Some stand in line when the window of a little one is over. These pass it, and no other thread
/// does: not a thread that comes later, stands by, tries, or comes again and again.
pub fn those_in_line_pass_and_nobody_else<L: Fifo + 'static>(site: Site) {
    const AHEAD: u32 = 2;
    const LITTLE: u32 = 100;
    const LATER: u32 = 200;
    check(site, || {
        let guarded = Guarded::over(Reorderable::over(L::new()));
        let line = guarded.lock.beneath();
        let held = guarded.lock.lock_immediately();
        let start = |run: fn(&Guarded<Reorderable<L>>, u32), number| {
            let guarded = Arc::clone(&guarded);
            thread::spawn(move || run(&guarded, number))
        };
        let stand_by = |guarded: &Guarded<Reorderable<L>>, number| {
            let window_ns = any_epoch().unwrap_or(2_000).clamp(1, 400_000);
            let held = guarded.lock.lock_reorder(Duration::from_nanos(window_ns));
            guarded.write_down(number);
            // SAFETY: just locked.
            unsafe { guarded.lock.unlock(held) };
        };
        let mut waiters: Vec<_> =
            (0..AHEAD).map(|number| in_line(line, || start(Guarded::lock, number))).collect();
        // It has a window, and comes to stand in line though the lock is never free.
        waiters.push(in_line(line, || start(stand_by, LITTLE)));
        waiters.push(start(stand_by, LATER));
        waiters.push(start(Guarded::lock, LATER));
        // SAFETY: locked above.
        unsafe { guarded.lock.unlock(held) };
        for _ in 0..ROUNDS {
            if let Some(held) = guarded.lock.try_lock() {
                guarded.write_down(LATER);
                // SAFETY: just locked.
                unsafe { guarded.lock.unlock(held) };
            }
            guarded.lock(LATER);
        }
        join(waiters);
        let order = guarded.order();
        assert_eq!(order[..AHEAD as usize + 1], [0, 1, LITTLE], "{order:?}");
    });
}
