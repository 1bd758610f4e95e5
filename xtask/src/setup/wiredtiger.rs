//! `cargo xtask setup wiredtiger`: WiredTiger 11.3.1 as it is, and with each of the four repairs of
//! Andreoli and Cucinotta in its source, each as a shared library with its header.
//!
//! | what | how | where, in `target/wiredtiger` |
//! | --- | --- | --- |
//! | the sources | PyPI's source package by hash (`bench/workload/victims/wiredtiger.txt`) | `source` |
//! | the library as it is | cmake, release options, nothing else of the package | `original` |
//! | the repaired ones | the same after [`Repair::apply`], which says what is changed | `repaired-…` |
//!
//! `manx bench inversion` and `manx bench txn` compare `original` with `repaired-adaptive` if they
//! find them. All five come from one tree, so that what a repair does not change is compiled once.

mod repair;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use super::victims::{download, install_into, made_from, requirements, text};
use super::{Need, announce_and_install, packages, program};
use crate::outcome::Result;
use crate::process::run as run_command;
use crate::workspace::Workspace;
use repair::Repair;

/// For one build of some 220 files.
const LIMIT: Duration = Duration::from_secs(60 * 60);
/// The folder of the library as it is.
const ORIGINAL: &str = "original";
/// Its file, and the name that the linker looks for.
const LIBRARY: &str = "libwiredtiger.so.11.3.1";
const LINK: &str = "libwiredtiger.so";
const HEADER: &str = "wiredtiger.h";
/// The tools, and for what.
const PURPOSE: &str = "builds WiredTiger";
const NEEDS: [(&str, &str); 3] = [("cmake", "cmake"), ("ninja", "ninja-build"), ("g++", "g++")];

/// Builds what is not there yet.
///
/// # Errors
/// If the package cannot be had, is another one, or cannot be built.
pub fn run() -> Result {
    with(&Repair::ALL)
}

/// Builds the library as it is and with the one repair that a smoke check needs: half of the work.
///
/// # Errors
/// As [`run`].
pub fn for_smoke() -> Result {
    with(&[Repair::Adaptive])
}

fn with(repairs: &[Repair]) -> Result {
    let missing = || -> Vec<Need> {
        let needs = NEEDS.map(|(name, package)| program(name, package, PURPOSE));
        needs.into_iter().filter(|need| !need.sign.is_there()).collect()
    };
    let before = missing();
    if !before.is_empty() {
        announce_and_install(&before.iter().collect::<Vec<_>>());
    }
    let after = missing();
    if !after.is_empty() {
        let names = packages(&after.iter().collect::<Vec<_>>());
        return Err(format!("install by hand: apt-get install {}", names.join(" ")));
    }
    let folder = Workspace::load()?.target.join("wiredtiger");
    let (list, tools) = (requirements("wiredtiger.txt"), requirements("setuptools.txt"));
    let described: String = repairs.iter().map(|repair| repair.describe()).collect();
    made_from(&folder, &(text(&list)? + &text(&tools)? + &described), || {
        let python = install_into(&folder.join("env"), &tools)?;
        build_all(&folder, &download(&folder.join("download"), &python, &list)?, repairs)
    })?;
    println!("setup: WiredTiger is in {}", folder.display());
    Ok(())
}

