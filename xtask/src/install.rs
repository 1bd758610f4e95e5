//! `cargo xtask install`: the commands, the libraries, the manual pages and the completions below a
//! prefix.
//!
//! | file | where |
//! | --- | --- |
//! | `manx`, and with `--bench` `manx-bench` | `PREFIX/bin` |
//! | `libmanx_preload.so`, `libmanx_requests.so` | `PREFIX/lib/manx`, where `manx` looks for them by its own path |
//! | manual pages | `PREFIX/share/man/man1` |
//! | completions | `PREFIX/share/bash-completion/completions`, `zsh/site-functions`, `fish/vendor_completions.d` |
//! | libmanx and its headers | see [`libmanx`] |
//!
//! `DESTDIR` goes before the prefix, as packagers expect. A file is written beside its place and
//! renamed into it, so that a program that has the old library mapped keeps it whole.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::outcome::Result;
use crate::process::capture;
use crate::put::put;
use crate::workspace::{BENCH, COMMANDS, LIBRARIES, Workspace};
use crate::{build, libmanx, man};

/// Builds and installs below `prefix`, and below `DESTDIR` if that is set; `manx-bench` only if
/// `bench` says so.
///
/// # Errors
/// If something does not build or a file cannot be written.
pub fn run(prefix: &Path, bench: bool) -> Result {
    build::run()?;
    let folder = below(env::var_os("DESTDIR").as_deref().map(Path::new), prefix)?;
    let workspace = Workspace::load()?;
    let pages = man::made(&workspace)?;
    install(Built { folder: &workspace.release(), pages: &pages }, prefix, &folder, bench)
}

/// What is installed.
#[derive(Clone, Copy)]
pub struct Built<'p> {
    /// The folder with the commands and the libraries.
    pub folder: &'p Path,
    /// The folder with the manual pages, and with completions in a folder for each shell.
    pub pages: &'p Path,
}

/// Installs what is built into an empty folder and sees whether the installed command finds its
/// library, and compilers theirs.
///
/// # Errors
/// If it does not.
pub fn check(built: Built, folder: &Path) -> Result {
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    install(built, folder, folder, false)?;
    let manx = folder.join("bin/manx");
    // In PATH there is nothing of Manx's: what is installed is found by where it lies.
    let run = |words: &[&str]| {
        capture(Command::new(&manx).env_remove("MANX_PRELOAD").env("PATH", "/usr/bin:/bin").args(words))
    };
    let version = run(&["--version"])?;
    let plan = run(&["run", "--dry-run", "--slo", "1ms", "--", "true"])?;
    println!("{}\n{plan}", version.trim_end());
    for library in LIBRARIES.map(|name| folder.join("lib/manx").join(name)) {
        if !plan.contains(&*library.to_string_lossy()) {
            return Err(format!("{} does not find {}", manx.display(), library.display()));
        }
    }
    run(&["run", "--", "true"])?;
    run(&["run", "--slo", "1ms", "--", "true"])?;
    match run(&["bench", "--version"]) {
        Err(error) if error.contains("xtask install --bench") => {}
        other => return Err(format!("`manx bench` is not installed, and does not say so: {other:?}")),
    }
    install(built, folder, folder, true)?;
    print!("{}", run(&["bench", "--version"])?);
    run(&["profile", "--help"])?;
    if let Some(left_out) = libmanx::check(folder)? {
        println!("{left_out}");
    }
    Ok(())
}

/// The folder that is written to for a prefix.
fn below(destination: Option<&Path>, prefix: &Path) -> Result<PathBuf> {
    let Some(destination) = destination.filter(|path| !path.as_os_str().is_empty()) else {
        return Ok(prefix.into());
    };
    let inside = prefix.strip_prefix("/").map_err(|_| {
        format!("with DESTDIR the prefix has to be absolute, and {} is not", prefix.display())
    })?;
    Ok(destination.join(inside))
}

/// Each shell with completions, and where it looks for them below `share`.
pub const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "bash-completion/completions"),
    ("zsh", "zsh/site-functions"),
    ("fish", "fish/vendor_completions.d"),
];

/// What measures, its pages and completions: installed with `--bench` only.
const OF_BENCH: [&str; 2] = [BENCH, "manx-profile"];

/// Installs what is built into `folder`, from where it is to be used as `prefix`.
///
/// # Errors
/// If a file cannot be written.
pub fn install(built: Built, prefix: &Path, folder: &Path, bench: bool) -> Result {
    let Built { folder: built, pages } = built;
    let wanted = |file: &Path| bench || !OF_BENCH.iter().any(|name| is_of(file, name));
    for command in COMMANDS.map(|name| built.join(name)).iter().filter(|command| wanted(command)) {
        put(command, &folder.join("bin"), 0o755)?;
    }
    for library in LIBRARIES.map(|name| built.join(name)) {
        put(&library, &folder.join("lib/manx"), 0o644)?;
    }
    let put_all = |from: &Path, place: &str| -> Result {
        let files = fs::read_dir(from).map_err(|error| format!("{}: {error}", from.display()))?;
        let mut files = files.flatten().map(|file| file.path()).filter(|file| file.is_file() && wanted(file));
        files.try_for_each(|file| put(&file, &folder.join("share").join(place), 0o644))
    };
    put_all(pages, "man/man1")?;
    for (shell, place) in COMPLETIONS {
        put_all(&pages.join(shell), place)?;
    }
    libmanx::install(&Workspace::load()?, built, prefix, folder)
}

/// Whether a file is that command, or a page about it or its subcommands.
fn is_of(file: &Path, command: &str) -> bool {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let name = name.strip_prefix('_').unwrap_or(&name);
    name.strip_prefix(command).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '-']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_destination_goes_before_the_prefix() {
        let prefix = Path::new("/usr/local");
        assert_eq!(below(None, prefix), Ok("/usr/local".into()));
        assert_eq!(below(Some(Path::new("")), prefix), Ok("/usr/local".into()));
        assert_eq!(below(Some(Path::new("/tmp/stage")), prefix), Ok("/tmp/stage/usr/local".into()));
    }

    #[test]
    fn a_files_name_tells_the_command_that_it_belongs_to() {
        for (file, of_bench) in [
            ("/t/manx-bench", true),
            ("man/manx-bench.1", true),
            ("man/manx-bench-range.1", true),
            ("man/manx.1", false),
            ("man/zsh/_manx-bench", true),
            ("man/zsh/_manx", false),
            ("man/bash/manx-bench.bash", true),
            ("man/manx-benchmark.1", false),
            ("/t/manx-run", false),
        ] {
            assert_eq!(is_of(Path::new(file), BENCH), of_bench, "{file}");
        }
    }

    #[test]
    fn a_relative_prefix_below_a_destination_is_refused() {
        let error = below(Some(Path::new("/tmp/stage")), Path::new("opt")).unwrap_err();
        assert!(error.contains("opt"), "{error}");
    }
}
