//! The test programs of many packages, from one build.
//!
//! `cargo test -p PACKAGE` resolves features for this package alone. A crate that most packages use
//! with different features, such as `manx`, is then compiled anew for almost each of them, and so
//! is all that depends on it. Here cargo builds the packages of a [`Set`] together, and names the
//! test programs. Each package is still a step of its own, which runs its programs as cargo would:
//! in the package's folder, with the variables that tests read.
//!
//! 1. The packages of [`APART`] are tested by `cargo test -p`. What is loaded into programs of
//!    others must be tested as it is shipped, without features that only other packages ask for.
//!    What `xtask` asks of a crate of macros would have all others compiled again for their
//!    examples: cargo builds examples without `xtask`, which is no library.
//! 2. Model checking ends in a sensible time only with optimisation, so loom's twins are a set of
//!    their own, in release mode. Shuttle's twins are a set, too, for the same reason as
//!    `xtask` stands apart: what shuttle asks of a crate would have most others compiled again.
//! 3. That a package builds with its own features alone is checked by the steps `build` and
//!    `features`.
//! 4. Tests with commands of other packages would have cargo build them. All commands are in a set
//!    that is built already, so its tests are told not to ([`BUILT`]).

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::failures::Failures;
use crate::outcome::Result;
use crate::process::{run as run_command, run_and_take};
use crate::workspace::{Package, cargo, locked};

/// The variable by which tests know that the commands of other packages lie beside theirs.
const BUILT: &str = "MANX_COMMANDS_BUILT";

/// The libraries that other programs load, and the tool that runs this.
pub const APART: [&str; 4] = ["capi", "preload", "preload-requests", "xtask"];

/// Packages that the manifest optimises also in debug builds, because the preload library is made
/// of them. Their many tests take longer to compile optimised than to run as they are.
const NOT_OPTIMISED: [&str; 3] = ["manx", "preload-abi", "spinloop"];

/// Packages that are built together, and their programs once they are built.
pub struct Set<'w> {
    packages: Vec<&'w Package>,
    is_release: bool,
    programs: OnceCell<BTreeMap<PathBuf, Vec<Program>>>,
}

/// Which test programs of a package run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// All of them
    All,
    /// That of this name
    Only(&'static str),
    /// All but that one
    Without(&'static str),
}

impl Which {
    /// Whether a program is among them. Cargo adds a hash to its name.
    fn has(self, file: &Path) -> bool {
        let stem = file.file_stem().and_then(OsStr::to_str).unwrap_or_default();
        let name = stem.rsplit_once('-').map_or(stem, |(name, _)| name);
        match self {
            Which::All => true,
            Which::Only(only) => name == only,
            Which::Without(other) => name != other,
        }
    }
}

/// What a package's tests are, in the order in which cargo names them.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Program {
    /// Tests, in this file.
    Tests(PathBuf),
    /// A command of this name that tests start.
    Command(String, PathBuf),
}

impl<'w> Set<'w> {
    /// None if there is no package.
    pub fn of(packages: Vec<&'w Package>, is_release: bool) -> Option<Set<'w>> {
        (!packages.is_empty()).then(|| Set { packages, is_release, programs: OnceCell::new() })
    }

    /// The first words of a cargo that compiles these packages. They have to be the same each time,
    /// or cargo compiles again.
    fn cargo_test<'p>(&'p self, packages: impl Iterator<Item = &'p &'w Package>) -> Command
    where
        'w: 'p,
    {
        let mut command = cargo();
        command.args(["test", "--all-features"]).args(locked());
        command.args(self.is_release.then_some("--release"));
        for package in NOT_OPTIMISED.iter().filter(|_| !self.is_release) {
            command.args(["--config", &format!("profile.dev.package.{package}.opt-level=0")]);
        }
        packages.for_each(|package| {
            command.args(["-p", &package.name]);
        });
        command
    }

    /// Builds them, unless this has been done.
    ///
    /// # Errors
    /// If a package does not compile.
    pub fn build(&self, limit: Duration) -> Result {
        if self.programs.get().is_some() {
            return Ok(());
        }
        let mut command = self.cargo_test(self.packages.iter());
        command.args(["--no-run", "--message-format=json-render-diagnostics"]);
        let programs = Arc::new(Mutex::new(BTreeMap::new()));
        let seen = Arc::clone(&programs);
        run_and_take(&mut command, limit, move |line| {
            if let Some((manifest, program)) = program(line) {
                seen.lock().unwrap().entry(manifest).or_insert_with(Vec::new).push(program);
            }
        })?;
        let programs = std::mem::take(&mut *programs.lock().unwrap());
        // Nothing has set them since the look above.
        let _ = self.programs.set(programs);
        Ok(())
    }

