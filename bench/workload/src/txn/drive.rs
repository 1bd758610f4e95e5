//! A measured process: threads that think, then do a transaction, and are timed around it. The
//! drivers in C do the same (`engines/engine.h`), and the result is one JSON object of the same
//! form, so whatever is measured is measured alike.
//!
//! What is measured is **service latency**: from just before the transaction to just after it,
//! repetitions after a conflict included, think time excluded.
//!
//! 1. An operation counts in the second in which it *began*, and if it began within the measured
//!    time. All that began are waited for.
//! 2. Nothing is allocated for what is counted after the start, and histograms are put together
//!    outside of what is timed.
//! 3. At the end the store is checked (`ledger.rs`). A run whose store lost anything fails and
//!    prints no result.
//! 4. A thread is *boosted* for the whole run if it is one of the first, also outside of the window
//!    in which its niceness really differs.

use super::keys::{Keys, key};
use super::ledger::Ledger;
use super::mix::Operation;
use super::record::{NOBODY, Stamp};
use super::subject::{Subject, Tried};
use super::tally::{Shared, Tally};
use super::told::Told;
use crate::range::request::Dice;
use platform::{clock, thread};
use report::Counts;
use serde::Serialize;
use std::collections::VecDeque;
use std::sync::Barrier;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::time::Duration;

/// A transaction that met this number of conflicts is given up.
const CONFLICTS_MAX: u32 = 2000;
/// The number of times that it is tried again at once; then it is tried after a sleep, as servers
/// do.
const CONFLICTS_AT_ONCE: u32 = 4;
const CONFLICT_SLEEP: Duration = Duration::from_millis(1);
/// A scan's length is drawn up to this.
const SCAN_MAX: usize = 100;
/// The number of records that are loaded at a time, and looked at when all is over.
const AT_ONCE: usize = 100;
const SECOND_NS: u64 = 1_000_000_000;

/// The result as engines print it ([`crate::engine::Output`]).
#[derive(Debug, Serialize)]
struct Printed {
    format: u32,
    engine: &'static str,
    version: String,
    verified_updates: u64,
    throughput_per_s: f64,
    errors: u64,
    conflicts: u64,
    first_error: String,
    slowest_of_mean: f64,
    slowest_of_fastest: f64,
    threads: Vec<PrintedThread>,
    all: Counts,
    normal: Counts,
    boosted: Counts,
    seconds: Vec<PrintedSecond>,
}

#[derive(Debug, Serialize)]
struct PrintedThread {
    boosted: bool,
    operations: u64,
}

#[derive(Debug, Serialize)]
struct PrintedSecond {
    normal: Counts,
    boosted: Counts,
}

/// What all threads share.
struct Course<'a, S> {
    told: &'a Told,
    subject: &'a S,
    ledger: Ledger,
    keys: Keys,
    /// All are ready; the times are set
    barrier: Barrier,
    from_ns: AtomicU64,
    to_ns: AtomicU64,
    /// Of each second: normal ones, boosted ones
    seconds: Vec<[Shared; 2]>,
    /// The kernel's numbers of the threads
    ids: Vec<AtomicI32>,
}

/// What a thread found.
#[derive(Default)]
struct Record {
    operations: u64,
    conflicts: u64,
}

/// Runs it, and returns the result.
///
/// # Errors
/// What went wrong; also what the store lost.
pub fn drive<S: Subject>(subject: &S, told: &Told) -> Result<String, String> {
    let mix = told.mix;
    let ledger = Ledger::new(
        told.threads,
        told.records,
        told.value_bytes,
        mix.has(Operation::Change),
        mix.has(Operation::Insert),
    );
    let course = Course {
        told,
        subject,
        ledger,
        keys: Keys::new(mix.keys, told.records),
        barrier: Barrier::new(told.threads + 1),
        from_ns: AtomicU64::new(0),
        to_ns: AtomicU64::new(0),
        seconds: (0..told.seconds.ceil() as usize).map(|_| [Shared::new(), Shared::new()]).collect(),
        ids: (0..told.threads).map(|_| AtomicI32::new(0)).collect(),
    };
    course.load()?;
    let records = course.run()?;
    let verified = course.settle()?;
    serde_json::to_string(&course.printed(&records, verified)).map_err(|error| error.to_string())
}

