//! Manx's pool, as it comes; and under the control of the paper's friendlypool, which is the same
//! pool steered by the paper's formula.

use super::{Executor, no_thread};
use crate::pool::spec::Shape;
use manx::pool::{Control, FriendlyPool};

/// Peers' queues have no bound; an overload of half a minute fits into this one.
const QUEUE_BOUND: usize = 1 << 18;

pub(super) fn pressure(shape: &Shape) -> Result<FriendlyPool, String> {
    build(shape, Control::default())
}

pub(super) fn share(shape: &Shape) -> Result<FriendlyPool, String> {
    build(shape, Control::Share { overcommit: shape.overcommit, tick: shape.tick })
}

fn build(shape: &Shape, control: Control) -> Result<FriendlyPool, String> {
    let builder = FriendlyPool::builder().name("manx").workers_max(shape.threads).queue_bound(QUEUE_BOUND);
    builder.control(control).build().map_err(no_thread)
}

impl Executor for FriendlyPool {
    fn execute(&self, job: impl FnOnce() + Send + 'static) {
        // The same name, the pool's own. It waits for room, and is refused only by a pool that
        // shuts down.
        let taken = FriendlyPool::execute(self, job);
        assert!(taken.is_ok(), "a job was refused");
    }
}
