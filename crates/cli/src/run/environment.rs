//! Composes what the program's environment gets: `LD_PRELOAD`, `MANX_OPTIONS` and `MANX_CORES`.
//!
//! Manx's libraries go behind the libraries that are preloaded already: what another library
//! interposes, it sees first. The one that sees requests is there only if there is a target for
//! them.
//!
//! A sanitizer's runtime refuses to work if anything is preloaded before it: if the program needs
//! one as a library, it is preloaded too, as the very first.

use super::forms::decoded;
use super::program::Program;
use command::failure::{BROKEN, Failure};
use preload_abi::options::Options;
use preload_abi::{CORES_VARIABLE, LIBRARY_NAME, OPTIONS_VARIABLE, REQUESTS_LIBRARY_NAME};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

/// The dynamic loader's variable.
pub const PRELOAD_VARIABLE: &str = "LD_PRELOAD";

/// The variables to set, and their values.
///
/// # Errors
/// If a library's path cannot stand in `LD_PRELOAD`.
pub fn compose(
    options: &Options<'_>,
    program: &Program,
    libraries: &[PathBuf],
) -> Result<Vec<(&'static str, OsString)>, Failure> {
    let has_separator = |library: &&PathBuf| library.as_os_str().as_bytes().iter().any(|b| b" :".contains(b));
    if let Some(library) = libraries.iter().find(has_separator) {
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
        (PRELOAD_VARIABLE, preload(&existing, sanitizer, libraries)),
        (OPTIONS_VARIABLE, options.to_string().into()),
    ];
    let cores = decoded(options.cores.as_bytes()).filter(|cores| !cores.is_empty());
    variables.extend(cores.map(|cores| (CORES_VARIABLE, cores)));
    Ok(variables)
}

/// `existing` with `libraries` behind it, no others of Manx's, and `sanitizer` in front.
fn preload(existing: &OsStr, sanitizer: Option<&str>, libraries: &[PathBuf]) -> OsString {
    let file_name = |entry: &[u8]| Path::new(OsStr::from_bytes(entry)).file_name().map(OsStr::to_owned);
    let dropped = [Some(LIBRARY_NAME), Some(REQUESTS_LIBRARY_NAME), sanitizer];
    let kept = existing.as_bytes().split(|b| b" :".contains(b)).filter(|entry| {
        let name = file_name(entry);
        !entry.is_empty()
            && !dropped.iter().any(|d| d.is_some_and(|d| name.as_deref() == Some(OsStr::new(d))))
    });
    let entries: Vec<&[u8]> = sanitizer
        .map(str::as_bytes)
        .into_iter()
        .chain(kept)
        .chain(libraries.iter().map(|library| library.as_os_str().as_bytes()))
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
        let library = [PathBuf::from("/lib/libmanx_preload.so")];
        let with = |existing: &str| preload(OsStr::new(existing), None, &library);
        assert_eq!(with(""), "/lib/libmanx_preload.so");
        assert_eq!(with("libasan.so.8 /a.so"), "libasan.so.8:/a.so:/lib/libmanx_preload.so");
        assert_eq!(with("/old/libmanx_preload.so:/a.so"), "/a.so:/lib/libmanx_preload.so");
        assert_eq!(with(":/lib/libmanx_preload.so: "), "/lib/libmanx_preload.so");
        assert_eq!(with("/old/libmanx_preload.so:/old/libmanx_requests.so"), "/lib/libmanx_preload.so");
        let both = [library[0].clone(), PathBuf::from("/lib/libmanx_requests.so")];
        let with_both = preload(OsStr::new("/lib/libmanx_requests.so:/a.so"), None, &both);
        assert_eq!(with_both, "/a.so:/lib/libmanx_preload.so:/lib/libmanx_requests.so");
    }

    #[test]
    fn a_sanitizer_comes_first_and_stands_once() {
        let with = |existing: &str| preload(OsStr::new(existing), Some("libasan.so.8"), &["/m.so".into()]);
        assert_eq!(with(""), "libasan.so.8:/m.so");
        assert_eq!(with("/a.so:/usr/lib/libasan.so.8"), "libasan.so.8:/a.so:/m.so");
        assert!(is_sanitizer("libclang_rt.asan-x86_64.so") && is_sanitizer("libtsan.so.2"));
        assert!(!is_sanitizer("libasan_helper.so") && !is_sanitizer("libubsan.so.1"));
    }
}
