//! Asks the runtimes that are installed how many CPUs there are, as they are and under `manx run`.
//!
//! Each is a program that answers within a tenth of a second and has no file to be compiled. All
//! are run at the same time. A program without an answer after [`LIMIT`] is killed, with all that
//! it has started. A program that is not installed, or gives another kind of answer, has no row.
//!
//! | runtime | how it is asked |
//! | --- | --- |
//! | C | `getconf`, which only counts; and this command itself, which also binds threads |
//! | C++, Rust, OpenMP | by this command itself |
//! | Java | the first lines of its log say how many CPUs are available, which is what `availableProcessors` returns |
//! | Go | the trace of its scheduler says what `GOMAXPROCS` is, and any Go program writes it: the `go` command itself |

use crate::run::library;
use command::search;
use std::ffi::{CStr, OsString};
use std::fmt::Write as _;
use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a program may take to answer.
const LIMIT: Duration = Duration::from_secs(10);
/// The time between two checks whether it has.
const TICK: Duration = Duration::from_millis(2);
/// The longest answer that is read, in bytes.
const ANSWER_MAX: u64 = 1 << 16;
/// How often Go is asked: a program that ends at once may have traced nothing.
const ATTEMPTS_MAX: usize = 8;

/// What a program is asked, and what in its output is the answer.
struct Probe {
    program: &'static str,
    arguments: &'static [&'static str],
    variables: &'static [(&'static str, &'static str)],
    /// The runtime's name, what is asked, and what stands before the answer in what the program
    /// writes.
    questions: &'static [Question],
    attempts: usize,
}

/// A row of the table.
struct Question {
    runtime: &'static str,
    asks: &'static str,
    before: &'static str,
}

const fn question(runtime: &'static str, asks: &'static str, before: &'static str) -> Question {
    Question { runtime, asks, before }
}

/// This command, in the place of a program's name.
const ITSELF: &str = "";

/// `process_cpu_count` is there since Python 3.13. The pool's own attribute is private, and has had
/// this name since 3.2.
const PYTHON: &str = "import os, concurrent.futures as f
print('count', os.cpu_count())
print('affinity', len(os.sched_getaffinity(0)))
if hasattr(os, 'process_cpu_count'): print('process', os.process_cpu_count())
print('pool', getattr(f.ThreadPoolExecutor(), '_max_workers', ''))";
const NODE: &str = "const os = require('os');
'cpus ' + os.cpus().length +
(os.availableParallelism ? '\\nparallelism ' + os.availableParallelism() : '')";

const PROBES: [Probe; 7] = [
    Probe {
        program: "getconf",
        arguments: &["_NPROCESSORS_ONLN"],
        variables: &[],
        questions: &[question("C", "sysconf(_SC_NPROCESSORS_ONLN)", "")],
        attempts: 1,
    },
    Probe {
        program: ITSELF,
        arguments: &["cpus", "--ask"],
        variables: &[],
        questions: &[
            question("C", "the same, where threads are bound", "sysconf "),
            question("C", "CPUs in sched_getaffinity()", "affinity "),
            question("C++", "std::thread::hardware_concurrency()", "c++ "),
            question("OpenMP", "omp_get_max_threads()", "openmp "),
            question("Rust", "available_parallelism()", "rust "),
        ],
        attempts: 1,
    },
    Probe {
        program: "nproc",
        arguments: &[],
        variables: &[],
        questions: &[question("nproc", "nproc", "")],
        attempts: 1,
    },
    Probe {
        program: "python3",
        arguments: &["-I", "-S", "-c", PYTHON],
        variables: &[],
        questions: &[
            question("Python", "os.cpu_count()", "count "),
            question("Python", "len(os.sched_getaffinity(0))", "affinity "),
            question("Python", "os.process_cpu_count()", "process "),
            question("Python", "threads of a ThreadPoolExecutor", "pool "),
        ],
        attempts: 1,
    },
    Probe {
        program: "node",
        arguments: &["-p", NODE],
        variables: &[],
        questions: &[
            question("Node.js", "os.availableParallelism()", "parallelism "),
            question("Node.js", "os.cpus().length", "cpus "),
        ],
        attempts: 1,
    },
    Probe {
        program: "java",
        arguments: &["-Xlog:gc+init", "-version"],
        variables: &[],
        questions: &[question("Java", "availableProcessors()", " total, ")],
        attempts: 1,
    },
    Probe {
        program: "go",
        arguments: &["env", "GOOS"],
        variables: &[("GODEBUG", "schedtrace=1"), ("GOTOOLCHAIN", "local"), ("GOTELEMETRY", "off")],
        questions: &[question("Go", "GOMAXPROCS(0)", "gomaxprocs=")],
        attempts: ATTEMPTS_MAX,
    },
];

