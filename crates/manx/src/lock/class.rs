//! The class of the core that a thread runs on: what a lock asks that treats big and little cores differently.
//!
//! A thread says of itself what it is, once or whenever it has moved; until it does, its core is big. Nothing
//! here looks at the machine.

use std::cell::Cell;

/// How fast a core is, compared with the others of its machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Class {
    /// As fast as they get.
    #[default]
    Big,
    /// Slower.
    Little,
}

platform::thread_local! {
    static CLASS: Cell<Class> = Cell::new(Class::Big);
}

/// Says which class of core the calling thread runs on.
///
/// ```
/// use manx::lock::{Class, class_of_this_thread, set_class_of_this_thread};
///
/// assert_eq!(class_of_this_thread(), Class::Big);
/// set_class_of_this_thread(Class::Little);
/// assert_eq!(class_of_this_thread(), Class::Little);
/// # set_class_of_this_thread(Class::Big);
/// ```
pub fn set_class_of_this_thread(class: Class) {
    // A thread whose variables are gone is about to end, and a class that it cannot keep is forgotten.
    let _ = CLASS.try_with(|it| it.set(class));
}

/// The class of core that the calling thread runs on, as it said.
#[inline]
pub fn class_of_this_thread() -> Class {
    CLASS.try_with(Cell::get).unwrap_or_default()
}
