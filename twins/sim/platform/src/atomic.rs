//! Atomic integers, flags and pointers: the value is the machine's, and each access is a step that
//! takes as long as the simulated machine needs for it.
//!
//! All threads are on one thread of the operating system, and steps are made in the order of time.
//! So each access is sequentially consistent, whatever it asks for; what it asks for decides how
//! long it takes.

use crate::lines::Access;
use crate::simulation;
pub use core::sync::atomic::Ordering;

/// Makes an access a step, if a program is run.
#[inline]
pub(crate) fn access(address: usize, access: Access) {
    if simulation::is_inside() {
        simulation::make(|kernel| kernel.access(address, access));
    }
}

/// A fence: it waits for the stores before it, if it orders them before loads.
pub fn fence(order: Ordering) {
    if simulation::is_inside() && order == Ordering::SeqCst {
        simulation::make(crate::kernel::Kernel::fence);
    }
}

fn of_store(order: Ordering) -> Access {
    if order == Ordering::SeqCst { Access::Change } else { Access::Store }
}

/// What all atomics have.
macro_rules! atomic {
    ($name:ident, $value:ty $(, $type:ident)?) => {
        /// As the standard library's.
        #[derive(Default)]
        #[repr(transparent)]
        pub struct $name$(<$type>)?(core::sync::atomic::$name$(<$type>)?);

        impl$(<$type>)? core::fmt::Debug for $name$(<$type>)? {
            fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                self.0.fmt(formatter)
            }
        }

        impl$(<$type>)? $name$(<$type>)? {
            /// As the standard library's.
            pub const fn new(value: $value) -> Self {
                $name(core::sync::atomic::$name::new(value))
            }

            /// The value, which takes no time.
            #[allow(dead_code, reason = "the kernel looks at words only")]
            pub(crate) fn value(&self) -> $value {
                self.0.load(Ordering::SeqCst)
            }

            fn step(&self, kind: Access) {
                access(core::ptr::from_ref(self).addr(), kind);
            }

            /// As the standard library's.
            pub fn load(&self, _order: Ordering) -> $value {
                self.step(Access::Load);
                self.0.load(Ordering::SeqCst)
            }

            /// As the standard library's.
            pub fn store(&self, value: $value, order: Ordering) {
                self.step(of_store(order));
                self.0.store(value, Ordering::SeqCst);
            }

            /// As the standard library's.
            pub fn swap(&self, value: $value, _order: Ordering) -> $value {
                self.step(Access::Change);
                self.0.swap(value, Ordering::SeqCst)
            }

            /// As the standard library's.
            ///
            /// # Errors
            /// The value, if it is another one.
            pub fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                _success: Ordering,
                _failure: Ordering,
            ) -> Result<$value, $value> {
                self.step(Access::Change);
                self.0.compare_exchange(current, new, Ordering::SeqCst, Ordering::SeqCst)
            }

            /// As the standard library's; it fails for no other reason than a different value.
            ///
            /// # Errors
            /// The value, if it is another one.
            pub fn compare_exchange_weak(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.compare_exchange(current, new, success, failure)
            }

            /// As the standard library's.
            ///
            /// # Errors
            /// The value, if `update` returns none.
            pub fn fetch_update(
                &self,
                success: Ordering,
                failure: Ordering,
                mut update: impl FnMut($value) -> Option<$value>,
            ) -> Result<$value, $value> {
                let mut before = self.load(failure);
                while let Some(next) = update(before) {
                    match self.compare_exchange(before, next, success, failure) {
                        Ok(value) => return Ok(value),
                        Err(value) => before = value,
                    }
                }
                Err(before)
            }

            /// As the standard library's.
            pub fn get_mut(&mut self) -> &mut $value {
                self.0.get_mut()
            }

            /// As the standard library's.
            pub fn into_inner(self) -> $value {
                self.0.into_inner()
            }
        }
    };
}

/// Changes of one step that some atomics have.
macro_rules! changes {
    ($name:ident, $value:ty: $($change:ident)*) => {
        impl $name {
            $(
                /// As the standard library's.
                pub fn $change(&self, value: $value, _order: Ordering) -> $value {
                    self.step(Access::Change);
                    self.0.$change(value, Ordering::SeqCst)
                }
            )*
        }
    };
}

macro_rules! integers {
    ($($name:ident, $value:ty;)*) => {
        $(
            atomic!($name, $value);
            changes!($name, $value: fetch_add fetch_sub fetch_and fetch_or fetch_xor fetch_max fetch_min);
        )*
    };
}

integers! {
    AtomicI32, i32;
    AtomicI64, i64;
    AtomicIsize, isize;
    AtomicU8, u8;
    AtomicU16, u16;
    AtomicU32, u32;
    AtomicU64, u64;
    AtomicUsize, usize;
}
atomic!(AtomicBool, bool);
changes!(AtomicBool, bool: fetch_and fetch_or fetch_xor);
atomic!(AtomicPtr, *mut T, T);
