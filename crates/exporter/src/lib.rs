//! Metrics of the programs on a host, for Prometheus: waits, locks, throttling, delays, budgets.
//!
//! `manx exporter` and the helper of `manx run --metrics` are made of these parts:
//!
//! | module | what |
//! | --- | --- |
//! | [`watch`] | looks at the processes once a second, at a bounded cost |
//! | [`process`], [`counts`] | which program a process is; what its live file counts. All else that a look reads is in the package `host` |
//! | [`registry`] | the sums of each program, in bounded memory |
//! | [`metric`], [`catalogue`] | families and samples; all metrics by name |
//! | [`text`], [`protobuf`], [`negotiate`] | the formats, and which of them a client gets |
//! | [`request`], [`server`] | HTTP, over TCP or a Unix socket |
//! | [`text_file`] | a file for node_exporter |
//!
//! It attaches to no process and changes none.

pub mod catalogue;
pub mod counts;
pub mod metric;
pub mod negotiate;
pub mod process;
pub mod protobuf;
pub mod registry;
pub mod request;
pub mod server;
pub mod text;
pub mod text_file;
pub mod watch;
