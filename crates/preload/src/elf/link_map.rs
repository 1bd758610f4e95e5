//! The loader's own list of modules, read where it lies.
//!
//! `dl_iterate_phdr` would show the same modules, but a program may define a function of that name,
//! which finds the C library's by `dlsym`: one of the functions that we wrap, and cannot serve
//! before we have found the C library's own. The loader publishes its list for debuggers
//! (`_r_debug`): a word to read, no function to call and no lock to take.
//!
//! No lock keeps the list still while it is read. So it is read when the process starts, before a
//! thread of the program can open or close a library. Modules that are there at the start are never
//! closed, and stand at the head of the list.

use super::symbols::Table;
use core::ffi::{CStr, c_char, c_int};
use core::sync::atomic::{AtomicI32, Ordering};

/// The public beginning of `struct link_map`.
#[repr(C)]
pub struct Module {
    bias: usize,
    name: *const c_char,
    dynamic: usize,
    next: *const Module,
}

/// The public beginning of `struct r_debug`.
#[repr(C)]
struct Debug {
    version: c_int,
    first: *const Module,
    rendezvous: usize,
    state: AtomicI32,
}

// SAFETY: `rendezvous` does not change once the loader has begun; `first` is read only when the
// process starts, before anything can change it; `state` is atomic.
unsafe impl Sync for Debug {}

unsafe extern "C" {
    /// Exported by the loader.
    safe static _r_debug: Debug;
    /// The dynamic section of the module that this code is in, by the linker.
    safe static _DYNAMIC: [usize; 2];
}

/// In [`Debug::state`]: no module is about to come or to go.
const RT_CONSISTENT: i32 = 0;

/// The function that the loader calls before and after its list changes, so that a debugger can
/// stop there; 0 if there is none.
pub fn rendezvous() -> usize {
    _r_debug.rendezvous
}

/// Whether no module of our namespace is about to come or to go. To be asked at the rendezvous. If
/// the program has a copy of `_r_debug` of its own, the answer may be that of the start: yes.
pub fn is_consistent() -> bool {
    // Relaxed: the loader writes it, and waits for the rendezvous to return.
    _r_debug.state.load(Ordering::Relaxed) == RT_CONSISTENT
}

/// The C library's name.
const C_LIBRARY: &CStr = c"libc.so.6";
/// The name of its library for threads, which it has in versions before 2.34.
const THREADS_LIBRARY: &CStr = c"libpthread.so.0";

impl Module {
    /// Its path; empty for the program itself.
    pub fn path(&self) -> &CStr {
        if self.name.is_null() {
            return c"";
        }
        // SAFETY: the loader's string, which lives as long as the module.
        unsafe { CStr::from_ptr(self.name) }
    }

    /// Its symbols, if it has any that can be looked up by hash.
    pub fn table(&self) -> Option<Table> {
        if self.dynamic == 0 {
            return None;
        }
        // SAFETY: the loader's own entry for a module that is mapped.
        unsafe { Table::at(self.bias, self.dynamic) }
    }
}

/// All modules, in the order in which names are looked up in them.
fn all() -> impl Iterator<Item = &'static Module> {
    // SAFETY: the list is the loader's and ends with null; see the module's text for why it stands
    // still.
    let mut at = unsafe { _r_debug.first.as_ref() };
    core::iter::from_fn(move || {
        let module = at?;
        // SAFETY: as above.
        at = unsafe { module.next.as_ref() };
        Some(module)
    })
}

/// The symbols of the program itself. It stands first in the list and stays, so this may be called
/// at any time.
pub fn program() -> Option<Table> {
    all().next().and_then(Module::table)
}

/// Where the dynamic section of this library lies, by which the loader and [`next`] know it.
pub fn own_dynamic() -> usize {
    (&raw const _DYNAMIC).addr()
}

/// The function `name` of the first module behind the one with this dynamic section: what a call
/// from there would reach if it were not in between. If there is none, the C library's.
pub fn next(name: &CStr, dynamic: usize) -> Option<usize> {
    behind(dynamic).find_map(|table| table.function(name))
}

/// The symbols of the modules in which [`next`] looks, in its order.
pub fn behind(dynamic: usize) -> impl Iterator<Item = Table> {
    let behind = all().skip_while(move |module| module.dynamic != dynamic).skip(1);
    behind.filter_map(Module::table).chain(core::iter::once_with(|| by_soname(C_LIBRARY)).flatten())
}

/// Returns the C library's function `name`, whatever other modules have a function of that name.
pub fn of_c_library(name: &CStr) -> Option<usize> {
    by_soname(C_LIBRARY)?.function(name)
}

/// The symbols of the C library, and of its library for threads.
pub fn c_libraries() -> [Option<Table>; 2] {
    [C_LIBRARY, THREADS_LIBRARY].map(by_soname)
}

fn by_soname(soname: &CStr) -> Option<Table> {
    all().filter_map(Module::table).find(|table| table.soname() == Some(soname))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_comes_first_and_we_are_in_it() {
        let first = all().next().expect("the program");
        assert!(first.path().is_empty() && first.dynamic == own_dynamic());
        assert!(all().any(|module| module.path().to_bytes().ends_with(b"libc.so.6")));
    }

    #[test]
    fn finds_what_dlsym_finds() {
        for name in [c"pthread_create", c"sigaction", c"dlopen", c"pthread_cond_wait", c"memcpy"] {
            // SAFETY: looks a name up.
            let expected = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) } as usize;
            assert_eq!(next(name, own_dynamic()), Some(expected), "{name:?}");
            assert_eq!(of_c_library(name), Some(expected), "{name:?}");
            // If no module has this dynamic section, the C library's function is found.
            assert_eq!(next(name, 8), Some(expected), "{name:?}");
        }
        assert_eq!(next(c"no_such_function_anywhere", own_dynamic()), None);
        assert!(next(c"__tls_get_addr", own_dynamic()).is_some());
        assert_eq!(of_c_library(c"__tls_get_addr"), None, "that is the loader's");
    }
}
