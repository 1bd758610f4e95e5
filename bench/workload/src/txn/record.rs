//! Values tell where they come from, at both ends (`engines/ledger.h`).

/// Both ends of a value: `LEDGER_VALUE_MIN`.
pub const VALUE_MIN: usize = 48;
