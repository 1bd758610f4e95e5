//! Latency targets: how late a piece of work may be, and what follows for the locks that it takes.
pub mod feedback;
pub mod percentile;
pub use feedback::{Feedback, Unit};
pub use percentile::Percentile;
