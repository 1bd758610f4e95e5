//! Debian 11, whose C library is 2.31: what packages are linked with, and where they are tried.
//!
//! Both are tar archives that `mmdebstrap` makes once, with signatures checked, and that stay in
//! `target/dist-parts`. Their names list what is in them, so that a change here makes new ones.
//!
//! Why not `cargo zigbuild`: zig links LLVM's libunwind in the place of libgcc_s. Where a thread of
//! an unchanged program is cancelled, the program's unwinder calls the functions of our frames, and
//! two unwinders cannot read each other's contexts. zig is also a second C compiler and a second
//! linker, which no test has seen. With a sysroot only the stubs of the C library are others: the
//! compiler, the linker and all objects are those of `cargo xtask build`, so only the commands are
//! linked again, in seconds.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::place::{emptied, make_folder};
use crate::outcome::Result;
use crate::process::run as run_command;
use crate::setup::find;

/// The release.
const SUITE: &str = "bullseye";
/// Where it lies when the usual servers no longer have it.
const ARCHIVED: &str = "http://archive.debian.org/debian";
/// What programs are linked with; WiredTiger for a program of the trial, busybox for the image.
const DEVELOPMENT: &str = "libc6-dev,libgcc-s1,libwiredtiger-dev,busybox-static";
/// What the root has beside the least.
const ROOT: &str = "libwiredtiger-dev";
/// The folder of libraries in it.
const LIBRARIES: &str = "usr/lib/x86_64-linux-gnu";
const LIMIT: Duration = Duration::from_secs(600);

/// Each program that is used, and its Debian package.
const NEEDED: [(&str, &str); 6] = [
    ("mmdebstrap", "mmdebstrap"),
    ("dpkg-deb", "dpkg"),
    ("strip", "binutils"),
    ("cc", "gcc"),
    ("tar", "tar"),
    ("xz", "xz-utils"),
];

/// Whether everything is there that makes packages.
///
/// # Errors
/// What is missing, and how to install it.
pub fn needed() -> Result {
    if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        return Err("packages are made on x86-64 Linux only".into());
    }
    let missing: Vec<_> = NEEDED.iter().filter(|(program, _)| find(program).is_none()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let (programs, packages): (Vec<_>, Vec<_>) = missing.into_iter().copied().unzip();
    Err(format!("there is no {} here: apt-get install {}", programs.join(", "), packages.join(" ")))
}

/// The folder with the C library to link with, see [`linking`].
///
/// # Errors
/// If it cannot be downloaded or unpacked.
pub fn sysroot(parts: &Path) -> Result<PathBuf> {
    let archive = made(parts, "extract", DEVELOPMENT)?;
    let folder = unpacked(&archive, &parts.join("sysroot"), &["--exclude=./dev/*"])?;
    for (libraries, up) in [(LIBRARIES, "../../.."), ("lib64", "..")] {
        relative_links(&folder.join(libraries), up)
            .map_err(|error| format!("{}: {error}", folder.join(libraries).display()))?;
    }
    Ok(folder)
}

/// What a compiler is told to link with that C library. Debian's gcc looks into the folders of this
/// machine first, so `--sysroot` alone does not do.
pub fn linking(sysroot: &Path) -> [String; 4] {
    let sysroot = sysroot.display();
    [
        format!("--sysroot={sysroot}"),
        format!("-B{sysroot}/{LIBRARIES}"),
        format!("-L{sysroot}/{LIBRARIES}"),
        format!("-L{sysroot}/lib/x86_64-linux-gnu"),
    ]
}

/// Makes absolute links in a folder of libraries relative, where `up` leads to the root: linkers
/// would follow them to the libraries of this machine.
fn relative_links(folder: &Path, up: &str) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let link = entry?.path();
        let Ok(target) = fs::read_link(&link) else { continue };
        if let Ok(inside) = target.strip_prefix("/") {
            fs::remove_file(&link)?;
            symlink(Path::new(up).join(inside), &link)?;
        }
    }
    Ok(())
}

/// A fresh root, with nothing in it but the base system.
///
/// # Errors
/// If it cannot be downloaded or unpacked.
pub fn root(parts: &Path) -> Result<PathBuf> {
    unpacked(&made(parts, "minbase", ROOT)?, &parts.join("root"), &[])
}

/// The archive of a variant with these packages; downloaded if it is not there.
fn made(parts: &Path, variant: &str, packages: &str) -> Result<PathBuf> {
    let archive = parts.join(format!("{SUITE}-{variant}-{}.tar", packages.replace(',', "+")));
    if archive.exists() {
        return Ok(archive);
    }
    make_folder(parts)?;
    let fresh = parts.join("debian.new.tar");
    let make = |mirror: Option<&str>| {
        let mut command = Command::new("mmdebstrap");
        command.arg(format!("--variant={variant}")).arg(format!("--include={packages}"));
        command.args(["--architectures=amd64", SUITE]).arg(&fresh).args(mirror);
        run_command(&mut command, LIMIT)
    };
    make(None).or_else(|first| make(Some(ARCHIVED)).map_err(|second| format!("{first}; {second}")))?;
    fs::rename(&fresh, &archive).map_err(|error| format!("{}: {error}", archive.display()))?;
    Ok(archive)
}

/// Unpacks an archive into a folder, which is emptied first. `words` are for tar. Only root may
/// make devices.
fn unpacked(archive: &Path, folder: &Path, words: &[&str]) -> Result<PathBuf> {
    let folder = emptied(folder)?;
    let mut tar = Command::new("tar");
    tar.arg("-xf").arg(archive).arg("-C").arg(&folder).arg("--numeric-owner").args(words);
    run_command(&mut tar, LIMIT)?;
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::super::place::write;
    use super::*;

    #[test]
    fn links_of_a_sysroot_stay_inside() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join(LIBRARIES);
        write(&root.path().join("lib/libm.so.6"), "inside").unwrap();
        make_folder(&folder).unwrap();
        symlink("/lib/libm.so.6", folder.join("libm.so")).unwrap();
        symlink("libm.so", folder.join("libm.so.1")).unwrap();
        relative_links(&folder, "../../..").unwrap();
        for name in ["libm.so", "libm.so.1"] {
            assert_eq!(fs::read_to_string(folder.join(name)).unwrap(), "inside", "{name}");
        }
    }
}
