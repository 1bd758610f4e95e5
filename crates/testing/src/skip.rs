//! A test that cannot run here says why.
//!
//! A test that returns early counts as passed. Each test that does so therefore calls [`skip`]
//! first. `cargo xtask test` names a file in the variable [`SKIPS`], lists all lines of this file
//! in its summary, and in CI fails if a line is not on the list of accepted ones
//! (`xtask/src/test/skips.rs`).
//!
//! Test programs append at the same time, also those that a test starts. Each line is one write to
//! a file that is opened for appending, so that lines do not mix.

use std::env;
use std::fmt::Display;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::thread;

/// The variable with the name of the file.
pub const SKIPS: &str = "MANX_SKIPS";

/// Says that the running test, or a part of it, checks nothing on this machine. The caller then
/// returns.
///
/// # Panics
/// If the file that [`SKIPS`] names cannot be written: the skip would not be seen.
pub fn skip(why: impl Display) {
    let why = why.to_string();
    println!("skipped: {why}");
    if let Some(file) = env::var_os(SKIPS) {
        record(Path::new(&file), &why);
    }
}

/// Appends `PACKAGE/TARGET TEST<TAB>REASON`.
fn record(file: &Path, why: &str) {
    let package = env::var("CARGO_PKG_NAME").unwrap_or_else(|_| "?".into());
    let program = env::current_exe().unwrap_or_default();
    let target = target(&program);
    let test = thread::current().name().unwrap_or("?").to_owned();
    let why = why.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = format!("{package}/{target} {test}\t{why}\n");
    let written = File::options().create(true).append(true).open(file);
    written
        .and_then(|mut opened| opened.write_all(line.as_bytes()))
        .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
}

/// A test program's name without the hash that cargo adds.
fn target(program: &Path) -> String {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    name.rsplit_once('-').map_or(&*name, |(target, _)| target).into()
}
