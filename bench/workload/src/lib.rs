//! What is run and measured: engines, the inversion experiment, what the guard costs, wake-up
//! delays.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`engine`] | ordinary C programs, compiled on demand, and what they print |
//! | [`harness`] | variants in turn, round after round; what was measured is kept |
//! | [`child`], [`interrupt`] | a measured program in a session of its own, and Ctrl-C |
//! | `running`, `closed_loop` | a server while it runs; many connections of one thread to it |
//! | `group` | control groups, with a quota or a weight, for measured processes
//! | `turns` | programs one after the other, each in all of its versions |
//! | [`inversion`] | the experiment of Andreoli and Cucinotta, figures 2 to 4 |
//! | [`papers`] | the papers' own experiments, with their numbers beside |
//! | [`engines`] | databases as they are, under `manx run`, and with others' lock libraries |
//! | [`asl`] | locks that are told how late an epoch may be, on cores of two speeds |
//! | [`range`] | locks of ranges, side by side |
//! | [`ranges`] | the same with more threads, on a simulated machine |
//! | [`pool`] | pools of threads, beside each other and beside neighbours |
//! | [`txn`] | transactions: snapshots under three protocols, and beside other engines |
//! | [`profile`] | a user's program under a range of targets for latency |
//! | [`servers`] | widely used database servers and caches, under `manx run` |
//! | [`victims`] | widely used programs that wait badly, side by side and alone |
//! | [`doctor`] | what `manx doctor` says of the same programs, and what its looks cost them |
//! | [`harm`] | programs that need nothing, or wait well, under `manx run` |
//! | [`quota`] | programs that their quota stops, as they are and paced, on a simulated machine |
//! | [`snapshots`] | paper 000's own server, simulated |
//! | [`place`] | where runs are made: here or on a simulated machine |
//! | [`guard`] | what the guard costs programs that need no repair |
//! | [`calibrate`] | the distances and costs of this machine, as a machine of the simulator |
//! | [`waiting`], [`waits`] | how late each way of waiting notices, and the CPU it burns |
//!
//! `README.md` beside this crate says how to read the results.

pub mod asl;
mod boosted;
pub mod calibrate;
pub mod child;
mod closed_loop;
pub mod constants;
pub mod doctor;
mod drawing;
pub mod engine;
pub mod engines;
pub mod error;
mod group;
pub mod guard;
pub mod harm;
pub mod harness;
pub mod interrupt;
pub mod inversion;
pub mod jobs;
pub mod machine;
pub mod mutex;
pub mod papers;
mod parts;
pub mod place;
pub mod pool;
pub mod profile;
pub mod quota;
pub mod range;
pub mod ranges;
mod running;
pub mod schedule;
pub mod servers;
pub mod snapshots;
mod turns;
pub mod txn;
mod verdict;
pub mod victims;
pub mod waiting;
pub mod waits;

pub use error::Error;
