//! Why a library cannot be preloaded into a program: the program then runs unchanged, after a
//! warning.

use super::libraries::{self, Elf, Machine};
use super::program::Program;
use std::ffi::CString;
use std::fmt;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// What keeps the library out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// No loader takes part.
    Static,
    /// The loader, named here, is not that of the GNU C library.
    OtherLibc(PathBuf),
    /// Its words have 32 bits.
    Bits32,
    /// It is for another kind of machine.
    Foreign,
    /// It gets rights that its caller lacks, so the loader ignores `LD_PRELOAD`.
    Privileged(&'static str),
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Obstacle::Static => f.write_str("is linked statically, so nothing can be preloaded into it"),
            Obstacle::OtherLibc(loader) => write!(
                f,
                "is made for another C library than GNU's (its loader is {})",
                loader.file_name().unwrap_or(loader.as_os_str()).display()
            ),
            Obstacle::Bits32 => f.write_str("is a 32-bit program, and Manx's library is not"),
            Obstacle::Foreign => f.write_str("is made for another kind of machine"),
            Obstacle::Privileged(how) => {
                write!(f, "{how}, and the loader preloads nothing into such programs")
            }
        }
    }
}

/// Finds what keeps the library out of the program that runs in the end.
pub fn find(program: &Program) -> Option<Obstacle> {
    // A file that is not ELF goes to the shell, or to a program that the kernel knows for it
    // (binfmt_misc).
    let elf = program.elf.as_ref()?;
    in_file(elf, program.image()).or_else(|| privileges(program.image()).map(Obstacle::Privileged))
}

fn in_file(elf: &Elf, path: &Path) -> Option<Obstacle> {
    match elf.machine {
        Machine::Bits32 => return Some(Obstacle::Bits32),
        Machine::Foreign => return Some(Obstacle::Foreign),
        Machine::Ours => {}
    }
    match &elf.loader {
        Some(loader) if libraries::is_glibc_loader(loader) => None,
        Some(loader) => Some(Obstacle::OtherLibc(loader.clone())),
        // The loader itself can be run, with the program as its argument, and then it preloads.
        None if libraries::is_glibc_loader(path) => None,
        None => Some(Obstacle::Static),
    }
}

/// Why the kernel sets `AT_SECURE` for the program at `path`, in words for the warning: it gives
/// rights that this process lacks, so its loader ignores `LD_PRELOAD`. `None` if it gives none.
fn privileges(path: &Path) -> Option<&'static str> {
    const GROUP_EXECUTE: u32 = 0o010;
    let metadata = std::fs::metadata(path).ok()?;
    let c_path = CString::new(path.as_os_str().as_bytes()).ok()?;
    // SAFETY: these calls take no pointers and cannot fail.
    let (user, group) = unsafe { (libc::getuid(), libc::getgid()) };
    // With either of these the kernel ignores all that follows.
    // SAFETY: a query that takes no pointers.
    if unsafe { libc::prctl(libc::PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) } == 1 || on_nosuid_mount(&c_path) {
        return None;
    }
    let mode = metadata.mode();
    if mode & libc::S_ISUID != 0 && metadata.uid() != user {
        return Some("is set-user-id");
    }
    if mode & libc::S_ISGID != 0 && mode & GROUP_EXECUTE != 0 && metadata.gid() != group {
        return Some("is set-group-id");
    }
    // SAFETY: both strings are NUL-terminated; with no buffer the call only asks for the size.
    let size =
        unsafe { libc::getxattr(c_path.as_ptr(), c"security.capability".as_ptr(), std::ptr::null_mut(), 0) };
    // Root has all capabilities already, so for root the kernel does not set AT_SECURE.
    (size > 0 && user != 0).then_some("has file capabilities")
}

fn on_nosuid_mount(path: &std::ffi::CStr) -> bool {
    // SAFETY: a statvfs is numbers, for which zero is valid.
    let mut facts: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: the path is NUL-terminated and `facts` is a statvfs to write to.
    unsafe { libc::statvfs(path.as_ptr(), &mut facts) == 0 && facts.f_flag & libc::ST_NOSUID != 0 }
}
