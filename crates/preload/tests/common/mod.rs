//! Runs small C and C++ programs under the library that was built beside the test.
//!
//! Each program is compiled with the system's compiler when it is first wanted, with its symbols
//! exported, so that the statistics name the functions in which threads waited.
#![allow(dead_code)]

pub mod machine;

use preload_abi::options::Lock;
use std::ffi::OsStr;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use testing::process;

/// The values of the option `lock`.
pub fn modes() -> impl Iterator<Item = &'static str> {
    Lock::ALL.into_iter().map(Lock::word)
}

/// Those under which mutexes are ours.
pub fn ours() -> impl Iterator<Item = &'static str> {
    modes().filter(|mode| *mode != Lock::Glibc.word())
}

/// The ways into a loop's copy, as the programs' `loops.h` names its loops.
pub const WAYS: [&str; 3] = ["whole", "row", "short"];

/// `libmanx_preload.so`, as cargo built it for this test.
pub fn library() -> PathBuf {
    built(preload_abi::LIBRARY_NAME)
}

/// `libmanx_requests.so`, as cargo built it for this test.
pub fn requests_library() -> PathBuf {
    built(preload_abi::REQUESTS_LIBRARY_NAME)
}

fn built(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("the test's own path");
    let library = test.with_file_name(name);
    assert!(library.exists(), "{}: not built", library.display());
    library
}

/// A folder for this test process's files.
pub fn folder() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("preload-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

/// `manx` with the library, if it was built in this profile.
pub fn manx() -> Option<Command> {
    let library = library();
    let path: PathBuf = library.parent()?.parent()?.join("manx");
    if !path.exists() {
        testing::skip(format_args!("{} is not built (cargo build -p cli)", path.display()));
        return None;
    }
    let mut command = Command::new(path);
    command
        .env("MANX_PRELOAD", library)
        .env_remove("MANX")
        .env_remove("MANX_OPTIONS")
        .env_remove("LD_PRELOAD");
    Some(command)
}

/// Compiles `tests/programs/NAME.c`, or `NAME.cpp`, and returns the program's path.
pub fn program(name: &str) -> PathBuf {
    program_with(name, &[])
}

/// As [`program`], with libraries to link and other flags.
pub fn program_with(name: &str, flags: &[&str]) -> PathBuf {
    compiled_as(name, name, flags)
}

/// Compiles `tests/programs/NAME.c` as a library.
pub fn shared_library(name: &str) -> PathBuf {
    compiled_as(name, &format!("lib{name}.so"), &["-shared", "-fPIC"])
}

/// Compiles `tests/programs/NAME.c`, or `NAME.cpp`, to a file of the name `into`.
pub fn compiled_as(name: &str, into: &str, flags: &[&str]) -> PathBuf {
    let into = folder().join(into);
    compile(name, &into, flags);
    into
}

fn compile(name: &str, into: &Path, flags: &[&str]) {
    // Tests run side by side and may want the same program: one makes it, the others wait.
    static MADE: std::sync::Mutex<Vec<PathBuf>> = std::sync::Mutex::new(Vec::new());
    let mut made_before = MADE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if made_before.iter().any(|path| path == into) {
        return;
    }
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    let mut source = sources.join(format!("{name}.c"));
    if !source.exists() {
        source.set_extension("cpp");
    }
    let mut compiler = process::compiler(&source);
    compiler.args(["-O2", "-g", "-Wall", "-Werror", "-pthread", "-rdynamic", "-D_GNU_SOURCE"]);
    process::succeed(compiler.arg("-o").arg(into).args(flags));
    made_before.push(into.to_owned());
}

/// What a program did.
pub struct Outcome {
    /// How it ended.
    pub status: ExitStatus,
    /// What it wrote.
    pub stdout: String,
    /// What it complained about.
    pub stderr: String,
    /// The statistics file it left, if it did.
    pub report: Option<serde_json::Value>,
}

impl Outcome {
    /// Fails, with what the program said, unless it exited with 0.
    #[track_caller]
    pub fn succeeded(&self) -> &Outcome {
        assert!(
            self.status.success(),
            "{} (signal {:?})\n{}{}{:#?}",
            self.status,
            self.status.signal(),
            self.stdout,
            self.stderr,
            self.report,
        );
        self
    }

    /// Fails unless the program succeeded and said nothing unasked. With exit code 77 it says that
    /// it cannot be tried here.
    #[track_caller]
    pub fn holds(&self, what: &str) {
        match self.status.code() {
            Some(0) => assert_eq!(self.stderr, "", "{what}: nothing is said unasked"),
            Some(77) => testing::skip(format_args!("{what}: {}", self.stderr.trim())),
            _ => panic!("{what}: {}\n{}{}", self.status, self.stdout, self.stderr),
        }
    }

    /// The records of all loops in a function, as the statistics have them.
    pub fn sites(&self, function: &str) -> Vec<&serde_json::Value> {
        let report = self.report.as_ref().unwrap_or_else(|| panic!("no statistics\n{}", self.stderr));
        let sites = report["sites"].as_array().expect("a list of sites");
        let named = |site: &&serde_json::Value| {
            site["symbol"].as_str().is_some_and(|symbol| symbol.split('+').next() == Some(function))
        };
        sites.iter().filter(named).collect()
    }

    /// Fails unless threads waited in the copy of a loop of `function`.
    #[track_caller]
    pub fn waited(&self, function: &str) -> &Outcome {
        let sites = self.sites(function);
        let visited = |site: &&serde_json::Value| site["how"] == "jump" && site["visits"].as_u64() > Some(0);
        assert!(sites.iter().any(visited), "{function}:\n{:#?}\n{}", self.report, self.stderr);
        self
    }

    /// The sum of a counter over the loops of `function`.
    #[track_caller]
    pub fn count(&self, function: &str, counter: &str) -> u64 {
        self.sites(function).iter().map(|site| site[counter].as_u64().expect("a number")).sum()
    }
}

/// A program under the library with these options.
pub fn preloaded(program: impl AsRef<OsStr>, options: &str) -> Command {
    let mut command = Command::new(program);
    command.env("LD_PRELOAD", library()).env("MANX_OPTIONS", options).env_remove("MANX");
    command
}

/// Runs `command` under the library with these options (`MANX_OPTIONS`), and statistics.
pub fn run(mut command: Command, options: &str) -> Outcome {
    static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let number = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let report = folder().join(format!("stats-{number}.json"));
    let mut all = format!("stats={}", report.display());
    if !options.is_empty() {
        all = format!("{all},{options}");
    }
    command.env("LD_PRELOAD", library()).env("MANX_OPTIONS", all).env_remove("MANX");
    let mut outcome = finish(&mut command);
    let bytes = std::fs::read(&report).ok();
    outcome.report = bytes.map(|bytes| serde_json::from_slice(&bytes).expect("JSON"));
    outcome
}

/// Runs a program of `tests/programs` under the library.
pub fn under_manx(name: &str, arguments: &[&str], options: &str) -> Outcome {
    let mut command = Command::new(program(name));
    command.args(arguments);
    run(command, options)
}

/// Runs a command as it is.
pub fn finish(command: &mut Command) -> Outcome {
    let output = process::finish(command);
    let (stdout, stderr) = (process::text(&output.stdout), process::text(&output.stderr));
    Outcome { status: output.status, stdout, stderr, report: None }
}
