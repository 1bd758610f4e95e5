//! The table and the JSON that show a [`Live`](crate::live::Live) file; the library writes them at a
//! normal exit, and `manx stats` at any time, from this one definition.
