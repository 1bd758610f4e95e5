//! The plans of a large module, kept for the next start.
//!
//! A search looks at tens of thousands of byte patterns, and most of them are no waits. It proves
//! of the others that they wait, and copies their loops. The result is a list of plans
//! ([`super::plan`]), which does not depend on the process. The list is kept in the user's cache
//! folder, one file for each module. So the next start only has to place the copies, and to write
//! the jumps into them.
//!
//! | bytes | what |
//! | --- | --- |
//! | 8 | `MAGIC` |
//! | 2, then the id | the build id of this library: another library may find or copy other loops |
//! | 2, then the name | the file's own name |
//! | 8 | how many bytes of text the module has |
//! | the rest, but for 8 | the plans |
//! | 8 | a checksum of all bytes before it (XXH3) |
//!
//! The file is called after the module's build id. If the module has no build id, the file is
//! called after the device, number, size and time of the module's file. The name also has the kind
//! of machine, and says whether one jump may replace several instructions.
//!
//! **The process executes the code that it reads here.** Therefore there are these invariants:
//! 1. A folder or a file is used only if it belongs to the user under whose id this process acts,
//!    and no other user may write it. The same holds for the folder around ours: a user who may
//!    write that folder can put another one in the place of ours. A process that has rights which
//!    its user does not have (`AT_SECURE`) uses no file: its user's environment says where the
//!    folder is.
//! 2. A file is written under a temporary name and then renamed, so a reader sees a whole file. A
//!    file that is not whole all the same, was changed, or belongs to another module or another
//!    library, is ignored: the checksum, the size and the names tell. A file is read into private
//!    memory before it is checked, so no other process can change it between check and use.
//! 3. A plan is carried out only if the module holds the bytes for which the plan was made: the
//!    whole loop, and all bytes that the repair overwrites. If one plan does not fit, no plan is
//!    used, and the module is searched. The plans that are kept are those of the module's file,
//!    whatever stands in the text of the process ([`super::analysis`]).
//! 4. Nothing here reports an error: without a cache, the search is done again.

use super::analysis::MACHINE;
use super::module_file;
use super::plan::{Plan, Verdict};
use crate::elf::modules::Module;
use crate::process::{self, Path};
use alloc::vec;
use alloc::vec::Vec;
use core::fmt::Write;
use core::ops::Range;
use platform::file::{self, File};
use platform::signal::without_write_signals;
use preload_abi::{CACHE_FOLDER, CACHE_PREFIXES};
use spinloop::Machine;
use xxhash_rust::xxh3::xxh3_64;

/// The first bytes of every file.
const MAGIC: &[u8; 8] = b"MANXPLAN";
/// Smaller modules are searched nearly as fast as a file is read.
const TEXT_BYTES_MIN: usize = 16 << 10;
/// Larger files are neither written nor read.
const FILE_BYTES_MAX: usize = 16 << 20;
/// The size of the checksum at a file's end.
const SUM_BYTES: usize = 8;

/// The folder of all entries, by Invariant 1.
pub struct Folder {
    file: File,
    path: Path,
}

/// Where the plans of a module are kept.
pub struct Entry<'a> {
    folder: &'a Folder,
    name: Path,
    /// The bytes before the plans.
    head: Vec<u8>,
    text: Vec<Range<usize>>,
    bias: usize,
}

/// A file that was read.
pub struct Kept {
    bytes: Vec<u8>,
    plans: Range<usize>,
}

impl Kept {
    /// The plans, in a form for [`super::plan::read`].
    pub fn plans(&self) -> &[u8] {
        &self.bytes[self.plans.clone()]
    }
}

