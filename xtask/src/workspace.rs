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
/// The command that serves clients of Redis.
pub const SERVE: &str = "manx-serve";
/// The command that measures.
pub const BENCH: &str = "manx-bench";
/// The library that `manx run` preloads.
pub const PRELOAD: &str = "libmanx_preload.so";
/// The one that it adds for requests that nobody marked.
pub const REQUESTS: &str = "libmanx_requests.so";

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
    /// The names of its integration tests.
    pub tests: Vec<String>,
    /// The names of its features.
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

    /// The built commands, that one first.
    pub fn commands(&self) -> [PathBuf; 3] {
        [MANX, SERVE, BENCH].map(|name| self.release().join(name))
    }

    /// The built libraries that it preloads: the one that it always does, and the one that sees
    /// requests.
    pub fn libraries(&self) -> [PathBuf; 2] {
        [PRELOAD, REQUESTS].map(|name| self.release().join(name))
    }
}

/// A cargo to run in the workspace's root: the one that runs us, if one does. In CI it may not
/// change Cargo.lock.
pub fn cargo() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// How to install a part of the toolchain, if `cargo SUBCOMMAND` does not run: not every
/// installation has all of them.
pub fn lacks(subcommand: &str, component: &str) -> Option<String> {
    let answer = capture(cargo().args([subcommand, "--version"]));
    answer.err().map(|_| format!("rustup component add {component}"))
}

/// The option that forbids to change Cargo.lock, where nobody would commit the change.
pub fn locked() -> &'static [&'static str] {
    if env::var_os("CI").is_some() { &["--locked"] } else { &[] }
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
    let tests =
        targets.filter(|target| target["kind"][0] == "test").filter_map(|target| target["name"].as_str());
    Some(Package {
        name: package["name"].as_str()?.into(),
        manifest: package["manifest_path"].as_str()?.into(),
        needs,
        tests: tests.map(String::from).collect(),
        features: package["features"].as_object()?.keys().cloned().collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_workspace_is_found() {
        let workspace = Workspace::load().unwrap();
        let xtask = workspace.packages.iter().find(|package| package.name == "xtask").unwrap();
        assert_eq!(xtask.needs, Vec::<String>::new());
        let manx = workspace.packages.iter().find(|package| package.name == "manx").unwrap();
        assert_eq!(manx.needs, ["platform", "testing"]);
        let twin = workspace.packages.iter().find(|package| package.name == "manx-loom").unwrap();
        assert!(twin.tests.contains(&"wait".into()), "{:?}", twin.tests);
    }
}
