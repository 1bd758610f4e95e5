//! Random functions, as they are and with every loop cured by force: both return the same.
//!
//! An input of the fuzzer is a program of [`FUNCTIONS`] functions ([`functions`]), compiled by one
//! of the compilers at hand at some level. It runs without the library, and under it while CPUs
//! count as short. The results of all functions must be equal, and the programs' ends. A wait that
//! is bounded by a number of rounds must take about as long as its author meant: see [`kept`].
//!
//! A function that fails is shrunk: statements are left out as long as it still fails. What is left
//! belongs into `tests/programs/fuzz`, whose programs run in [`functions_that_failed_once`]. Their
//! first line names the compiler, the flags and the options.
//!
//! CI runs 200 functions. `cargo xtask fuzz loops --inputs 400` runs 20,000.
#![cfg(target_arch = "x86_64")]

mod common;
#[path = "fuzz_loops/functions.rs"]
mod functions;

use common::{Outcome, finish, folder, preloaded};
use functions::{Function, program};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use testing::process::{is_installed, text};

/// Functions in a program: most of the time goes into starting compilers.
const FUNCTIONS: usize = 50;
/// How often times are compared before they count as different.
const TRIES: usize = 6;
/// How long a program may take, in seconds: it takes about one.
const LIMIT_S: &str = "60";
/// Functions that take less are not compared: the clock and the visits that begin a wait count for
/// too much.
const SHORT_NS: f64 = 100_000.0;

/// A program: its text, and how it is compiled and run.
struct Case {
    compiler: String,
    flags: Vec<String>,
    options: String,
    source: String,
}

impl Case {
    fn draw(dice: &mut fastrand::Rng) -> (Case, Vec<Function>) {
        let cpp = dice.bool();
        let mut compilers = vec![if cpp { "g++" } else { "gcc" }];
        if is_installed("clang", "--version") {
            compilers.push(if cpp { "clang++" } else { "clang" });
        }
        let compiler = compilers[dice.usize(..compilers.len())].to_owned();
        let level = ["-O0", "-O1", "-O2", "-O2", "-O3", "-Os"][dice.usize(..6)];
        let mut flags = vec![level.to_owned()];
        let more = [
            "-mavx2",
            "-mavx",
            "-fno-omit-frame-pointer",
            "-fcf-protection=full",
            "-no-pie",
            "-fno-plt",
            "-ffast-math",
        ];
        flags.extend(more.into_iter().filter(|_| dice.u8(..4) == 0).map(str::to_owned));
        let options = ["", ",spins=0", ",spins=1,yields=2", ",guard=always"][dice.usize(..4)].to_owned();
        let functions: Vec<Function> = (0..FUNCTIONS).map(|_| Function::draw(dice, cpp)).collect();
        (Case { compiler, flags, options, source: program(&functions) }, functions)
    }

    /// The same with other functions.
    fn with(&self, functions: &[Function]) -> Case {
        let (compiler, flags, options) = (self.compiler.clone(), self.flags.clone(), self.options.clone());
        Case { compiler, flags, options, source: program(functions) }
    }

    /// Its text, with the first line that a program of `tests/programs/fuzz` has.
    fn kept(&self) -> String {
        format!("// {} {} {}\n{}", self.compiler, self.flags.join(" "), self.options, self.source)
    }

    /// A program that was kept.
    fn read(text: &str) -> Option<Case> {
        let (first, source) = text.split_once('\n')?;
        let mut words = first.strip_prefix("// ")?.split(' ');
        let compiler = words.next()?.to_owned();
        let (flags, options): (Vec<&str>, Vec<&str>) =
            words.filter(|word| !word.is_empty()).partition(|word| word.starts_with('-'));
        let flags = flags.into_iter().map(str::to_owned).collect();
        Some(Case { compiler, flags, options: options.concat(), source: source.to_owned() })
    }

    fn build(&self) -> PathBuf {
        // The tests of this file run at once: each has a program of its own.
        let into = folder().join(std::thread::current().name().unwrap_or("fuzz"));
        let source = into.with_extension(if self.compiler.ends_with("++") { "cpp" } else { "c" });
        std::fs::write(&source, &self.source).expect("a source file");
        let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/fuzz");
        let mut command = Command::new(&self.compiler);
        command.args(["-w", "-pthread", "-I"]).arg(include).args(&self.flags);
        let output = command.arg("-o").arg(&into).arg(&source).output().expect("a compiler");
        assert!(output.status.success(), "{command:?}: {}", text(&output.stderr));
        into
    }

