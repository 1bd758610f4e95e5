//! Runs a test in many orders of steps, drawn at random, and says how to see the one again that
//! failed.
//!
//! Two schedulers draw: one picks the next thread evenly at each step, the other gives threads
//! priorities and changes these at a few points (probabilistic concurrency testing: Burckhardt,
//! Kothari, Musuvathi and Nagarakatte, "A randomized scheduler with probabilistic guarantees of
//! finding bugs", 2010). The first finds what needs many switches, the second what needs a few at
//! the right places.
//!
//! What was drawn is recorded, thread by thread, together with the seed of the random numbers that
//! the execution used. A failure prints both as one word, in the command that replays it: the same
//! steps, once. The seed itself is another one in each run, unless `SHUTTLE_RANDOM_SEED` says
//! which.
//!
//! | a recorded word | |
//! | --- | --- |
//! | digits, `-` | the seed of the execution's random numbers |
//! | `0` to `9`, `a` to `z` | a step of that thread, the test's first one being 0 |
//! | `.` | the thread that runs draws a random number |
//!
//! `MANX_FULL` multiplies the number of executions by [`FULL_TIMES`].

use shuttle::scheduler::{PctScheduler, RandomScheduler, ReplayScheduler, Schedule, Scheduler, Task, TaskId};
use shuttle::{Config, FailurePersistence, MaxSteps, Runner};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Executions by each scheduler in a short run.
pub const EXECUTIONS: usize = 1_000;
/// So many times as many if `MANX_FULL` is set.
pub const FULL_TIMES: usize = 100;
/// The stack of a thread, in bytes: code without optimisation copies what it returns, and a thread
/// that overflows ends the process.
const STACK: usize = 256 * 1024;
/// Where the second scheduler changes priorities: at one point less than this, each time elsewhere.
const DEPTH: usize = 4;
/// An execution that takes more steps than this is taken for one that goes on for ever.
pub const STEPS_MAX: usize = 50_000;
/// The variable with the recorded word that is to be replayed.
pub const SCHEDULE: &str = "MANX_SCHEDULE";

/// The test that explores, as cargo knows it: see [`site!`](crate::site).
#[derive(Clone, Copy, Debug)]
pub struct Site {
    /// The package.
    pub package: &'static str,
    /// The test's path, with its crate in front and a function inside of it behind.
    pub inside: &'static str,
}

/// The test that this stands in, as an [`explore::Site`](crate::explore::Site).
#[macro_export]
macro_rules! site {
    () => {{
        fn inside() {}
        $crate::explore::Site {
            package: env!("CARGO_PKG_NAME"),
            inside: ::std::any::type_name_of_val(&inside),
        }
    }};
}

impl Site {
    /// The command that replays this recorded word.
    pub fn command(self, word: &str) -> String {
        let mut path = self.inside.split("::");
        let target = path.next().unwrap_or_default();
        let names: Vec<&str> = path.filter(|name| *name != "inside" && *name != "{{closure}}").collect();
        let (package, name) = (self.package, names.join("::"));
        format!("{SCHEDULE}='{word}' cargo test -p {package} --test {target} -- --exact {name}")
    }
}

/// Runs `test` in [`EXECUTIONS`] orders by each scheduler, or in the one that [`SCHEDULE`] has.
///
/// # Panics
/// If an execution panics, deadlocks or does not end; the command that replays it is on the
/// standard error.
pub fn check(site: Site, test: impl Fn() + Send + Sync + 'static) {
    if let Ok(word) = std::env::var(SCHEDULE) {
        return replay(&word, test);
    }
    let full = std::env::var_os("MANX_FULL").is_some();
    let executions = if full { EXECUTIONS * FULL_TIMES } else { EXECUTIONS };
    let test = Arc::new(test);
    let again = Arc::clone(&test);
    report(site, record(RandomScheduler::new(executions), move || again()));
    report(site, record(PctScheduler::new(DEPTH, executions), move || test()));
}

/// How an exploration failed: what was drawn, and what the panic said.
type Failure = (String, Box<dyn std::any::Any + Send>);

fn report(site: Site, result: Result<(), Failure>) {
    if let Err((word, panic)) = result {
        eprintln!("this order of steps failed; to see it again:\n\n{}\n", site.command(&word));
        resume_unwind(panic);
    }
}

/// Looks for a failure by this scheduler, and returns the recorded word of the first execution that
/// fails.
///
/// # Errors
/// That word, and what its panic carried.
pub fn record(
    scheduler: impl Scheduler + 'static,
    test: impl Fn() + Send + Sync + 'static,
) -> Result<(), Failure> {
    let word = Arc::new(Mutex::new(String::new()));
    let recorder = Recorder { scheduler, word: Arc::clone(&word) };
    let run = || Runner::new(recorder, config()).run(test);
    catch_unwind(AssertUnwindSafe(run)).map(|_| ()).map_err(|panic| {
        let word = word.lock().unwrap_or_else(PoisonError::into_inner);
        (word.clone(), panic)
    })
}

/// Runs `test` once, in the order that was recorded.
///
/// # Panics
/// As the recorded execution did; if the word is not one that was recorded; and if the test has
/// changed since and has no such order any more.
pub fn replay(word: &str, test: impl Fn() + Send + Sync + 'static) {
    let Some(schedule) = read(word) else {
        panic!("{SCHEDULE} has no recorded word: copy the one that the failed test printed, all of it");
    };
    Runner::new(ReplayScheduler::new_from_schedule(schedule), config()).run(test);
}

fn config() -> Config {
    let mut config = Config::new();
    config.failure_persistence = FailurePersistence::None;
    config.max_steps = MaxSteps::FailAfter(STEPS_MAX);
    config.silence_warnings = true;
    config.stack_size = STACK;
    config
}

/// A recorded word as shuttle wants it, if it is one.
fn read(word: &str) -> Option<Schedule> {
    let (seed, steps) = word.trim().split_once(BEHIND_SEED)?;
    let mut schedule = Schedule::new(seed.parse().ok()?);
    for step in steps.chars() {
        match step {
            RANDOM => schedule.push_random(),
            thread => schedule.push_task(TaskId::from(thread.to_digit(THREADS_MAX)? as usize)),
        }
    }
    (!schedule.is_empty()).then_some(schedule)
}

/// Between the seed and the steps.
const BEHIND_SEED: char = '-';
/// The thread that runs draws a random number.
const RANDOM: char = '.';
/// So many threads have a digit.
const THREADS_MAX: u32 = 36;

/// A scheduler that writes down what it drew in the execution that runs.
struct Recorder<S> {
    scheduler: S,
    word: Arc<Mutex<String>>,
}

impl<S> Recorder<S> {
    fn word(&self) -> MutexGuard<'_, String> {
        self.word.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Scheduler> Scheduler for Recorder<S> {
    fn new_execution(&mut self) -> Option<Schedule> {
        let schedule = self.scheduler.new_execution()?;
        *self.word() = format!("{}{BEHIND_SEED}", schedule.seed);
        Some(schedule)
    }

    fn next_task(&mut self, ready: &[&Task], current: Option<TaskId>, yields: bool) -> Option<TaskId> {
        let next = self.scheduler.next_task(ready, current, yields)?;
        let digit = char::from_digit(usize::from(next) as u32, THREADS_MAX);
        self.word().push(digit.expect("a test has at most 36 threads, the first included"));
        Some(next)
    }

    fn next_u64(&mut self) -> u64 {
        self.word().push(RANDOM);
        self.scheduler.next_u64()
    }
}
