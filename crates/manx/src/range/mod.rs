//! Locks of ranges of keys: as cheap as a plain lock when nobody is in the way, and in nobody's way who wants others.

pub mod baseline;
mod error;
mod key;
mod raw;
mod span;

pub use error::BadRange;
pub use key::Key;
pub use raw::{Access, RawRangeLock};
pub use span::{Span, Successor};