impl<'a> Entry<'a> {
    /// The entry of a module, unless it is small. `rows`: several instructions may be replaced by
    /// one jump.
    pub fn of(folder: &'a Folder, module: &Module<'_>, rows: bool) -> Option<Entry<'a>> {
        let text: Vec<Range<usize>> = module.text().map(|(range, _)| range).collect();
        let text_bytes: usize = text.iter().map(Range::len).sum();
        if text_bytes < TEXT_BYTES_MIN {
            return None;
        }
        let name = name(module, rows)?;
        let head = head(crate::elf::own_build_id()?, name.bytes(), text_bytes);
        Some(Entry { folder, name, head, text, bias: module.bias })
    }

    /// The plans that an earlier search led to, if there was one.
    pub fn read(&self) -> Option<Kept> {
        let file = File::open_in(&self.folder.file, self.name.as_c_str()).ok()?;
        let status = file.status().ok()?;
        let length = usize::try_from(status.bytes).ok().filter(|&length| length <= FILE_BYTES_MAX)?;
        if !status.is_ordinary() || !is_ours(&status) {
            return None;
        }
        let mut bytes = vec![0; length];
        if file.read_at(&mut bytes, 0) != Ok(length) {
            return None;
        }
        let (rest, sum) = bytes.split_last_chunk::<SUM_BYTES>()?;
        if !rest.starts_with(&self.head) || xxh3_64(rest) != u64::from_le_bytes(*sum) {
            return None;
        }
        let plans = self.head.len()..rest.len();
        Some(Kept { bytes, plans })
    }

    /// Whether the plans that were read fit the bytes of the module (Invariant 3).
    ///
    /// # Safety
    /// The module of this entry must be mapped.
    pub unsafe fn fits(&self, plans: &[Plan<'_>]) -> bool {
        plans.iter().all(|plan| match &plan.verdict {
            // SAFETY: as the caller promised.
            Verdict::Repair(repair) => unsafe { repair.fits(&self.text, self.bias) },
            _ => true,
        })
    }

    /// Keeps the plans for the next start.
    pub fn write(&self, plans: &[u8]) -> Option<()> {
        let mut bytes = self.head.clone();
        bytes.extend_from_slice(plans);
        bytes.extend(xxh3_64(&bytes).to_le_bytes());
        if bytes.len() > FILE_BYTES_MAX {
            return None;
        }
        let mut kept = self.folder.path;
        kept.push(b"/")?;
        kept.push(self.name.bytes())?;
        let mut own = kept;
        write!(own, ".{}", process::id()).ok()?;
        let write = || File::create(own.as_c_str()).and_then(|file| file.write_at(&bytes, 0));
        let written = without_write_signals(write);
        let renamed = written.and_then(|()| file::rename(own.as_c_str(), kept.as_c_str()));
        if renamed.is_err() {
            let _ = file::remove(own.as_c_str());
        }
        renamed.ok()
    }
}

/// The bytes before the plans: see the table above.
fn head(library: &[u8], name: &[u8], text_bytes: usize) -> Vec<u8> {
    let mut head = Vec::from(*MAGIC);
    for part in [library, name] {
        head.extend((part.len() as u16).to_le_bytes());
        head.extend_from_slice(part);
    }
    head.extend((text_bytes as u64).to_le_bytes());
    head
}

