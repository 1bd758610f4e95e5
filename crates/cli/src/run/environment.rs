//! Composes what the program's environment gets: `LD_PRELOAD`, `MANX_OPTIONS` and `MANX_CORES`.
//!
//! Manx's library goes behind the libraries that are preloaded already. What interposes a function passes
//! it on to the next library in order, while ours goes straight to the C library: in front, it would cut
//! the others off.
//!
//! A sanitizer's runtime refuses to work if anything is preloaded before it: if the program needs one as a
//! library, it is preloaded too, as the very first.

use super::program::Program;
use super::settings::Settings;
use crate::failure::{BROKEN, Failure};
use preload_abi::{CORES_VARIABLE, LIBRARY_NAME, OPTIONS_VARIABLE};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;

/// The dynamic loader's variable.
pub const PRELOAD_VARIABLE: &str = "LD_PRELOAD";

/// The variables to set, and their values.
///
/// # Errors
/// If the library's path cannot stand in `LD_PRELOAD`.
pub fn compose(
    settings: &Settings,
    program: &Program,
    library: &Path,
) -> Result<Vec<(&'static str, OsString)>, Failure> {
    if library.as_os_str().as_bytes().iter().any(|b| b" :".contains(b)) {
        return Err(Failure::new(
            BROKEN,
            format!("{}: {PRELOAD_VARIABLE} cannot carry a path with a space or a colon", library.display()),
            "install Manx at another path, or set MANX_PRELOAD to a copy or a link at another path",
        ));
    }
    let existing = std::env::var_os(PRELOAD_VARIABLE).unwrap_or_default();
    let needed = program.elf.iter().flat_map(|elf| &elf.needed);
    let sanitizer = needed.map(String::as_str).find(|name| is_sanitizer(name));
    let mut variables = vec![
        (PRELOAD_VARIABLE, preload(&existing, sanitizer, library)),
        (OPTIONS_VARIABLE, settings.to_options(std::process::id()).into()),
    ];
    variables.extend(settings.cores.as_ref().map(|cores| (CORES_VARIABLE, cores.into())));
    Ok(variables)
}

/// `existing` with `library` behind it, no other library of Manx's, and `sanitizer` in front.
fn preload(existing: &OsStr, sanitizer: Option<&str>, library: &Path) -> OsString {
    let file_name = |entry: &[u8]| Path::new(OsStr::from_bytes(entry)).file_name().map(OsStr::to_owned);
    let dropped = [Some(LIBRARY_NAME), sanitizer];
    let kept = existing.as_bytes().split(|b| b" :".contains(b)).filter(|entry| {
        let name = file_name(entry);
        !entry.is_empty()
            && !dropped.iter().any(|d| d.is_some_and(|d| name.as_deref() == Some(OsStr::new(d))))
    });
    let entries: Vec<&[u8]> = sanitizer
        .map(str::as_bytes)
        .into_iter()
        .chain(kept)
        .chain([library.as_os_str().as_bytes()])
        .collect();
    OsString::from_vec(entries.join(&b':'))
}

/// Whether a library is the runtime of a sanitizer, as GCC or Clang name them.
fn is_sanitizer(name: &str) -> bool {
    let of_gcc = ["libasan.so", "libhwasan.so", "liblsan.so", "libtsan.so"];
    let of_clang = ["libclang_rt.asan", "libclang_rt.hwasan", "libclang_rt.lsan", "libclang_rt.tsan"];
    of_gcc.iter().chain(&of_clang).any(|start| name.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_goes_behind_what_is_preloaded_already_and_stands_once() {
        let library = Path::new("/lib/libmanx_preload.so");
        let with = |existing: &str| preload(OsStr::new(existing), None, library);
        assert_eq!(with(""), "/lib/libmanx_preload.so");
        assert_eq!(with("libasan.so.8 /a.so"), "libasan.so.8:/a.so:/lib/libmanx_preload.so");
        assert_eq!(with("/old/libmanx_preload.so:/a.so"), "/a.so:/lib/libmanx_preload.so");
        assert_eq!(with(":/lib/libmanx_preload.so: "), "/lib/libmanx_preload.so");
    }

    #[test]
    fn a_sanitizer_comes_first_and_stands_once() {
        let with = |existing: &str| preload(OsStr::new(existing), Some("libasan.so.8"), Path::new("/m.so"));
        assert_eq!(with(""), "libasan.so.8:/m.so");
        assert_eq!(with("/a.so:/usr/lib/libasan.so.8"), "libasan.so.8:/a.so:/m.so");
        assert!(is_sanitizer("libclang_rt.asan-x86_64.so") && is_sanitizer("libtsan.so.2"));
        assert!(!is_sanitizer("libasan_helper.so") && !is_sanitizer("libubsan.so.1"));
    }
}
