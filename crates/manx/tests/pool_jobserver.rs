//! Tokens of GNU make: from the real program, from a named pipe, and from other values of
//! `MAKEFLAGS`.
//!
//! The children of make, and tests that need their own environment, are this program again. Its
//! environment names its role.

use manx::pool::jobserver::{Allowance, JobserverError, Tokens};
use std::ffi::CString;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

const ROLE: &str = "MANX_TEST_JOBSERVER";

/// This program as another process, in one of the roles below.
fn this_program(role: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", "role", "--nocapture"]).env(ROLE, role);
    for variable in ["CARGO_MAKEFLAGS", "MAKEFLAGS", "MFLAGS"] {
        command.env_remove(variable);
    }
    command
}

/// The role of this process, from its environment; none in a test run.
#[test]
fn role() {
    let Some(role) = std::env::var_os(ROLE) else { return };
    match role.to_str().expect("a role") {
        "count" => count(),
        "count with descriptors" => {
            count();
            // A process that shares the pipe with us reads it as before: a blocking description is
            // one still.
            let flags = std::env::var("MAKEFLAGS").expect("set by make");
            let read = flags.rsplit_once('=').expect("named").1.split(',').next().expect("a number");
            // SAFETY: asks for flags.
            let mode = unsafe { libc::fcntl(read.trim().parse().expect("a number"), libc::F_GETFL) };
            println!("blocking {}", mode >= 0 && mode & libc::O_NONBLOCK == 0);
        }
        "panic" => {
            let tokens = tokens();
            let panicked = std::panic::catch_unwind(|| {
                let _token = tokens.try_acquire().expect("one is there");
                assert_eq!(tokens.available(), 0);
                panic!("with a token");
            });
            assert!(panicked.is_err());
            println!("available {}", tokens.available());
        }
        "fork" => {
            let tokens = tokens();
            let token = tokens.try_acquire().expect("one is there");
            // SAFETY: the child drops a token, which makes no system call in it, and ends.
            let child = unsafe { libc::fork() };
            if child == 0 {
                drop(token);
                // SAFETY: ends the process.
                unsafe { libc::_exit(0) };
            }
            let mut status = -1;
            // SAFETY: waits for the child of a moment ago.
            assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
            assert_eq!(status, 0);
            println!("after the child {}", tokens.available());
            drop(token);
            println!("after the parent {}", tokens.available());
        }
        "timeout" => {
            let tokens = tokens();
            let token = tokens.acquire_timeout(Duration::from_secs(60)).expect("one is there");
            assert!(tokens.acquire_timeout(Duration::from_millis(20)).is_none(), "there is one");
            let waiter = std::thread::spawn({
                let tokens = tokens.clone();
                move || tokens.acquire_timeout(Duration::from_secs(60)).is_some()
            });
            drop(token);
            println!("got it {}", waiter.join().expect("it waited"));
        }
        "error" => match Tokens::from_env() {
            Ok(found) => println!("found {}", found.is_some()),
            Err(error) => println!("error {error}"),
        },
        other => panic!("no role {other}"),
    }
}

fn tokens() -> Tokens {
    Tokens::from_env().expect("a good one").expect("a jobserver")
}

/// Takes all there is, and says how much that is.
fn count() {
    let mut allowance = Allowance::new(tokens());
    println!("active {}", allowance.fit(100));
    println!("fewer {}", allowance.fit(2));
    println!("again {}", allowance.fit(100));
    println!("one {}", allowance.fit(0));
}

fn output_text(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout) + &text(&output.stderr)
}

/// A Makefile whose one rule runs this program in that role.
fn make(role: &str, prefix: &str, options: &[&str]) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let program = std::env::current_exe().expect("this program");
    let rule = format!("all:\n\t{prefix}@{} --exact role --nocapture\n", program.display());
    std::fs::write(folder.path().join("Makefile"), rule).expect("written");
    let mut command = Command::new("make");
    command.args(options).current_dir(&folder).env(ROLE, role);
    for variable in ["CARGO_MAKEFLAGS", "MAKEFLAGS", "MFLAGS"] {
        command.env_remove(variable);
    }
    output_text(&command.output().expect("make runs"))
}

#[test]
fn under_make_the_number_of_tokens_is_that_of_its_option() {
    let said = make("count", "+", &["-j3"]);
    for line in ["active 3", "fewer 2", "again 3", "one 1"] {
        assert!(said.contains(line), "{said}");
    }
    // make counts its tokens in the end.
    assert!(!said.contains("warning") && !said.contains("INTERNAL"), "{said}");
}

#[test]
fn under_make_without_a_limit_or_with_one_job_there_is_no_jobserver() {
    for options in [&["-j"][..], &["-j1"], &[]] {
        assert!(make("error", "+", options).contains("found false"), "{options:?}");
    }
}

#[test]
fn make_does_not_pass_the_pipe_to_rules_without_plus() {
    let said = make("error", "", &["-j3"]);
    // Newer makes have a pipe with a name, which every process may use.
    let fine = said.contains("found true");
    assert!(fine || said.contains("begin the rule's command with `+`"), "{said}");
}

#[test]
fn the_flags_of_a_shared_pipe_stay_unchanged() {
    let (reader, writer) = pipe();
    File::from(writer.try_clone().expect("cloned")).write_all(b"ab").expect("there is room");
    let (read, write) = (reader.as_raw_fd(), writer.as_raw_fd());
    for name in ["--jobserver-auth", "--jobserver-fds"] {
        let mut command = this_program("count with descriptors");
        command.env("MAKEFLAGS", format!("-j {name}={read},{write}"));
        // SAFETY: makes system calls only.
        unsafe { command.pre_exec(move || inherit(&[read, write])) };
        let said = output_text(&command.output().expect("runs"));
        assert!(said.contains("active 3") && said.contains("blocking true"), "{said}");
    }
    assert_eq!(read_all(reader, writer), b"ab", "the very bytes");
}

