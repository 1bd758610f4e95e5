//! What all parts need to know, and the versions that they compare.

use crate::engine::{AS_IS, Compiler, Engines, GUARDED};
use std::path::PathBuf;

/// The versions that are compared, in this order.
pub const VARIANTS: [&str; 2] = [AS_IS, GUARDED];

/// What the experiment needs to know.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The engine
    pub engines: Engines,
    /// What compiles the other programs
    pub compiler: Compiler,
    /// `manx` itself
    pub manx: PathBuf,
    /// A smoke check
    pub quick: bool,
    /// The CPUs to run on, as a list
    pub cpus: String,
}
