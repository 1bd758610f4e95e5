//! What several tests have in common.

pub mod hog;
pub mod range;
