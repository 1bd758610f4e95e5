//! What the search for busy-wait loops costs a program with much text, by the guard's own clock.
//!
//! The program opens the largest libraries of this machine and starts one thread, which makes the
//! guard search them all. The statistics say how many bytes of text that were, and how long it
//! took. Each round has a cache folder of its own, and starts the program twice: a second start
//! takes from there what the first one found.

use super::setup::Setup;
use crate::child;
use crate::engine::GUARDED;
use crate::error::{Error, reason};
use crate::harness::{Bench, Case, Sample};
use report::Report;
use report::sheet::number;
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The case's name.
pub const CASE: &str = "a program with much text and one thread";
/// What was searched, and how fast.
pub const TABLE: &str = "
    case = every case | runs [] = count scan_ns | modules [] = modules | text [MB] = text_bytes
    search [ms] = scan_ns | for each 10 MB [ms] = @scan_ns
    second start [ms] = second_scan_ns | second start, each 10 MB [ms] = @second_scan_ns";
/// As many bytes of libraries at most.
const LIBRARY_BYTES: u64 = 64 << 20;
const ROUNDS: usize = 5;

/// What is read of the guard's statistics.
#[derive(Deserialize)]
struct Statistics {
    text_bytes: f64,
    scan_ns: f64,
    modules: f64,
}

/// Runs the program under the guard.
///
/// # Errors
/// If it fails, or leaves no statistics behind.
pub fn measure(setup: &Setup, bench: &mut Bench) -> Result<(), Error> {
    let program = setup.compiler.program("startup", &[], "")?;
    let libraries = libraries();
    if libraries.is_empty() {
        bench.note("the search is not measured: no libraries in /usr/lib");
        return Ok(());
    }
    let folder = tempfile::tempdir().map_err(|error| {
        Error::request(
            format!("{}: {}", std::env::temp_dir().display(), reason(&error)),
            "TMPDIR names another folder",
        )
    })?;
    let rounds = if setup.quick { 1 } else { ROUNDS };
    let case = Case { name: CASE, variants: &[GUARDED], expected: Duration::from_secs(1) };
    bench.rounds(case, rounds, |_, round| {
        let cache = folder.path().join(format!("cache-{round}"));
        let start = |file: PathBuf| {
            let mut command = Command::new(&setup.manx);
            command
                .arg("run")
                .arg(format!("--stats={}", file.display()))
                .arg("--")
                .arg(&program)
                .args(&libraries)
                .env("XDG_CACHE_HOME", &cache);
            let finished = child::run(command, Duration::from_secs(60))?;
            let failed = |reason: String| Error::Failed {
                what: format!("{}: {reason}", file.display()),
                stderr: finished.stderr.clone(),
            };
            let text = std::fs::read_to_string(&file).map_err(|error| failed(reason(&error)))?;
            serde_json::from_str::<Statistics>(&text).map_err(|error| failed(error.to_string()))
        };
        let first = start(folder.path().join(format!("first-{round}.json")))?;
        let second = start(folder.path().join(format!("second-{round}.json")))?;
        Ok(Sample::of([
            ("text_bytes", first.text_bytes),
            ("scan_ns", first.scan_ns),
            ("second_scan_ns", second.scan_ns),
            ("modules", first.modules),
        ]))
    })
}

/// The largest libraries of this machine, one of each name.
fn libraries() -> Vec<PathBuf> {
    let triple = format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH);
    let folder = [Path::new(&triple), Path::new("/usr/lib64"), Path::new("/usr/lib")]
        .into_iter()
        .find(|folder| folder.join("libstdc++.so.6").exists() || folder.join("libcrypto.so.3").exists());
    let entries = folder.and_then(|folder| std::fs::read_dir(folder).ok()).into_iter().flatten().flatten();
    let mut found: Vec<(u64, PathBuf)> = entries
        .map(|entry| entry.path())
        .filter(|path| usable(&path.file_name().unwrap_or_default().to_string_lossy()))
        .filter_map(|path| Some((path.canonicalize().ok()?.metadata().ok()?.len(), path)))
        .collect();
    found.sort_by(|a, b| b.cmp(a));
    let (mut total, mut names, mut chosen) = (0, Vec::new(), Vec::new());
    for (bytes, path) in found {
        let name = stem(&path);
        if total + bytes <= LIBRARY_BYTES && !names.contains(&name) {
            total += bytes;
            names.push(name);
            chosen.push(path);
        }
        if chosen.len() == 12 {
            break;
        }
    }
    chosen
}

/// A sanitizer must not be opened late, and Manx does not search itself.
fn usable(name: &str) -> bool {
    name.starts_with("lib") && name.contains(".so") && !name.contains("san.so") && !name.contains("manx")
}

/// The name without its version: two versions of a library in one process disturb each other.
fn stem(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.chars().take_while(|c| !c.is_ascii_digit() && *c != '.' && *c != '-').collect()
}

/// Time for each ten million bytes of text, in milliseconds.
pub fn ms_per_10_mb(report: &Report, time: &str) -> f64 {
    let of = |name: &str| report.middle(CASE, GUARDED, name);
    of(time) / 1e6 / (of("text_bytes") / 1e7)
}

/// The same as a cell of the table.
pub fn per_10_mb(report: &Report, _case: &str, _version: &str, time: &str) -> String {
    number(ms_per_10_mb(report, time))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_library_of_a_name_and_no_sanitizer() {
        assert_eq!(stem(Path::new("/usr/lib/libLLVM-15.so.1")), stem(Path::new("libLLVM-14.so.1")));
        assert!(!usable("libasan.so.8.0.0") && !usable("libmanx_preload.so") && usable("libz.so.1"));
    }
}
