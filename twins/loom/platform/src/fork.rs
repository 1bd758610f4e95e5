//! Whether the modelled process is the child of a fork: if the model says so.

use crate::atomic::{AtomicBool, Ordering};

crate::global! {
    static IS_CHILD: AtomicBool = AtomicBool::new(false);
}

/// Whether this execution has called [`become_child`].
pub fn is_child() -> bool {
    IS_CHILD.load(Ordering::Relaxed)
}

/// A number that is another one in a child.
pub fn generation() -> u32 {
    1 + u32::from(is_child())
}

/// Has forks counted, which the model does by itself.
pub fn watch() {}

/// From now on the execution is that of a process which was forked.
pub fn become_child() {
    IS_CHILD.store(true, Ordering::Relaxed);
}
