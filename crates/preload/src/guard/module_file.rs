//! The file that a module was loaded from, if it is still there.

use super::text::holds;
use crate::elf::modules::Module;
use alloc::vec::Vec;
use core::ops::Range;
use platform::file::File;

/// How much of a file is read at a time.
const PART: usize = 256 << 10;

/// The module's file, unless another one has taken its place since it was loaded.
pub fn open(module: &Module<'_>) -> Option<File> {
    let path = if module.path.is_empty() { c"/proc/self/exe" } else { module.path };
    File::open(path).ok().filter(|file| is_file_of(file, module))
}

/// Whether an open file starts as the module does.
fn is_file_of(file: &File, module: &Module<'_>) -> bool {
    let start = module.extent().start;
    let mut header = [0; 64];
    let begins = |first: Range<usize>| first.start == start && first.len() >= header.len();
    if !module.readable().next().is_some_and(begins) || file.read_at(&mut header, 0) != Ok(header.len()) {
        return false;
    }
    // SAFETY: the module's first segment is mapped and readable for at least `header.len()` bytes.
    unsafe { holds(start, &header) }
}

/// Shows a module's text, a part at a time, with the address of each; parts overlap by `overlap`
/// bytes, so that nothing that short is cut in two. If the module has no such file, the text is
/// shown where it is mapped, in one part.
pub fn each_part(module: &Module<'_>, overlap: usize, visit: &mut dyn FnMut(usize, &[u8])) {
    let file = open(module);
    let mut part = Vec::new();
    for (range, offset) in module.text() {
        let Some(file) = &file else {
            // SAFETY: text is mapped and readable while the loader shows the module.
            visit(range.start, unsafe { core::slice::from_raw_parts(range.start as *const u8, range.len()) });
            continue;
        };
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
