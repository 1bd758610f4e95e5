//! Which program runs in a process, under the name of its file, and which processes it started.

use host::list::tids;
use preload_abi::live::name;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

/// The name of the program that runs in a process, and the path of its file, if that may be read.
/// `None` of a thread of the kernel, and if there is no such process.
///
/// ```
/// use exporter::process::runs;
///
/// assert!(runs(std::process::id()).is_some_and(|(name, path)| !name.is_empty() && path.is_some()));
/// assert_eq!(runs(4_194_305), None, "the kernel gives no such number");
/// ```
pub fn runs(pid: u32) -> Option<(String, Option<PathBuf>)> {
    const DELETED: &[u8] = b" (deleted)";
    if let Ok(path) = std::fs::read_link(format!("/proc/{pid}/exe")) {
        let bytes = path.as_os_str().as_bytes();
        let path = PathBuf::from(OsStr::from_bytes(bytes.strip_suffix(DELETED).unwrap_or(bytes)));
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        return Some((name, Some(path)));
    }
    // Another user's: its short name may be read, and a thread of the kernel has no command line.
    let command_line = File::open(format!("/proc/{pid}/cmdline"));
    let has_program = command_line.is_ok_and(|mut file| file.read(&mut [0]).is_ok_and(|bytes| bytes > 0));
    let comm = std::fs::read(format!("/proc/{pid}/comm")).ok().filter(|_| has_program)?;
    Some((String::from_utf8_lossy(name(comm.trim_ascii_end())).into_owned(), None))
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
        assert!(found && name.is_some());
    }
}
