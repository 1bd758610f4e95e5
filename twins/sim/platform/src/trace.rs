//! What happens in a run, on a timeline: which thread runs on which CPU, which one has none, which
//! one sleeps at which address, and what the program says of itself.
//!
//! A trace holds the first events up to a number of them, because a second of a busy program has
//! millions. Its JSON is that of Chrome's tracer ("JSON Array Format"), which Perfetto opens. There
//! are three tracks for each thread or CPU: *CPUs*, *threads* and *program*.
//!
//! 1. Events are in the order of time for each thread, and so for each CPU. What an event tells
//!    lasts until the thread's next event of the same track.

use crate::fair::Id;
use crate::task::NEIGHBOUR;
use std::collections::{HashMap, HashSet};
use std::fmt::Write;

/// What a thread does from a moment on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Does {
    /// It runs on this CPU.
    Runs(usize),
    /// Another thread has begun to wake it.
    IsWoken,
    /// It could run, and has no CPU.
    Waits,
    /// It sleeps.
    Sleeps,
    /// It sleeps at this address.
    SleepsAt(usize),
    /// It has ended.
    Ended,
    /// What the program says; nothing if there are no words.
    Says(&'static str),
}

#[derive(Clone, Copy, Debug)]
struct Event {
    at_ns: u64,
    id: Id,
    does: Does,
}

/// For how long threads of the program could run and had no CPU, in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// Each time that a thread had lost its CPU
    pub lost: Vec<u64>,
    /// Each time that it had slept, from the moment when another thread began to wake it
    pub slept: Vec<u64>,
}

/// The first events of a run.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    events: Vec<Event>,
    most: usize,
}

impl Trace {
    /// For at most this number of events.
    pub fn new(most: usize) -> Trace {
        Trace { events: Vec::new(), most }
    }

    /// Whether there is no room for more.
    pub fn is_full(&self) -> bool {
        self.events.len() >= self.most
    }

    /// A thread does something else from now on.
    #[inline]
    pub fn add(&mut self, at_ns: u64, id: Id, does: Does) {
        if !self.is_full() {
            self.events.push(Event { at_ns, id, does });
        }
    }

    /// The waits of all threads but the first one, which started them.
    pub fn waits(&self) -> Waits {
        let mut waits = Waits::default();
        // Of each thread: since when it has no CPU, and whether it had slept.
        let mut since: HashMap<Id, (u64, bool)> = HashMap::new();
        let mut asleep: HashSet<Id> = HashSet::new();
        let program = self.events.iter().filter(|event| (1..NEIGHBOUR).contains(&event.id));
        for Event { at_ns, id, does } in program.copied() {
            match does {
                Does::IsWoken | Does::Waits => {
                    since.entry(id).or_insert_with(|| (at_ns, asleep.remove(&id)));
                }
                Does::Runs(_) => match since.remove(&id) {
                    Some((began_ns, true)) => waits.slept.push(at_ns - began_ns),
                    Some((began_ns, false)) => waits.lost.push(at_ns - began_ns),
                    None => {}
                },
                Does::Sleeps | Does::SleepsAt(_) => _ = asleep.insert(id),
                Does::Ended | Does::Says(_) => {}
            }
        }
        waits
    }