/// What a runtime said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Its name.
    pub runtime: &'static str,
    /// What was asked.
    pub asks: &'static str,
    /// The answer of the program as it is.
    pub without: Option<usize>,
    /// The answer under `manx run`.
    pub with: Option<usize>,
}

/// What all of them said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    /// Those of runtimes that answered.
    pub answers: Vec<Answer>,
    /// Why nothing could be asked under `manx run`.
    pub problem: Option<String>,
}

/// Asks all.
pub fn ask_all() -> Answers {
    let Ok(itself) = std::env::current_exe() else { return Answers::default() };
    let problem = library::find().err().map(|failure| failure.what);
    let mut all = Vec::new();
    std::thread::scope(|scope| {
        let asked = PROBES.iter().filter_map(|probe| {
            let program = match probe.program {
                ITSELF => itself.clone(),
                name => search::find(name.as_ref()).ok()?,
            };
            let plain = (vec![program.clone().into()], ("MANX", Some("off")));
            let under = (
                [itself.clone().into(), "run".into(), "-q".into(), "--".into(), program.into()].into(),
                ("MANX", None),
            );
            let (plain, under) = (scope.spawn(|| ask(probe, plain)), scope.spawn(|| ask(probe, under)));
            Some((probe, plain, under))
        });
        for (probe, plain, under) in asked.collect::<Vec<_>>() {
            // A thread that panicked has said so, and has no answer.
            let (plain, under) = (plain.join().unwrap_or_default(), under.join().unwrap_or_default());
            for (index, question) in probe.questions.iter().enumerate() {
                let answer = |answers: &[Option<usize>]| answers.get(index).copied().flatten();
                let (without, with) = (answer(&plain), answer(&under));
                if without.or(with).is_some() {
                    let Question { runtime, asks, .. } = *question;
                    all.push(Answer { runtime, asks, without, with });
                }
            }
        }
    });
    Answers { answers: all, problem }
}

/// A command's first words, and a variable to set or to take away.
type Invocation = (Vec<OsString>, (&'static str, Option<&'static str>));

/// Asks a program, until it answers. Returns an answer for each question.
fn ask(probe: &Probe, (words, (name, value)): Invocation) -> Vec<Option<usize>> {
    let deadline = Instant::now() + LIMIT;
    let mut answers = vec![None; probe.questions.len()];
    for _ in 0..probe.attempts {
        let mut command = Command::new(PathBuf::from(&words[0]));
        command.args(&words[1..]).args(probe.arguments).envs(probe.variables.iter().copied());
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
        let Some(text) = output(command, deadline) else { break };
        for (answer, question) in answers.iter_mut().zip(probe.questions) {
            *answer = answer.or(number_behind(&text, question.before));
        }
        if answers.iter().any(Option::is_some) {
            break;
        }
    }
    answers
}

/// What a command writes, to either stream; `None` if it cannot be run or does not end in time.
fn output(mut command: Command, deadline: Instant) -> Option<String> {
    let (mut reader, writer) = std::io::pipe().ok()?;
    // A group of its own, so that whatever it starts can be killed with it.
    command.stdin(Stdio::null()).stdout(writer.try_clone().ok()?).stderr(writer).process_group(0);
    let mut child = command.spawn().ok()?;
    // With it go our ends of the pipe for writing.
    drop(command);
    let text = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = reader.by_ref().take(ANSWER_MAX).read_to_end(&mut bytes);
        // The rest is read too, or the program would block in a write.
        let _ = std::io::copy(&mut reader, &mut std::io::sink());
        String::from_utf8_lossy(&bytes).into_owned()
    });
    let ended = wait(&mut child, deadline);
    if !ended {
        kill(&mut child);
        return None;
    }
    text.join().ok()
}

/// Whether the program ended in time.
fn wait(child: &mut Child, deadline: Instant) -> bool {
    loop {
        match child.try_wait() {
            Ok(Some(_)) => return true,
            Err(_) => return false,
            Ok(None) if Instant::now() >= deadline => return false,
            Ok(None) => std::thread::sleep(TICK),
        }
    }
}

fn kill(child: &mut Child) {
    if let Ok(leader) = i32::try_from(child.id()) {
        // SAFETY: kill has no memory effects; the leader has not been reaped, so the group is that
        // of our child.
        unsafe { libc::kill(-leader, libc::SIGKILL) };
    }
    let _ = child.wait();
}

