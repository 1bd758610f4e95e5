//! Filters, in this process: whether the user selected it, and which of its modules and loops the
//! guard may repair.
//!
//! What the entries mean is in [`preload_abi::filter`]. The process is asked for its names here:
//! that of its executable's file, from `/proc/self/exe`, and that by which it was executed, which
//! the kernel leaves in the auxiliary vector. The second is a script's or a link's name.
//!
//! The lists are copied when the options are read, because the program may overwrite its
//! environment. Nothing is allocated.
//!
//! Invariants:
//! 1. [`keep`] is called once, before the options count as read, and the guard looks afterwards
//!    only.

use crate::elf::modules::Module;
use crate::process;
use core::cell::UnsafeCell;
use core::ffi::CStr;
use core::sync::atomic::{AtomicUsize, Ordering};
use preload_abi::SWITCH_VARIABLE;
use preload_abi::filter::{Entries, Filters, LIST_MAX, Place};
use preload_abi::options::Options;

/// A list that outlives the environment.
struct List {
    bytes: UnsafeCell<[u8; LIST_MAX]>,
    length: AtomicUsize,
}

// SAFETY: by Invariant 1 the bytes are written before any thread reads them.
unsafe impl Sync for List {}

static ONLY: List = List::new();
static NOT: List = List::new();

impl List {
    const fn new() -> List {
        List { bytes: UnsafeCell::new([0; LIST_MAX]), length: AtomicUsize::new(0) }
    }

    fn keep(&self, entries: Entries<'_>) {
        let entries = entries.as_bytes();
        // SAFETY: by Invariant 1 no other thread reads or writes the bytes meanwhile. A list is
        // never longer than LIST_MAX.
        unsafe { (&mut (*self.bytes.get()))[..entries.len()].copy_from_slice(entries) };
        // Release: pairs with the acquire in `entries`.
        self.length.store(entries.len(), Ordering::Release);
    }

    fn entries(&self) -> Entries<'_> {
        // Acquire: pairs with the release in `keep`, so the bytes are there.
        let length = self.length.load(Ordering::Acquire);
        // SAFETY: by Invariant 1 the bytes no longer change.
        let bytes: &[u8; LIST_MAX] = unsafe { &*self.bytes.get() };
        bytes[..length].try_into().unwrap_or_default()
    }
}

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

/// Copies the lists of the options (Invariant 1).
pub fn keep(filters: &Filters<'_>) {
    ONLY.keep(filters.only);
    NOT.keep(filters.not);
}

fn filters() -> Filters<'static> {
    Filters { only: ONLY.entries(), not: NOT.entries() }
}

/// Calls `ask` with the file name of a module; that of the executable for the program itself.
fn with_name<R>(module: &Module<'_>, ask: impl FnOnce(&[u8]) -> R) -> R {
    if module.path.is_empty() { ask(own_name(&process::executable())) } else { ask(module.file_name()) }
}

/// Whether the filters select any loop of this module.
pub fn module(module: &Module<'_>) -> bool {
    let filters = filters();
    filters.is_empty() || with_name(module, |name| filters.module(name))
}

/// Whether the filters select the loop at an address of this module.
pub fn site(module: &Module<'_>, address: usize) -> bool {
    let filters = filters();
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

    #[test]
    fn lists_are_kept() {
        let list = List::new();
        assert!(list.entries().is_empty());
        let text = [b'a'; LIST_MAX];
        list.keep(text.as_slice().try_into().expect("well-formed"));
        assert_eq!(list.entries().as_bytes(), text);
    }
}
