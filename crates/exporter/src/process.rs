//! Which program runs in a process, under the name of its file, and which processes it started.

use host::list::tids;
use preload_abi::live::name;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

/// What runs in a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Runs {
    /// A program of this name; the path of its file, if it may be read.
    Program(String, Option<PathBuf>),
    /// A thread of the kernel, or nothing any more.
    Nothing,
}

/// What runs in the process.
///
/// ```
/// use exporter::process::{Runs, runs};
///
/// assert!(matches!(runs(std::process::id()), Runs::Program(name, Some(_)) if !name.is_empty()));
/// assert_eq!(runs(4_194_305), Runs::Nothing, "the kernel gives no such number");
/// ```
pub fn runs(pid: u32) -> Runs {
    const DELETED: &[u8] = b" (deleted)";
    if let Ok(path) = std::fs::read_link(format!("/proc/{pid}/exe")) {
        let bytes = path.as_os_str().as_bytes();
        let path = PathBuf::from(OsStr::from_bytes(bytes.strip_suffix(DELETED).unwrap_or(bytes)));
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        return Runs::Program(name, Some(path));
    }
    // Another user's: its short name may be read, and a thread of the kernel has no command line.
    let command_line = File::open(format!("/proc/{pid}/cmdline"));
    let has_program = command_line.is_ok_and(|mut file| file.read(&mut [0]).is_ok_and(|bytes| bytes > 0));
    match std::fs::read(format!("/proc/{pid}/comm")) {
        Ok(comm) if has_program => {
            let comm = name(comm.trim_ascii_end());
            Runs::Program(String::from_utf8_lossy(comm).into_owned(), None)
        }
        _ => Runs::Nothing,
    }
}

/// The children of all threads of a process.
pub fn children(pid: u32) -> Vec<u32> {
    let of_thread = |tid| std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/children")).ok();
    let texts: Vec<String> = tids(pid).filter_map(of_thread).collect();
    texts.iter().flat_map(|text| text.split_ascii_whitespace()).filter_map(|pid| pid.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_found() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("sleep");
        let found = children(std::process::id()).contains(&child.id());
        let name = runs(child.id());
        child.kill().expect("it runs");
        child.wait().expect("ended");
        assert!(found && matches!(name, Runs::Program(..)));
    }
}
