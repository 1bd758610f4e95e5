//! What the tests of the measured programs share.
#![allow(dead_code, reason = "each test binary uses a part")]

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use workload::engine::{Compiler, Load};
use workload::{Error, machine};

/// Programs are compiled below the build folder, once for all tests.
pub fn compiler() -> Compiler {
    Compiler::new("cc", PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("engines"))
}

/// A closed loop on two CPUs, with further options.
pub fn load(threads: usize, seconds: f64, more: &[&str]) -> Load {
    Load {
        threads,
        seconds,
        warm_up: 0.1,
        think_us: 0.0,
        cpus: machine::cpu_list(2),
        boost: 0,
        lowered: false,
        window: None,
        seed: 3,
        more: more.iter().map(|option| (*option).to_owned()).collect(),
    }
}

/// What a compiler made; none, and a line that says so, where this package is not installed.
pub fn installed<T>(made: Result<T, Error>, package: &str) -> Option<T> {
    match made {
        Ok(made) => Some(made),
        Err(Error::Missing { help, .. }) if help.contains(package) => {
            testing::skip(help);
            None
        }
        Err(other) => panic!("{other}"),
    }
}

/// Writes a shell script that may be executed.
pub fn script(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}
