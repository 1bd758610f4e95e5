//! What programs see of a simulated machine: distances, scheduling, sleeps, and the same each time.

use platform_sim::atomic::{AtomicU32, AtomicU64, Ordering};
use platform_sim::futex::{self, Outcome};
use platform_sim::machine::Machine;
use platform_sim::memory::Allocator;
use platform_sim::simulation::{self, run};
use platform_sim::{clock, cpu, thread};
use std::sync::Arc;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

fn here() -> Machine {
    Machine::known("here").expect("a machine")
}

/// How long a word takes from one CPU to another and back, halved, as core-to-core-latency measures
/// it: both compare and exchange all the time.
fn ping_pong_ns(machine: &Machine, from: usize, to: usize) -> f64 {
    const ROUNDS: u32 = 2_000;
    run(machine, 1, move || {
        let word = Arc::new(AtomicU32::new(0));
        let side = |cpu: usize, own: u32| {
            let word = Arc::clone(&word);
            thread::spawn_on(&[cpu], move || {
                let turn = || {
                    while word.compare_exchange(own, 1 - own, Ordering::AcqRel, Ordering::Relaxed).is_err() {}
                };
                // Both have begun when the second turn begins.
                turn();
                turn();
                let begin_ns = clock::now_ns();
                (0..ROUNDS).for_each(|_| turn());
                clock::now_ns() - begin_ns
            })
        };
        let (one, other) = (side(from, 0), side(to, 1));
        let ns = one.join().unwrap().max(other.join().unwrap());
        ns as f64 / f64::from(2 * ROUNDS)
    })
    .value
}

#[test]
fn a_ping_pong_takes_what_the_table_says() {
    for name in Machine::names() {
        // Nothing else happens there, and siblings do not make each other slow.
        let known = Machine::known(name).expect("a machine");
        let machine = Machine { smt_share: 1.0, quota: None, neighbour: vec![], ..known };
        let cpus = machine.cpus();
        for to in 1..cpus.len() {
            let (table, is) =
                (machine.distance_ns(&cpus[0], &cpus[to]) as f64, ping_pong_ns(&machine, 0, to));
            // Between siblings the loop itself takes nearly as long.
            let tolerance = (0.05 * table).max(1.5);
            assert!((is - table).abs() <= tolerance, "{name}, 0 to {to}: {is} ns, {table} in the table");
        }
    }
}

/// Threads that count in one word and sleep now and then.
fn program() -> u64 {
    let word = Arc::new(AtomicU64::new(0));
    let one = |number: u64| {
        let word = Arc::clone(&word);
        move || {
            for round in 0..200 {
                word.fetch_add(1, Ordering::Relaxed);
                if (round + number).is_multiple_of(37) {
                    thread::sleep_ns(10_000);
                }
                cpu::work(300);
            }
        }
    };
    let threads: Vec<_> = (0..5).map(|number| thread::spawn(one(number))).collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    word.load(Ordering::Relaxed)
}

#[test]
fn a_seed_does_the_same_each_time_and_another_one_does_not() {
    let machine = Machine::known("m1").expect("a machine");
    let first = run(&machine, 7, program);
    assert_eq!(first.value, 1000);
    let mut kept = Vec::new();
    for round in 0..1000 {
        // What others do with the memory is no part of the run.
        kept.push(vec![0u8; 100 + 37 * round]);
        let again = run(&machine, 7, program);
        assert_eq!((again.hash, again.now_ns, again.steps), (first.hash, first.now_ns, first.steps));
        assert_eq!(again.threads, first.threads);
    }
    assert_ne!(run(&machine, 8, program).hash, first.hash);
}

