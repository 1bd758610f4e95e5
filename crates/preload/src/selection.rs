//! Filters, in this process: whether the user selected it, and which of its modules and loops the
//! guard may repair.
//!
//! What the entries mean is in [`preload_abi::filter`]. The process is asked for its names here:
//! that of its executable's file, from `/proc/self/exe`, and that by which it was executed, which
//! the kernel leaves in the auxiliary vector. The second is a script's or a link's name.

use crate::elf::modules::Module;
use crate::process;
use crate::settings::settings;
use alloc::vec::Vec;
use core::ffi::CStr;
use preload_abi::SWITCH_VARIABLE;
use preload_abi::filter::{Entry, Filters, Place};
use preload_abi::options::Options;

/// Whether the library does anything in this process: `MANX=off` is not set, and the executable is
/// selected.
pub fn process(options: &Options<'_>) -> bool {
    process::variable(SWITCH_VARIABLE.as_bytes()) != Some(b"off") && executable(&options.filters())
}

fn executable(filters: &Filters<'_>) -> bool {
    if filters.is_empty() {
        return true;
    }
    let path = process::executable();
    filters.executable(&[own_name(&path), executed_as()])
}

/// The file name of the program.
fn own_name(path: &process::Path) -> &[u8] {
    /// What the kernel writes behind the path of a file that has been removed.
    const REMOVED: &[u8] = b" (deleted)";
    let path = path.bytes();
    let path = path.strip_suffix(REMOVED).unwrap_or(path);
    process::file_name(path)
}

/// The name by which the program was executed.
fn executed_as() -> &'static [u8] {
    // SAFETY: only reads what the kernel left on the first stack.
    let path = unsafe { libc::getauxval(libc::AT_EXECFN) } as *const core::ffi::c_char;
    if path.is_null() {
        return b"";
    }
    // SAFETY: the kernel put a string there that ends with a zero; nothing else is kept above it on
    // the first stack.
    process::file_name(unsafe { CStr::from_ptr(path) }.to_bytes())
}

/// Calls `ask` with the file name of a module; that of the executable for the program itself.
fn with_name<R>(module: &Module<'_>, ask: impl FnOnce(&[u8]) -> R) -> R {
    if module.path.is_empty() { ask(own_name(&process::executable())) } else { ask(module.file_name()) }
}

/// Whether the filters select any loop of this module.
pub fn module(module: &Module<'_>) -> bool {
    let filters = settings().filters();
    filters.is_empty() || with_name(module, |name| filters.module(name))
}

/// What the user says of functions of this module by which threads poll.
pub fn polled(module: &Module<'_>) -> Vec<Entry<'static>> {
    let poll = settings().poll;
    if poll.is_empty() { Vec::new() } else { with_name(module, |name| poll.in_module(name).collect()) }
}

/// Whether the filters select the loop at an address of this module.
pub fn site(module: &Module<'_>, address: usize) -> bool {
    let filters = settings().filters();
    if filters.is_empty() {
        return true;
    }
    let table = module.table();
    with_name(module, |name| {
        filters.has(&Place {
            module: name,
            offset: address.wrapping_sub(module.bias) as u64,
            lies_in: &|symbol| {
                let mut found = false;
                if let Some(table) = &table {
                    table.each_enclosing(address, &mut |function, _| {
                        found |= symbol.names(function.to_bytes());
                        !found
                    });
                }
                found
            },
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_has_the_name_of_its_file() {
        let path = std::env::current_exe().expect("a path");
        let name = path.file_name().expect("a name").as_encoded_bytes();
        assert_eq!(own_name(&process::executable()), name);
        assert_eq!(executed_as(), name);
        let mut removed = process::Path::new();
        removed.push(b"/tmp/a program (deleted)").expect("room");
        assert_eq!(own_name(&removed), b"a program");
    }
}
