//! A folder that looks like `/`, made up for one test.
#![allow(dead_code, reason = "each test uses a part")]

use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A folder that looks like `/`; removed when dropped.
pub struct Tree(TempDir);

impl Tree {
    /// An empty one.
    pub fn new() -> Tree {
        Tree(tempfile::tempdir().expect("a folder"))
    }

    /// Where it is.
    pub fn root(&self) -> &Path {
        self.0.path()
    }

    /// A file with the kernel's line end, if it has a line. The folder of a file of a controller is
    /// a group.
    pub fn file(self, path: &str, text: impl Into<String>) -> Tree {
        let (path, mut text) = (self.path(path), text.into());
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        let folder = path.parent().expect("a folder");
        fs::create_dir_all(folder).expect("made");
        if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("cpu")) {
            mark(folder);
        }
        fs::write(path, text).expect("written");
        self
    }

    /// Lines at the end of a file.
    pub fn lines(self, path: &str, lines: &[&str]) -> Tree {
        let before = fs::read_to_string(self.path(path)).unwrap_or_default();
        self.file(path, lines.iter().fold(before, |text, line| text + line + "\n"))
    }

    /// A group without controllers.
    pub fn group(self, path: &str) -> Tree {
        let path = self.path(path);
        if path.is_file() {
            fs::remove_file(&path).expect("removed");
        }
        fs::create_dir_all(&path).expect("made");
        mark(&path);
        self
    }

    /// The list of CPUs that are online.
    pub fn online(self, cpus: &str) -> Tree {
        self.file("/sys/devices/system/cpu/online", cpus)
    }

    /// A hierarchy that is mounted.
    pub fn mount(self, root: &str, point: &str, kind: &str, options: &str) -> Tree {
        let line = format!("31 23 0:28 {root} {point} rw,relatime shared:9 - {kind} {kind} {options}");
        self.lines("/proc/self/mountinfo", &[&line])
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root().join(path.trim_start_matches('/'))
    }
}

fn mark(group: &Path) {
    let processes = group.join("cgroup.procs");
    if !processes.exists() {
        fs::write(processes, "").expect("written");
    }
}
