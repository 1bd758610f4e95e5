//! Latency targets of the program: epochs that it marks itself, and requests that it does not mark.
//!
//! | file | its part |
//! | --- | --- |
//! | [`epochs`] | `manx_epoch_start` and `manx_epoch_end`: windows for the program's locks; targets that `--slo` gives to epochs by their ids |
//! | [`requests`] | a request: from a read from a socket to the next write to it |
//! | [`statistics`] | counts both in the live file |
//! | [`descriptors`] | which descriptors are sockets |
//! | `hooks` | what libmanx_requests.so tells of them |
//!
//! The C library's functions that read and write are wrapped in a library of their own,
//! `crates/preload-requests`, which is preloaded only if there is a target for requests. A program
//! that has none pays nothing.

pub mod descriptors;
pub mod epochs;
#[cfg(not(test))]
pub mod hooks;
pub mod requests;
pub mod statistics;

use preload_abi::slo::Slos;

/// Takes over the targets of the options.
pub fn set(slos: Slos<'_>) {
    epochs::set(slos);
    requests::set(slos.requests());
}
