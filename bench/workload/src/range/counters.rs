//! Cycles, instructions and misses of the first data cache an operation, by whatever counts them on
//! this machine.
//!
//! An operation is to lock a range of the thread's own slice, and to unlock it; or, as in figure
//! 5.5 of the thesis, to read an object of 1 MiB ([`super::blob`]). Where the processor's counters
//! can be had ([`platform::perf`]), a run is counted whole, all its threads, outside of the kernel.
//! A thread's start and end are in there, too, so two runs are made, of few and of many operations,
//! and their difference is what counts. Where there are no such counters (most virtual machines
//! have none), callgrind counts the instructions of one thread, if Valgrind is there. What was not
//! counted has no figure.
//!
//! Callgrind runs the command itself as another process, which does nothing but these operations
//! ([`arguments`], [`run_child`]).

use super::blob::{Reads, counted_pages};
use super::case::{COUNTERS, COUNTERS_BLOB, scaled};
use super::competitor::{Competitor, Measured, REFERENCE};
use super::memory::lock_and_unlock;
use super::plan::Plan;
use super::request::{Pattern, Request};
use super::rocksdb;
use super::run::run_apart;
use crate::engine::compiler::Compiler;
use crate::error::{Error, reason};
use crate::harness::{Bench, Case, Sample};
use manx::range::RawRangeLock;
use platform::perf::{Counter, Event};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Barrier;
use std::time::Duration;

/// The region that threads share, in bytes.
const SPACE: usize = 512 * 1024;
/// Operations of each thread in the shorter run and in the longer one: for the processor, and for
/// callgrind.
const FEW: u64 = 20_000;
const MANY: u64 = 220_000;
const FEW_EMULATED: u64 = 1_000;
const MANY_EMULATED: u64 = 11_000;
/// A read of an object takes some ten thousand instructions more than a pair, mostly its copy.
const PER_READ: u64 = 20;
/// The divisor of these numbers in a smoke check.
const QUICK: u64 = 10;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A lock and an unlock.
    Pair,
    /// A read of an object.
    Read,
}

impl Operation {
    /// The name of its cases.
    fn case(self) -> &'static str {
        match self {
            Operation::Pair => COUNTERS,
            Operation::Read => COUNTERS_BLOB,
        }
    }
}

/// What counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The processor.
    Processor,
    /// Callgrind: instructions of one thread.
    Callgrind,
    /// Nothing, and why.
    Nobody(String),
}

/// What an operation takes, as far as it was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Counts {
    /// Cycles of the core.
    pub cycles: Option<f64>,
    /// Instructions completed.
    pub instructions: Option<f64>,
    /// Loads that missed the first data cache.
    pub l1d_misses: Option<f64>,
}

impl Counts {
    /// The figures that there are, by their names in a report.
    pub fn values(self) -> impl Iterator<Item = (&'static str, f64)> {
        let named = [
            ("cycles_per_operation", self.cycles),
            ("instructions_per_operation", self.instructions),
            ("l1d_misses_per_operation", self.l1d_misses),
        ];
        named.into_iter().filter_map(|(name, value)| Some((name, value?)))
    }

    /// Each of them by a function of both; none where one is missing.
    fn zip(self, other: Counts, of: impl Fn(f64, f64) -> f64) -> Counts {
        let both = |one: Option<f64>, other: Option<f64>| Some(of(one?, other?));
        Counts {
            cycles: both(self.cycles, other.cycles),
            instructions: both(self.instructions, other.instructions),
            l1d_misses: both(self.l1d_misses, other.l1d_misses),
        }
    }
}

impl Source {
    /// Returns what counts on this machine.
    pub fn of_this_machine() -> Source {
        match Counter::of_this_thread(Event::Instructions) {
            Ok(_) => Source::Processor,
            Err(_) if is_there() => Source::Callgrind,
            Err(error) => Source::Nobody(format!(
                "the processor's counters cannot be had ({}), and there is no valgrind (Debian: apt-get install valgrind)",
                std::io::Error::from_raw_os_error(error)
            )),
        }
    }

    /// What the reader of the figures must know.
    pub fn note(&self) -> String {
        match self {
            Source::Processor => {
                "counters: of the processor, outside of the kernel; a longer run less a shorter one".into()
            }
            Source::Callgrind => {
                "counters: the processor's cannot be had here; instructions are counted by callgrind, of one \
                                  thread, and cycles and misses by nobody"
                    .into()
            }
            Source::Nobody(why) => format!("counters: this machine does not count: {why}"),
        }
    }

    /// With how many threads it can count.
    fn counts_threads(&self, threads: usize) -> bool {
        match self {
            Source::Processor => true,
            Source::Callgrind => threads == 1,
            Source::Nobody(_) => false,
        }
    }

