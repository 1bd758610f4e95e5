//! libmanx, what C and C++ programs are linked with: from what cargo builds to what is installed.
//!
//! | file | where |
//! | --- | --- |
//! | `libmanx.a`, `libmanx.so.0`, and `libmanx.so`, a link to it | `PREFIX/lib` |
//! | `manx.h`, `manx_range.h`, `manx_cpu.h`, `manx_epoch.h`; for C++, `manx.hpp`, `manx_range.hpp` | `PREFIX/include` |
//! | `manx.pc`, `manx_preload.pc` | `PREFIX/lib/pkgconfig` |
//!
//! The shared library is linked from the static one, by the C compiler: `crates/capi/link/manx.map`
//! says why.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::outcome::Result;
use crate::process::{capture, run as run_command};
use crate::put::put;
use crate::workspace::{Workspace, root};

/// The shared library's name: it changes when programs that were linked before would break.
pub const SONAME: &str = "libmanx.so.0";
/// The static library's name where cargo builds it.
pub const ARCHIVE: &str = "libmanx_c.a";
const LIMIT: Duration = Duration::from_secs(120);
const HEADERS: [&str; 6] =
    ["manx.h", "manx.hpp", "manx_cpu.h", "manx_epoch.h", "manx_range.h", "manx_range.hpp"];
const DESCRIPTIONS: [&str; 2] = ["manx.pc", "manx_preload.pc"];

fn source(path: &str) -> PathBuf {
    root().join("crates/capi").join(path)
}

/// Links the shared library in a folder where the static one lies, which cargo has built. The
/// compiler is told these words, too. Returns the path.
///
/// # Errors
/// If there is no C compiler, or it fails.
pub fn link(folder: &Path, words: &[String]) -> Result<PathBuf> {
    let shared = folder.join(SONAME);
    let mut compiler = Command::new("cc");
    compiler.args(words).args(["-shared", "-Wl,--gc-sections", "-Wl,-z,defs", "-Wl,-z,relro", "-Wl,-z,now"]);
    compiler.arg(format!("-Wl,-soname,{SONAME}"));
    compiler.arg(format!("-Wl,--version-script={}", source("link/manx.map").display()));
    compiler.arg("-o").arg(&shared);
    compiler.arg("-Wl,--whole-archive").arg(folder.join(ARCHIVE)).arg("-Wl,--no-whole-archive");
    // Before 2.34 the C library had these apart.
    compiler.args(["-Wl,--as-needed", "-lpthread", "-ldl"]);
    run_command(&mut compiler, LIMIT)?;
    Ok(shared)
}

/// Installs the libraries that lie in `built`, the headers and their descriptions into `folder`,
/// where they are to be used from `prefix`.
///
/// # Errors
/// If a file cannot be written.
pub fn install(workspace: &Workspace, built: &Path, prefix: &Path, folder: &Path) -> Result {
    let made = workspace.target.join("libmanx");
    let in_file = |path: &Path, error| format!("{}: {error}", path.display());
    fs::create_dir_all(&made).map_err(|error| in_file(&made, error))?;
    let archive = made.join("libmanx.a");
    fs::copy(built.join(ARCHIVE), &archive).map_err(|error| in_file(&archive, error))?;
    for file in [&archive, &built.join(SONAME)] {
        put(file, &folder.join("lib"), 0o644)?;
    }
    let link = folder.join("lib/libmanx.so");
    let fresh = folder.join("lib/.libmanx.so.new");
    let _ = fs::remove_file(&fresh);
    symlink(SONAME, &fresh)
        .and_then(|()| fs::rename(&fresh, &link))
        .map_err(|error| format!("{} could not be written: {error}", link.display()))?;
    println!("installed {}", link.display());
    for header in HEADERS {
        put(&source("include").join(header), &folder.join("include"), 0o644)?;
    }
    for name in DESCRIPTIONS {
        let template = source("link").join(format!("{name}.in"));
        let text = fs::read_to_string(&template).map_err(|error| in_file(&template, error))?;
        let file = made.join(name);
        fs::write(&file, described(&text, prefix)?).map_err(|error| in_file(&file, error))?;
        put(&file, &folder.join("lib/pkgconfig"), 0o644)?;
    }
    Ok(())
}

/// Compiles two examples with what is installed and runs them. Returns what was left out, and why.
///
/// # Errors
/// If a program does not compile, or does not run.
pub fn check(folder: &Path) -> Result<Option<String>> {
    if capture(Command::new("pkg-config").arg("--version")).is_err() {
        return Ok(Some("libmanx: no program was compiled, because pkg-config is not here".into()));
    }
    for (package, example) in [("manx", "queue"), ("manx_preload", "requests")] {
        let mut pkg_config = Command::new("pkg-config");
        pkg_config.env("PKG_CONFIG_PATH", folder.join("lib/pkgconfig"));
        let flags = capture(pkg_config.args(["--cflags", "--libs", package]))?;
        let program = folder.join(example);
        let mut compiler = Command::new("cc");
        compiler.args(["-Wall", "-Wextra", "-Werror", "-pthread", "-o"]).arg(&program);
        compiler.arg(source(&format!("examples/{example}.c"))).args(flags.split_whitespace());
        run_command(&mut compiler, LIMIT)?;
        let said = capture(Command::new(&program).env("LD_LIBRARY_PATH", folder.join("lib")))?;
        print!("{package}: {said}");
        if said.contains("without Manx") {
            return Err(format!("{} was linked with {package}, and does not use it", program.display()));
        }
    }
    Ok(None)
}

/// The text for pkg-config that a template stands for.
fn described(template: &str, prefix: &Path) -> Result<String> {
    // This one is pkg-config's own: the folder of the description.
    if prefix.starts_with("${pcfiledir}") {
        return Ok(filled(template, &prefix.display().to_string()));
    }
    let prefix = std::path::absolute(prefix).map_err(|error| format!("{}: {error}", prefix.display()))?;
    let prefix = prefix.to_str().filter(|prefix| !prefix.contains(char::is_whitespace)).ok_or_else(|| {
        format!("pkg-config cannot name {}: choose a prefix without white space", prefix.display())
    })?;
    Ok(filled(template, prefix))
}

fn filled(template: &str, prefix: &str) -> String {
    template.replace("@PREFIX@", prefix).replace("@VERSION@", env!("CARGO_PKG_VERSION"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_gets_the_prefix_and_the_version() {
        let text = described("prefix=@PREFIX@\nVersion: @VERSION@\n", Path::new("/usr/local"));
        assert_eq!(text.unwrap(), format!("prefix=/usr/local\nVersion: {}\n", env!("CARGO_PKG_VERSION")));
    }

    #[test]
    fn a_prefix_may_depend_on_where_the_description_lies() {
        let text = described("prefix=@PREFIX@", Path::new("${pcfiledir}/../.."));
        assert_eq!(text.unwrap(), "prefix=${pcfiledir}/../..");
    }

    #[test]
    fn a_prefix_that_pkg_config_cannot_name_is_refused() {
        let error = described("", Path::new("/opt/my programs")).unwrap_err();
        assert!(error.contains("/opt/my programs") && error.contains("white space"), "{error}");
    }
}
