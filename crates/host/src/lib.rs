//! What the processes of a host do, read again and again at a bounded cost.
//!
//! `manx top` shows processes as rows with rates, `manx exporter` sums them for each program. Both
//! have their own pass over `/proc`, and both read by these parts:
//!
//! | module | what |
//! | --- | --- |
//! | [`reader`] | files that stay open, as long as there is room for descriptors |
//! | [`list`] | which processes and threads there are |
//! | [`threads`] | how long each thread of a process ran and waited for a CPU |
//! | [`groups`] | the control groups, each read once for all its processes |
//! | [`live_file`] | whether a process runs under Manx, and its live file |
//! | [`image`] | a live file in memory, as far as it is in use |
//!
//! It is a package of its own because the two have nothing else in common: `exporter` knows
//! programs, metrics and HTTP, and the command knows a terminal.

pub mod groups;
pub mod image;
pub mod list;
pub mod live_file;
pub mod reader;
pub mod threads;
