//! Constants of algorithms that were chosen by measuring. On a simulated machine a bench can vary
//! them; here and on the other twins they are what the source says.

/// A constant with a name.
///
/// ```
/// use platform::constant::Constant;
///
/// const PATIENCE_NS: Constant = Constant::new("PATIENCE_NS", 5_000);
/// assert_eq!((PATIENCE_NS.get(), PATIENCE_NS.name()), (5_000, "PATIENCE_NS"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Constant {
    name: &'static str,
    value: u64,
}

impl Constant {
    /// A constant of this name.
    pub const fn new(name: &'static str, value: u64) -> Constant {
        Constant { name, value }
    }

    /// Its value.
    #[inline(always)]
    pub const fn get(&self) -> u64 {
        self.value
    }

    /// Its name.
    pub const fn name(&self) -> &'static str {
        self.name
    }
}
