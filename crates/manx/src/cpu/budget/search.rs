//! The names of the groups above a cgroup namespace, where a mount shows them.
//!
//! A process that entered a namespace of its own reads `/` as its group. If it still sees a mount
//! from outside of the namespace, the mount's root is written as `/../..`: two groups stand between
//! that root and the process, their quotas hold for it, and no file says what they are called. But
//! each group lists the processes in it. So the groups that are this number of levels below the
//! mount's root are looked at until one group lists this process.
//!
//! The search is bounded: machines have thousands of groups. What is not found within the bound is
//! not known, and that is said.

use super::files::Files;
use super::groups::Below;
use std::collections::VecDeque;

/// The maximum number of groups that are looked at.
pub(super) const GROUPS_MAX: usize = 4096;

/// The names of the groups between a mount's point and what is known below it, if the process is in
/// there.
pub(super) fn names(files: &Files, point: &[u8], below: &Below<'_>, process: u32) -> Option<Vec<Vec<u8>>> {
    let mut left = GROUPS_MAX;
    let mut waiting = VecDeque::from([Vec::<Vec<u8>>::new()]);
    while let Some(names) = waiting.pop_front() {
        let folder = names.iter().fold(point.to_vec(), |folder, name| [&folder, &b"/"[..], name].concat());
        if names.len() == below.unknown {
            let own = below.names.iter().fold(folder, |folder, name| [&folder, &b"/"[..], name].concat());
            if lists(files, &own, process) {
                return Some(names);
            }
            continue;
        }
        // A group that may not be looked into, or is gone, leads nowhere.
        let _ = files.each_folder(&folder, |name| {
            let another = left.checked_sub(1);
            if let Some(fewer) = another {
                left = fewer;
                waiting.push_back([&names[..], &[name.to_vec()]].concat());
            }
            another.is_some()
        });
    }
    None
}

/// Whether a group lists the process.
fn lists(files: &Files, folder: &[u8], process: u32) -> bool {
    let text = files.read(&[folder, b"/cgroup.procs"].concat()).unwrap_or_default();
    let process = process.to_string();
    text.split(|&byte| byte == b'\n').any(|line| line == process.as_bytes())
}