    /// What differs between the program as it is and under the library, if anything does: the
    /// number of a function, and how.
    fn difference(&self) -> Option<(usize, String)> {
        let built = self.build();
        // A program that does not end fails as others do.
        let limited = |command: Command, numbers: &[String]| {
            let mut timeout = Command::new("timeout");
            let set = command.get_envs().filter_map(|(key, value)| Some((key, value?)));
            finish(timeout.arg(LIMIT_S).arg(command.get_program()).args(numbers).envs(set).env_remove("MANX"))
        };
        let plain = |numbers: &[String]| limited(Command::new(&built), numbers);
        let options = format!("short=always,cache=off{}", self.options);
        let cured = |numbers: &[String]| limited(preloaded(&built, &options), numbers);
        let expected = lines(plain(&[]).succeeded());
        let outcome = cured(&[]);
        let found = lines(&outcome);
        for (number, line) in &expected {
            match found.get(number) {
                Some(other) if other.results == line.results => {}
                Some(other) => {
                    return Some((
                        *number,
                        format!("returned {:?} in place of {:?}", other.results, line.results),
                    ));
                }
                None => return Some((*number, format!("{}: {}", outcome.status, outcome.stderr))),
            }
        }
        if !outcome.status.success() {
            return Some((0, outcome.status.to_string()));
        }
        let mut late: BTreeMap<usize, Times> = BTreeMap::new();
        for (number, line) in &expected {
            late.insert(
                *number,
                Times { as_is_ns: line.cpu_ns, cured_ns: Vec::from([found[number].took_ns]) },
            );
        }
        for _ in 0..TRIES {
            late.retain(|_, times| !times.are_kept());
            if late.is_empty() {
                return None;
            }
            let numbers: Vec<String> = late.keys().map(usize::to_string).collect();
            let (expected, found) = (lines(plain(&numbers).succeeded()), lines(cured(&numbers).succeeded()));
            for (number, times) in &mut late {
                times.as_is_ns = times.as_is_ns.min(expected[number].cpu_ns);
                times.cured_ns.push(found[number].took_ns);
            }
        }
        late.retain(|_, times| !times.are_kept());
        let (number, times) = late.pop_first()?;
        Some((number, format!("took {:?} ns in place of {} ns", times.cured_ns, times.as_is_ns)))
    }
}

/// How long a function took that is bounded by numbers of rounds.
struct Times {
    /// The CPU time without the library, the least: what it takes where no other thread runs. By
    /// the clock it may be longer at each try, because a thread that spins loses its CPU to others
    /// and one that sleeps does not.
    as_is_ns: f64,
    /// Under it, each time.
    cured_ns: Vec<f64>,
}

impl Times {
    /// Whether the author's time is kept: at one try it was not shorter by more than a tenth, and
    /// at one not longer by orders of magnitude.
    fn are_kept(&self) -> bool {
        let least = self.cured_ns.iter().copied().fold(f64::INFINITY, f64::min);
        let most = self.cured_ns.iter().copied().fold(0.0, f64::max);
        self.as_is_ns < SHORT_NS || most >= 0.9 * self.as_is_ns && least <= 50.0 * self.as_is_ns + 20e6
    }
}

/// What a program says of a function.
struct Line {
    results: [String; 2],
    took_ns: f64,
    cpu_ns: f64,
}

fn lines(outcome: &Outcome) -> BTreeMap<usize, Line> {
    let line = |line: &str| {
        let mut words = line.split(' ').map(str::to_owned);
        let number = words.next()?.parse().ok()?;
        let results = [words.next()?, words.next()?];
        let mut ns = || words.next()?.parse().ok();
        Some((number, Line { results, took_ns: ns()?, cpu_ns: ns()? }))
    };
    outcome.stdout.lines().filter_map(line).collect()
}

/// Leaves out of a program what it still fails without.
fn shrink(case: &Case, functions: &[Function], failed: usize) -> Option<(Case, String)> {
    let fails = |functions: &[Function]| {
        let case = case.with(functions);
        case.difference().map(|(_, how)| (case, how))
    };
    let mut left = functions[failed].clone();
    let mut smallest = fails(core::slice::from_ref(&left))?;
    let mut n = 0;
    while n < left.statements() {
        let less = left.without(n);
        match fails(core::slice::from_ref(&less)) {
            Some(smaller) => (left, smallest) = (less, smaller),
            None => n += 1,
        }
    }
    Some(smallest)
}

#[test]
fn random_functions() {
    if !is_installed("g++", "--version") {
        return;
    }
    testing::fuzz("loops", 4, |dice| {
        let (case, functions) = Case::draw(dice);
        let Some((failed, how)) = case.difference() else { return };
        let (smallest, how) = shrink(&case, &functions, failed).unwrap_or((case, how));
        panic!("a function {how}\n{}", smallest.kept());
    });
}

#[test]
fn functions_that_failed_once() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/fuzz");
    for entry in std::fs::read_dir(folder).expect("the folder") {
        let path = entry.expect("a file").path();
        let text = std::fs::read_to_string(&path).expect("its text");
        let Some(case) = Case::read(&text) else { continue };
        if is_installed(&case.compiler, "--version") {
            let difference = case.difference();
            assert_eq!(difference, None, "{}", path.display());
        }
    }
}
