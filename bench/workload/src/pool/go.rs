//! The work in Go: a program of its own, built on demand and kept in the user's cache.

use crate::engine::compiler::cache;
use crate::error::Error;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCE: &str = include_str!("../../../engines/fib.go");
/// The number of lines of a compiler's error that are shown.
const WORDS: usize = 10;

/// The program; `None` if it would have to be built first and `build` is false.
///
/// # Errors
/// If there is no Go, or it refuses.
pub fn program(build: bool) -> Result<Option<PathBuf>, Error> {
    let go = std::env::var_os("GO").filter(|go| !go.is_empty()).unwrap_or_else(|| "go".into());
    let version = Command::new(&go).arg("version").output();
    let version = version.ok().filter(|output| output.status.success()).ok_or_else(|| {
        Error::missing(
            format!("{}: not there, or it does not work", go.to_string_lossy()),
            "install Go 1.22 or later (Debian: apt-get install golang), or name it in GO",
        )
    })?;
    let mut hasher = DefaultHasher::new();
    (SOURCE, &version.stdout).hash(&mut hasher);
    let folder = cache()?.join("manx/engines").join(format!("fib-go-{:016x}", hasher.finish()));
    let program = folder.join("fib");
    match (program.exists(), build) {
        (true, _) => Ok(Some(program)),
        (false, false) => Ok(None),
        (false, true) => compile(Command::new(go), &folder, &program).map(|()| Some(program)),
    }
}

/// Builds in a temporary folder and then renames the program, so that two builds at once do no
/// harm.
fn compile(mut go: Command, folder: &Path, program: &Path) -> Result<(), Error> {
    let failed = |error: std::io::Error| {
        let help = "programs are compiled there; XDG_CACHE_HOME names another folder";
        Error::missing(format!("{}: {error}", folder.display()), help)
    };
    fs::create_dir_all(folder).map_err(failed)?;
    let scratch = tempfile::Builder::new().prefix(".build").tempdir_in(folder).map_err(failed)?;
    let (source, made) = (scratch.path().join("fib.go"), scratch.path().join("fib"));
    fs::write(&source, SOURCE).map_err(failed)?;
    // Outside of a module, and without one.
    go.current_dir(scratch.path()).env("GO111MODULE", "off").env_remove("GOFLAGS");
    let output = go.args(["build", "-o"]).arg(&made).arg(&source).output().map_err(failed)?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        let words: Vec<&str> = words.lines().take(WORDS).collect();
        return Err(Error::missing("go: fib.go cannot be built", words.join("\n")));
    }
    fs::rename(made, program).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::spec::Outcome;
    use std::process::Stdio;

    #[test]
    fn the_output_of_the_go_program_is_read() {
        let program = match program(true) {
            Ok(program) => program.expect("it was to be built"),
            Err(Error::Missing { what, .. }) => {
                testing::skip(what);
                return;
            }
            Err(error) => panic!("{error}"),
        };
        let mut command = Command::new(program);
        command.args(["-rate", "50", "-phase", "0.5", "-seconds", "0.2", "-drain", "60"]);
        let output = command.env("GOMAXPROCS", "3").stdin(Stdio::null()).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let json = text.strip_prefix("ready\n").unwrap();
        let outcome: Outcome = serde_json::from_str(json).unwrap();
        assert_eq!(outcome.value("workers"), 3.0);
        assert_eq!(outcome.value("unfinished"), 0.0);
        assert_eq!(outcome.histograms["total"].count() as f64, outcome.value("offered"));
        assert!(outcome.value("offered") >= 1.0 && outcome.value("cpu_ns") > 0.0);
    }

    #[test]
    fn a_failed_build_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let failing = Command::new("false");
        let error = compile(failing, folder.path(), &folder.path().join("fib")).unwrap_err();
        assert!(error.to_string().contains("cannot be built"), "{error}");
        let missing = compile(Command::new("/no/such/go"), folder.path(), &folder.path().join("fib"));
        assert!(missing.is_err());
    }
}
