//! `manx run --metrics`: a helper process that exports the metrics of the program.
//!
//! The launcher becomes the program, so the helper is another process: `manx exporter --process`.
//! The program must not notice it:
//!
//! 1. The helper is no child of the program: it is forked twice, and the process between the two
//!    has ended and been waited for before the program begins. So no `wait` of the program sees it.
//!    A process with number 1, or one that adopts orphans, would get the helper as its child after
//!    all: there the option is refused.
//! 2. It is in a session of its own: signals of the terminal and of the program's process group do
//!    not reach it.
//! 3. It holds no descriptor of the program's: a reader of the program's output sees its end.
//! 4. It ends with the program.
//!
//! The helper says by a pipe that it has begun, or why it could not. Only then does the program
//! begin.

use super::helper::leave_program;
use crate::exporter::{READY, parse_address, parse_text_file};
use command::exec;
use command::failure::{BROKEN, Failure, USAGE, reason};
use exporter::server::Address;
use preload_abi::SWITCH_VARIABLE;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

/// Where the metrics of a program go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// A file for node_exporter.
    File(PathBuf),
    /// A Unix socket.
    Socket(PathBuf),
}

/// Reads where metrics go: `unix:PATH`, or a file whose name ends in `.prom`.
///
/// # Errors
/// What to write.
pub fn parse(text: &str) -> Result<Destination, String> {
    if text.starts_with("unix:") {
        return match parse_address(text)? {
            Address::Unix(path) => Ok(Destination::Socket(super::forms::absolute(path))),
            Address::Tcp(_) => unreachable!("it begins with unix:"),
        };
    }
    let path = parse_text_file(text).map_err(|why| format!("{why}; a socket is written unix:PATH"))?;
    Ok(Destination::File(super::forms::absolute(path)))
}

/// Starts the helper for this process, and returns when it has begun.
///
/// # Errors
/// With code 2 if metrics cannot go there.
pub fn start(destination: &Destination) -> Result<(), Failure> {
    refuse_parents_of_orphans()?;
    let broken = |what: &str, error: &io::Error| {
        let help = "see the limits on processes and descriptors, or leave out --metrics";
        Failure::new(BROKEN, format!("--metrics: {what}: {}", reason(error)), help)
    };
    let (from_helper, to_launcher) = pipe().map_err(|error| broken("no pipe", &error))?;
    let launcher = std::process::id();
    // SAFETY: this process has one thread, so the child may do what the parent may.
    match unsafe { libc::fork() } {
        -1 => return Err(broken("no process", &io::Error::last_os_error())),
        0 => become_helper(launcher, &to_launcher, destination),
        child => wait_for(child),
    }
    drop(to_launcher);
    let mut said = String::new();
    // Nothing that can be read is an answer too: see below.
    let _ = File::from(from_helper).read_to_string(&mut said);
    if said == READY {
        return Ok(());
    }
    let (what, help) = said.split_once('\n').unwrap_or(("the helper process could not begin", ""));
    Err(Failure::new(USAGE, format!("--metrics: {what}"), help))
}

/// Refuses a process that orphans come to.
fn refuse_parents_of_orphans() -> Result<(), Failure> {
    let mut adopts: libc::c_int = 0;
    // SAFETY: the kernel writes one number.
    unsafe { libc::prctl(libc::PR_GET_CHILD_SUBREAPER, &raw mut adopts) };
    if std::process::id() == 1 || adopts != 0 {
        return Err(Failure::new(
            USAGE,
            "--metrics: this process adopts orphans, so its helper would become the program's child",
            "run `manx exporter` on the host or beside it, or start the program by an init process",
        ));
    }
    Ok(())
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: the kernel writes two descriptors, which are this function's.
    unsafe {
        if libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok((OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])))
    }
}

fn wait_for(child: libc::pid_t) {
    // SAFETY: a child of this process, whose status is not needed.
    while unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) } < 0
        && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
    {}
}

/// In the child: makes the helper and ends.
fn become_helper(launcher: u32, to_launcher: &OwnedFd, destination: &Destination) -> ! {
    // SAFETY: a child with one thread, which ends without running what others registered for the
    // end of the process.
    unsafe {
        libc::setsid();
        match libc::fork() {
            0 => {}
            _ => libc::_exit(0),
        }
    }
    let mut pipe = to_launcher.as_raw_fd();
    let failure = match leave_program(pipe) {
        Ok(ready) => {
            pipe = ready;
            let (option, value) = match destination {
                Destination::File(path) => ("--text-file", path.clone().into_os_string()),
                Destination::Socket(path) => ("--listen", {
                    let mut address = OsString::from("unix:");
                    address.push(path);
                    address
                }),
            };
            let (launcher, ready) = (launcher.to_string(), ready.to_string());
            let mut command: Vec<OsString> =
                ["manx", "exporter", "--process", &launcher, "--ready", &ready].map(OsString::from).into();
            command.extend([option.into(), value]);
            // The helper itself does not run under Manx, nor with other libraries for the program.
            let changes = [(SWITCH_VARIABLE, "off".into()), ("LD_PRELOAD", OsString::new())];
            exec::exec(Path::new("/proc/self/exe"), &command, &changes)
        }
        Err(error) => Failure::new(BROKEN, format!("no descriptors: {}", reason(&error)), "see `ulimit -n`"),
    };
    let said = format!("{}\n{}", failure.what, failure.help);
    // SAFETY: as above; the bytes are this function's, and if nothing can be written the launcher
    // sees the end of the pipe.
    unsafe {
        libc::write(pipe, said.as_ptr().cast(), said.len());
        libc::_exit(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_destination_is_a_file_or_a_socket() {
        assert_eq!(parse("/a/b.prom"), Ok(Destination::File("/a/b.prom".into())));
        assert_eq!(parse("unix:/a"), Ok(Destination::Socket("/a".into())));
        for wrong in ["", "/a/b", "unix:", "127.0.0.1:80"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        let here = std::env::current_dir().expect("a folder");
        assert_eq!(parse("b.prom"), Ok(Destination::File(here.join("b.prom"))));
    }
}