impl<S: Subject> Course<'_, S> {
    fn load(&self) -> Result<(), String> {
        let numbers: Vec<u64> = (1..=self.told.records).collect();
        numbers.chunks(AT_ONCE).try_for_each(|part| {
            let fresh = part.iter().map(|&number| {
                let mut value = vec![0; self.told.value_bytes];
                self.ledger.fresh(number, &mut value);
                (key(number), value)
            });
            self.subject.load(&fresh.collect::<Vec<_>>())
        })
    }

    fn run(&self) -> Result<Vec<Record>, String> {
        std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..self.told.threads).map(|index| scope.spawn(move || self.work(index))).collect();
            self.barrier.wait();
            let from = clock::now_ns() + (self.told.warm_up * SECOND_NS as f64) as u64;
            // Relaxed: the barrier orders them.
            self.from_ns.store(from, Ordering::Relaxed);
            self.to_ns.store(from + (self.told.seconds * SECOND_NS as f64) as u64, Ordering::Relaxed);
            self.barrier.wait();
            if self.told.boost > 0 {
                self.told.window.map_or(Ok(()), |window| self.boost_within(window))?;
            }
            let panicked = |_| "a thread panicked".to_owned();
            threads.into_iter().map(|thread| thread.join().map_err(panicked)?).collect()
        })
    }

    fn niceness(&self, index: usize) -> i32 {
        if index < self.told.boost { self.told.nice } else { self.told.others }
    }

    /// One thread, from its start to its end.
    fn work(&self, index: usize) -> Result<Record, String> {
        let told = self.told;
        // Relaxed: read after the barrier.
        self.ids[index].store(thread::id() as i32, Ordering::Relaxed);
        let boosted =
            if told.boost > 0 && told.window.is_none() { renice(0, self.niceness(index)) } else { Ok(()) };
        let client = self.subject.client();
        self.barrier.wait();
        self.barrier.wait();
        boosted?;
        let mut worker = Worker {
            course: self,
            index,
            client: client?,
            dice: Dice::of(told.seed.wrapping_mul(0x1_0001).wrapping_add(index as u64)),
            value: vec![b'x'; told.value_bytes],
            updates: 0,
            conflicts: 0,
        };
        let (from, to) = (self.from_ns.load(Ordering::Relaxed), self.to_ns.load(Ordering::Relaxed));
        let shared = |second: usize| &self.seconds[second][usize::from(index < told.boost)];
        let (mut tally, mut second, mut operations) = (Tally::new(), 0, 0);
        loop {
            if told.think_us > 0.0 {
                let think_ns = -told.think_us * 1000.0 * (1.0 - worker.dice.unit()).ln();
                let now = clock::now_ns();
                thread::sleep_ns((now + think_ns as u64).min(to).saturating_sub(now));
            }
            let begin = clock::now_ns();
            if begin >= to {
                break;
            }
            worker.operate()?;
            if begin < from {
                continue;
            }
            let end = clock::now_ns();
            let began_in = ((begin - from) / SECOND_NS) as usize;
            if began_in != second {
                tally.give(shared(second));
                second = began_in;
            }
            tally.record(end - begin);
            operations += 1;
        }
        tally.give(shared(second));
        Ok(Record { operations, conflicts: worker.conflicts })
    }

    /// Changes niceness at the window's edges. A process that may not raise a priority cannot take
    /// back what was lowered either: it then stays so.
    fn boost_within(&self, (from, to): (f64, f64)) -> Result<(), String> {
        // This thread alone, if it may: it sleeps until the edges.
        let _ = renice(0, -20);
        let begun = self.from_ns.load(Ordering::Relaxed);
        let until = |at: f64| {
            let at = begun + (at * SECOND_NS as f64) as u64;
            thread::sleep_ns(at.saturating_sub(clock::now_ns()));
        };
        until(from);
        for index in 0..self.told.threads {
            renice(self.ids[index].load(Ordering::Relaxed), self.niceness(index))?;
        }
        until(to);
        for id in &self.ids {
            // It has ended already, if the run has.
            let _ = renice(id.load(Ordering::Relaxed), 0);
        }
        Ok(())
    }

    /// How many updates, changes and inserts are there.
    fn settle(&self) -> Result<u64, String> {
        let mut client = self.subject.client()?;
        // The records that follow the record that is asked for: the ledger asks for each of them in
        // turn.
        let mut ahead = VecDeque::new();
        self.ledger.settle(|record| {
            if ahead.is_empty() {
                let keys: Vec<_> = (record..record + AT_ONCE as u64).map(key).collect();
                ahead = self.subject.look(&mut client, &keys)?.into();
            }
            Ok(ahead.pop_front().flatten())
        })
    }

    fn printed(&self, records: &[Record], verified: u64) -> Printed {
        let of = |boosted: usize| self.seconds.iter().map(|second| &second[boosted]).collect::<Vec<_>>();
        let all: Vec<&Shared> = self.seconds.iter().flatten().collect();
        let all = Shared::sum(&all);
        let operations = || records.iter().map(|record| record.operations);
        let (slowest, fastest) = (operations().min().unwrap_or(0), operations().max().unwrap_or(0));
        let mean = all.count as f64 / records.len() as f64;
        let over = |part: u64, whole: f64| if whole > 0.0 { part as f64 / whole } else { 0.0 };
        Printed {
            format: 1,
            engine: self.subject.engine(),
            version: self.subject.version(),
            verified_updates: verified,
            throughput_per_s: all.count as f64 / self.told.seconds,
            errors: 0,
            conflicts: records.iter().map(|record| record.conflicts).sum(),
            first_error: String::new(),
            slowest_of_mean: over(slowest, mean),
            slowest_of_fastest: over(slowest, fastest as f64),
            threads: operations()
                .enumerate()
                .map(|(index, operations)| PrintedThread { boosted: index < self.told.boost, operations })
                .collect(),
            all,
            normal: Shared::sum(&of(0)),
            boosted: Shared::sum(&of(1)),
            seconds: (self.seconds.iter())
                .map(|[normal, boosted]| PrintedSecond { normal: normal.counts(), boosted: boosted.counts() })
                .collect(),
        }
    }
}

