//! Real programs run under the library as they run without it.
//!
//! Each is run twice, without and with the library, and must do the same: same exit status, same
//! output (where it does not tell the time). A program that is not installed is skipped, with the
//! reason printed; `cargo xtask setup` installs all of them.

mod common;

use common::{finish, library};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use testing::process::{compiler, is_installed, succeed};
use testing::until;

/// Puts a command under the library.
fn guarded(mut command: Command) -> Command {
    command.env("LD_PRELOAD", library()).env_remove("MANX").env("MANX_OPTIONS", "guard=always");
    command
}

/// Runs the same command without and with the library and compares everything that it said.
fn same(make: impl Fn() -> Command) {
    let (plain, with) = (finish(&mut make()), finish(&mut guarded(make())));
    plain.succeeded();
    with.succeeded();
    assert_eq!(with.stdout, plain.stdout);
    assert_eq!(with.stderr, plain.stderr);
}

fn command(program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments);
    command
}

/// A debugger that runs these commands, which stand between semicolons.
fn debugger(commands: &str) -> Command {
    let mut gdb = command("gdb", &["-nx", "-batch"]);
    gdb.args(commands.split("; ").flat_map(|command| ["-ex", command]));
    gdb
}

#[test]
fn python_with_threads_queues_and_processes() {
    if !is_installed("python3", "--version") {
        return;
    }
    let script = r#"
import ctypes, hashlib, queue, subprocess, sys, threading
jobs, results = queue.Queue(), []
def work():
    while (item := jobs.get()) is not None:
        results.append(hashlib.sha256(b"%d" % item).hexdigest())
threads = [threading.Thread(target=work) for _ in range(16)]
for thread in threads: thread.start()
for item in range(5000): jobs.put(item)
for _ in threads: jobs.put(None)
for thread in threads: thread.join()
print(len(results), hashlib.sha256("".join(sorted(results)).encode()).hexdigest())
print(ctypes.CDLL(None).getpid() > 0)
for _ in range(20):
    out = subprocess.run([sys.executable, "-c", "print(6 * 7)"], capture_output=True, check=True).stdout
    assert out == b"42\n", out
"#;
    same(|| command("python3", &["-c", script]));
}

#[test]
fn git_makes_commits_and_packs_them() {
    if !is_installed("git", "--version") {
        return;
    }
    let script = r#"
set -e
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_DATE='1700000000 +0000' GIT_COMMITTER_DATE='1700000000 +0000'
git -c init.defaultBranch=main init -q .
for i in 1 2 3 4 5 6 7 8; do
  seq 1 2000 | sed "s/^/$i /" > file$i; git add file$i
  git -c user.name=n -c user.email=e@example.org commit -qm "commit $i"
done
git -c pack.threads=4 repack -adq; git -c grep.threads=4 grep -c '1 19' | sort; git fsck --no-progress; git rev-parse HEAD
"#;
    same(|| command("bash", &["-c", script]));
}

#[test]
fn sqlite3_inserts_sorts_and_checks() {
    if !is_installed("sqlite3", "--version") {
        return;
    }
    let script = "PRAGMA threads=4; CREATE TABLE t(a INTEGER, b TEXT);
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200000)
        INSERT INTO t SELECT (i * 7919) % 200003, hex(i) FROM n;
        CREATE INDEX ta ON t(a); SELECT count(*), sum(a), max(b) FROM t; PRAGMA integrity_check;";
    same(|| command("sqlite3", &[":memory:", script]));
}

#[test]
fn openssl_signs_in_two_processes() {
    if !is_installed("openssl", "version") {
        return;
    }
    // The figures differ from run to run; that it ends well and has a table does not.
    let arguments = ["speed", "-seconds", "1", "-multi", "2", "-bytes", "1024", "sha256"];
    let outcome = finish(&mut guarded(command("openssl", &arguments)));
    assert!(outcome.succeeded().stdout.contains("sha256"), "{}", outcome.stdout);
}

