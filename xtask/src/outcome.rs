//! How a subcommand ends.

/// What a subcommand returns: nothing, or a sentence that says what failed and what to do.
pub type Result<T = ()> = std::result::Result<T, String>;
