//! `manx-serve` and the signals that end it, from its first moment on.

use std::process::{Command, ExitStatus};
use testing::eventually;
use testing::process::Running;

/// A server that ends with the test.
struct Served(Running);

fn serve(arguments: &[&str]) -> Served {
    let mut command = Command::new(env!("CARGO_BIN_EXE_manx-serve"));
    command.args(["--listen", "127.0.0.1:0"]).args(arguments);
    Served(Running::start(&mut command))
}

impl Served {
    fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([name, &self.0.child.id().to_string()]).status();
        assert!(sent.expect("kill is there").success());
    }

    /// Whether it handles a signal itself.
    fn handles(&self, number: u32) -> Option<()> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.child.id())).ok()?;
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"))?;
        let caught = u64::from_str_radix(caught.trim(), 16).ok()?;
        (caught >> (number - 1) & 1 == 1).then_some(())
    }

    fn end(&mut self) -> ExitStatus {
        eventually("it has ended", || self.0.child.try_wait().unwrap())
    }
}

/// A pipe that nobody writes stands for all that may take long before it serves.
#[test]
fn a_signal_ends_it_before_it_serves() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("password");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo is there").success());
    for (name, number) in [("-TERM", 15), ("-INT", 2)] {
        let mut served = serve(&["--password-file", pipe.to_str().unwrap()]);
        eventually("it handles signals", || served.handles(number));
        served.signal(name);
        assert_eq!(served.end().code(), Some(0), "{name}");
    }
}

#[test]
fn a_signal_ends_it_while_it_serves() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    for arguments in [&[][..], &["--data", data.to_str().unwrap()]] {
        for name in ["-TERM", "-INT"] {
            let mut served = serve(arguments);
            let line = served.0.line().unwrap();
            assert!(line.starts_with("manx: listening on 127.0.0.1:"), "{line}");
            served.signal(name);
            assert_eq!(served.end().code(), Some(0), "{name} {arguments:?}");
        }
    }
}

#[test]
fn the_file_of_its_socket_is_gone_after_its_end_and_replaced_after_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let arguments = ["--unix-socket", path.to_str().unwrap(), "--unix-socket-permissions", "700"];
    let mut killed = serve(&arguments);
    let line = killed.0.line().unwrap();
    assert!(line.contains(&format!(" and {}, pool model", path.display())), "{line}");
    killed.signal("-KILL");
    killed.end();
    assert!(path.exists());
    let mut served = serve(&arguments);
    served.0.line().unwrap();
    let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(&path).unwrap());
    assert_eq!(mode & 0o777, 0o700);
    served.signal("-TERM");
    assert_eq!(served.end().code(), Some(0));
    assert!(!path.exists());
}
