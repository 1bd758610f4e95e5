//! The modules of the process: the program, its libraries, whatever was opened later.
//!
//! They are shown by the C library's `dl_iterate_phdr`, under the loader's lock. A program may have
//! a function of that name, so the C library's is called by its address.

use super::symbols::Table;
use super::{dynamic, link_map};
use crate::process::file_name;
use core::ffi::{CStr, c_int, c_void};
use core::ops::Range;
use core::sync::atomic::{AtomicUsize, Ordering};
use libc::{Elf64_Phdr as Header, PF_R, PF_W, PF_X, PT_DYNAMIC, PT_GNU_EH_FRAME, PT_LOAD, dl_phdr_info};

/// One module, as the loader shows it. Valid until the library that it is may be closed: use it
/// inside the call of [`each`], or where the program cannot close it.
#[derive(Clone, Copy)]
pub struct Module<'a> {
    /// Its path; empty for the program itself.
    pub path: &'a CStr,
    /// What to add to an address in its file for the address in memory.
    pub bias: usize,
    /// Its program headers.
    pub headers: &'a [Header],
    /// How often the loader had added and removed modules when it showed this one.
    pub generation: Generation,
}

/// How often the loader has added and removed modules so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Generation {
    /// Modules ever added.
    pub added: u64,
    /// Modules ever removed.
    pub removed: u64,
}

impl<'a> Module<'a> {
    /// The last part of its path; empty for the program itself.
    pub fn file_name(&self) -> &'a [u8] {
        file_name(self.path.to_bytes())
    }

    fn of_type(&self, kind: u32) -> impl Iterator<Item = &'a Header> + use<'a> {
        self.headers.iter().filter(move |header| header.p_type == kind)
    }

    fn range(&self, header: &Header) -> Range<usize> {
        let start = self.bias.wrapping_add(header.p_vaddr as usize);
        start..start.saturating_add(header.p_memsz as usize)
    }

    /// The executable segments, and where their bytes stand in the module's file.
    pub fn text(&self) -> impl Iterator<Item = (Range<usize>, u64)> + use<'a> {
        let module = *self;
        self.of_type(PT_LOAD)
            .filter(|h| h.p_flags & (PF_X | PF_R) == PF_X | PF_R)
            .map(move |h| (module.range(h), h.p_offset))
    }

    /// Whether it has text that may be written as well.
    pub fn has_writable_text(&self) -> bool {
        self.of_type(PT_LOAD).any(|h| h.p_flags & (PF_X | PF_W) == PF_X | PF_W)
    }

    /// All readable segments.
    pub fn readable(&self) -> impl Iterator<Item = Range<usize>> + use<'a> {
        let module = *self;
        self.of_type(PT_LOAD).filter(|h| h.p_flags & PF_R != 0).map(move |h| module.range(h))
    }

    /// All that the module takes, from its first segment to its last.
    pub fn extent(&self) -> Range<usize> {
        self.of_type(PT_LOAD).map(|h| self.range(h)).fold(Range { start: usize::MAX, end: 0 }, |all, one| {
            all.start.min(one.start)..all.end.max(one.end)
        })
    }

    /// The table of its functions' unwind records.
    pub fn eh_frame_hdr(&self) -> Option<usize> {
        self.of_type(PT_GNU_EH_FRAME).next().map(|h| self.range(h).start)
    }

    /// Its build id, which the linker made from its content.
    pub fn build_id(&self) -> Option<&'a [u8]> {
        /// `NT_GNU_BUILD_ID`
        const BUILD_ID: u32 = 3;
        let mapped = |range: &Range<usize>| {
            self.readable().any(|all| all.start <= range.start && range.end <= all.end)
        };
        self.of_type(libc::PT_NOTE).map(|header| self.range(header)).filter(mapped).find_map(|range| {
            // SAFETY: the notes lie in a segment that is mapped and readable.
            let mut notes = unsafe { core::slice::from_raw_parts(range.start as *const u8, range.len()) };
            while let Some((head, rest)) = notes.split_first_chunk::<12>() {
                let word =
                    |at: usize| u32::from_ne_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
                let (name_bytes, id_bytes) = (word(0) as usize, word(4) as usize);
                let id_at = name_bytes.checked_next_multiple_of(4)?;
                let (name, id) = (rest.get(..name_bytes)?, rest.get(id_at..id_at.checked_add(id_bytes)?)?);
                if word(8) == BUILD_ID && name == b"GNU\0" && !id.is_empty() {
                    return Some(id);
                }
                notes = rest.get(id_at.checked_add(id_bytes.checked_next_multiple_of(4)?)?..)?;
            }
            None
        })
    }

    /// Its symbols, if it has a table of them with a GNU hash.
    pub fn table(&self) -> Option<Table> {
        // SAFETY: the loader mapped the module and its dynamic section.
        unsafe { Table::at(self.bias, self.dynamic()?) }
    }

    /// Its dynamic section.
    pub fn dynamic(&self) -> Option<usize> {
        self.of_type(PT_DYNAMIC).next().map(|h| self.range(h).start)
    }

    /// The entries of its dynamic section, as tags and values.
    pub fn dynamic_entries(&self) -> impl Iterator<Item = [u64; 2]> + use<'a> {
        // SAFETY: the dynamic section is mapped.
        self.dynamic().into_iter().flat_map(|dynamic| unsafe { dynamic::entries(dynamic) })
    }

    /// Whether the loader changes its text when it relocates the module.
    pub fn has_text_relocations(&self) -> bool {
        const DT_TEXTREL: u64 = 22;
        const DT_FLAGS: u64 = 30;
        const DF_TEXTREL: u64 = 4;
        self.dynamic_entries()
            .any(|[tag, value]| tag == DT_TEXTREL || tag == DT_FLAGS && value & DF_TEXTREL != 0)
    }

    /// The segments that may be written, as far as they are filled from the module's file.
    pub fn data(&self) -> impl Iterator<Item = Range<usize>> + use<'a> {
        let module = *self;
        self.of_type(PT_LOAD).filter(|h| h.p_flags & (PF_R | PF_W) == PF_R | PF_W).map(move |h| {
            let start = module.range(h).start;
            start..start.saturating_add(h.p_filesz.min(h.p_memsz) as usize)
        })
    }

    /// Whether `address` lies in one of its segments.
    pub fn holds(&self, address: usize) -> bool {
        self.of_type(PT_LOAD).any(|h| self.range(h).contains(&address))
    }
}

