//! What tests of several packages share. Only tests depend on it.

pub mod etcd;
pub mod future;
mod fuzz;
mod keeper;
pub mod postgres;
pub mod process;
pub mod proxy;
mod settings;
mod skip;
mod until;

pub use fuzz::{fuzz, mutate};
pub use settings::{full, setting};
pub use skip::{SKIPS, skip};
pub use until::{LONG, Stop, eventually, until};