    /// What an operation takes with this lock. `program` is this command, which callgrind runs.
    ///
    /// # Errors
    /// In words, if the counting fails.
    pub fn count(
        &self,
        program: &Path,
        (operation, competitor): (Operation, Competitor),
        threads: usize,
        quick: bool,
    ) -> Result<Counts, String> {
        let scale = if quick { QUICK } else { 1 } * if operation == Operation::Read { PER_READ } else { 1 };
        match self {
            Source::Processor => {
                let once = |operations| match operation {
                    Operation::Pair => competitor.measure(SPACE as u64, Counted { threads, operations }),
                    Operation::Read => {
                        let (space, block) = counted_pages();
                        let mut read = Ok(());
                        let reads = || {
                            read = competitor.measure_blocks(
                                space,
                                Some(block),
                                Reads { threads, reads: operations },
                            )
                        };
                        let counts = counted(reads);
                        read.and(counts)
                    }
                };
                let (few, many) = (FEW / scale, MANY / scale);
                let (less, more) = (once(few)?, once(many)?);
                let operations = (many - few) as f64 * threads as f64;
                Ok(more.zip(less, |more, less| (more - less) / operations))
            }
            Source::Callgrind => {
                let (few, many) = (FEW_EMULATED / scale, MANY_EMULATED / scale);
                let arguments = |operations| arguments(operation, competitor, operations);
                let instructions = per_operation(program, arguments, few, many)?;
                Ok(Counts { instructions: Some(instructions), ..Counts::default() })
            }
            Source::Nobody(_) => Ok(Counts::default()),
        }
    }
}

/// The hidden option of `manx bench range` that does some operations and nothing else.
pub const OPTION: &str = "count-operations";

/// In its value, before the lock's name: objects are read.
const READS: &str = "blob:";

/// Returns the arguments with which the command does `operations` operations with a lock, in one
/// thread.
pub fn arguments(operation: Operation, competitor: Competitor, operations: u64) -> Vec<OsString> {
    let what = if operation == Operation::Read { READS } else { "" };
    ["range".into(), format!("--{OPTION}={what}{}:{operations}", competitor.name()).into()].into()
}

/// Does what the value of [`OPTION`] says.
///
/// # Errors
/// In words, if it is not a lock and a number.
pub fn run_child(value: &str) -> Result<(), String> {
    let wrong = || format!("{value}: not a lock and a number of operations, such as map:1000");
    let (name, operations) = value.rsplit_once(':').ok_or_else(wrong)?;
    let (reads, name) = name.strip_prefix(READS).map_or((false, name), |name| (true, name));
    let competitor = Competitor::ALL.iter().find(|competitor| competitor.name() == name).ok_or_else(wrong)?;
    let operations = operations.parse().map_err(|_| wrong())?;
    if let Some((_, load)) = rocksdb::COMPETITORS.iter().find(|(loaded, _)| *loaded == name) {
        let loaded = Compiler::from_environment().and_then(|compiler| load(&compiler));
        loaded.map_err(|error| error.to_string())?;
    }
    if reads {
        let (space, block) = counted_pages();
        return competitor.measure_blocks(space, Some(block), Reads { threads: 1, reads: operations });
    }
    competitor.measure(SPACE as u64, Operate { operations });
    Ok(())
}

/// Operations in this thread.
struct Operate {
    operations: u64,
}

impl Measured for Operate {
    type Output = ();

    fn with<L: RawRangeLock>(self, make: impl Fn() -> L) {
        lock_and_unlock(&make(), &Pattern::Own { space: SPACE }.queue(0, 1), self.operations as usize);
    }
}

/// Operations in `threads` threads, counted.
struct Counted {
    threads: usize,
    operations: u64,
}

impl Measured for Counted {
    type Output = Result<Counts, String>;

    fn with<L: RawRangeLock>(self, make: impl Fn() -> L) -> Self::Output {
        let lock = make();
        let queues: Vec<Vec<Request>> =
            (0..self.threads).map(|index| Pattern::Own { space: SPACE }.queue(index, self.threads)).collect();
        let ready = Barrier::new(self.threads);
        counted(|| {
            std::thread::scope(|scope| {
                for queue in &queues {
                    let (lock, ready) = (&lock, &ready);
                    scope.spawn(move || {
                        // All at once, so that a long run is as contended as it says.
                        ready.wait();
                        lock_and_unlock(lock, queue, self.operations as usize);
                    });
                }
            });
        })
    }
}

