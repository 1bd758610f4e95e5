//! Who else could block SIGTRAP: other threads, and modules that need no C library for it.

use crate::elf::modules::{self, Generation};
use crate::guard::search;
use alloc::vec::Vec;
use core::ffi::CStr;
use core::fmt::Write;
use platform::file::File;
use platform::signal::bit;
use platform::syscall::{check, syscall3};

/// How much of what was read before is looked at again, so that no pattern is cut in two.
const OVERLAP: usize = 64;

/// Which modules have been looked at.
pub struct Survey {
    generation: Option<Generation>,
    /// Bias and end of each module without such code.
    clean: Vec<(usize, usize)>,
    raw: bool,
}

impl Survey {
    /// Nothing looked at yet.
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Survey {
        Survey { generation: None, clean: Vec::new(), raw: false }
    }

    /// Whether a module sets signal masks or actions by a system call of its own. Cheap while no module
    /// is new.
    pub fn finds_raw_calls(&mut self) -> bool {
        if self.raw || self.generation.is_some() && self.generation == Some(modules::each(&mut |_| false)) {
            return self.raw;
        }
        let mut present = Vec::new();
        let generation = modules::each(&mut |module| {
            let key = (module.bias, module.extent().end);
            if !self.clean.contains(&key) && !search::left_alone(&module) {
                search::each_part(&module, OVERLAP, &mut |_, text| {
                    self.raw |= spinloop::resembles_raw_signal_syscall(text);
                });
            }
            present.push(key);
            !self.raw
        });
        self.clean = present;
        self.generation = Some(generation);
        self.raw
    }
}

/// Whether any thread but the calling one has really blocked SIGTRAP; `None` if `/proc` does not tell.
pub fn others_block_trap() -> Option<bool> {
    let own = own_tid();
    let mut blocks = false;
    // A thread that has ended meanwhile blocks nothing.
    each_thread(|tid| blocks |= tid != own && blocks_trap(tid).unwrap_or(false))?;
    Some(blocks)
}

/// Calls `visit` for each thread of the process; `None` if `/proc` does not tell.
pub fn each_thread(mut visit: impl FnMut(i32)) -> Option<()> {
    let folder = File::open(c"/proc/self/task").ok()?;
    let mut room = Entries([0; 4096]);
    loop {
        // SAFETY: the kernel writes at most that many bytes to `room`.
        let read = unsafe {
            let place = room.0.as_mut_ptr().addr();
            check(syscall3(libc::SYS_getdents64, folder.descriptor() as usize, place, room.0.len())).ok()?
        };
        if read == 0 {
            return Some(());
        }
        names(&room.0[..read]).filter_map(|name| name.to_str().ok()?.parse().ok()).for_each(&mut visit);
    }
}

/// The calling thread's id.
pub fn own_tid() -> i32 {
    // SAFETY: only reads.
    check(unsafe { platform::syscall::syscall0(libc::SYS_gettid) }).map_or(0, |tid| tid as i32)
}

/// Room for directory entries, which the kernel aligns to eight bytes.
#[repr(align(8))]
struct Entries([u8; 4096]);

/// The names in what `getdents64` wrote.
fn names(mut entries: &[u8]) -> impl Iterator<Item = &CStr> {
    /// Bytes before the name: inode, offset, length of the entry (at 16), type.
    const NAME: usize = 19;
    core::iter::from_fn(move || {
        let length = usize::from(u16::from_ne_bytes([*entries.get(16)?, *entries.get(17)?]));
        let entry = entries.get(NAME..length)?;
        entries = &entries[length..];
        CStr::from_bytes_until_nul(entry).ok()
    })
}

fn blocks_trap(tid: i32) -> Option<bool> {
    let mut path = crate::process::Path::new();
    write!(path, "/proc/self/task/{tid}/status").ok()?;
    let mut text = [0; 4096];
    let length = File::open(path.as_c_str()).ok()?.read_at(&mut text, 0).ok()?;
    let line = text[..length].split(|&b| b == b'\n').find_map(|line| line.strip_prefix(b"SigBlk:"))?;
    let mask = u64::from_str_radix(core::str::from_utf8(line.trim_ascii()).ok()?, 16).ok()?;
    Some(mask & bit(libc::SIGTRAP) != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use platform::signal::{Change, change_mask};
    use std::sync::mpsc::channel;

    #[test]
    fn a_thread_that_blocks_is_seen_and_one_that_does_not_is_not() {
        let (ready, is_ready) = channel();
        let (end, ended) = channel::<()>();
        let blocker = std::thread::spawn(move || {
            change_mask(Change::Block, bit(libc::SIGTRAP));
            ready.send(own_tid()).expect("sent");
            let _ = ended.recv();
        });
        let tid = is_ready.recv().expect("received");
        assert_eq!((blocks_trap(tid), blocks_trap(own_tid())), (Some(true), Some(false)));
        assert_eq!(others_block_trap(), Some(true));
        let mut seen = Vec::new();
        each_thread(|tid| seen.push(tid)).expect("/proc");
        assert!(seen.contains(&tid) && seen.contains(&own_tid()));
        drop(end);
        blocker.join().expect("ended");
        assert_eq!(blocks_trap(i32::MAX), None);
    }
}
