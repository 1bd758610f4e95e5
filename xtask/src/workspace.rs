//! Where things are: the root, the target folder, the packages and their arrows.

use std::env;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::outcome::Result;
use crate::process::capture;
pub use crate::process::root;

/// The command that starts programs.
pub const MANX: &str = "manx";
/// The command that measures.
pub const BENCH: &str = "manx-bench";
/// The library that `manx run` preloads.
pub const PRELOAD: &str = "libmanx_preload.so";
/// The one that it adds for requests that nobody marked.
pub const REQUESTS: &str = "libmanx_requests.so";

/// All commands, the one that starts programs first.
pub const COMMANDS: [&str; 2] = [MANX, BENCH];
/// All libraries that it preloads.
pub const LIBRARIES: [&str; 2] = [PRELOAD, REQUESTS];

/// What `cargo metadata` says about the workspace.
pub struct Workspace {
    /// Where cargo puts what it builds.
    pub target: PathBuf,
    /// The members, in the order of their names.
    pub packages: Vec<Package>,
}

/// A member of the workspace.
#[derive(Clone)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// Its Cargo.toml.
    pub manifest: PathBuf,
    /// The members that it depends on, development included; each once, in the order of their
    /// names.
    pub needs: Vec<String>,
    /// Its integration tests.
    pub tests: Vec<Test>,
    /// Whether its library's documentation has examples that run as tests.
    pub has_examples: bool,
    /// The names of its features.
    pub features: Vec<String>,
}

/// An integration test.
#[derive(Clone)]
pub struct Test {
    /// Its name.
    pub name: String,
    /// The features of its package that it needs.
    pub features: Vec<String>,
}

impl Workspace {
    /// Asks cargo.
    ///
    /// # Errors
    /// If cargo fails, or answers in a form that is not known.
    pub fn load() -> Result<Workspace> {
        let mut command = cargo();
        command.args(["metadata", "--no-deps", "--format-version", "1"]);
        let answer: Value = serde_json::from_str(&capture(&mut command)?)
            .map_err(|error| format!("`cargo metadata` did not answer in JSON: {error}"))?;
        parse(&answer).ok_or_else(|| "`cargo metadata` answered in a form that is not known here".into())
    }

    /// The folder of release builds.
    pub fn release(&self) -> PathBuf {
        self.target.join("release")
    }

    /// The built command that starts programs.
    pub fn manx(&self) -> PathBuf {
        self.release().join(MANX)
    }

    /// The built commands.
    pub fn commands(&self) -> [PathBuf; 2] {
        COMMANDS.map(|name| self.release().join(name))
    }

    /// The built libraries that it preloads.
    pub fn libraries(&self) -> [PathBuf; 2] {
        LIBRARIES.map(|name| self.release().join(name))
    }
}

/// A cargo to run in the workspace's root: the one that runs us, if one does.
pub fn cargo() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// A cargo that builds or runs something in release mode. What it builds names no folder of this
/// machine's registry, because users may install it elsewhere.
///
/// All release builds must use this. Cargo builds a dependency once for each set of flags.
pub fn release_cargo(subcommand: &str) -> Command {
    let mut flags: Vec<String> = match env::var("CARGO_ENCODED_RUSTFLAGS") {
        Ok(flags) => flags.split('\x1f').map(String::from).collect(),
        Err(_) => env::var("RUSTFLAGS").unwrap_or_default().split_whitespace().map(String::from).collect(),
    };
    flags.extend(cargo_home().map(|home| format!("--remap-path-prefix={}=/cargo", home.display())));
    flags.retain(|flag| !flag.is_empty());
    let mut command = cargo();
    command.args([subcommand, "--release"]).args(locked());
    command.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"));
    // For `manx --version`. Without git nobody knows.
    let mut commit = Command::new("git");
    commit.current_dir(root()).args(["describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]);
    if let Ok(commit) = capture(&mut commit) {
        command.env("MANX_COMMIT", commit.trim());
    }
    command
}

/// The folder of cargo's registry.
pub fn cargo_home() -> Option<PathBuf> {
    let named = env::var_os("CARGO_HOME").map(PathBuf::from);
    named.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cargo")))
}

/// How to install a part of the toolchain, if `cargo SUBCOMMAND` does not run: not every
/// installation has all of them.
pub fn lacks(subcommand: &str, component: &str) -> Option<String> {
    let answer = capture(cargo().args([subcommand, "--version"]));
    answer.err().map(|_| format!("rustup component add {component}"))
}

/// Whether this is CI: nobody looks at what is left out, and nobody would commit a change.
pub fn is_ci() -> bool {
    env::var_os("CI").is_some()
}

/// The option that forbids to change Cargo.lock in CI.
pub fn locked() -> &'static [&'static str] {
    if is_ci() { &["--locked"] } else { &[] }
}

/// What a package links when it is built by itself, itself included: a line each, which begins with
/// the name. `cargo metadata` would unite the features that all packages of the workspace ask of
/// shared crates.
///
/// # Errors
/// If cargo does not answer.
pub fn linked(package: &str) -> Result<String> {
    let words = ["tree", "-p", package, "-e", "normal", "--prefix", "none", "--format", "{p}"];
    capture(cargo().args(words).args(locked()))
}

fn parse(answer: &Value) -> Option<Workspace> {
    let packages = answer["packages"].as_array()?;
    let names: Vec<&str> = packages.iter().map(|package| package["name"].as_str()).collect::<Option<_>>()?;
    let mut members = packages.iter().map(|package| member(package, &names)).collect::<Option<Vec<_>>>()?;
    members.sort_by(|a, b| a.name.cmp(&b.name));
    Some(Workspace { target: answer["target_directory"].as_str()?.into(), packages: members })
}

fn member(package: &Value, names: &[&str]) -> Option<Package> {
    let needs = package["dependencies"].as_array()?.iter();
    let mut needs: Vec<String> = needs
        .filter(|need| need["path"].is_string())
        .filter_map(|need| need["name"].as_str())
        .filter(|name| names.contains(name))
        .map(String::from)
        .collect();
    needs.sort();
    needs.dedup();
    let targets = package["targets"].as_array()?.iter();
    let has_examples = targets.clone().any(|target| target["doctest"] == true);
    let tests = targets.filter(|target| target["kind"][0] == "test");
    Some(Package {
        name: package["name"].as_str()?.into(),
        manifest: package["manifest_path"].as_str()?.into(),
        needs,
        tests: tests.map(test).collect::<Option<_>>()?,
        has_examples,
        features: package["features"].as_object()?.keys().cloned().collect(),
    })
}

fn test(target: &Value) -> Option<Test> {
    let features = target["required-features"].as_array().into_iter().flatten();
    let features = features.map(|feature| feature.as_str().map(String::from)).collect::<Option<_>>()?;
    Some(Test { name: target["name"].as_str()?.into(), features })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_workspace_is_found() {
        let workspace = Workspace::load().unwrap();
        let xtask = workspace.packages.iter().find(|package| package.name == "xtask").unwrap();
        assert_eq!(xtask.needs, ["testing"]);
        let manx = workspace.packages.iter().find(|package| package.name == "manx").unwrap();
        assert_eq!(manx.needs, ["manx-platform", "testing"]);
        let twin = workspace.packages.iter().find(|package| package.name == "manx-loom").unwrap();
        assert!(twin.tests.iter().any(|test| test.name == "wait" && test.features.is_empty()));
        assert!(manx.tests.iter().any(|test| test.name == "txn_model" && test.features == ["txn"]));
    }
}