/// What the threads count that `run` starts and waits for, and this one meanwhile. An event that
/// the machine does not count, or that never had its turn on the processor, has no figure.
fn counted(run: impl FnOnce()) -> Result<Counts, String> {
    let counter = |event: Event| Counter::of_this_thread(event).ok();
    let counters = [Event::Cycles, Event::Instructions, Event::L1DataMisses].map(counter);
    let read = |counter: &Option<Counter>| -> Result<_, String> {
        let failed = |error| format!("counters: {}", std::io::Error::from_raw_os_error(error));
        counter.as_ref().map(|counter| counter.read().map_err(failed)).transpose()
    };
    run();
    let mut estimates = [None; 3];
    for (estimate, counter) in estimates.iter_mut().zip(&counters) {
        *estimate = read(counter)?.and_then(|reading| reading.estimate());
    }
    let [cycles, instructions, l1d_misses] = estimates;
    Ok(Counts { cycles, instructions, l1d_misses })
}

/// What counting is thought to take, with one lock: by the processor, and by callgrind.
const EXPECTED: Duration = Duration::from_millis(500);
const EXPECTED_EMULATED: Duration = Duration::from_secs(4);

impl Plan {
    /// Cycles, instructions and misses.
    pub(in crate::range) fn counters(&self, bench: &mut Bench) -> Result<(), Error> {
        if self.setup.check {
            return Ok(());
        }
        let source = Source::of_this_machine();
        bench.note(source.note());
        let program = std::env::current_exe().map_err(|error| {
            Error::request(format!("this program's path: {}", reason(&error)), "mount /proc")
        })?;
        let is_chosen = |lock: &Competitor| {
            (!self.setup.quick || !self.setup.locks.is_empty() || *lock == REFERENCE)
                && self.is_asked_for(*lock)
        };
        let competitors: Vec<Competitor> = Competitor::locks().filter(is_chosen).collect();
        let names: Vec<&str> = competitors.iter().map(|competitor| competitor.name()).collect();
        // Callgrind's numbers are the same every time.
        let (rounds, expected) = match source {
            Source::Callgrind => (1, EXPECTED_EMULATED),
            _ => (bench.resolution.pairs_min, EXPECTED),
        };
        for operation in [Operation::Pair, Operation::Read] {
            for &threads in self.setup.threads.iter().filter(|&&threads| source.counts_threads(threads)) {
                let name = scaled(operation.case(), threads);
                let case = Case { name: &name, variants: &names, expected };
                bench.rounds(case, rounds, |at, _| {
                    let what = (operation, competitors[at]);
                    let count = || source.count(&program, what, threads, self.setup.quick);
                    let found = run_apart(competitors[at].leaks() && source == Source::Processor, count);
                    let found =
                        found.map_err(|what| Error::failed(format!("{}, {name}: {what}", names[at])))?;
                    let values = found.values().map(|(name, value)| (name.to_owned(), value)).collect();
                    Ok(Sample { values, output: None })
                })?;
            }
        }
        Ok(())
    }
}

// Instructions, counted by Valgrind's callgrind where the processor counts none for us.
//
// Callgrind runs a program's machine code one instruction after the other on a processor of its
// own and counts them: the same number in every run, as long as the program does the same. It runs
// one thread at a time, so only a program of one is asked about. What a start costs is the same
// whatever the program then does, so a longer run's instructions less a shorter run's are those of
// the operations between ([`per_operation`]).

/// Whether there is a Valgrind in PATH.
fn is_there() -> bool {
    let mut command = Command::new("valgrind");
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// How many instructions an operation takes, by running `program` with the arguments for two
/// numbers of operations.
///
/// # Errors
/// In words: the program failed below callgrind, or the longer run did not take more instructions.
fn per_operation(
    program: &Path,
    arguments: impl Fn(u64) -> Vec<OsString>,
    few: u64,
    many: u64,
) -> Result<f64, String> {
    assert!(few < many);
    let (less, more) = (total(program, &arguments(few))?, total(program, &arguments(many))?);
    match more.checked_sub(less) {
        Some(instructions) => Ok(instructions as f64 / (many - few) as f64),
        None => Err(format!("{many} operations took {more} instructions, and {few} took {less}")),
    }
}

/// The instructions of one run.
fn total(program: &Path, arguments: &[OsString]) -> Result<u64, String> {
    let folder = tempfile::tempdir().map_err(|error| reason(&error))?;
    let file = folder.path().join("callgrind.out");
    let mut out = OsString::from("--callgrind-out-file=");
    out.push(&file);
    let mut command = Command::new("valgrind");
    command.args(["-q", "--tool=callgrind"]).arg(out).arg(program).args(arguments).stdin(Stdio::null());
    let output = command.output().map_err(|error| format!("valgrind: {}", reason(&error)))?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        let last = words.lines().next_back().unwrap_or_default();
        return Err(format!("{} below callgrind: {}: {last}", program.display(), output.status));
    }
    let text =
        std::fs::read_to_string(&file).map_err(|error| format!("callgrind's result: {}", reason(&error)))?;
    instructions(&text).ok_or_else(|| "callgrind's result has no number of instructions".into())
}

