//! Locks side by side: the competitors, what a run does, and how runs are interleaved.
//!
//! Each run is a process of its own, so that no lock meets what another one left behind. It prints
//! one line of JSON, an [`round::Outcome`]. The parent runs every competitor once in a round, in
//! turn, then begins the next round.

pub mod command;
pub mod competitor;
pub mod placement;
pub mod round;
pub mod run;
pub mod verdict;
