//! Shared by the tests of `manx-bench`: the other command beside it, and a folder for a program
//! of the test's own.
#![allow(dead_code, reason = "each test binary uses a part")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Once;
use tempfile::TempDir;

/// The built command.
const BENCH: &str = env!("CARGO_BIN_EXE_manx-bench");

/// `manx-bench`, with `manx` beside it. That is a package of its own, which cargo does not build
/// for this one's tests by itself.
pub fn manx_bench() -> Command {
    static BUILT: Once = Once::new();
    BUILT.call_once(build);
    let mut command = Command::new(BENCH);
    for variable in ["MANX", "MANX_OPTIONS", "MANX_PRELOAD", "LD_PRELOAD"] {
        command.env_remove(variable);
    }
    command
}

/// Builds `manx` into the folder of `manx-bench`, unless a build of all packages has done that
/// (`xtask/src/test/programs.rs`).
pub fn build() {
    let profile = Path::new(BENCH).parent().expect("a folder");
    if std::env::var_os("MANX_COMMANDS_BUILT").is_none() {
        cargo_build(profile);
    }
    assert!(profile.join("manx").is_file(), "manx is not in {}", profile.display());
}

fn cargo_build(profile: &Path) {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--quiet", "-p", "cli"]);
    cargo.arg("--target-dir").arg(profile.parent().expect("the target folder"));
    if !profile.ends_with("debug") {
        cargo.arg("--profile").arg(profile.file_name().expect("a name"));
    }
    assert!(cargo.status().expect("cargo runs").success(), "`manx` does not build");
}

/// A folder that goes away with the test.
pub struct Sandbox {
    folder: TempDir,
}

impl Sandbox {
    /// An empty one.
    pub fn new() -> Sandbox {
        Sandbox { folder: tempfile::tempdir().expect("a temporary folder") }
    }

    /// An empty one in this folder.
    pub fn within(folder: &str) -> Sandbox {
        Sandbox { folder: tempfile::tempdir_in(folder).expect("a temporary folder") }
    }

    /// The path of `name` in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file that may be executed.
    pub fn executable(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("a written file");
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(0o755)).expect("a mode");
    }

    /// `manx-bench`, whose `manx run` finds stand-ins for the preload libraries that have their
    /// version symbols and do nothing.
    pub fn manx_bench(&self) -> Command {
        let mut command = manx_bench();
        command.env("MANX_PRELOAD", self.stand_in()).current_dir(self.folder.path());
        command
    }

    fn stand_in(&self) -> PathBuf {
        use preload_abi::{
            LIBRARY_NAME, REQUESTS_LIBRARY_NAME, REQUESTS_VERSION, REQUESTS_VERSION_SYMBOL, VERSION,
            VERSION_SYMBOL,
        };
        for (name, symbol, version) in [
            (REQUESTS_LIBRARY_NAME, REQUESTS_VERSION_SYMBOL, REQUESTS_VERSION),
            (LIBRARY_NAME, VERSION_SYMBOL, VERSION),
        ] {
            let (library, source) = (self.path(name), self.path("stand_in.c"));
            fs::write(&source, format!("unsigned {symbol} = {version};")).expect("a written file");
            let mut compiler = Command::new("cc");
            compiler.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source);
            assert!(compiler.status().expect("a C compiler").success());
        }
        self.path(LIBRARY_NAME)
    }
}

/// Bytes as text.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
