//! The library as cargo built it, and the program that is run under it.
#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use workload::engine::rival;

/// The library, beside the test.
pub fn library() -> PathBuf {
    let library = folder().join(rival::LIBRARY);
    assert!(library.exists(), "{}: not built", library.display());
    library
}

/// The folder of the test and of the library.
pub fn folder() -> PathBuf {
    std::env::current_exe().expect("the test's own path").parent().expect("a folder").to_owned()
}

/// `programs/stress.c`, compiled once.
pub fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/stress.c");
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("stress-{}", std::process::id()));
        let mut compiler = Command::new("cc");
        compiler.args(["-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"]).args([&program, &source]);
        assert!(compiler.status().expect("a C compiler").success());
        program
    })
}