    /// The file for Perfetto.
    pub fn json(&self) -> String {
        let mut json = String::from("[");
        for (process, name) in [(CPUS, "CPUs"), (THREADS, "threads"), (PROGRAM, "program")] {
            let _ = writeln!(
                json,
                r#"{{"name":"process_name","ph":"M","pid":{process},"args":{{"name":"{name}"}}}},"#
            );
        }
        // By track, what began when.
        let mut open: HashMap<(u32, usize), (u64, String)> = HashMap::new();
        let mut on_cpu: HashMap<Id, usize> = HashMap::new();
        for event in &self.events {
            let Event { at_ns, id, does } = *event;
            if let Does::Says(words) = does {
                end(&mut json, &mut open, (PROGRAM, id), at_ns);
                if !words.is_empty() {
                    open.insert((PROGRAM, id), (at_ns, words.into()));
                }
                continue;
            }
            end(&mut json, &mut open, (THREADS, id), at_ns);
            if let Some(cpu) = on_cpu.remove(&id) {
                end(&mut json, &mut open, (CPUS, cpu), at_ns);
            }
            let words = match does {
                Does::Runs(cpu) => {
                    on_cpu.insert(id, cpu);
                    open.insert((CPUS, cpu), (at_ns, format!("thread {id}")));
                    format!("runs on CPU {cpu}")
                }
                Does::IsWoken => "is woken".into(),
                Does::Waits => "has no CPU".into(),
                Does::Sleeps => "sleeps".into(),
                Does::SleepsAt(address) => format!("sleeps at {address:#x}"),
                Does::Ended | Does::Says(_) => continue,
            };
            open.insert((THREADS, id), (at_ns, words));
        }
        let last_ns = self.events.last().map_or(0, |event| event.at_ns);
        let mut left: Vec<(u32, usize)> = open.keys().copied().collect();
        left.sort_unstable();
        left.into_iter().for_each(|track| end(&mut json, &mut open, track, last_ns));
        // A last entry without a comma behind it.
        json.push_str(r#"{"name":"process_labels","ph":"M","pid":1,"args":{"labels":"simulated"}}]"#);
        json.push('\n');
        json
    }
}

const CPUS: u32 = 1;
const THREADS: u32 = 2;
const PROGRAM: u32 = 3;

/// Ends what is open on a track. Times are in microseconds there.
fn end(json: &mut String, open: &mut HashMap<(u32, usize), (u64, String)>, track: (u32, usize), at_ns: u64) {
    let Some((began_ns, name)) = open.remove(&track) else { return };
    let us = |ns: u64| ns as f64 / 1000.0;
    let _ = writeln!(
        json,
        r#"{{"name":"{name}","ph":"X","pid":{},"tid":{},"ts":{},"dur":{}}},"#,
        track.0,
        track.1,
        us(began_ns),
        us(at_ns.saturating_sub(began_ns))
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_of_a_thread_that_slept_or_of_one_that_lost_its_cpu() {
        let mut trace = Trace::new(100);
        for (at_ns, id, does) in [
            (0, 0, Does::Waits),
            (9, 0, Does::Runs(0)),
            (10, 1, Does::Runs(1)),
            (20, 1, Does::Waits),
            (50, 1, Does::Runs(1)),
            (60, 1, Does::Sleeps),
            (60, 1, Does::SleepsAt(64)),
            (70, 1, Does::Waits),
            (75, 1, Does::Runs(0)),
            (80, 1, Does::Sleeps),
            (90, 1, Does::IsWoken),
            (93, 1, Does::Waits),
            (93, 1, Does::Runs(0)),
        ] {
            trace.add(at_ns, id, does);
        }
        assert_eq!(trace.waits(), Waits { lost: vec![30], slept: vec![5, 3] });
    }

    #[test]
    fn what_a_thread_does_lasts_until_it_does_something_else() {
        let mut trace = Trace::new(7);
        trace.add(0, 4, Does::Waits);
        trace.add(1000, 4, Does::Runs(2));
        trace.add(1500, 4, Does::Says("holds"));
        trace.add(2000, 4, Does::Says(""));
        trace.add(3000, 4, Does::Sleeps);
        trace.add(3000, 4, Does::SleepsAt(64));
        trace.add(5000, 4, Does::Ended);
        trace.add(6000, 4, Does::Waits);
        assert!(trace.is_full());
        let json = trace.json();
        for line in [
            r#"{"name":"has no CPU","ph":"X","pid":2,"tid":4,"ts":0,"dur":1},"#,
            r#"{"name":"runs on CPU 2","ph":"X","pid":2,"tid":4,"ts":1,"dur":2},"#,
            r#"{"name":"thread 4","ph":"X","pid":1,"tid":2,"ts":1,"dur":2},"#,
            r#"{"name":"holds","ph":"X","pid":3,"tid":4,"ts":1.5,"dur":0.5},"#,
            r#"{"name":"sleeps at 0x40","ph":"X","pid":2,"tid":4,"ts":3,"dur":2},"#,
        ] {
            assert!(json.contains(line), "{json}");
        }
        assert!(json.starts_with('[') && json.ends_with("]\n"));
    }
}
