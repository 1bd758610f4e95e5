//! Composes what the program's environment gets: `LD_PRELOAD` and `MANX_OPTIONS`.
//!
//! Manx's library goes behind the libraries that are preloaded already. What interposes a function passes
//! it on to the next library in order, while ours goes straight to the C library: in front, it would cut
//! the others off. AddressSanitizer's runtime, which must be the very first, stays first this way too.

use super::settings::Settings;
use crate::failure::{BROKEN, Failure};
use preload_abi::{LIBRARY_NAME, OPTIONS_VARIABLE};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;

/// The dynamic loader's variable.
pub const PRELOAD_VARIABLE: &str = "LD_PRELOAD";

/// The variables to set, and their values.
///
/// # Errors
/// If the library's path cannot stand in `LD_PRELOAD`.
pub fn compose(settings: &Settings, library: &Path) -> Result<Vec<(&'static str, OsString)>, Failure> {
    if library.as_os_str().as_bytes().iter().any(|b| b" :".contains(b)) {
        return Err(Failure::new(
            BROKEN,
            format!("{}: {PRELOAD_VARIABLE} cannot carry a path with a space or a colon", library.display()),
            "install Manx at another path, or set MANX_PRELOAD to a copy or a link at another path",
        ));
    }
    let existing = std::env::var_os(PRELOAD_VARIABLE).unwrap_or_default();
    Ok(vec![
        (PRELOAD_VARIABLE, preload(&existing, library)),
        (OPTIONS_VARIABLE, settings.to_options(std::process::id()).into()),
    ])
}

/// `existing` with `library` behind it, and no other library of Manx's.
fn preload(existing: &OsStr, library: &Path) -> OsString {
    let ours = |entry: &[u8]| Path::new(OsStr::from_bytes(entry)).file_name() == Some(LIBRARY_NAME.as_ref());
    let mut entries: Vec<&[u8]> =
        existing.as_bytes().split(|b| b" :".contains(b)).filter(|e| !e.is_empty() && !ours(e)).collect();
    entries.push(library.as_os_str().as_bytes());
    OsString::from_vec(entries.join(&b':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_goes_behind_what_is_preloaded_already_and_stands_once() {
        let library = Path::new("/lib/libmanx_preload.so");
        let with = |existing: &str| preload(OsStr::new(existing), library);
        assert_eq!(with(""), "/lib/libmanx_preload.so");
        assert_eq!(with("libasan.so.8 /a.so"), "libasan.so.8:/a.so:/lib/libmanx_preload.so");
        assert_eq!(with("/old/libmanx_preload.so:/a.so"), "/a.so:/lib/libmanx_preload.so");
        assert_eq!(with(":/lib/libmanx_preload.so: "), "/lib/libmanx_preload.so");
    }
}
