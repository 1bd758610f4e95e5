//! The thesis' skip list under randomized schedules: more threads and more ranges than loom can
//! try.
//!
//! Each key has a cell that reports two threads that use it at once; so does the range of each
//! node, which is written when the node is lent again or freed. Nodes are used again as soon as the
//! epochs allow. In the end no range is held, and few nodes are left. Shuttle models sequentially
//! consistent memory only; the orderings are loom's business
//! (`twins/loom/baselines/tests/range_skip_list.rs`).

// The shared tests call the twin of manx by its own name.
extern crate manx as manx_shuttle;

#[path = "../../manx/tests/common/mod.rs"]
mod common;

use baselines_shuttle::range::SkipList;
use common::together;
use manx::range::Span;
use platform::cell::UnsafeCell;
use platform::explore::check;
use platform::site;
use shuttle::rand::{Rng, thread_rng};
use shuttle::sync::Arc;

const THREADS: u32 = 4;
const ROUNDS: u32 = 6;
const KEYS: u64 = 6;

struct Guarded {
    lock: SkipList<u64>,
    keys: [UnsafeCell<u32>; KEYS as usize],
}

// SAFETY: keys are used by their holders; a cell reports it if that is not enough.
unsafe impl Sync for Guarded {}
// SAFETY: as above.
unsafe impl Send for Guarded {}

fn draw(below: u64) -> u64 {
    thread_rng().gen_range(0..below)
}

impl Guarded {
    /// Takes ranges, sometimes two at once, and writes their keys.
    fn visit(&self) {
        let mut held = Vec::new();
        for _ in 0..ROUNDS {
            let start = draw(KEYS);
            let wanted = Span::new(start, start + 1 + draw(KEYS - start)).expect("not empty");
            if let Some(got) = self.lock.try_acquire(&wanted) {
                for key in &self.keys[start as usize..*wanted.end().expect("bounded") as usize] {
                    // SAFETY: held.
                    key.with_mut(|number| unsafe { *number += 1 });
                }
                held.push(got);
            }
            if held.len() > 1 || draw(2) == 0 {
                held.drain(..).for_each(|held| self.lock.release(held).expect("held"));
            }
        }
        held.into_iter().for_each(|held| self.lock.release(held).expect("held"));
    }
}

#[test]
fn nodes_are_used_again_only_when_nobody_walks_over_them() {
    check(site!(), || {
        let lock = SkipList::with_height(1 + draw(2) as usize).expect("a height that there is");
        let guarded = Arc::new(Guarded { lock, keys: std::array::from_fn(|_| UnsafeCell::new(0)) });
        together(THREADS, &guarded, |guarded, _| guarded.visit());
        let all = guarded.lock.try_acquire(&Span::all()).expect("nobody holds a key");
        guarded.lock.release(all).expect("held");
        assert!(guarded.lock.allocated() <= 40, "nodes come back: {:?}", guarded.lock);
    });
}
