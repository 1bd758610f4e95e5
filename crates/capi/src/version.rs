//! Which version this is.

use core::ffi::{CStr, c_char};

const VERSION: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
    Ok(version) => version,
    Err(_) => panic!("cargo's version has no zero inside"),
};

/// The version of the library, such as "0.1.0". The text lives for ever.
#[unsafe(no_mangle)]
pub extern "C" fn manx_version() -> *const c_char {
    VERSION.as_ptr()
}
