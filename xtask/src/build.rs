//! `cargo xtask build`: the commands, the libraries that `manx` preloads, and libmanx, side by
//! side.
//!
//! Each is built in an invocation of its own, because cargo unites the features of all packages
//! that it builds together: what a program of others gets loaded must not grow by what the commands
//! use, nor `manx` by what measures. `manx` depends on none of the others and looks for
//! them beside itself.
//!
//! `manx` has to be small (`tidy/slim.rs`) and is in no hurry: what it starts does the work. So it
//! alone is optimised for its size, and as a whole.
//!
//! `interposer` is for `manx bench engines --rival`, which looks for it beside `manx-bench`.
//!
//! CI runs benchmarks only to see that they run. There `manx-bench` is the one that the tests build
//! ([`borrow_bench`]): optimised, it would take a third of the build.

use std::fs;
use std::process::Command;
use std::time::Duration;

use crate::libmanx;
use crate::outcome::Result;
use crate::process::run as run_command;
use crate::workspace::{BENCH, MANX, Workspace, is_ci, release_cargo};

const LIMIT: Duration = Duration::from_secs(20 * 60);
/// The package of [`MANX`].
const CLI: &str = "cli";

/// Dependencies of [`CLI`] whose speed does not matter.
const SMALLEST: [&str; 12] = [
    "clap_builder",
    "cpp_demangle",
    "crossterm",
    "doctor",
    "exporter",
    "kasuari",
    "page",
    "ratatui-core",
    "ratatui-widgets",
    "rustc-demangle",
    "spinloop",
    "toml_parser",
];

/// A cargo that builds one of the packages in release mode, as it is installed.
pub fn cargo(subcommand: &str, package: &str) -> Command {
    let mut command = release_cargo(subcommand);
    command.args(["-p", package]);
    if package == CLI {
        let settings = ["opt-level='s'", "lto='fat'", "codegen-units=1"].map(String::from);
        let smallest = SMALLEST.map(|package| format!("package.{package}.opt-level='z'"));
        for setting in settings.into_iter().chain(smallest) {
            command.args(["--config", &format!("profile.release.{setting}")]);
        }
    }
    command
}

/// Builds `manx`, and links it with these words for the linker.
///
/// # Errors
/// If it does not build.
pub fn link(linking: &[String]) -> Result {
    let mut link = cargo("rustc", CLI);
    link.args(["--bin", MANX, "--"]);
    link.args(linking.iter().map(|word| format!("-Clink-arg={word}")));
    run_command(&mut link, LIMIT)
}

/// Builds all of them in release mode.
///
/// # Errors
/// If one does not build, or what was built is not where the command looks for it.
pub fn run() -> Result {
    run_linked(&[])
}

/// The same. `manx` is linked with these words for the linker.
///
/// # Errors
/// As [`run`].
pub fn run_linked(linking: &[String]) -> Result {
    link(linking)?;
    for package in ["manx-bench", "interposer", "preload", "preload-requests", "capi"] {
        if !["manx-bench", "interposer"].contains(&package) || !is_ci() {
            run_command(&mut cargo("build", package), LIMIT)?;
        }
    }
    let workspace = Workspace::load()?;
    let [manx, bench] = workspace.commands();
    for file in [manx].into_iter().chain((!is_ci()).then_some(bench)).chain(workspace.libraries()) {
        if !file.is_file() {
            return Err(format!("{} was not built: is `build.target` set for cargo?", file.display()));
        }
        println!("built {}", file.display());
    }
    println!("built {}", libmanx::link(&workspace.release(), &[])?.display());
    Ok(())
}

/// Puts the `manx-bench` that the tests have built beside `manx`, where that looks for it.
///
/// # Errors
/// If it cannot be copied.
pub fn borrow_bench(workspace: &Workspace) -> Result {
    let (built, [_, bench]) = (workspace.target.join("debug").join(BENCH), workspace.commands());
    let copied = fs::copy(&built, &bench);
    copied.map(drop).map_err(|error| format!("{} to {}: {error}", built.display(), bench.display()))
}
