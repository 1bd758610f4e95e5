//! Peers, side by side with ours.
//!
//! A subject has two parts: a list of competitors, each used as its own documentation shows it
//! ([`waiting`], [`locks::competitor`]), and an experiment that treats all alike and runs them
//! interleaved ([`handover`], [`locks`]). The binary prints the tables.

pub mod handover;
pub mod locks;
pub mod waiting;