#[test]
fn threads_share_the_cpus() {
    let outcome = run(&here(), 3, || {
        let threads: Vec<_> =
            (0..3).map(|_| thread::spawn(|| (0..1000).for_each(|_| cpu::work(1_000_000)))).collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
    // Three seconds of work on two CPUs.
    assert!((1_500_000_000..1_560_000_000).contains(&outcome.now_ns), "{}", outcome.now_ns);
    for times in &outcome.threads[1..] {
        assert!((950_000_000..1_100_000_000).contains(&times.run_ns), "{times:?}");
        assert!(times.involuntary > 50 && times.wait_ns > 300_000_000, "{times:?}");
    }
}

#[test]
fn one_cpu_goes_from_thread_to_thread_at_ticks() {
    let outcome = run(&here(), 3, || {
        let work = || (0..100_000).for_each(|_| cpu::work(1_000));
        let two = [thread::spawn_on(&[0], work), thread::spawn_on(&[0], work)];
        two.into_iter().for_each(|thread| thread.join().unwrap());
    });
    for times in &outcome.threads[1..] {
        // 100 ms of work, a tick each 4 ms, and each second one is the other thread's.
        assert!((20..=30).contains(&times.involuntary), "{times:?}");
    }
}

#[test]
fn a_wake_up_is_not_lost_and_a_timeout_comes_late() {
    let outcome = run(&here(), 5, || {
        let word = Arc::new(AtomicU32::new(0));
        let theirs = Arc::clone(&word);
        let sleeper = thread::spawn(move || {
            let begin_ns = clock::now_ns();
            let late = futex::wait_for(&theirs, 0, 1_000_000);
            let took_ns = clock::now_ns() - begin_ns;
            assert_eq!(late, Outcome::TimedOut);
            let mut woken = 0;
            while theirs.load(Ordering::Acquire) < 100 {
                let seen = theirs.load(Ordering::Acquire);
                woken += u32::from(futex::wait(&theirs, seen) == Outcome::Woken);
            }
            assert_eq!(futex::wait(&theirs, 7), Outcome::Changed);
            (took_ns, woken)
        });
        thread::sleep_ns(3_000_000);
        for _ in 0..100 {
            word.fetch_add(1, Ordering::Release);
            futex::wake_all(&raw const *word);
            cpu::work(20_000);
        }
        sleeper.join().unwrap()
    });
    let (took_ns, woken) = outcome.value;
    let slack_ns = here().cost.slack_ns;
    assert!((1_000_000 + slack_ns..1_100_000 + slack_ns).contains(&took_ns), "{took_ns}");
    assert!(woken >= 90, "{woken}");
}

#[test]
fn a_thread_that_yields_lets_the_other_one_run() {
    let outcome = run(&here(), 5, || {
        let word = Arc::new(AtomicU32::new(0));
        let turn = |own: u32| {
            let word = Arc::clone(&word);
            thread::spawn_on(&[0], move || {
                for _ in 0..100 {
                    while word.load(Ordering::Acquire) != own {
                        thread::yield_now();
                    }
                    word.store(1 - own, Ordering::Release);
                }
            })
        };
        [turn(0), turn(1)].into_iter().for_each(|thread| thread.join().unwrap());
    });
    assert!(outcome.now_ns < 5_000_000, "{} ns: they took whole slices", outcome.now_ns);
}

#[test]
#[should_panic(expected = "nothing will ever wake the threads [0]")]
fn a_deadlock_is_told() {
    run(&here(), 1, || futex::wait(&AtomicU32::new(0), 0));
}

#[test]
fn a_thread_that_panics_ends_the_run_and_the_next_one_begins_anew() {
    let failed = std::panic::catch_unwind(|| {
        run(&here(), 1, || {
            let sleeper = thread::spawn(|| thread::sleep_ns(1_000_000));
            cpu::work(1000);
            assert!(sleeper.join().is_err(), "not so");
        })
    });
    assert!(failed.is_err() && !simulation::is_inside());
    assert_eq!(run(&here(), 1, cpu::count).value, 2);
}

/// Two threads wake each other in turn on these CPUs: how many threads the calls woke, and how many
/// waits of woken threads the timeline has.
fn chain(cpus: [usize; 2]) -> (usize, usize) {
    const ROUNDS: u32 = 500;
    let (outcome, trace) = simulation::run_traced(&here(), 5, usize::MAX, move || {
        let turn = Arc::new(AtomicU32::new(0));
        let side = |own: u32| {
            let turn = Arc::clone(&turn);
            thread::spawn_on(&[cpus[own as usize]], move || {
                let mut woken = 0;
                for _ in 0..ROUNDS {
                    while turn.load(Ordering::Acquire) != own {
                        futex::wait(&turn, 1 - own);
                    }
                    turn.store(1 - own, Ordering::Release);
                    woken += futex::wake(&raw const *turn, 1);
                }
                woken
            })
        };
        [side(0), side(1)].map(|thread| thread.join().unwrap()).iter().sum::<usize>()
    });
    (outcome.value, trace.waits().slept.len())
}

#[test]
fn a_timeline_has_each_wake_up() {
    let (woken, seen) = chain([0, 1]);
    assert_eq!(woken, seen, "on two CPUs");
    // The first turn may be taken, and the last wake-up made, when the other one does not sleep.
    assert!((998..=1_000).contains(&woken), "{woken}: one each turn");
    // A woken thread takes its waker's CPU at once, and the waker sleeps only every other turn.
    let (woken, seen) = chain([0, 0]);
    assert_eq!(woken, seen, "on one CPU");
    assert!((498..=1_000).contains(&woken), "{woken}");
}
