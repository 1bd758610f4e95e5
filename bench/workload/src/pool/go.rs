//! The work in Go: a program of its own, built on demand and kept in the user's cache.

use crate::engine::compiler::{cache, first_lines, folder_of, make};
use crate::error::{Error, reason};
use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCE: &str = include_str!("../../../engines/fib.go");

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
    let folder =
        cache()?.join("manx/engines").join(format!("fib-go-{}", folder_of(&(SOURCE, &version.stdout))));
    let program = folder.join("fib");
    match (program.exists(), build) {
        (true, _) => Ok(Some(program)),
        (false, false) => Ok(None),
        (false, true) => compile(Command::new(go), &folder).map(|()| Some(program)),
    }
}

fn compile(mut go: Command, folder: &Path) -> Result<(), Error> {
    // Outside of a module, and without one.
    go.env("GO111MODULE", "off").env_remove("GOFLAGS").args(["build", "-o", "fib", "fib.go"]);
    make(go, &[("fib.go", SOURCE)], "fib", folder)?
        .map_err(|error| Error::missing(format!("go: {}", reason(&error)), "name another Go in GO"))?
        .map_err(|words| Error::missing("go: fib.go cannot be built", first_lines(&words)))
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
        let error = compile(failing, folder.path()).unwrap_err();
        assert!(error.to_string().contains("cannot be built"), "{error}");
        let missing = compile(Command::new("/no/such/go"), folder.path());
        assert!(missing.is_err());
    }
}
