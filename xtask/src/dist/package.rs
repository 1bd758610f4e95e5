//! The package for Debian and its relatives, and archives: fixed owners, order and times.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::inspect;
use super::place::{VERSION, write};
use crate::install::COMPLETIONS;
use crate::outcome::Result;
use crate::process::{capture, root, run as run_command};

const LIMIT: Duration = Duration::from_secs(300);
/// Where Debian's zsh looks for completions of packages.
const ZSH: &str = "zsh/vendor-completions";
/// What the package says about itself. `libgcc-s1` is what Rust unwinds by.
const CONTROL: &str = "Package: manx
Version: @VERSION@
Section: utils
Priority: optional
Architecture: amd64
Installed-Size: @KIB@
Depends: libc6 (>= 2.31), libgcc-s1
Maintainer: The authors of Manx <manx@localhost>
Description: shorter tail latency for multi-threaded programs
 The command manx runs an unmodified program and changes how its threads wait,
 so that its slowest requests stay fast when threads outnumber CPUs. The package
 also has libmanx, locks and range locks for programs in C and C++.
";
/// Debian has the other licence on every machine.
const LICENCES: &str = "Manx is licensed under either of two licences, at your choice: the Apache
License, version 2.0 (/usr/share/common-licenses/Apache-2.0), or the MIT licence:
";
/// What Debian's tools read; people read the other file.
const CHANGELOG: &str = "manx (@VERSION@) stable; urgency=medium

  * See CHANGELOG.md.gz.

 -- The authors of Manx <manx@localhost>  @DATE@
";
/// The loader's cache learns of libmanx, and forgets it.
const TRIGGERS: &str = "activate-noawait ldconfig\n";
/// What packages of programs that are linked with libmanx depend on.
const SHLIBS: &str = "libmanx 0 manx\n";

/// Makes the package of what is installed below `folder`.
///
/// # Errors
/// If a file may not be packed, or a tool fails.
pub fn deb(folder: &Path, package: &Path) -> Result {
    let share = folder.join("usr/share");
    let (_, zsh) = COMPLETIONS[1];
    fs::create_dir_all(share.join("zsh"))
        .and_then(|()| fs::rename(share.join(zsh), share.join(ZSH)))
        .map_err(|error| format!("{}: {error}", share.join(zsh).display()))?;
    let read = |name: &str| fs::read_to_string(root().join(name)).map_err(|error| format!("{name}: {error}"));
    write(&share.join("doc/manx/copyright"), &format!("{LICENCES}\n{}", read("LICENSE-MIT")?))?;
    write(&share.join("doc/manx/CHANGELOG.md"), &read("CHANGELOG.md")?)?;
    let mut date = Command::new("date");
    date.env("LC_ALL", "C").args(["--rfc-email", "--utc", "--date"]).arg(format!("@{}", epoch()));
    let changelog = CHANGELOG.replace("@VERSION@", VERSION).replace("@DATE@", capture(&mut date)?.trim());
    write(&share.join("doc/manx/changelog"), &changelog)?;
    inspect::check(folder)?;

    let changes = ["changelog", "CHANGELOG.md"].map(|name| share.join("doc/manx").join(name));
    let compressed = changes.into_iter().chain(inspect::files(&share.join("man"))?);
    capture(Command::new("gzip").arg("-9n").args(compressed))?;
    let files = inspect::files(&folder.join("usr"))?;
    let relative = files.iter().filter_map(|file| file.strip_prefix(folder).ok());
    let sums = capture(Command::new("md5sum").current_dir(folder).args(relative))?;
    let bytes: u64 = files.iter().filter_map(|file| fs::metadata(file).ok()).map(|file| file.len()).sum();
    let control = CONTROL.replace("@VERSION@", VERSION).replace("@KIB@", &bytes.div_ceil(1024).to_string());
    for (name, text) in
        [("control", control.as_str()), ("md5sums", &sums), ("triggers", TRIGGERS), ("shlibs", SHLIBS)]
    {
        write(&folder.join("DEBIAN").join(name), text)?;
    }
    readable(folder)?;
    let mut dpkg = Command::new("dpkg-deb");
    dpkg.env("SOURCE_DATE_EPOCH", epoch()).args(["--root-owner-group", "-Zxz", "--build"]);
    run_command(dpkg.arg(folder).arg(package), LIMIT)
}

/// Packs `name`, a file or a folder in `folder`, compressed.
///
/// # Errors
/// If tar fails.
pub fn tar(folder: &Path, name: &str, archive: &Path) -> Result {
    readable(&folder.join(name))?;
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--format=gnu"]);
    tar.arg(format!("--mtime=@{}", epoch())).args(["--use-compress-program=gzip -9n", "-cf"]).arg(archive);
    run_command(tar.arg("-C").arg(folder).arg(name), LIMIT)
}

/// All may read everything, whatever the mask of this process is.
fn readable(folder: &Path) -> Result {
    capture(Command::new("chmod").args(["-R", "u=rwX,go=rX"]).arg(folder)).map(|_| ())
}

/// The time that all files have, in seconds: that of the commit.
pub fn epoch() -> String {
    let asked = env::var("SOURCE_DATE_EPOCH").ok();
    let commit = || capture(Command::new("git").current_dir(root()).args(["log", "-1", "--format=%ct"])).ok();
    let seconds = asked.or_else(commit).unwrap_or_default().trim().to_owned();
    if seconds.parse::<u64>().is_ok() { seconds } else { "0".into() }
}
