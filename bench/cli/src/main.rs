//! The entry point of `manx-bench`; everything else is in the library, where man pages and tests
//! reach it. It is the C `main`, not Rust's: see `command::main`.

#![no_main]

/// Simulated programs get memory at the same places in each run. All others get the system's, for
/// the price of a look at a variable of the thread.
#[global_allocator]
static ALLOCATOR: platform_sim::memory::Allocator = platform_sim::memory::Allocator;

/// Called by the C library. `std::env::args_os` does not need its arguments here.
#[unsafe(no_mangle)]
pub extern "C" fn main() -> i32 {
    manx_bench::main()
}
