//! Programs that tests compile and run. Each runs with a limit on its time, which only bounds a
//! failure.

use crate::{LONG, skip};
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Output, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The system's compiler for this source: of C, or of C++ if its name ends so.
pub fn compiler(source: &Path) -> Command {
    let is_cpp = source.extension().is_some_and(|extension| extension == "cpp");
    let mut compiler = Command::new(if is_cpp { "c++" } else { "cc" });
    compiler.args(is_cpp.then_some("-std=c++17")).arg(source);
    compiler
}

/// Copies a program, its mode too, by another process. A child that another test starts at the same
/// moment has this process's open files until its own program begins. If the copy were among them,
/// open for writing, it could not be executed (`ETXTBSY`).
///
/// # Panics
/// If it cannot be copied.
#[track_caller]
pub fn copy_program(from: impl AsRef<Path>, to: impl AsRef<Path>) {
    succeed(Command::new("cp").arg(from.as_ref()).arg(to.as_ref()));
}

/// Bytes as text.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs a command to its end, without input.
///
/// # Panics
/// If it cannot be started, or is still running after [`LONG`]; then the panic says where its
/// threads are.
#[track_caller]
pub fn finish(command: &mut Command) -> Output {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let stdout = drain(child.stdout.take().expect("a pipe"));
    let stderr = drain(child.stderr.take().expect("a pipe"));
    let status = wait(&mut child, command);
    let all = |thread: JoinHandle<Vec<u8>>| thread.join().expect("read");
    Output { status, stdout: all(stdout), stderr: all(stderr) }
}

/// The same for a command that has to succeed and must not complain; returns what it said.
///
/// # Panics
/// As [`finish`], and if it fails or writes to standard error.
#[track_caller]
pub fn succeed(command: &mut Command) -> String {
    let output = finish(command);
    let (said, complained) = (text(&output.stdout), text(&output.stderr));
    let fine = output.status.success() && complained.is_empty();
    assert!(fine, "{command:?}: {}\n{said}{complained}", output.status);
    said
}

fn drain(mut from: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut all = Vec::new();
        let _ = from.read_to_end(&mut all);
        all
    })
}

fn wait(child: &mut Child, command: &Command) -> ExitStatus {
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("a child") {
            return status;
        }
        if began.elapsed() > LONG {
            let stacks = stacks(child.id());
            let _ = child.kill();
            let _ = child.wait();
            panic!("{command:?}: still running after {LONG:?}\n{stacks}");
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// Where the threads of a process are, as gdb says, if it is installed.
fn stacks(process: u32) -> String {
    let gdb = Command::new("gdb")
        .args(["--batch", "-nx", "-ex", "thread apply all backtrace", "-p", &process.to_string()])
        .stdin(Stdio::null())
        .output();
    gdb.map_or_else(|error| format!("gdb: {error}"), |out| text(&out.stdout))
}

/// Whether a program can be started at all; the test is skipped if not.
pub fn is_installed(program: &str, argument: &str) -> bool {
    let mut command = Command::new(program);
    let (input, output, errors) = (Stdio::null(), Stdio::null(), Stdio::null());
    let there = command.arg(argument).stdin(input).stdout(output).stderr(errors).status().is_ok();
    if !there {
        skip(format_args!("{program} is not installed"));
    }
    there
}

/// A program that runs while the test talks to it. It is killed when this is dropped.
#[derive(Debug)]
pub struct Running {
    /// The process.
    pub child: Child,
    said: BufReader<ChildStdout>,
}

impl Running {
    /// Starts it.
    ///
    /// # Panics
    /// If it cannot be started.
    #[track_caller]
    pub fn start(command: &mut Command) -> Running {
        let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = started.unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let said = BufReader::new(child.stdout.take().expect("a pipe"));
        Running { child, said }
    }

    /// Starts this test's own program again, to run the test `name` alone.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn again(name: &str, variables: &[(&str, &OsStr)]) -> Running {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(["--exact", name, "--nocapture", "--test-threads=1"]);
        Running::start(command.envs(variables.iter().copied()))
    }

    /// The next line that it writes, without the end of the line; none when it has ended.
    pub fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let bytes = self.said.read_line(&mut line).expect("text");
        (bytes > 0).then(|| line.trim_end_matches('\n').to_owned())
    }

    /// Writes a line to it, and returns what stands behind `mark` in the next line that has this
    /// mark.
    ///
    /// # Panics
    /// If it has ended.
    pub fn ask(&mut self, question: &str, mark: &str) -> String {
        writeln!(self.child.stdin.as_mut().expect("a pipe"), "{question}").expect("it lives");
        loop {
            let line = self.line().expect("the child has ended");
            if let Some((_, answer)) = line.split_once(mark) {
                return answer.to_owned();
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
