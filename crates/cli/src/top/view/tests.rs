//! Screens, as they are.