/// The number behind the first `before` that a number follows.
fn number_behind(text: &str, before: &str) -> Option<usize> {
    let number = |text: &str| {
        let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        text[..end].parse().ok()
    };
    if before.is_empty() {
        // The whole output is the number: anything else is not the answer.
        return text.trim().parse().ok();
    }
    text.match_indices(before).find_map(|(at, _)| number(&text[at + before.len()..]))
}

// What functions return to this process: one line each, the name and the number of CPUs.
//
// The probes run this command as a program of its own, as it is and under `manx run`, so it stands
// for every program that could bind threads by the count, and for Rust. The libraries of C++ and
// OpenMP are opened if they are installed; OpenMP's reads its variables when that happens.

/// OpenMP's libraries: GCC's, and LLVM's.
const OPENMP: [&CStr; 2] = [c"libgomp.so.1", c"libomp.so.5"];

/// C++'s library: GCC's.
const CPP: [&CStr; 1] = [c"libstdc++.so.6"];

/// All answers, each on a line.
pub fn answers() -> String {
    let mut text = String::new();
    let mut say = |name: &str, count: Option<usize>| {
        if let Some(count) = count {
            writeln!(text, "{name} {count}").expect("writing to a String");
        }
    };
    // SAFETY: only reads.
    let sysconf = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    say("sysconf", usize::try_from(sysconf).ok());
    say("affinity", affinity());
    say("c++", count_of(&CPP, c"_ZNSt6thread20hardware_concurrencyEv"));
    say("openmp", count_of(&OPENMP, c"omp_get_max_threads"));
    say("rust", std::thread::available_parallelism().ok().map(usize::from));
    text
}

/// The CPUs in the mask that `sched_getaffinity` gives.
fn affinity() -> Option<usize> {
    // SAFETY: zeroes are an empty set; the call fills at most its size.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        let asked = libc::sched_getaffinity(0, size_of_val(&set), &mut set);
        (asked == 0).then(|| libc::CPU_COUNT(&set) as usize)
    }
}

/// The number that a function without arguments returns, in the first of these libraries that is
/// installed.
fn count_of(libraries: &[&CStr], function: &CStr) -> Option<usize> {
    libraries.iter().find_map(|name| {
        // SAFETY: the names are those of libraries which may be opened; both functions take
        // nothing, and return an `int` or an `unsigned` that is no larger.
        unsafe {
            let library = libc::dlopen(name.as_ptr(), libc::RTLD_NOW);
            if library.is_null() {
                return None;
            }
            let function = libc::dlsym(library, function.as_ptr());
            if function.is_null() {
                return None;
            }
            let function = std::mem::transmute::<*mut libc::c_void, extern "C" fn() -> libc::c_int>(function);
            usize::try_from(function()).ok()
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_found_in_what_programs_write() {
        assert_eq!(number_behind("2\n", ""), Some(2));
        assert_eq!(number_behind("two\n", ""), None);
        let java =
            "[0.032s][info][gc,init] Version: 17\n[0.032s][info][gc,init] CPUs: 8 total, 2 available\n";
        assert_eq!(number_behind(java, " total, "), Some(2));
        let go = "SCHED 0ms: gomaxprocs=12 idleprocs=1\nlinux\n";
        assert_eq!(number_behind(go, "gomaxprocs="), Some(12));
        assert_eq!(number_behind("sysconf x\nsysconf 3\n", "sysconf "), Some(3));
        assert_eq!(number_behind("sysconf", "sysconf "), None);
    }

    #[test]
    fn a_probe_that_does_not_answer_in_time_is_killed_with_its_children() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo 7; sleep 1000 & sleep 1000"]);
        let begin = Instant::now();
        assert_eq!(output(command, begin + Duration::from_millis(200)), None);
        assert!(begin.elapsed() < Duration::from_secs(100));
        let mut command = Command::new("sh");
        command.args(["-c", "echo 7; echo 8 >&2"]);
        assert_eq!(output(command, begin + Duration::from_secs(100)).as_deref(), Some("7\n8\n"));
    }

    #[test]
    fn every_line_is_a_name_and_a_count() {
        let text = answers();
        let names: Vec<_> = text
            .lines()
            .map(|line| {
                let (name, count) = line.split_once(' ').expect("two words");
                assert!(count.parse::<usize>().is_ok_and(|count| count > 0), "{line}");
                name
            })
            .collect();
        for name in ["sysconf", "affinity", "rust"] {
            assert!(names.contains(&name), "{text}");
        }
    }
}
