//! A lock, threads that take it, and what came of it. The tests of the package `baselines-sim` use
//! this, too.

use manx_sim::lock::RawLock;
use platform::machine::Machine;
use platform::simulation::{Outcome, run};
use platform::{clock, cpu, thread};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a lock did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Did {
    /// How often it was taken
    pub count: u64,
    /// The longest wait
    pub longest_ns: u64,
}

/// A lock, and what its holders find.
struct Guarded<L> {
    lock: L,
    /// The standard library's: it is no step of the program.
    holder: AtomicU64,
}

/// Threads take a lock for `held_ns`, and do something else for as long, until the time is over.
pub fn contend<L: RawLock + 'static>(
    machine: &Machine,
    seed: u64,
    threads: u64,
    held_ns: u64,
    until_ns: u64,
) -> Outcome<Did> {
    run(machine, seed, move || {
        let guarded = Arc::new(Guarded { lock: L::new(), holder: AtomicU64::new(0) });
        let one = |number: u64| {
            let guarded = Arc::clone(&guarded);
            move || {
                let mut did = Did::default();
                let mut now_ns = clock::now_ns();
                while now_ns < until_ns {
                    let held = guarded.lock.lock();
                    let had_ns = clock::now_ns();
                    assert_eq!(guarded.holder.swap(number, Ordering::Relaxed), 0, "two hold it");
                    cpu::work(held_ns);
                    assert_eq!(guarded.holder.swap(0, Ordering::Relaxed), number, "two hold it");
                    // SAFETY: just locked.
                    unsafe { guarded.lock.unlock(held) };
                    did.count += 1;
                    did.longest_ns = did.longest_ns.max(had_ns - now_ns);
                    cpu::work(held_ns);
                    now_ns = clock::now_ns();
                }
                did
            }
        };
        let all: Vec<_> = (1..=threads).map(|number| thread::spawn(one(number))).collect();
        all.into_iter().fold(Did::default(), |sum, thread| {
            let did = thread.join().unwrap();
            Did { count: sum.count + did.count, longest_ns: sum.longest_ns.max(did.longest_ns) }
        })
    })
}

/// Two never hold the lock at once, and a seed does the same each time.
pub fn holds<L: RawLock + 'static>() {
    for name in ["here", "m1"] {
        let machine = Machine::known(name).expect("a machine");
        for threads in [1, 2, 5] {
            let first = contend::<L>(&machine, 1, threads, 500, 3_000_000);
            assert!(first.value.count > 100, "{name}, {threads} threads: {:?}", first.value);
            for _ in 0..5 {
                let again = contend::<L>(&machine, 1, threads, 500, 3_000_000);
                assert_eq!((again.hash, again.value), (first.hash, first.value), "{name}, {threads} threads");
            }
        }
    }
}
