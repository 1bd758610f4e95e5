//! Latency targets of the program: epochs that it marks itself, and requests that nobody marked.
//!
//! | file | its part |
//! | --- | --- |
//! | [`epochs`] | `manx_epoch_start` and `manx_epoch_end`: windows for the program's locks |
//! | [`overrides`] | targets that `--slo` gives to epochs by their ids |
//! | [`requests`] | a request: from a read from a socket to the next write to it |
//! | [`descriptors`] | which descriptors are sockets |
//! | `calls` | the C library's functions that read and write |
//!
//! A program that never calls us and has no target for requests pays a load and a branch for each read and write.

#[cfg(not(test))]
pub mod calls;
pub mod descriptors;
pub mod epochs;
pub mod overrides;
pub mod requests;

use preload_abi::slo::Slos;

/// Takes over the targets of the options.
pub fn set(slos: Slos<'_>) {
    overrides::set(slos);
    requests::set(slos.requests());
}
