//! When a test ends, its processes end, and its folder is deleted.
//!
//! What owns a [`Keeper`] kills its processes when it is dropped, also while a panic unwinds. A
//! test that is killed runs no drop, nor does a static. So beside the processes there is the
//! *keeper*, a shell that reads the processes that live now from a pipe, a line for each change.
//! The pipe ends with the test, however the test ends; then the keeper kills the processes of the
//! last line, and their children, and deletes the folder and what is mounted there.
//!
//! A process is in the keeper's line before anything else is done with it, and is taken out of it
//! as soon as it was waited for. So the keeper kills nothing else.

use std::fs;
use std::io::Write;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// The ports that are drawn from. The kernel gives higher ones away by itself, so a server that is
/// started again finds its port free.
const PORTS: std::ops::Range<u16> = 20_000..32_000;

#[derive(Debug)]
pub(crate) struct Keeper {
    folder: PathBuf,
    shell: Child,
}

impl Keeper {
    /// Makes a folder with this name in it.
    pub(crate) fn new(name: &str) -> Keeper {
        static FOLDERS: AtomicU32 = AtomicU32::new(0);
        // Relaxed: the numbers only have to differ.
        let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("manx-{name}-{}-{number}", std::process::id()));
        // What a process of the same id left.
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        // A process that was killed may still make a file for a moment.
        let script = "while read -r line; do pids=$line; done; \
                      for pid in $pids; do \
                          kill -9 $(cat \"/proc/$pid/task/$pid/children\") \"$pid\"; \
                      done; \
                      umount --lazy \"$1\"/*; \
                      for attempt in 1 2 3 4 5 6 7 8 9; do rm -rf \"$1\" && break; sleep 0.1; done";
        let mut shell = Command::new("sh");
        shell.args(["-c", script, "sh"]).arg(&folder).stdin(Stdio::piped()).stdout(Stdio::null());
        // Not in the group of the test, which may be killed as a whole.
        shell.process_group(0);
        let shell = shell.stderr(Stdio::null()).spawn().expect("a shell");
        Keeper { folder, shell }
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// These processes live now.
    pub(crate) fn tell<'a>(&mut self, living: impl IntoIterator<Item = &'a Child>) {
        let line: Vec<String> = living.into_iter().map(|process| process.id().to_string()).collect();
        let pipe = self.shell.stdin.as_mut().expect("a pipe");
        writeln!(pipe, "{}", line.join(" ")).expect("the keeper reads");
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        // The keeper reads the end of the pipe, and deletes the folder, and what is mounted there.
        drop(self.shell.stdin.take());
        let _ = self.shell.wait();
    }
}

/// Different ports that are free. If another process takes one meanwhile, the server is started
/// again with others.
pub(crate) fn ports<const N: usize>() -> [u16; N] {
    // All are open at once, so that they differ.
    let mut open = Vec::new();
    while open.len() < N {
        open.extend(TcpListener::bind((Ipv4Addr::LOCALHOST, fastrand::u16(PORTS))));
    }
    std::array::from_fn(|index| open[index].local_addr().expect("it is bound").port())
}

/// Sends a signal to processes.
pub(crate) fn signal(signal: &str, processes: &[u32]) -> bool {
    let ids: Vec<String> = processes.iter().map(u32::to_string).collect();
    let kill = format!("kill -{signal} {}", ids.join(" "));
    let mut command = Command::new("sh");
    command.args(["-c", &kill]).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}
