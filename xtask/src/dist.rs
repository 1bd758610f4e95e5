//! `cargo xtask dist`: what a machine without Rust installs, in `target/dist`.
//!
//! | file | what it is |
//! | --- | --- |
//! | `manx_VERSION_amd64.deb` | the command `manx`, the libraries that `manx` preloads, libmanx with headers and descriptions for pkg-config, manual pages, completions |
//! | `manx-VERSION-x86_64-linux-gnu.tar.gz` | the same below one folder, which may be unpacked into any prefix |
//! | `SHA256SUMS` | the checksums of both |
//! | `oci` | an image in the layout of the Open Container Initiative (see [`image`]) |
//!
//! 1. All of it loads with the C library [`OLDEST`](crate::glibc::OLDEST). `cargo xtask build` has
//!    compiled everything already. Here libmanx is linked once more, with the C library of
//!    Debian 11 ([`debian`] says why not with zig), and so is `manx`. In CI it was linked
//!    so at once ([`linking`]). The preloaded libraries are the ones that the tests have run: they
//!    need nothing newer in any case.
//! 2. [`inspect`] looks at every file before it is packed: versions of the C library, and folders
//!    of this machine.
//! 3. The same commit gives the same bytes on the same system: owners, order and times are fixed.
//! 4. In CI, [`trial`] installs the package in a Debian of that age, uses and removes it.

mod debian;
mod image;
mod inspect;
mod package;
mod place;
mod trial;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::glibc::{is_newer, versions};
use crate::install::Built;
use crate::outcome::Result;
use crate::process::{capture, root};
use crate::put::put;
use crate::steps::Verdict;
use crate::workspace::{LIBRARIES, MANX, Workspace};
use crate::{build, install, libmanx, man};
use place::{Dist, VERSION, emptied, write};

/// Builds, and makes all of it.
///
/// # Errors
/// If something does not build, a tool is missing, or what was built may not leave this machine.
pub fn run() -> Result {
    debian::needed()?;
    build::run()?;
    let workspace = Workspace::load()?;
    make(&workspace, &man::made(&workspace)?).map(|_| ())
}

/// The words for the linker with which a command needs nothing newer than it may.
///
/// # Errors
/// If the C library for it cannot be had.
pub fn linking(workspace: &Workspace) -> Result<[String; 4]> {
    debian::needed()?;
    Ok(debian::linking(&debian::sysroot(&Dist::new(&workspace.target).parts)?))
}

/// Makes all of it from what is built, and tries the package in a root of its own. `pages` is the
/// folder with the manual pages.
pub fn check(workspace: &Workspace, pages: &Path) -> Verdict {
    if let Err(missing) = debian::needed() {
        return Verdict::Skipped(missing);
    }
    match make(workspace, pages) {
        Ok((dist, sysroot)) => trial::run(&dist, &sysroot),
        Err(why) => Verdict::Failed(why),
    }
}

/// Makes all of it from what is built. Returns where it lies, and the C library to link with.
fn make(workspace: &Workspace, pages: &Path) -> Result<(Dist, PathBuf)> {
    let dist = Dist::new(&workspace.target);
    let sysroot = debian::sysroot(&dist.parts)?;
    let relinked = relinked(workspace, &dist, &sysroot)?;
    let built = Built { folder: &relinked, pages };
    emptied(&dist.out)?;

    let name = format!("manx-{VERSION}-x86_64-linux-gnu");
    let folder = emptied(&dist.parts.join(&name))?;
    install::install(built, Path::new("${pcfiledir}/../.."), &folder, false)?;
    for file in ["README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"] {
        put(&root().join(file), &folder.join("share/doc/manx"), 0o644)?;
    }
    inspect::check(&folder)?;
    let archive = dist.out.join(format!("{name}.tar.gz"));
    package::tar(&dist.parts, &name, &archive)?;

    let folder = emptied(&dist.parts.join("deb"))?;
    install::install(built, Path::new("/usr"), &folder.join("usr"), false)?;
    package::deb(&folder, &dist.package)?;

    let names = [&dist.package, &archive].map(|file| file.file_name().unwrap_or_default());
    let sums = capture(Command::new("sha256sum").current_dir(&dist.out).args(names))?;
    let checksums = dist.out.join("SHA256SUMS");
    write(&checksums, &sums)?;
    let image = image::make(&dist, &sysroot)?;
    for file in [&dist.package, &archive, &checksums, &image] {
        println!("made {}", file.display());
    }
    Ok((dist, sysroot))
}

/// Collects what is installed, and links what needs a newer C library than it may. What debuggers
/// read is removed.
fn relinked(workspace: &Workspace, dist: &Dist, sysroot: &Path) -> Result<PathBuf> {
    let linking = debian::linking(sysroot);
    let (release, built) = (workspace.release(), emptied(&dist.parts.join("built"))?);
    let strip =
        |name: &str, how: &str| capture(Command::new("strip").arg(how).arg(built.join(name))).map(|_| ());
    let copy = |name: &str, how: &str| -> Result {
        fs::copy(release.join(name), built.join(name))
            .map_err(|error| format!("{}: {error}", release.join(name).display()))?;
        strip(name, how)
    };
    for name in LIBRARIES {
        copy(name, "--strip-unneeded")?;
    }
    copy(libmanx::ARCHIVE, "--strip-debug")?;
    libmanx::link(&built, &linking)?;
    strip(libmanx::SONAME, "--strip-unneeded")?;
    let own = emptied(&dist.parts.join("own"))?;
    if !needs_newer(&release.join(MANX))? {
        copy(MANX, "--strip-unneeded")?;
        return Ok(built);
    }
    put(&release.join(MANX), &own, 0o755)?;
    build::link(&linking)?;
    copy(MANX, "--strip-unneeded")?;
    // It was built with other words, so cargo's next build links it anew.
    put(&own.join(MANX), &release, 0o755)?;
    Ok(built)
}

/// Whether a file needs a newer C library than it may.
fn needs_newer(file: &Path) -> Result<bool> {
    let bytes = fs::read(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let versions = versions(&bytes).map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(versions.iter().any(|version| is_newer(version)))
}
