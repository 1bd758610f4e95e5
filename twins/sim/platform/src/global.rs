//! Statics of the program that is run.

use crate::simulation;
use std::any::Any;

/// A static of each process, which begins anew with each run; [`crate::global!`] makes it.
#[derive(Debug)]
pub struct Global<T: 'static> {
    initial: fn() -> T,
    // A type without a size would share its address with another one.
    _place: u8,
}

impl<T: 'static> Global<T> {
    /// A static that begins as what this function returns.
    pub const fn new(initial: fn() -> T) -> Global<T> {
        Global { initial, _place: 0 }
    }
}

impl<T: Any + Send + Sync> std::ops::Deref for Global<T> {
    type Target = T;

    fn deref(&self) -> &T {
        simulation::global(core::ptr::from_ref(self).addr(), self.initial)
    }
}

/// What `global!` of the twins is made of.
#[doc(hidden)]
#[macro_export]
macro_rules! simulated_static {
    ($(#[$attribute:meta])* static ref $name:ident: $type:ty = $value:expr;) => {
        $(#[$attribute])* static $name: $crate::global::Global<$type> = $crate::global::Global::new(|| $value);
    };
}