/// A thread while it runs.
struct Worker<'a, S: Subject + 'a> {
    course: &'a Course<'a, S>,
    index: usize,
    client: S::Client<'a>,
    dice: Dice,
    value: Vec<u8>,
    /// Updates that were committed, and with them the number of the last one
    updates: u32,
    conflicts: u64,
}

impl<S: Subject> Worker<'_, S> {
    fn operate(&mut self) -> Result<(), String> {
        let ledger = &self.course.ledger;
        let operation = self.course.told.mix.operation(self.dice.unit());
        let record = match operation {
            Operation::Insert => ledger.insert()?,
            _ => self.course.keys.draw(&mut self.dice, ledger.there()),
        };
        let length = if operation == Operation::Scan { 1 + self.dice.below(SCAN_MAX) } else { 1 };
        let mut times = 0;
        loop {
            match self.try_once(operation, record, length) {
                Tried::Done => break,
                Tried::Failed(why) => return Err(why),
                Tried::Conflict => {
                    self.conflicts += 1;
                    times += 1;
                    if times == CONFLICTS_MAX {
                        return Err(format!("record {record}: still a conflict after {times} times"));
                    }
                    if times > CONFLICTS_AT_ONCE {
                        std::thread::sleep(CONFLICT_SLEEP);
                    }
                }
            }
        }
        match operation {
            Operation::Update => {
                self.updates += 1;
                ledger.updated(self.index, record, self.updates);
            }
            Operation::Change => ledger.changed(record),
            Operation::Insert => ledger.arrived(record),
            Operation::Read | Operation::Scan => {}
        }
        Ok(())
    }

    fn try_once(&mut self, operation: Operation, record: u64, length: usize) -> Tried {
        let (ledger, subject) = (&self.course.ledger, self.course.subject);
        let (client, index, key, bytes) = (&mut self.client, self.index, key(record), &mut self.value[..]);
        match operation {
            Operation::Read => subject.read(client, &key, |value| {
                ledger.read(index, record, value)?;
                // As a server does that must send it.
                bytes.copy_from_slice(value.expect("what is whole is there"));
                Ok(())
            }),
            Operation::Update => {
                Stamp { record, writer: index as u32, number: self.updates + 1 }.write(bytes);
                subject.put(client, &key, bytes)
            }
            Operation::Insert => {
                ledger.fresh(record, bytes);
                subject.insert(client, &key, bytes)
            }
            Operation::Change => subject.change(client, &key, bytes, |value, next| {
                let stamp = ledger.read(usize::MAX, record, value)?;
                next.copy_from_slice(value.expect("what is whole is there"));
                Stamp { record, writer: NOBODY, number: stamp.number + 1 }.write(next);
                Ok(())
            }),
            Operation::Scan => scan(ledger, subject, client, &key, bytes, length),
        }
    }
}

/// Keys ascend, and each is that of its value.
fn scan<S: Subject>(
    ledger: &Ledger,
    subject: &S,
    client: &mut S::Client<'_>,
    from: &[u8; 8],
    bytes: &mut [u8],
    length: usize,
) -> Tried {
    let mut before: Option<[u8; 8]> = None;
    let tried = subject.scan(client, from, length, |name, value| {
        let record = ledger.scanned(value)?;
        let own = key(record);
        if name != own || name < &from[..] {
            return Err(format!("a scan finds record {record} under another key"));
        }
        if before.is_some_and(|before| before >= own) {
            return Err("a scan's keys do not ascend".into());
        }
        before = Some(own);
        bytes.copy_from_slice(value);
        Ok(())
    });
    match (tried, before) {
        (Tried::Done, None) => Tried::Failed("a scan finds nothing from a record on that is there".into()),
        (tried, _) => tried,
    }
}

/// The niceness of a thread, by the kernel's number; 0 is the calling one.
fn renice(id: i32, niceness: i32) -> Result<(), String> {
    if id == 0 && niceness == 0 {
        return Ok(());
    }
    // SAFETY: the call has no memory effects; on Linux a process's number names a thread here.
    match unsafe { libc::setpriority(libc::PRIO_PROCESS, id as libc::id_t, niceness) } {
        0 => Ok(()),
        _ => Err(format!(
            "niceness {niceness}: {}; it needs root or CAP_SYS_NICE",
            std::io::Error::last_os_error()
        )),
    }
}

#[cfg(test)]
mod tests;