/// A server that is stopped when the test ends, however it ends.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn redis_serves_its_own_benchmark_with_io_threads() {
    if !is_installed("redis-server", "--version") || !is_installed("redis-benchmark", "--version") {
        return;
    }
    let folder = common::folder().join("redis");
    std::fs::create_dir_all(&folder).expect("a folder");
    let socket = folder.join("socket");
    let path = socket.to_str().expect("utf-8");
    let mut server = guarded(command(
        "redis-server",
        &[
            "--port",
            "0",
            "--unixsocket",
            path,
            "--io-threads",
            "4",
            "--io-threads-do-reads",
            "yes",
            "--save",
            "",
        ],
    ));
    server.current_dir(&folder).stdin(Stdio::null()).stdout(Stdio::null());
    let mut server = Server(server.spawn().expect("redis-server"));
    until("the server's socket", || socket.exists());
    let benchmark =
        ["-s", path, "-q", "-n", "5000", "-c", "40", "--threads", "2", "-t", "set,get,incr,lpush,lpop"];
    let outcome = finish(&mut guarded(command("redis-benchmark", &benchmark)));
    let stdout = &outcome.succeeded().stdout;
    assert!(stdout.contains("SET") && stdout.contains("LPOP"), "{stdout}");
    let info = finish(&mut command("redis-cli", &["-s", path, "info", "commandstats"]));
    assert!(info.succeeded().stdout.contains("cmdstat_set:calls=5000"), "{}", info.stdout);
    let end = finish(&mut command("redis-cli", &["-s", path, "shutdown", "nosave"]));
    end.succeeded();
    assert!(server.0.wait().expect("ended").success());
}

#[test]
fn a_debugger_runs_breaks_and_unwinds() {
    if !is_installed("gdb", "--version") {
        return;
    }
    let program = common::program("turns");
    let preload = format!("set environment LD_PRELOAD {}", library().display());
    let mut gdb = debugger(&format!("{preload}; break worker; run; backtrace; delete; continue"));
    let outcome = finish(gdb.arg(program));
    let stdout = &outcome.succeeded().stdout;
    assert!(stdout.contains("exited normally") && stdout.contains("#0"), "{stdout}\n{}", outcome.stderr);
    assert!(!stdout.contains("SIGTRAP"), "{stdout}");
}

#[test]
fn a_debugger_breaks_in_a_library_that_is_opened() {
    if !is_installed("gdb", "--version") {
        return;
    }
    let preload = format!("set environment LD_PRELOAD {}", library().display());
    let begin = format!("set breakpoint pending on; {preload}; break wait_in_library; run; backtrace");
    let mut gdb = debugger(&format!("{begin}; info sharedlibrary; delete; continue"));
    gdb.arg("--args");
    gdb.arg(common::program("opens")).arg(common::shared_library("waiting"));
    let outcome = finish(&mut gdb);
    let stdout = &outcome.succeeded().stdout;
    assert!(stdout.contains("in main (") && stdout.contains("libwaiting.so"), "{stdout}\n{}", outcome.stderr);
    assert!(stdout.contains("exited normally") && !stdout.contains("SIG"), "{stdout}\n{}", outcome.stderr);
}

#[test]
fn a_debugger_comes_and_goes_while_libraries_are_opened() {
    if !is_installed("gdb", "--version") {
        return;
    }
    let mut program = Command::new(common::program("rendezvous"));
    program.args(["debugged".as_ref(), common::shared_library("gives").as_os_str()]);
    program.env("LD_PRELOAD", library()).env_remove("MANX").stdin(Stdio::null());
    let mut program = Server(program.spawn().expect("started"));
    // Where the loader tells a debugger, by probes or not, and where it tells us.
    let begin = "break _dl_debug_state; continue; continue; delete";
    let mut gdb = debugger(&format!("{begin}; break take_loops; continue; backtrace; continue; detach"));
    gdb.args(["-p", &program.0.id().to_string()]);
    let outcome = finish(&mut gdb);
    assert!(outcome.stdout.contains("in begin ()"), "{}\n{}", outcome.stdout, outcome.stderr);
    assert!(program.0.wait().expect("ended").success(), "{}\n{}", outcome.stdout, outcome.stderr);
}

#[test]
fn a_program_without_threads_is_not_even_searched() {
    let report = common::run(command("true", &[]), "");
    assert!(report.succeeded().report.is_none() && report.stderr.is_empty());
}

#[test]
fn five_thousand_threads_come_and_go() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/engines/threads.c");
    let program = common::folder().join("threads");
    succeed(compiler(&source).args(["-O2", "-pthread", "-lm", "-o"]).arg(&program));
    let mut plain = Command::new(&program);
    plain.args(["--threads", "5000"]);
    let outcome = finish(&mut plain);
    if !outcome.status.success() {
        testing::skip(format_args!("5,000 threads cannot be had here: {}", outcome.stderr));
        return;
    }
    let mut with = Command::new(&program);
    with.args(["--threads", "5000"]);
    finish(&mut guarded(with)).succeeded();
}
