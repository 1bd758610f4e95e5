//! Disks that become full: file systems in memory, which root may mount.

use crate::skip::skip;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// Mounts a file system in memory, of this size. The keeper of the folder above unmounts it.
pub(crate) fn mount(place: &Path, bytes: u64) {
    let mut command = Command::new("mount");
    command.args(["-t", "tmpfs", "-o", &format!("size={bytes}"), "manx"]).arg(place);
    let output = command.output().expect("mount");
    assert!(output.status.success(), "{command:?}: {output:?}");
}

/// Whether this process may mount file systems. If not, the test was told to be skipped, and
/// returns.
///
/// # Panics
/// If there is no folder for temporary files.
pub fn can_mount() -> bool {
    let place = std::env::temp_dir().join(format!("manx-mount-{}", std::process::id()));
    fs::create_dir_all(&place).expect("a folder");
    let run = |program: &str, arguments: &[&str]| {
        let mut command = Command::new(program);
        command.args(arguments).arg(&place).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    let can = run("mount", &["-t", "tmpfs", "-o", "size=1m", "manx"]) && run("umount", &[]);
    let _ = fs::remove_dir(&place);
    if !can {
        skip("a disk that becomes full must be mounted, which root may do");
    }
    can
}