/// Unpacks the package, and builds each library in turn. At the end, what only the build needed is
/// removed.
fn build_all(folder: &Path, package: &Path, repairs: &[Repair]) -> Result {
    let (source, build) = (folder.join("source"), folder.join("build"));
    fs::create_dir_all(&source).map_err(|why| format!("{}: {why}", source.display()))?;
    let mut tar = Command::new("tar");
    tar.arg("-xzf").arg(package).arg("-C").arg(&source).arg("--strip-components=1");
    run_command(&mut tar, LIMIT)?;
    let mut configure = Command::new("cmake");
    configure.arg("-G").arg("Ninja").arg("-S").arg(&source).arg("-B").arg(&build).args([
        "-DCMAKE_BUILD_TYPE=Release",
        "-DENABLE_SHARED=ON",
        "-DENABLE_STATIC=OFF",
        "-DENABLE_STRICT=OFF",
        "-DENABLE_PYTHON=OFF",
        "-DENABLE_CPPSUITE=OFF",
        "-DHAVE_UNITTEST=OFF",
        // Its warnings are not ours to mend.
        "-DCMAKE_C_FLAGS=-w",
    ]);
    run_command(&mut configure, LIMIT)?;
    make(&build, &folder.join(ORIGINAL))?;
    for repair in repairs {
        let before = repair.apply(&source)?;
        make(&build, &folder.join(repair.folder()))?;
        for (path, text) in before {
            fs::write(&path, text).map_err(|why| format!("{}: {why}", path.display()))?;
        }
    }
    for name in ["build", "source", "download", "env"] {
        // They are large, and their work is done.
        let _ = fs::remove_dir_all(folder.join(name));
    }
    Ok(())
}

/// Builds the library from what the sources are now, and puts it into a folder with its header.
fn make(build: &Path, into: &Path) -> Result {
    let jobs = thread::available_parallelism().map_or(1, usize::from).to_string();
    let mut make = Command::new("cmake");
    make.arg("--build").arg(build).args(["--target", "wiredtiger_shared", "--parallel", &jobs]);
    run_command(&mut make, LIMIT)?;
    let written = || {
        fs::create_dir_all(into)?;
        fs::copy(build.join(LIBRARY), into.join(LIBRARY))?;
        fs::copy(build.join("include").join(HEADER), into.join(HEADER))?;
        symlink(LIBRARY, into.join(LINK))
    };
    written().map_err(|why| format!("{}: {why}", into.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::{Object, ObjectSection, ObjectSymbol};

    /// The functions with the loops, and those into which they may be inlined.
    const FUNCTIONS: [&str; 5] = [
        "__txn_get_snapshot_int",
        "__wt_txn_get_snapshot",
        "__wt_txn_bump_snapshot",
        "__txn_oldest_scan",
        "__wt_txn_update_oldest",
    ];
    const PAUSE: [u8; 2] = [0xf3, 0x90];

    /// The number of PAUSEs of the functions.
    fn pauses(library: &Path) -> usize {
        let bytes = fs::read(library).unwrap();
        let file = object::File::parse(&*bytes).unwrap();
        let text = file.section_by_name(".text").unwrap();
        let (start, code) = (text.address(), text.data().unwrap());
        let mut count = 0;
        for symbol in file.symbols() {
            // A part of a function has a name with a dot behind.
            let name = symbol.name().unwrap().split('.').next().unwrap();
            if symbol.is_definition() && FUNCTIONS.contains(&name) {
                let from = (symbol.address() - start) as usize;
                let function = &code[from..from + symbol.size() as usize];
                count += function.windows(2).filter(|pair| *pair == PAUSE).count();
            }
        }
        count
    }

    #[test]
    fn no_repaired_library_pauses_where_the_original_does() {
        let folder = Workspace::load().unwrap().target.join("wiredtiger");
        if !folder.join("made").exists() {
            testing::skip("WiredTiger is not built: cargo xtask setup wiredtiger");
            return;
        }
        // A smoke check builds some of them.
        let built = Repair::ALL.map(|repair| folder.join(repair.folder()).join(LINK));
        let built: Vec<_> = built.iter().filter(|library| library.exists()).collect();
        assert!(!built.is_empty(), "no repaired library");
        if cfg!(target_arch = "x86_64") {
            assert_eq!(pauses(&folder.join(ORIGINAL).join(LINK)), 2);
            for library in &built {
                assert_eq!(pauses(library), 0, "{}", library.display());
            }
        }
        let mut libraries: Vec<Vec<u8>> = built.iter().map(|library| fs::read(library).unwrap()).collect();
        libraries.sort();
        libraries.dedup();
        assert_eq!(libraries.len(), built.len(), "two repairs are the same");
    }
}
