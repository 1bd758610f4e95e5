//! What the environment tells a test.

/// Whether tests take the time they want (`MANX_FULL`).
pub fn full() -> bool {
    std::env::var_os("MANX_FULL").is_some()
}

/// A number from the environment, such as a seed.
///
/// # Panics
/// If the variable is no number.
pub fn setting(name: &str, otherwise: u64) -> u64 {
    std::env::var(name)
        .map_or(otherwise, |text| text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")))
}