#[test]
fn a_named_pipe_gets_the_same_bytes_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = fifo(folder.path());
    let mut keeper = File::options().read(true).write(true).open(&path).expect("opened");
    let run = |role: &str| {
        let mut command = this_program(role);
        command
            .env("MAKEFLAGS", format!(" -j --jobserver-auth=1,2 --jobserver-auth=fifo:{}", path.display()));
        output_text(&command.output().expect("runs"))
    };
    keeper.write_all(b"x").expect("there is room");
    assert!(run("panic").contains("available 1"));
    let forked = run("fork");
    assert!(forked.contains("after the child 0") && forked.contains("after the parent 1"), "{forked}");
    assert!(run("timeout").contains("got it true"));
    keeper.write_all(b"yz").expect("there is room");
    assert!(run("count").contains("active 4"));
    let mut bytes = [0; 3];
    keeper.read_exact(&mut bytes).expect("all are back");
    bytes.sort_unstable();
    assert_eq!(&bytes, b"xyz");
}

#[test]
fn clients_never_hold_more_tokens_than_exist() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = fifo(folder.path());
    let mut keeper = File::options().read(true).write(true).open(&path).expect("opened");
    keeper.write_all(b"++").expect("there is room");
    let clients: Vec<_> = (0..4)
        .map(|_| {
            let mut command = this_program("count");
            command.env("MAKEFLAGS", format!("--jobserver-auth=fifo:{}", path.display()));
            std::thread::spawn(move || output_text(&command.output().expect("runs")))
        })
        .collect();
    for client in clients {
        let said = client.join().expect("runs");
        assert!(["active 1", "active 2", "active 3"].iter().any(|line| said.contains(line)), "{said}");
    }
    let mut bytes = [0; 2];
    keeper.read_exact(&mut bytes).expect("all are back");
}

#[test]
fn an_invalid_jobserver_is_reported_as_one() {
    let said_of = |value: &str| {
        let mut command = this_program("error");
        command.env("MAKEFLAGS", value);
        output_text(&command.output().expect("runs"))
    };
    let rule = "begin the rule's command with `+`";
    for value in ["--jobserver-auth=3,4", "--jobserver-auth=-2,-2", "-j --jobserver-fds=700,701"] {
        let said = said_of(value);
        assert!(
            said.contains(&format!("(MAKEFLAGS={value})")) || said.contains("names no jobserver"),
            "{said}"
        );
        assert!(said.contains(rule), "{said}");
    }
    for value in ["--jobserver-auth=fifo:/nowhere/fifo", "--jobserver-auth=three,four", "--jobserver-auth=0"]
    {
        assert!(said_of(value).contains("names no jobserver"), "{value}");
    }
    for value in ["", "-j", "k --no-print-directory"] {
        assert!(said_of(value).contains("found false"), "{value}");
    }
}

#[test]
fn two_pipes_are_not_taken_for_one() {
    let ((reader, own_writer), (own_reader, writer)) = (pipe(), pipe());
    let (read, write) = (reader.as_raw_fd(), writer.as_raw_fd());
    File::from(own_writer.try_clone().expect("cloned")).write_all(b"mine").expect("there is room");
    let mut command = this_program("error");
    command.env("MAKEFLAGS", format!("--jobserver-auth={read},{write}"));
    // SAFETY: makes system calls only.
    unsafe { command.pre_exec(move || inherit(&[read, write])) };
    let said = output_text(&command.output().expect("runs"));
    assert!(said.contains("are not the two ends of one pipe"), "{said}");
    assert_eq!(read_all(reader, own_writer), b"eimn", "nothing was read");
    drop((own_reader, writer));
}

#[test]
fn errors_name_the_remedy() {
    let error = JobserverError::NotPassedOn { variable: "MAKEFLAGS", value: "-j3".into() };
    assert_eq!(
        error.to_string(),
        "make's jobserver was not passed on to this process (MAKEFLAGS=-j3): begin the rule's command with `+`, so that make \
         knows that it runs jobs itself"
    );
}

fn pipe() -> (OwnedFd, OwnedFd) {
    let mut ends = [0; 2];
    // SAFETY: makes two descriptors, which are ours.
    unsafe {
        assert_eq!(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC), 0);
        (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1]))
    }
}

/// Lets these descriptors live through `exec`.
fn inherit(descriptors: &[i32]) -> std::io::Result<()> {
    for descriptor in descriptors {
        // SAFETY: sets a flag of a descriptor of the child.
        if unsafe { libc::fcntl(*descriptor, libc::F_SETFD, 0) } < 0 {
            return Err(std::io::Error::last_os_error());
        }
    }
    Ok(())
}

/// What is in a pipe whose last writer this is.
fn read_all(reader: OwnedFd, writer: OwnedFd) -> Vec<u8> {
    drop(writer);
    let mut bytes = Vec::new();
    File::from(reader).read_to_end(&mut bytes).expect("read");
    bytes.sort_unstable();
    bytes
}

fn fifo(folder: &Path) -> std::path::PathBuf {
    let path = folder.join("fifo");
    let name = CString::new(path.to_str().expect("utf-8")).expect("no zero");
    // SAFETY: the name ends with a zero.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    path
}
