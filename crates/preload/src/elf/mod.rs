//! The program's modules and their symbols, read where the loader put them.

mod dynamic;
pub mod imports;
pub mod link_map;
pub mod modules;
pub mod relocations;
pub mod symbols;

use libc::{Elf64_Ehdr as Header, Elf64_Phdr as Segment, PT_LOAD};
use modules::{Generation, Module};

/// The build id of the module that this code is in: it changes with every byte of it.
pub fn own_build_id() -> Option<&'static [u8]> {
    unsafe extern "C" {
        /// Where the module's file begins in memory; the linker defines it.
        static __ehdr_start: Header;
    }
    // SAFETY: the module's own headers, which stay mapped and as they are while its code runs.
    let (start, headers) = unsafe {
        let header = &raw const __ehdr_start;
        let first = header.byte_add((*header).e_phoff as usize).cast::<Segment>();
        (header.addr(), core::slice::from_raw_parts(first, usize::from((*header).e_phnum)))
    };
    let first = headers.iter().find(|header| header.p_type == PT_LOAD)?;
    let bias = start.wrapping_sub(first.p_vaddr as usize);
    Module { path: c"", bias, headers, generation: Generation::default() }.build_id()
}

#[cfg(test)]
mod tests {
    #[test]
    fn this_code_has_a_build_id_which_its_file_has_as_well() {
        let program = std::fs::read(std::env::current_exe().expect("a path")).expect("bytes");
        let id = super::own_build_id().expect("the linker writes one");
        assert!(id.len() >= 8 && program.windows(id.len()).any(|bytes| bytes == id));
    }
}
