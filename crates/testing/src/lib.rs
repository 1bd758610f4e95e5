//! What tests of several packages share. Only tests depend on it.

mod certificates;
pub mod etcd;
pub mod future;
mod fuzz;
mod keeper;
mod mount;
pub mod postgres;
pub mod process;
mod proxy;
mod settings;
mod skip;
mod until;

pub use certificates::make_certificates;
pub use fuzz::{fuzz, mutate};
pub use mount::can_mount;
pub use proxy::{Direction, Proxy};
pub use settings::{full, setting};
pub use skip::{SKIPS, skip};
pub use until::{LONG, Stop, eventually, until};
