//! Locks on simulated machines: that they hold, that a seed does the same each time, and what more
//! threads than CPUs do to them.

mod common;

use common::{contend, holds};
use manx_sim::lock::{FutexMutex, Mcs, RawMutex};
use platform::machine::Machine;
use platform::memory::Allocator;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

#[test]
fn the_default_mutex_holds() {
    holds::<RawMutex>();
}

#[test]
fn a_queue_of_spinners_holds() {
    holds::<Mcs>();
}

#[test]
fn a_futex_mutex_holds() {
    holds::<FutexMutex>();
}

#[test]
fn a_queue_of_spinners_waits_for_threads_without_a_cpu_and_the_default_mutex_does_not() {
    let here = Machine::known("here").expect("a machine");
    let count = |threads, is_queue| {
        let until_ns = 100_000_000;
        let outcome = if is_queue {
            contend::<Mcs>(&here, 1, threads, 500, until_ns)
        } else {
            contend::<RawMutex>(&here, 1, threads, 500, until_ns)
        };
        outcome.value.count
    };
    let (queue, mutex) = (count(2, true), count(2, false));
    assert!(mutex > queue / 2, "with a CPU for each thread both are fast: {queue}, {mutex}");
    let (queue, mutex) = (count(8, true), count(8, false));
    assert!(mutex > 10 * queue, "with 8 threads on 2 CPUs: {queue}, {mutex}");
}

/// Waiters that stand in line do not sleep, so none waits for its window to end.
#[test]
fn with_a_cpu_for_each_thread_no_waiter_of_the_default_mutex_sleeps() {
    for (name, threads) in [("m1", 8), ("epyc-64", 16)] {
        let machine = Machine::known(name).expect("a machine");
        let outcome = contend::<RawMutex>(&machine, 1, threads, 500, 20_000_000);
        let longest_ns = outcome.value.longest_ns;
        assert!(longest_ns < 100_000, "{name}: {longest_ns} ns");
    }
}