    /// Runs tests of one package; `prepare` sets variables.
    ///
    /// # Errors
    /// If one fails, or the packages do not compile. All of them run.
    pub fn run(
        &self,
        package: &Package,
        which: Which,
        prepare: impl Fn(&mut Command),
        limit: Duration,
    ) -> Result {
        let (begin, mut wrong) = (Instant::now(), Vec::new());
        // A process of its own, which runs one step, has not built them. Cargo then finds all done.
        self.build(limit)?;
        let all = self.programs.get().ok_or("the packages are not built")?;
        let programs = all.get(&package.manifest).map(Vec::as_slice).unwrap_or_default();
        for program in programs {
            let Program::Tests(file) = program else { continue };
            if !which.has(file) {
                continue;
            }
            let mut command = tests(file, package, programs);
            prepare(&mut command);
            wrong.extend(Failures::of(&mut command, limit.saturating_sub(begin.elapsed())).err());
        }
        if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
    }

    /// Whether there are examples in the documentation of one of them.
    pub fn has_examples(&self) -> bool {
        self.packages.iter().any(|package| package.has_examples)
    }

    /// Runs the examples in the documentation of all of them.
    ///
    /// # Errors
    /// If one fails.
    pub fn document(&self, limit: Duration) -> Result {
        let packages = self.packages.iter().filter(|package| package.has_examples);
        run_command(self.cargo_test(packages).args(["--no-fail-fast", "--doc"]), limit)
    }
}

/// A test program, to be run as cargo would.
fn tests(file: &Path, package: &Package, programs: &[Program]) -> Command {
    let mut command = Command::new(file);
    let folder = package.manifest.parent().unwrap_or(Path::new("."));
    command.current_dir(folder).env("CARGO_MANIFEST_DIR", folder).env("CARGO_PKG_NAME", &package.name);
    command.env(BUILT, "1");
    for program in programs {
        if let Program::Command(name, file) = program {
            command.env(format!("CARGO_BIN_EXE_{name}"), file);
        }
    }
    command
}

/// The program that one of cargo's messages names, and its package's manifest.
fn program(line: &[u8]) -> Option<(PathBuf, Program)> {
    let message: Value = serde_json::from_slice(line).ok()?;
    let file = PathBuf::from(message["executable"].as_str()?);
    let manifest = PathBuf::from(message["manifest_path"].as_str()?);
    let program = match message["profile"]["test"].as_bool()? {
        true => Program::Tests(file),
        false if message["target"]["kind"][0] == "bin" => {
            Program::Command(message["target"]["name"].as_str()?.into(), file)
        }
        false => return None,
    };
    Some((manifest, program))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_names_tests_and_commands_and_other_messages_are_nothing() {
        let message = |test: bool, kind: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/w/a/Cargo.toml","executable":"/w/target/x",
                "target":{{"kind":["{kind}"],"name":"x"}},"profile":{{"test":{test}}}}}"#
            )
        };
        let of = |test, kind| program(message(test, kind).as_bytes()).map(|found| found.1);
        assert_eq!(of(true, "lib"), Some(Program::Tests("/w/target/x".into())));
        assert_eq!(of(false, "bin"), Some(Program::Command("x".into(), "/w/target/x".into())));
        assert_eq!(of(false, "example"), None);
        assert_eq!(program(br#"{"reason":"build-finished","success":true}"#), None);
        assert_eq!(program(b"no JSON"), None);
    }

    #[test]
    fn a_program_is_known_by_its_name_without_the_hash() {
        let file = Path::new("/w/target/debug/deps/pool_control-1f2e");
        assert!(Which::All.has(file) && Which::Only("pool_control").has(file));
        assert!(!Which::Without("pool_control").has(file) && !Which::Only("pool").has(file));
    }

    #[test]
    fn every_package_that_is_named_is_there() {
        let workspace = crate::workspace::Workspace::load().unwrap();
        for name in APART.into_iter().chain(NOT_OPTIMISED) {
            assert!(workspace.packages.iter().any(|package| package.name == name), "{name}");
        }
    }

    #[test]
    fn a_set_has_packages() {
        assert!(Set::of(Vec::new(), false).is_none());
    }
}
