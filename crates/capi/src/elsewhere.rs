//! The preload library's epochs, if it is in the process.
//!
//! A program may be linked with us and run by `manx run`. Its pthread mutexes then take their
//! windows from the preload library's epochs, its `manx_mutex_t` from ours, and a request must
//! count for both. So there is one table: the preload library's, which has functions of the same
//! names. They are looked for when this library is loaded, or when first wanted if that is earlier,
//! and stay. (Later the loader's lock may be held by a thread that waits for ours.)
//!
//! A function of that name may be our own: exported by a program that has us inside, or by us as a
//! shared library. Its address does not tell, because the loader gives the same answer to every
//! caller, also to us. The file that it lies in does: it is ours if it begins where the one with
//! [`OURS`] begins, a variable that only this file knows. The function behind our own in the
//! loader's order is then the other one.

use core::ffi::{CStr, c_void};
use core::mem::{MaybeUninit, transmute};
use core::ptr;
use platform::atomic::{AtomicPtr, Ordering};

/// The functions of the other library.
#[derive(Clone, Copy)]
pub struct Elsewhere {
    /// `manx_epoch_start`
    pub start: unsafe extern "C" fn(u64),
    /// `manx_epoch_end`
    pub end: unsafe extern "C" fn(u64, u64),
    /// `manx_epoch_end_at`
    pub end_at: unsafe extern "C" fn(u64, u64, f64),
    /// `manx_epoch_abandon`
    pub abandon: unsafe extern "C" fn(u64),
    /// `manx_epoch_window_ns`
    pub window_ns: unsafe extern "C" fn() -> u64,
}

/// Null: not looked for yet. [`OURS`]: there is no other library. Otherwise an [`Elsewhere`] that
/// lives for ever.
static FOUND: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// Something that is in the same file as we are.
static OURS: u8 = 0;

/// The other library's functions; `None` if it is not there.
#[inline]
pub fn get() -> Option<&'static Elsewhere> {
    // Acquire pairs with the release in `look`.
    let found = FOUND.load(Ordering::Acquire);
    let found = if found.is_null() { look() } else { found };
    if found.cast_const() == ours() {
        return None;
    }
    // SAFETY: `look` stored a pointer to a leaked `Elsewhere`.
    Some(unsafe { &*found.cast::<Elsewhere>() })
}

extern "C" fn constructor() {
    get();
}

/// Run by the loader.
#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = constructor;

#[inline]
fn ours() -> *const c_void {
    (&raw const OURS).cast()
}

/// For how long the calling thread may be overtaken; `None` outside of any epoch.
pub(crate) fn window_ns() -> Option<u64> {
    let Some(elsewhere) = get() else { return manx::slo::window_ns() };
    // SAFETY: any thread may ask at any time.
    let window_ns = unsafe { (elsewhere.window_ns)() };
    (window_ns != u64::MAX).then_some(window_ns)
}

#[cold]
fn look() -> *mut c_void {
    let found = match find() {
        Some(elsewhere) => {
            // Locks that are not ours to tell ask for themselves. A thread that looked at the same
            // time has set the same.
            manx::slo::set_window_source(window_ns);
            // Leaked: threads that looked at the same time may leak one more each.
            Box::into_raw(Box::new(elsewhere)).cast()
        }
        None => ours().cast_mut(),
    };
    // Release: what the pointer leads to was written before.
    FOUND.store(found, Ordering::Release);
    found
}

fn find() -> Option<Elsewhere> {
    // SAFETY: the types are those of the names, in the preload library as in the header.
    unsafe {
        Some(Elsewhere {
            start: transmute::<*mut c_void, unsafe extern "C" fn(u64)>(function(c"manx_epoch_start")?),
            end: transmute::<*mut c_void, unsafe extern "C" fn(u64, u64)>(function(c"manx_epoch_end")?),
            end_at: transmute::<*mut c_void, unsafe extern "C" fn(u64, u64, f64)>(function(
                c"manx_epoch_end_at",
            )?),
            abandon: transmute::<*mut c_void, unsafe extern "C" fn(u64)>(function(c"manx_epoch_abandon")?),
            window_ns: transmute::<*mut c_void, unsafe extern "C" fn() -> u64>(function(
                c"manx_epoch_window_ns",
            )?),
        })
    }
}

/// The first function of this name that is not our own.
fn function(name: &CStr) -> Option<*mut c_void> {
    [libc::RTLD_DEFAULT, libc::RTLD_NEXT]
        .into_iter()
        // SAFETY: the name ends with a zero; both handles are the C library's own.
        .map(|handle| unsafe { libc::dlsym(handle, name.as_ptr()) })
        .find(|found| !found.is_null() && file_of(*found) != file_of(ours()))
}

/// Where the file that an address belongs to begins in memory; null if it belongs to none.
fn file_of(address: *const c_void) -> *mut c_void {
    let mut about = MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: any address may be asked about, and `about` may be written.
    unsafe {
        libc::dladdr(address, about.as_mut_ptr());
        // All-zero is valid, and says that nothing was found.
        about.assume_init().dli_fbase
    }
}
