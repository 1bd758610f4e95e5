//! What the tests of the command share: a folder of their own, small C programs, and a stand-in for
//! the preload library that has its version symbol and does nothing.
#![allow(dead_code, reason = "each test binary uses a part")]

pub mod holder;
pub mod http;
pub mod tmux;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;
pub use testing::process::text;

/// The built command.
pub const MANX: &str = env!("CARGO_BIN_EXE_manx");

/// A folder that goes away with the test.
pub struct Sandbox {
    folder: TempDir,
}

impl Sandbox {
    /// An empty one.
    pub fn new() -> Sandbox {
        Sandbox { folder: tempfile::tempdir().expect("a temporary folder") }
    }

    /// The path of `name` in it.
    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file.
    pub fn write(&self, name: &str, contents: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, contents).expect("a written file");
        path
    }

    /// Writes a file that may be executed.
    pub fn executable(&self, name: &str, contents: impl AsRef<[u8]>) -> PathBuf {
        let path = self.write(name, contents);
        chmod(&path, 0o755);
        path
    }

    /// Compiles C; the error is the compiler's.
    pub fn compile(&self, name: &str, source: &str, options: &[&str]) -> Result<PathBuf, String> {
        let (path, file) = (self.path(name), self.write(&format!("{name}.c"), source));
        let output = Command::new("cc")
            .args(["-o".as_ref(), path.as_os_str(), file.as_os_str()])
            .args(options)
            .output()
            .map_err(|error| format!("cc: {error}"))?;
        if output.status.success() { Ok(path) } else { Err(text(&output.stderr)) }
    }

    /// A shared library with this source.
    pub fn library(&self, name: &str, source: &str) -> PathBuf {
        self.compile(name, source, &["-shared", "-fPIC"]).expect("a C compiler")
    }

    /// The stand-in for the preload library, and beside it that for the one that sees requests.
    pub fn stand_in(&self) -> PathBuf {
        let path = self.path(preload_abi::LIBRARY_NAME);
        if path.exists() {
            return path;
        }
        let requests = with_version(preload_abi::REQUESTS_VERSION_SYMBOL, preload_abi::REQUESTS_VERSION);
        self.library(preload_abi::REQUESTS_LIBRARY_NAME, &requests);
        let source = with_version(preload_abi::VERSION_SYMBOL, preload_abi::VERSION);
        self.library(preload_abi::LIBRARY_NAME, &source)
    }

    /// `manx` with the stand-in, and no other variable of Manx's or the loader's.
    pub fn manx(&self) -> Command {
        let mut command = bare(MANX);
        command.env("MANX_PRELOAD", self.stand_in()).current_dir(self.folder.path());
        command
    }
}

/// The source of a library of this version.
fn with_version(symbol: &str, version: u32) -> String {
    format!("unsigned {symbol} = {version};")
}

/// A command without variables of Manx's or the loader's.
pub fn bare(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    for variable in ["MANX", "MANX_OPTIONS", "MANX_PRELOAD", "LD_PRELOAD"] {
        command.env_remove(variable);
    }
    command
}

/// Sets a file's mode.
pub fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("a mode that can be set");
}

/// Standard output as text.
pub fn stdout(output: &Output) -> String {
    text(&output.stdout)
}

/// Standard error as text.
pub fn stderr(output: &Output) -> String {
    text(&output.stderr)
}

/// Runs a command to its end.
#[track_caller]
pub fn output(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

/// Asserts the exit code and that each of `parts` stands on standard error.
#[track_caller]
pub fn fails(command: &mut Command, code: i32, parts: &[&str]) {
    let output = output(command);
    let stderr = stderr(&output);
    assert_eq!(output.status.code(), Some(code), "{command:?}: {stderr}");
    for part in parts {
        assert!(stderr.contains(part), "{command:?}: no `{part}` in: {stderr}");
    }
}

/// Runs a command whose reader goes away: that is no error.
#[track_caller]
pub fn loses_its_reader(command: &mut Command) {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("manx");
    drop(child.stdout.take());
    let run = child.wait_with_output().expect("output");
    assert_eq!((run.status.code(), stderr(&run).as_str()), (Some(0), ""));
}

/// Whether the tests run as root.
pub fn root() -> bool {
    // SAFETY: a query that takes nothing and cannot fail.
    unsafe { libc::geteuid() == 0 }
}