/// Whether the process has rights that its user does not have. The kernel says so at its start.
fn is_privileged() -> bool {
    // SAFETY: only reads what the kernel left on the first stack.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// Whether a file or folder belongs to this user and no other user may write it (Invariant 1).
fn is_ours(status: &file::Status) -> bool {
    status.is_own() && status.mode & 0o022 == 0
}

impl Folder {
    /// Opens the user's cache folder of Manx, and creates it if it does not exist. `None` if there
    /// is no folder that may be trusted (Invariant 1).
    pub fn open() -> Option<Folder> {
        if is_privileged() {
            return None;
        }
        let mut path = Path::new();
        let absolute = |value: &&[u8]| value.first() == Some(&b'/');
        match process::variable(b"XDG_CACHE_HOME").filter(absolute) {
            Some(folder) => path.push(folder)?,
            None => {
                path.push(process::variable(b"HOME").filter(absolute)?)?;
                path.push(b"/.cache")?;
            }
        }
        let base = path;
        path.push(b"/")?;
        path.push(CACHE_FOLDER.as_bytes())?;
        // Most often the folder exists.
        let file = File::open(path.as_c_str()).or_else(|_| {
            let _ = file::make_folder(base.as_c_str());
            let _ = file::make_folder(path.as_c_str());
            File::open(path.as_c_str())
        });
        let file = file.ok()?;
        let parent = File::open(base.as_c_str()).and_then(|parent| parent.status()).ok()?;
        (is_ours(&parent) && is_ours(&file.status().ok()?)).then_some(Folder { file, path })
    }
}

/// A name that no other module has.
fn name(module: &Module<'_>, rows: bool) -> Option<Path> {
    let mut name = Path::new();
    let [by_id, by_file] = CACHE_PREFIXES;
    match module.build_id() {
        Some(id) => {
            name.push(by_id.as_bytes())?;
            id.iter().try_for_each(|byte| write!(name, "{byte:02x}").ok())?;
        }
        None => {
            let status = module_file::open(module)?.status().ok()?;
            let (device, number) = status.identity;
            write!(name, "{by_file}{device:x}-{number:x}-{:x}-{:x}-", status.bytes, status.changed_ns)
                .ok()?;
            // The module's file name tells people which module this is.
            let readable = module.file_name().iter().filter(|byte| byte.is_ascii_alphanumeric()).take(32);
            readable.copied().try_for_each(|byte| name.push(&[byte]))?;
        }
    }
    name.push(match MACHINE {
        Machine::X86_64 => b"-x86_64",
        Machine::Aarch64 => b"-aarch64",
    })?;
    name.push(if rows { b"-rows" } else { b"-live" })?;
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(path: &std::path::Path) -> Folder {
        let mut name = Path::new();
        name.push(path.as_os_str().as_encoded_bytes()).expect("room");
        Folder { file: File::open(name.as_c_str()).expect("a folder"), path: name }
    }

    fn entry(folder: &Folder) -> Entry<'_> {
        let mut name = Path::new();
        name.push(b"module").expect("room");
        let head = head(b"this library", b"module", 1 << 20);
        Entry { folder, name, head, text: Vec::new(), bias: 0x7000_0000 }
    }

    const PLANS: &[u8] = b"some plans, which are not read here";

    fn read(entry: &Entry<'_>) -> Option<Vec<u8>> {
        entry.read().map(|kept| kept.plans().to_vec())
    }

    #[test]
    fn plans_that_were_written_are_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let opened = opened(folder.path());
        let entry = entry(&opened);
        assert_eq!(read(&entry), None);
        entry.write(PLANS).expect("written");
        assert_eq!(read(&entry).as_deref(), Some(PLANS));
        entry.write(b"").expect("written");
        assert_eq!(read(&entry).as_deref(), Some(&b""[..]));
        assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 1, "nothing is left over");
    }

    #[test]
    fn a_file_that_is_not_whole_or_is_foreign_is_ignored() {
        let folder = tempfile::tempdir().expect("a folder");
        let opened = opened(folder.path());
        let entry = entry(&opened);
        let file = folder.path().join("module");
        entry.write(PLANS).expect("written");
        let whole = std::fs::read(&file).expect("bytes");
        for length in 0..whole.len() {
            std::fs::write(&file, &whole[..length]).expect("cut");
            assert_eq!(read(&entry), None, "cut to {length}");
        }
        for at in 0..whole.len() {
            for bit in 0..8 {
                let mut bytes = whole.clone();
                bytes[at] ^= 1 << bit;
                std::fs::write(&file, &bytes).expect("changed");
                assert_eq!(read(&entry), None, "byte {at}, bit {bit}");
            }
        }
        std::fs::write(&file, &whole).expect("whole");
        assert!(entry.read().is_some());
        let others = [
            ("another module", head(b"this library", b"another", 1 << 20)),
            ("another build of this library", head(b"that library", b"module", 1 << 20)),
            ("another size", head(b"this library", b"module", 2 << 20)),
        ];
        for (what, head) in others {
            assert_eq!(read(&Entry { head, ..self::entry(&opened) }), None, "{what}");
        }
    }

    #[test]
    fn a_file_that_others_may_write_and_a_link_or_pipe_are_not_read() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().expect("a folder");
        let opened = opened(folder.path());
        let entry = entry(&opened);
        entry.write(PLANS).expect("written");
        let file = folder.path().join("module");
        for (mode, good) in [(0o620, false), (0o602, false), (0o600, true), (0o644, true)] {
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).expect("a mode");
            assert_eq!(entry.read().is_some(), good, "{mode:o}");
        }
        let moved = folder.path().join("moved");
        std::fs::rename(&file, &moved).expect("moved");
        std::os::unix::fs::symlink(&moved, &file).expect("a link");
        assert_eq!(read(&entry), None, "a link");
        std::fs::remove_file(&file).expect("removed");
        let pipe = std::ffi::CString::new(file.as_os_str().as_encoded_bytes()).expect("no zero");
        // SAFETY: makes a file of a name in the test's own folder.
        assert_eq!(unsafe { libc::mkfifo(pipe.as_ptr(), 0o600) }, 0);
        assert_eq!(read(&entry), None, "a pipe, which is not waited for");
        std::fs::rename(&moved, &file).expect("back again");
        if file::this_user() == 0 {
            std::os::unix::fs::chown(&file, Some(1), None).expect("root may");
            assert_eq!(read(&entry), None, "another user's");
        } else {
            testing::skip("in part: only root can give a file to another user");
        }
    }
}
