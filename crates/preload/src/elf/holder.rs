//! The module that holds an address, found without waiting for the loader.
//!
//! Since version 2.35 the GNU C library answers this without a lock (`_dl_find_object`), for those who unwind. On older ones the list
//! of modules is walked, which takes the loader's lock: that may be held by a thread that a fork has left behind, so there the
//! question is not for the child of a fork.

use super::modules::each;
use super::symbols::{Table, next};
use core::ffi::{CStr, c_char, c_int, c_void};
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicUsize, Ordering};

/// `struct dl_find_object` begins so on all machines; what is behind differs, and is 10 words at most.
#[repr(C)]
struct Found {
    flags: u64,
    start: *mut c_void,
    end: *mut c_void,
    module: *const Loaded,
    rest: [u64; 10],
}

/// The public beginning of `struct link_map`.
#[repr(C)]
struct Loaded {
    bias: usize,
    name: *const c_char,
    dynamic: usize,
}

/// [`UNKNOWN`], [`ABSENT`], or where `_dl_find_object` is.
static FIND: AtomicUsize = AtomicUsize::new(UNKNOWN);
const UNKNOWN: usize = 0;
const ABSENT: usize = 1;

/// Looks the C library's function up: later calls may come while the loader is busy.
pub fn look_up() -> Option<usize> {
    // Relaxed: all who look find the same, and the value is all there is.
    let known = match FIND.load(Ordering::Relaxed) {
        UNKNOWN => {
            let found = next(c"_dl_find_object", look_up as *const () as usize).unwrap_or(ABSENT);
            FIND.store(found, Ordering::Relaxed);
            found
        }
        known => known,
    };
    (known != ABSENT).then_some(known)
}

/// Shows the path and the symbols of the module that holds `address` to `look`; `None` if there is none. The path of
/// the program itself is empty.
pub fn with<R>(address: usize, look: impl FnOnce(&CStr, Option<Table>) -> R) -> Option<R> {
    match look_up() {
        Some(function) => by_function(function, address, look),
        None => by_list(address, look),
    }
}

fn by_function<R>(
    function: usize,
    address: usize,
    look: impl FnOnce(&CStr, Option<Table>) -> R,
) -> Option<R> {
    type Find = unsafe extern "C" fn(usize, *mut Found) -> c_int;
    let mut found = MaybeUninit::<Found>::zeroed();
    // SAFETY: the C library's function of this name has this type, and writes no more than a Found. The module that holds
    // the address is one that is about to be returned to, so nobody closes it meanwhile.
    unsafe {
        if core::mem::transmute::<usize, Find>(function)(address, found.as_mut_ptr()) != 0 {
            return None;
        }
        let module = &*found.assume_init_ref().module;
        let path = if module.name.is_null() { c"" } else { CStr::from_ptr(module.name) };
        let table = if module.dynamic == 0 { None } else { Table::at(module.bias, module.dynamic) };
        Some(look(path, table))
    }
}

fn by_list<R>(address: usize, look: impl FnOnce(&CStr, Option<Table>) -> R) -> Option<R> {
    let (mut look, mut seen) = (Some(look), None);
    each(&mut |module| {
        if module.holds(address) {
            seen = look.take().map(|look| look(module.path, Table::of(&module)));
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
        let (path, start) = by_list(qsort, look).expect("the C library");
        assert!(path.to_bytes().ends_with(b"libc.so.6") && start == Some(qsort), "{path:?}");
        assert_eq!(with(qsort, look), Some((path, start)));
        let ours = both_ways_find_the_same as *const () as usize;
        assert!(with(ours, |path, _| path.is_empty()).expect("the program"));
        assert!(with(8, |_, _| ()).is_none() && by_list(8, |_, _| ()).is_none());
    }
}
