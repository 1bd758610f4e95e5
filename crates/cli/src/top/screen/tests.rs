//! The guard on a terminal of its own. What signals do is tested with the built command, in
//! `tests/top.rs`.

use super::*;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsRawFd as _, FromRawFd as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitStatus, Stdio};

const ROLE: &str = "MANX_TEST_SCREEN";

/// A terminal: what a program does to it, and what it sees.
struct Pty {
    master: File,
    slave: File,
}

impl Pty {
    fn open() -> Pty {
        let (mut master, mut slave) = (0, 0);
        let size = libc::winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
        // SAFETY: all addresses are those of locals; the two descriptors are ours.
        unsafe {
            let (name, modes) = (std::ptr::null_mut(), std::ptr::null());
            assert_eq!(libc::openpty(&raw mut master, &raw mut slave, name, modes, &raw const size), 0);
            Pty { master: File::from_raw_fd(master), slave: File::from_raw_fd(slave) }
        }
    }

    /// The modes that `stty` shows.
    fn modes(&self) -> (u32, u32, u32, u32, [u8; 32]) {
        // SAFETY: the structure is made of integers, and its address is that of a local.
        let modes = unsafe {
            let mut modes: libc::termios = std::mem::zeroed();
            assert_eq!(libc::tcgetattr(self.slave.as_raw_fd(), &raw mut modes), 0);
            modes
        };
        (modes.c_iflag, modes.c_oflag, modes.c_cflag, modes.c_lflag, modes.c_cc)
    }

    /// Runs this test program in a role, on this terminal; returns how it ended and what it wrote.
    fn run(self, role: &str) -> (ExitStatus, String) {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(["--exact", "top::screen::tests::child", "--nocapture", "--test-threads=1"]);
        let end = || Stdio::from(self.slave.try_clone().expect("a descriptor"));
        command.env(ROLE, role).env("RUST_BACKTRACE", "0").stdin(end()).stdout(end()).stderr(end());
        // SAFETY: only system calls.
        unsafe {
            command.pre_exec(|| {
                libc::setsid();
                libc::ioctl(0, libc::TIOCSCTTY, 0);
                Ok(())
            });
        }
        let mut child = command.spawn().expect("it starts");
        drop(command);
        let Pty { mut master, slave } = self;
        let reader = std::thread::spawn(move || {
            let mut seen = Vec::new();
            let mut bytes = [0; 4096];
            // At the end of the last process that has it open, a terminal gives an error.
            while let Ok(length @ 1..) = master.read(&mut bytes) {
                seen.extend_from_slice(&bytes[..length]);
            }
            String::from_utf8_lossy(&seen).into_owned()
        });
        let status = child.wait().expect("it ends");
        drop(slave);
        (status, reader.join().expect("read"))
    }
}

/// Takes the terminal of the test above: nothing unless it was started by one.
#[test]
fn child() {
    let Some(role) = std::env::var_os(ROLE) else { return };
    let modes = || {
        Pty {
            master: File::open("/dev/null").expect("there"),
            slave: File::open("/dev/tty").expect("a terminal"),
        }
        .modes()
    };
    let before = modes();
    let mut screen = Screen::take().expect("a terminal");
    screen.draw(|buffer| buffer.set_string(0, 0, "drawn", ratatui::style::Style::new())).expect("drawn");
    assert_ne!(modes(), before, "the terminal is taken");
    if role == OsStr::new("panic") {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            hook(panic);
            println!("modes as before: {}", modes() == before);
        }));
        panic!("a made-up fault");
    }
    screen.lend(|| println!("modes as before: {}", modes() == before)).expect("taken again");
    drop(screen);
    println!("modes as before: {}", modes() == before);
}

const ENTER: &str = "\x1b[?1049h";
const LEAVE: &str = "\x1b[?1049l";

#[test]
fn a_panic_gives_the_terminal_back_before_its_message() {
    let (status, seen) = Pty::open().run("panic");
    assert_eq!(status.code(), Some(101), "{seen}");
    let at = |text: &str| seen.find(text).unwrap_or_else(|| panic!("no {text:?} in {seen:?}"));
    assert!(
        at(ENTER) < at("drawn") && at("drawn") < at(LEAVE) && at(LEAVE) < at("a made-up fault"),
        "{seen:?}"
    );
    at("modes as before: true");
    assert_eq!(seen.matches(LEAVE).count(), 1, "given back once: {seen:?}");
}

#[test]
fn a_terminal_that_is_lent_or_given_back_is_as_it_was() {
    let (status, seen) = Pty::open().run("lend");
    assert!(status.success(), "{seen}");
    assert_eq!(seen.matches("modes as before: true").count(), 2, "{seen:?}");
    assert_eq!((seen.matches(ENTER).count(), seen.matches(LEAVE).count()), (2, 2), "{seen:?}");
    assert!(seen.rfind(LEAVE) > seen.rfind(ENTER), "{seen:?}");
}
