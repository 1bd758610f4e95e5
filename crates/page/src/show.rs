//! What a page shows of each kind of result, and how figures are written there.

pub(crate) mod bench;
pub(crate) mod compare;
pub(crate) mod curves;
pub(crate) mod doctor;
pub(crate) mod pairs;
pub(crate) mod profile;
pub(crate) mod stats;
pub(crate) mod words;
