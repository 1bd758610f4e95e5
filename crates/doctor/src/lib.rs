//! What keeps a running process from being fast: evidence from the kernel, and verdicts.
//!
//! The causes of a long tail look alike from outside: requests are slow and CPUs are busy, or not
//! even that. The kernel knows which cause it is, in a dozen files. This crate reads them for some
//! seconds ([`watch()`]), divides the lost time among the causes (`shares`), and gives a
//! [verdict](Verdict) for each cause that costs enough ([`diagnose`]). `manx doctor` prints them.
//!
//! | module | what |
//! | --- | --- |
//! | [`evidence`] | what was seen; no judgement |
//! | [`mod@watch`] | looks again and again, within a limit on its own cost |
//! | `shares` | each second of a thread is given to one cause |
//! | `causes` | a file each: evidence to verdict |
//! | [`verdict`] | cause, severity, figures, remedies, doubts |
//! | [`text`], [`json`] | a report for people, and for programs |
//!
//! It attaches to nothing and changes nothing. What it may not see is part of the evidence.

mod causes;
pub mod evidence;
pub mod json;
mod shares;
pub mod text;
pub mod verdict;
pub mod watch;

pub use causes::diagnose;
pub use evidence::Evidence;
pub use verdict::{Cause, Verdict};
pub use watch::{Refusal, watch};
