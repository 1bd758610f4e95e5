//! What several tests have in common.

pub mod range;
