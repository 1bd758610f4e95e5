//! What the launcher (`manx run`, `manx stats`) and the preload library say to each other.
//!
//! Three things cross the line between the two, and each is defined once, here, so that neither can
//! drift: the [`options`] string in the environment, the [`live`] statistics file that the library maps
//! and the launcher reads, and the version symbol that the launcher looks for in the library's ELF file
//! before it trusts it. No allocation and no system call happens in this crate, because the library
//! uses it inside programs that are not ours.

#![cfg_attr(not(test), no_std)]

pub mod live;
pub mod options;
pub mod render;

/// The library exports a symbol of this name. It changes whenever [`options`] or [`live`] change in a
/// way that an older launcher or library would misread.
pub const VERSION_SYMBOL: &str = "manx_preload_abi_1";

/// The environment variable that carries [`options::Options`].
pub const OPTIONS_VARIABLE: &str = "MANX_OPTIONS";

/// `MANX=off` in the environment makes the library pass everything through untouched.
pub const SWITCH_VARIABLE: &str = "MANX";

/// The file name of the preload library.
pub const LIBRARY_NAME: &str = "libmanx_preload.so";
