//! The range locks that the default one is compared with, each as its authors describe it and made correct.
//!
//! All of them are [`RawRangeLock`](super::RawRangeLock)s over integers.

platform::os_only! {
    mod map;

    pub use map::{Map, MapHeld};
}
