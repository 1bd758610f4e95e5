//! Connections that wait for room for a large command (`room.rs`), in the order in which they came.
//!
//! One thread sees to them: the one that brings the first, until none is left.
//!
//! Invariant: as long as a connection waits, a thread has been told to see to the crowd
//! ([`Crowd::join`]) and has not been told that it is empty ([`Crowd::admit`]).

use super::served::Served;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// See [the module](self).
#[derive(Default)]
pub(super) struct Crowd(Mutex<State>);

#[derive(Default)]
struct State {
    waiting: VecDeque<Arc<Served>>,
    /// A thread sees to them.
    is_seen_to: bool,
}

impl Crowd {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This connection waits from now on. Returns whether the caller has to find a thread that
    /// sees to the crowd.
    pub(super) fn join(&self, served: Arc<Served>) -> bool {
        let mut state = self.state();
        state.waiting.push_back(served);
        !std::mem::replace(&mut state.is_seen_to, true)
    }

    /// The connections at the front for which there is room, which the caller has to serve. None:
    /// the crowd is empty, and the caller no longer sees to it.
    pub(super) fn admit(&self, has_room: impl Fn(&Served) -> bool) -> Option<Vec<Arc<Served>>> {
        let mut state = self.state();
        if state.waiting.is_empty() {
            state.is_seen_to = false;
            return None;
        }
        let count = state.waiting.iter().take_while(|served| has_room(served)).count();
        Some(state.waiting.drain(..count).collect())
    }
}
