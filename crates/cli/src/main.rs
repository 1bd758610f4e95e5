//! The entry point of `manx`; everything else is in the library, where man pages and tests reach it.
//!
//! The C `main`, not Rust's: Rust's runtime ignores SIGPIPE and opens the standard descriptors that are
//! closed before `main` starts, and a program that `manx run` becomes would inherit both.

#![no_main]

/// Called by the C library. `std::env::args_os` does not need its arguments here.
#[unsafe(no_mangle)]
pub extern "C" fn main() -> i32 {
    cli::main()
}
