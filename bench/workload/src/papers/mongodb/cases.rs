//! The names of cases and versions, by which tables, targets and pictures find them.

/// The busy wait, as it is.
pub(super) const ORIGINAL: &str = "original";
/// The paper's repair in its source: spin, yield, sleep.
pub(super) const REPAIRED: &str = "repaired";
/// The original under `manx run`.
pub(super) const GUARDED: &str = "manx run";
/// The three on all CPUs and without a boost.
pub(super) const UNRESTRICTED: [&str; 3] =
    ["original, unrestricted", "repaired, unrestricted", "manx run, unrestricted"];

/// The name of the headline's case.
pub(super) fn headline_case(clients: usize) -> String {
    format!("{clients} clients, unrestricted, and restricted with a boost in the middle third")
}

/// The name of a case of figure 4.
pub(super) fn boosted_case(clients: usize) -> String {
    format!("{clients} clients, restricted and boosted")
}

/// The name of the case of the repairs.
pub(super) fn repairs_case(clients: usize) -> String {
    format!("{clients} clients, restricted and boosted, each repair")
}
