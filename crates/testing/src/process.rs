//! Programs that tests compile and run. Each runs with a limit on its time, which only bounds a
//! failure.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How long a program may run.
const LIMIT: Duration = Duration::from_secs(60);

/// The system's compiler for this source: of C, or of C++ if its name ends so.
pub fn compiler(source: &Path) -> Command {
    let is_cpp = source.extension().is_some_and(|extension| extension == "cpp");
    let mut compiler = Command::new(if is_cpp { "c++" } else { "cc" });
    compiler.args(is_cpp.then_some("-std=c++17")).arg(source);
    compiler
}

/// Bytes as text.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs a command to its end, without input.
///
/// # Panics
/// If it cannot be started, or is still running after a minute; then the panic says where its
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
        if began.elapsed() > LIMIT {
            let stacks = stacks(child.id());
            let _ = child.kill();
            let _ = child.wait();
            panic!("{command:?}: still running after {LIMIT:?}\n{stacks}");
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
