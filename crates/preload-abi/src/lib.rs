//! What the launcher (`manx run`, `manx stats`) and the preload library say to each other.
//!
//! Three things cross the line between the two, and each is defined once, here, so that neither can
//! drift: the [`options`] string in the environment, the [`live`] statistics file that the library
//! maps and the launcher reads, and the version symbol that the launcher looks for in the library's
//! ELF file before it trusts it. No allocation and no system call happens in this crate, because
//! the library uses it inside programs that are not ours.

#![cfg_attr(not(test), no_std)]

pub mod cpus;
mod escape;
pub mod filter;
pub mod histogram;
pub mod live;
pub mod options;
pub mod pacer;
pub mod render;
pub mod setting;
pub mod slo;
pub mod words;

/// The version of what launcher and library say to each other: that of the youngest setting that
/// the library obeys, or `LIVE_VERSION`.
pub const VERSION: u32 = {
    let (mut version, mut index) = (LIVE_VERSION, 0);
    while index < options::SETTINGS.len() {
        let since = options::SETTINGS[index].since;
        version = if since > version { since } else { version };
        index += 1;
    }
    version
};

/// The version in which [`live`], or the meaning of a setting, last changed in a way that an older
/// launcher or library would misread.
const LIVE_VERSION: u32 = 7;

/// The library exports a symbol of this name: a `u32` that holds its [`VERSION`].
pub const VERSION_SYMBOL: &str = "manx_preload_abi";

/// The library that sees requests exports a symbol of this name, which holds a
/// [`REQUESTS_VERSION`].
pub const REQUESTS_VERSION_SYMBOL: &str = "manx_requests_abi";

/// The version of what the two libraries say to each other.
pub const REQUESTS_VERSION: u32 = 7;

/// The environment variable that carries [`options::Options`].
pub const OPTIONS_VARIABLE: &str = "MANX_OPTIONS";

/// The environment variable that says which CPUs are fast and which are slow.
pub const CORES_VARIABLE: &str = "MANX_CORES";

/// `MANX=off` in the environment makes the library pass everything through untouched.
pub const SWITCH_VARIABLE: &str = "MANX";

/// The file name of the preload library.
pub const LIBRARY_NAME: &str = "libmanx_preload.so";

/// The file name of the library that finds requests which the program does not mark, and reports
/// them to the preload library. It lies beside that library.
pub const REQUESTS_LIBRARY_NAME: &str = "libmanx_requests.so";

/// A folder in the user's cache folder. The library keeps there what it finds, and the launcher
/// removes old entries.
pub const CACHE_FOLDER: &str = "manx";

/// The beginnings of the entries' names: the first for modules with a build id, the second for
/// modules without one.
pub const CACHE_PREFIXES: [&str; 2] = ["id-", "file-"];

/// Whether the busy waiting of a library of this file name is left alone: that of the C library and
/// the loader is bounded, and the guard would wait inside the calls that it makes itself. Other
/// libraries may have names that begin alike: PyTorch's `libpthreadpool.so`.
///
/// ```
/// assert!(preload_abi::is_left_alone(b"libc.so.6") && preload_abi::is_left_alone(b"ld-linux-x86-64.so.2"));
/// assert!(!preload_abi::is_left_alone(b"libcrypto.so.3"));
/// ```
pub fn is_left_alone(file_name: &[u8]) -> bool {
    const PREFIXES: [&[u8]; 13] = [
        b"ld-linux",
        b"ld-2.",
        b"libc.so",
        b"libc-2.",
        b"libpthread.so",
        b"libpthread-2.",
        b"librt.so",
        b"librt-2.",
        b"libdl.so",
        b"libdl-2.",
        b"libm.so",
        b"libm-2.",
        b"linux-vdso",
    ];
    PREFIXES.iter().any(|prefix| file_name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::is_left_alone;

    #[test]
    fn libraries_whose_names_only_begin_as_the_c_librarys_are_not_left_alone() {
        for name in ["libpthread.so.0", "libpthread-2.31.so", "libdl.so.2", "libdl-2.31.so", "librt.so.1"] {
            assert!(is_left_alone(name.as_bytes()), "{name}");
        }
        for name in ["libpthreadpool.so", "libpthreadpool.so.0", "libdlib.so.19", "libmkl_rt.so.2"] {
            assert!(!is_left_alone(name.as_bytes()), "{name}");
        }
    }
}
