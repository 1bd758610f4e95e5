//! The entry point of `manx-serve`; everything else is in the library, where man pages and tests
//! reach it. It is the C `main`, not Rust's: see `command::main`.

#![no_main]

/// Called by the C library. `std::env::args_os` does not need its arguments here.
#[unsafe(no_mangle)]
pub extern "C" fn main() -> i32 {
    manx_serve::main()
}