/// The number in callgrind's file: the first column of the totals, if that is of instructions.
fn instructions(text: &str) -> Option<u64> {
    let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key));
    if value("events:")?.split_whitespace().next() != Some("Ir") {
        return None;
    }
    value("totals:").or_else(|| value("summary:"))?.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::range::conclude;
    use report::{Machine, Report};

    #[test]
    fn a_counter_that_one_run_lacks_has_no_figure() {
        let more = Counts { cycles: Some(500.0), instructions: Some(90.0), l1d_misses: None };
        let less = Counts { cycles: Some(100.0), instructions: None, l1d_misses: Some(1.0) };
        let per_operation = more.zip(less, |more, less| (more - less) / 100.0);
        assert_eq!(per_operation, Counts { cycles: Some(4.0), ..Counts::default() });
        assert!(per_operation.values().eq([("cycles_per_operation", 4.0)]));
    }

    #[test]
    fn the_machine_counts_or_says_why_not() {
        let source = Source::of_this_machine();
        assert!(source.note().starts_with("counters: "));
        match &source {
            Source::Processor => {
                let found =
                    source.count(Path::new("unused"), (Operation::Pair, Competitor::Map), 2, true).unwrap();
                assert!(found.instructions.unwrap() > 10.0, "{found:?}");
            }
            Source::Callgrind => assert!(source.counts_threads(1) && !source.counts_threads(2)),
            Source::Nobody(why) => {
                assert!(!why.is_empty() && !source.counts_threads(1));
                let found =
                    source.count(Path::new("unused"), (Operation::Pair, Competitor::Map), 1, true).unwrap();
                assert_eq!(found, Counts::default());
            }
        }
    }

    #[test]
    fn the_child_does_what_the_arguments_say_and_refuses_anything_else() {
        let last = arguments(Operation::Pair, Competitor::Map, 100).pop().unwrap().into_string().unwrap();
        let value = last.strip_prefix(&format!("--{OPTION}=")).unwrap();
        assert_eq!(run_child(value), Ok(()));
        for wrong in ["map", "map:", "map:x", "nothing:5", ":5", ""] {
            assert!(run_child(wrong).unwrap_err().contains("such as map:1000"), "{wrong}");
        }
    }

    #[test]
    fn counting_runs_what_it_counts() {
        let mut ran = false;
        counted(|| ran = true).unwrap();
        assert!(ran);
    }

    #[test]
    fn a_counter_that_was_not_read_is_a_dash() {
        let mut report = Report::new("range", Machine::default(), 0);
        let case = scaled(COUNTERS, 1);
        report.add(&case, "x", 0, &[("instructions_per_operation", 155.0)]);
        conclude(&mut report);
        assert_eq!(report.tables[0].title, case);
        assert_eq!(report.tables[0].rows, [["x", "1", "-", "155", "-"]]);
    }

    #[test]
    fn the_number_is_that_of_instructions_or_there_is_none() {
        let text = "version: 1\nevents: Ir Dr\nfn=(1) main\n1 5 2\nsummary: 12 3\ntotals: 1234 5\n";
        assert_eq!(instructions(text), Some(1234));
        assert_eq!(instructions("events: Ir\nsummary: 77\n"), Some(77));
        assert_eq!(instructions("events: Dr Ir\ntotals: 5 6\n"), None);
        assert_eq!(instructions("events: Ir\n"), None);
        assert_eq!(instructions("events: Ir\ntotals: many\n"), None);
        assert_eq!(instructions(""), None);
    }

    #[test]
    fn more_work_takes_more_instructions_and_a_failure_says_so() {
        if !is_there() {
            assert!(total(Path::new("/bin/true"), &[]).is_err());
            return testing::skip("in part: valgrind is not installed");
        }
        // A shell that counts.
        let shell = Path::new("/bin/sh");
        let counts = |operations: u64| {
            let script = format!("i=0; while [ $i -lt {operations} ]; do i=$((i+1)); done");
            vec!["-c".into(), script.into()]
        };
        let one = per_operation(shell, counts, 10, 110).unwrap();
        assert!(one > 10.0, "{one} instructions for a round of a shell's loop");
        let words = total(shell, &["-c".into(), "exit 3".into()]).unwrap_err();
        assert!(words.contains("/bin/sh") && words.contains('3'), "{words}");
    }
}
