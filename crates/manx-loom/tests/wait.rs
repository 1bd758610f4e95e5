//! The waiting room under loom.
