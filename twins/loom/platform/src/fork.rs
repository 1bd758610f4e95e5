//! Whether the modelled process is the child of a fork: if the model says so.

use crate::atomic::{AtomicBool, Ordering};

crate::global! {
    static IS_CHILD: AtomicBool = AtomicBool::new(false);
}

/// Whether this execution has called [`become_child`].
pub fn is_child() -> bool {
    IS_CHILD.load(Ordering::Relaxed)
}

/// From now on the execution is that of a process which was forked.
pub fn become_child() {
    IS_CHILD.store(true, Ordering::Relaxed);
}
