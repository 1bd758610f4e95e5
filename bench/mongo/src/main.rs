//! The entry point of `manx-mongod`. It is the C `main`, not Rust's: see `command::main`.

#![no_main]

/// Called by the C library. `std::env::args_os` does not need its arguments here.
#[unsafe(no_mangle)]
pub extern "C" fn main() -> i32 {
    mongo::main()
}