type One = extern "C" fn(*mut dl_phdr_info, usize, *mut c_void) -> c_int;
type Iterate = extern "C" fn(One, *mut c_void) -> c_int;

/// The C library's `dl_iterate_phdr`. It is looked up together with all others of the C library's
/// functions (`crate::real`), or by the first walk, if that comes earlier.
pub fn iterate() -> Option<Iterate> {
    static ADDRESS: AtomicUsize = AtomicUsize::new(0);
    // Relaxed: the address is all there is to see, and each look-up finds the same.
    let mut address = ADDRESS.load(Ordering::Relaxed);
    if address == 0 {
        address = link_map::of_c_library(c"dl_iterate_phdr")?;
        ADDRESS.store(address, Ordering::Relaxed);
    }
    // SAFETY: the C library's function of this name has this type.
    Some(unsafe { core::mem::transmute::<usize, Iterate>(address) })
}

/// Calls `visit` for each module, in the order in which they were loaded, until it answers false.
/// Returns how often the loader's list had changed by then.
///
/// `visit` must not open or close libraries.
pub fn each(visit: &mut dyn FnMut(Module<'_>) -> bool) -> Generation {
    struct Walk<'a> {
        visit: &'a mut dyn FnMut(Module<'_>) -> bool,
        generation: Generation,
    }

    extern "C" fn one(info: *mut dl_phdr_info, size: usize, walk: *mut c_void) -> c_int {
        // SAFETY: the loader passes a valid record for the length of this call, and our own
        // pointer.
        let (info, walk) = unsafe { (&*info, &mut *walk.cast::<Walk<'_>>()) };
        if size >= size_of::<dl_phdr_info>() {
            walk.generation = Generation { added: info.dlpi_adds, removed: info.dlpi_subs };
        }
        let path = if info.dlpi_name.is_null() {
            c""
        } else {
            // SAFETY: a name that is there ends with a zero.
            unsafe { CStr::from_ptr(info.dlpi_name) }
        };
        let headers = if info.dlpi_phdr.is_null() {
            &[]
        } else {
            // SAFETY: the loader keeps that many headers there.
            unsafe { core::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) }
        };
        let module = Module { path, bias: info.dlpi_addr as usize, headers, generation: walk.generation };
        c_int::from(!(walk.visit)(module))
    }

    let mut walk = Walk { visit, generation: Generation::default() };
    if let Some(iterate) = iterate() {
        iterate(one, (&raw mut walk).cast());
    }
    walk.generation
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_comes_first_and_holds_our_own_code() {
        let mut seen = Vec::new();
        let ours = the_program_comes_first_and_holds_our_own_code as *const () as usize;
        each(&mut |module| {
            seen.push((module.path.to_bytes().to_vec(), module.holds(ours), module.text().count()));
            true
        });
        assert!(seen[0].0.is_empty() && seen[0].1 && seen[0].2 == 1, "{seen:?}");
        assert_eq!(seen.iter().filter(|module| module.1).count(), 1);
        assert!(seen.iter().any(|module| module.0.ends_with(b"libc.so.6")));
    }

    #[test]
    fn a_visit_can_end_the_walk() {
        let mut count = 0;
        each(&mut |_| {
            count += 1;
            false
        });
        assert_eq!(count, 1);
    }
}
