//! The file that a module was loaded from, if it is still there.
//!
//! Its text is the text that the module's author wrote. The mapped text may hold what a debugger, a
//! probe of the kernel's (uprobe) or another tool has written there since: a breakpoint hides an
//! instruction, such as a jump into the middle of a loop.
//!
//! Invariant 1: a file is the module's only if it begins as the module does, up to
//! `HEADER_BYTES_MAX`. The headers stand there, and as linkers write it, the build id.

use super::text::holds;
use crate::elf::modules::Module;
use alloc::vec::Vec;
use platform::file::File;
use platform::memory::{map_to_read, page_bytes, unmap};

/// How much of a file is read at a time.
const PART: usize = 256 << 10;
/// The length of the part of a file that is compared with the module.
const HEADER_BYTES_MAX: usize = 4096;

/// The module's file, unless another one has taken its place since it was loaded.
pub fn open(module: &Module<'_>) -> Option<File> {
    let path = if module.path.is_empty() { c"/proc/self/exe" } else { module.path };
    File::open(path).ok().filter(|file| is_file_of(file, module))
}

/// Returns whether an open file starts as the module does (Invariant 1).
fn is_file_of(file: &File, module: &Module<'_>) -> bool {
    let Some(first) = module.readable().next() else { return false };
    let mut header = [0; HEADER_BYTES_MAX];
    let header = &mut header[..first.len().min(HEADER_BYTES_MAX)];
    if first.start != module.extent().start || file.read_at(header, 0) != Ok(header.len()) {
        return false;
    }
    // SAFETY: the module's first segment is mapped and readable for at least that many bytes.
    unsafe { holds(first.start, header) }
}

/// Shows a module's text as its file has it, a part at a time, with the address of each; parts
/// overlap by `overlap` bytes, so that nothing that short is cut in two.
pub fn each_part(module: &Module<'_>, file: &File, overlap: usize, visit: &mut dyn FnMut(usize, &[u8])) {
    let mut part = Vec::new();
    for (range, offset) in module.text() {
        part.resize(PART.min(range.len()), 0);
        let mut done = 0;
        while done < range.len() {
            let want = PART.min(range.len() - done);
            let Ok(read) = file.read_at(&mut part[..want], offset + done as u64) else { break };
            visit(range.start + done, &part[..read]);
            if read < PART {
                break;
            }
            done += read - overlap;
        }
    }
}

/// A module's text as its file has it, mapped beside the module.
pub struct FileText(Vec<Part>);

/// One segment.
struct Part {
    /// Where the segment begins in the module.
    address: usize,
    mapped: *mut u8,
    /// Bytes of the mapping in front of the segment: a mapping begins with a page.
    skip: usize,
    bytes: usize,
}

impl FileText {
    /// Maps the text of the module's file. `None` if it is not all there.
    pub fn of(module: &Module<'_>, file: &File) -> Option<FileText> {
        let length = file.status().ok()?.bytes;
        let mut text = FileText(Vec::new());
        for (range, offset) in module.text() {
            if offset.checked_add(range.len() as u64)? > length {
                return None;
            }
            let offset = usize::try_from(offset).ok()?;
            let skip = offset % page_bytes();
            let mapped = map_to_read(file, offset - skip, skip + range.len()).ok()?;
            text.0.push(Part { address: range.start, mapped, skip, bytes: range.len() });
        }
        Some(text)
    }

    /// The bytes of each segment, with the segment's address in the module.
    pub fn segments(&self) -> impl Iterator<Item = (usize, &[u8])> {
        self.0.iter().map(|part| {
            // SAFETY: `of` has mapped that many bytes of a file that has them. A process that cuts
            // or writes the file meanwhile does the same to the module's own text.
            let bytes = unsafe { core::slice::from_raw_parts(part.mapped.add(part.skip), part.bytes) };
            (part.address, bytes)
        })
    }
}

impl Drop for FileText {
    fn drop(&mut self) {
        for part in &self.0 {
            // SAFETY: slices of it do not outlive `self`.
            let _ = unsafe { unmap(part.mapped, part.skip + part.bytes) };
        }
    }
}
