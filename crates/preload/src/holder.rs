//! The module that holds an address, found without waiting for the loader.
//!
//! Since version 2.35 the GNU C library answers this without a lock (`_dl_find_object`), for
//! unwinders. On older versions the list of modules is walked, which takes the loader's lock: that
//! may be held by a thread that a fork has left behind, so there the question is not for the child
//! of a fork.
//!
//! Unwinders ask the same function where a module's unwind data are ([`ask`]).

use crate::elf::link_map;
use crate::elf::modules::each;
use crate::elf::symbols::Table;
use crate::real::typed;
use core::ffi::{CStr, c_int, c_void};
use core::mem::MaybeUninit;
use core::ops::Range;

/// `struct dl_find_object` begins so on all machines; what is behind differs, and is 9 words at
/// most.
#[repr(C)]
pub struct Found {
    flags: u64,
    start: *mut c_void,
    end: *mut c_void,
    module: *const link_map::Module,
    /// The table of functions.
    unwind: *mut c_void,
    rest: [u64; 9],
}

typed! {
    find = _dl_find_object: unsafe extern "C" fn(usize, *mut Found) -> c_int;
}

/// Whether the question takes the loader's lock here.
pub fn locks() -> bool {
    find().is_none()
}

impl Found {
    /// Puts another range, and another table of functions, in the place of the module's.
    ///
    /// # Safety
    /// `found` must be a record that [`ask`] has filled in.
    pub unsafe fn lead_to(found: *mut Found, range: &Range<usize>, unwind: usize) {
        // SAFETY: as the caller promised. The record may be shorter than ours, so there is no
        // reference to all of it.
        unsafe {
            (&raw mut (*found).start).write(range.start as *mut c_void);
            (&raw mut (*found).end).write(range.end as *mut c_void);
            (&raw mut (*found).unwind).write(unwind as *mut c_void);
        }
    }
}

/// As the C library's `_dl_find_object`; where it has none, the answer has no flags, and no module
/// of the loader's.
///
/// # Safety
/// `found` must be for writing, as the C library's function wants it.
pub unsafe fn ask(address: usize, found: *mut Found) -> c_int {
    if let Some(find) = find() {
        // SAFETY: the C library's function of this name has this type; the arguments are the
        // caller's.
        return unsafe { find(address, found) };
    }
    let mut result = -1;
    each(&mut |module| {
        if module.holds(address) {
            // SAFETY: as the caller promised.
            unsafe {
                (&raw mut (*found).flags).write(0);
                (&raw mut (*found).module).write(core::ptr::null());
                Found::lead_to(found, &module.extent(), module.eh_frame_hdr().unwrap_or(0));
            }
            result = 0;
        }
        result != 0
    });
    result
}

/// Shows the path and the symbols of the module that holds `address` to `look`; `None` if there is
/// none. The path of the program itself is empty.
///
/// # Safety
/// The module stays open until this returns. It does if a call of the running thread will return to
/// `address`.
pub unsafe fn with<R>(address: usize, look: impl FnOnce(&CStr, Option<Table>) -> R) -> Option<R> {
    match find() {
        // SAFETY: as the caller promised.
        Some(find) => unsafe { by_find_object(find, address, look) },
        None => by_module_list(address, look),
    }
}

/// As [`with`], by `_dl_find_object`.
///
/// # Safety
/// As for [`with`].
unsafe fn by_find_object<R>(
    find: unsafe extern "C" fn(usize, *mut Found) -> c_int,
    address: usize,
    look: impl FnOnce(&CStr, Option<Table>) -> R,
) -> Option<R> {
    let mut found = MaybeUninit::<Found>::zeroed();
    // SAFETY: the C library's function of this name has this type, and writes no more than a Found.
    // The module stays open, as the caller promised.
    unsafe {
        if find(address, found.as_mut_ptr()) != 0 {
            return None;
        }
        let module = &*found.assume_init_ref().module;
        Some(look(module.path(), module.table()))
    }
}

/// As [`with`], by the loader's list of modules, under its lock.
fn by_module_list<R>(address: usize, look: impl FnOnce(&CStr, Option<Table>) -> R) -> Option<R> {
    let (mut look, mut seen) = (Some(look), None);
    each(&mut |module| {
        if module.holds(address) {
            seen = look.take().map(|look| look(module.path, module.table()));
        }
        seen.is_none()
    });
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_find_the_same() {
        // SAFETY: looks a name up.
        let qsort = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"qsort".as_ptr()) } as usize;
        let look = |path: &CStr, table: Option<Table>| {
            (path.to_owned(), table.and_then(|table| table.extent(c"qsort")).map(|range| range.start))
        };
        let (path, start) = by_module_list(qsort, look).expect("the C library");
        assert!(path.to_bytes().ends_with(b"libc.so.6") && start == Some(qsort), "{path:?}");
        // SAFETY: neither the C library nor the program is ever closed, and nothing lies at 8.
        unsafe {
            assert_eq!(with(qsort, look), Some((path, start)));
            let ours = both_ways_find_the_same as *const () as usize;
            assert!(with(ours, |path, _| path.is_empty()).expect("the program"));
            assert!(with(8, |_, _| ()).is_none());
        }
        assert!(by_module_list(8, |_, _| ()).is_none());
    }
}
