//! What it takes to hand the CPU from one thread to another.
//!
//! Two threads on one CPU take turns: the one whose turn it is changes the other one's word, wakes
//! it, and waits at its own word. The time of a turn is the CPU time of both threads together, so
//! what others do on this CPU does not count.
//!
//! A turn is more than a switch: there are a change, a wake-up and a wait in it, and the kernel may
//! let the woken thread run before the waker waits; then the waker's wait finds its word changed
//! and the other thread has no waiter to wake. So all of these are counted, and the time of one
//! switch is what is left of a turn without the calls ([`Turn::switch_ns`]). The simulator adds the
//! same parts up, so it comes to the same time for a turn.

use super::samples::{Samples, pair};
use crate::error::Error;
use crate::harness::Sample;
use platform::{clock, futex};
use std::sync::atomic::{AtomicU32, Ordering};

/// Samples of a run.
const BATCHES: usize = 30;
/// Round trips of a sample.
const TRIPS: u32 = 300;

/// What is in a turn, on average.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Turn {
    /// How long it takes, in nanoseconds
    pub ns: f64,
    /// Futex calls, of either kind
    pub calls: f64,
    /// Threads that were woken
    pub woken: f64,
    /// Times that the CPU goes from one thread to the other
    pub switches: f64,
}

impl Turn {
    /// The time of a switch in nanoseconds: what the turn takes beside calls of `call_ns`, wake-ups
    /// of `wake_ns` more, and accesses to memory of `accesses_ns` together.
    pub fn switch_ns(&self, call_ns: f64, wake_ns: f64, accesses_ns: f64) -> f64 {
        let others = self.calls * call_ns + self.woken * wake_ns + accesses_ns;
        (self.ns - others) / self.switches
    }
}

/// What one thread counts.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    cpu_ns: u64,
    calls: u32,
    woken: usize,
    switches: i64,
}

/// Turns of two threads on this CPU: their lengths, and what is in them.
///
/// # Errors
/// If a thread may not run there.
pub fn turns(cpu: usize) -> Result<Sample, Error> {
    let turns = (0..BATCHES).map(|_| batch(cpu)).collect::<Result<Vec<Turn>, Error>>()?;
    let samples = |of: fn(&Turn) -> f64| Samples::of(turns.iter().map(of));
    let mut sample = samples(|turn| turn.ns).summary();
    sample.add("calls", samples(|turn| turn.calls).quantile(0.5));
    sample.add("woken", samples(|turn| turn.woken).quantile(0.5));
    sample.add("switches", samples(|turn| turn.switches).quantile(0.5));
    Ok(sample)
}

fn batch(cpu: usize) -> Result<Turn, Error> {
    let words = [AtomicU32::new(0), AtomicU32::new(0)];
    let (one, other) = pair([cpu; 2], || play(&words, 0), || play(&words, 1))?;
    let per_turn = |sum: f64| sum / f64::from(2 * TRIPS);
    Ok(Turn {
        ns: per_turn((one.cpu_ns + other.cpu_ns) as f64),
        calls: per_turn(f64::from(one.calls + other.calls)),
        woken: per_turn((one.woken + other.woken) as f64),
        switches: per_turn((one.switches + other.switches) as f64),
    })
}

/// The thread 0 begins each round trip, the thread 1 ends it. A word has the number of the round
/// trip in which it is its thread's turn, or was.
fn play(words: &[AtomicU32; 2], own: usize) -> Count {
    let mut count = Count::default();
    let (began_ns, began_switches) = (clock::thread_cpu_ns(), switches());
    for trip in 1..=TRIPS {
        // The thread 0 may begin at once, and then waits for its partner's answer.
        let awaited = if own == 0 { trip - 1 } else { trip };
        while words[own].load(Ordering::Acquire) < awaited {
            count.calls += 1;
            futex::wait(&words[own], awaited - 1);
        }
        words[1 - own].fetch_add(1, Ordering::Release);
        count.calls += 1;
        count.woken += futex::wake(&words[1 - own], 1);
    }
    count.cpu_ns = clock::thread_cpu_ns() - began_ns;
    count.switches = switches() - began_switches;
    count
}

/// How often the calling thread has lost the CPU, of itself or not.
fn switches() -> i64 {
    // SAFETY: a usage is plain integers, for which zero is a value; the kernel writes one.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &mut usage);
        usage
    };
    usage.ru_nvcsw + usage.ru_nivcsw
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_switch_is_what_the_calls_leave_of_a_turn() {
        let turn = Turn { ns: 3000.0, calls: 2.0, woken: 0.5, switches: 2.0 };
        assert_eq!(turn.switch_ns(300.0, 800.0, 20.0), (3000.0 - 600.0 - 400.0 - 20.0) / 2.0);
        assert!(Turn::default().switch_ns(1.0, 1.0, 1.0).is_infinite(), "there was none");
    }

    #[test]
    fn threads_take_turns_to_the_end() {
        let turn = batch(crate::machine::cpus()[0]).unwrap();
        assert!(turn.ns > 0.0 && turn.calls >= 1.0, "{turn:?}");
    }

    /// The simulator plays the same on a machine whose switch is known, and that is what comes out.
    #[test]
    fn the_simulator_adds_up_the_same_parts() {
        use platform_sim::atomic::{AtomicU32, Ordering};
        use platform_sim::machine::Machine;
        use platform_sim::{futex, simulation, thread};
        use std::sync::Arc;

        #[repr(align(256))]
        struct Word(AtomicU32);

        let mut machine = Machine::known("here").unwrap();
        for switch_ns in [500, 1200, 5000] {
            machine.cost.switch_ns = switch_ns;
            let outcome = simulation::run(&machine, 1, || {
                let words = Arc::new([Word(AtomicU32::new(0)), Word(AtomicU32::new(0))]);
                let play = |own: usize| {
                    let words = Arc::clone(&words);
                    thread::spawn_on(&[0], move || {
                        let (mut calls, mut woken) = (0, 0);
                        for trip in 1..=TRIPS {
                            let awaited = if own == 0 { trip - 1 } else { trip };
                            while words[own].0.load(Ordering::Acquire) < awaited {
                                calls += 1;
                                futex::wait(&words[own].0, awaited - 1);
                            }
                            words[1 - own].0.fetch_add(1, Ordering::Release);
                            calls += 1;
                            woken += futex::wake(&raw const words[1 - own].0, 1);
                        }
                        (calls, woken)
                    })
                };
                [play(0), play(1)].map(|thread| thread.join().unwrap())
            });
            let (cost, [one, other]) = (machine.cost, outcome.value);
            let times = &outcome.threads[1..];
            let per_turn = |sum: f64| sum / f64::from(2 * TRIPS);
            let turn = Turn {
                ns: per_turn(times.iter().map(|times| times.run_ns).sum::<u64>() as f64),
                calls: per_turn(f64::from(one.0 + other.0)),
                woken: per_turn((one.1 + other.1) as f64),
                switches: per_turn(
                    times.iter().map(|times| times.voluntary + times.involuntary).sum::<u64>() as f64,
                ),
            };
            let accesses_ns = cost.change_ns + 3.0 * cost.hit_ns + 4.0 * cost.step_ns;
            let found_ns = turn.switch_ns(cost.call_ns + cost.futex_ns, cost.wake_ns, accesses_ns);
            let off = (found_ns / switch_ns as f64 - 1.0).abs();
            assert!(off < 0.02, "{found_ns} ns for {switch_ns}: {turn:?}");
        }
    }
}
