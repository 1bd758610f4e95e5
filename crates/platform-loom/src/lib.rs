//! The platform interface on loom, for model checking.
