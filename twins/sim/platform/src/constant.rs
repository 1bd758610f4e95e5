//! Constants of algorithms, which a bench can vary for a run.

use std::cell::RefCell;

thread_local! {
    static VARIED: RefCell<Vec<(String, u64)>> = const { RefCell::new(Vec::new()) };
}

/// A constant with a name.
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

    /// Its value: what the source says, unless it is varied.
    pub fn get(&self) -> u64 {
        VARIED.with_borrow(|varied| {
            let own = varied.iter().find(|(name, _)| name == self.name);
            own.map_or(self.value, |(_, value)| *value)
        })
    }

    /// Its name.
    pub const fn name(&self) -> &'static str {
        self.name
    }
}

/// Runs `what`, in which the constants of these names have these values.
///
/// ```
/// use platform_sim::constant::{Constant, with};
///
/// const PATIENCE_NS: Constant = Constant::new("PATIENCE_NS", 5_000);
/// assert_eq!(with(&[("PATIENCE_NS".into(), 7)], || PATIENCE_NS.get()), 7);
/// assert_eq!(PATIENCE_NS.get(), 5_000);
/// ```
pub fn with<R>(varied: &[(String, u64)], what: impl FnOnce() -> R) -> R {
    struct Back(Vec<(String, u64)>);

    impl Drop for Back {
        fn drop(&mut self) {
            VARIED.set(std::mem::take(&mut self.0));
        }
    }

    let _back = Back(VARIED.replace(varied.to_vec()));
    what()
}
