//! A map of the copies of loops for `perf`, if it was asked for.
//!
//! `perf report` names addresses that no module has by `/tmp/perf-PID.map`, where runtimes describe
//! the code that they make: a line a function, `START SIZE NAME`, with numbers in base 16. Ours are
//! called after the loop, `manx:MODULE+0xOFFSET`, as in the statistics.
//!
//! Each search adds its lines at the end in one write, since the program's own runtime may keep
//! such a map as well. A process that was forked has a map only once it searches; `perf` gives it
//! its parent's names until it executes another program.
//!
//! 1. Lines are added only to an ordinary file with one name that belongs to this process's
//!    effective user: other users may put a link or a file in its place.
//! 2. Nothing here reports an error.

use crate::elf::modules::Module;
use crate::process::{self, Path};
use alloc::string::String;
use core::fmt::Write;
use core::ops::Range;
use platform::file::File;
use platform::signal::without_write_signals;

/// Notes a copy of the loop around `pivot`.
pub fn note(lines: &mut String, copy: &Range<usize>, module: &Module<'_>, pivot: usize) {
    let name = core::str::from_utf8(module.file_name()).unwrap_or("?");
    let name = if name.is_empty() { "program" } else { name };
    let offset = pivot.wrapping_sub(module.bias);
    let _ = writeln!(lines, "{:x} {:x} manx:{name}+{offset:#x}", copy.start, copy.len());
}

/// Adds the lines to the process's map.
pub fn add(lines: &str) {
    let mut path = Path::new();
    let _ = write!(path, "/tmp/perf-{}.map", process::id());
    add_to(&path, lines);
}

fn add_to(path: &Path, lines: &str) {
    let Ok(file) = File::open_or_create(path.as_c_str()) else { return };
    let Ok(status) = file.status() else { return };
    if status.is_ordinary() && status.is_own() && status.names == 1 {
        let _ = without_write_signals(|| file.write_at(lines.as_bytes(), status.bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_added_to_files_of_ones_own_and_no_others() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| {
            let mut path = Path::new();
            path.push(folder.path().join(name).as_os_str().as_encoded_bytes()).expect("room");
            path
        };
        let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).expect("a file");
        add_to(&at("map"), "1 2 a\n");
        add_to(&at("map"), "3 4 b\n");
        assert_eq!(read("map"), "1 2 a\n3 4 b\n");
        std::os::unix::fs::symlink(folder.path().join("map"), folder.path().join("link")).expect("a link");
        add_to(&at("link"), "5 6 c\n");
        std::fs::hard_link(folder.path().join("map"), folder.path().join("other name")).expect("a name");
        add_to(&at("other name"), "5 6 c\n");
        assert_eq!(read("map"), "1 2 a\n3 4 b\n");
        add_to(&at("no/such/folder"), "5 6 c\n");
    }
}
