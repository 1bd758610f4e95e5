//! How the driver draws records (`engines/ycsb.h`), and how small a value may be.

/// The shortest value, in bytes: both of its ends tell where it comes from (`LEDGER_VALUE_MIN` in
/// `engines/ledger.h`).
pub const VALUE_MIN: usize = 48;

contention::named! {
    /// How records are drawn.
    pub enum Kind {
        /// Each as often as any other.
        Uniform = "uniform",
        /// Few of them often.
        Zipfian = "zipfian",
        /// The records that were inserted last.
        Latest = "latest",
    }
}
