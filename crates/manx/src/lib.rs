//! Locks, waiting and more for programs whose threads outnumber their CPUs.
//!
//! When there are more threads than CPUs, a thread that could run often waits for one that cannot,
//! because the waiter has its CPU. Each room of this crate deals with one face of that, and has a
//! cargo feature; `lock` is the default.
//!
//! | feature | room | what | brings |
//! | --- | --- | --- | --- |
//! | `lock` | [`lock`] | who gets a lock when those whose turn it would be cannot run | |
//! | | [`wait`] | how a loop waits for something that another thread does | |
//! | | [`slo`] | how late a piece of work may be, and what follows for its locks | |
//! | `cpu` | [`cpu`] | how many CPUs there really are, and what keeps the process from them | |
//! | `pool` | [`pool`] | threads that follow the CPUs they really have | `cpu`, `lock` |
//! | `range` | [`range`] | locks of a part of what there is | `lock` |
//! | `txn` | [`txn`] | transactions over any ordered store | `range` |
//! | `durable` | `txn::durable` | the same in files | `txn` |
//! | `etcd` | `etcd`, `txn::etcd` | the same in an etcd cluster | `txn` |
//! | `postgres` | `txn::postgres` | the same in a table of PostgreSQL | `txn` |
//! | `cluster` | `range::cluster` | ranges across machines, over etcd | `range` |
//! | `rayon`, `tokio` | `pool::gate` | workers of these pools follow the CPUs, too | `pool` |
//!
//! Two parts of [`cpu`] need no feature, because locks ask for them: which cores are fast and which
//! are slow, and whether CPUs are short. With `lock` alone, `lock_api` is the only dependency that
//! is not of this project.
//!
//! The source says nothing about the machine but `use platform::…`, so a model checker runs these
//! very lines (the package `manx-loom`), and so does a sampler of schedules (`manx-shuttle`).

pub mod cpu;
platform::os_only! {
    #[cfg(any(feature = "cluster", feature = "etcd", feature = "postgres"))]
    mod address_error;
    #[cfg(any(feature = "cluster", feature = "etcd", feature = "postgres"))]
    mod causes;
    #[cfg(any(feature = "cluster", feature = "etcd"))]
    pub mod etcd;
}
#[cfg(feature = "lock")]
pub mod lock;
#[cfg(feature = "pool")]
pub mod pool;
#[cfg(feature = "range")]
pub mod range;
#[cfg(feature = "lock")]
pub mod slo;
#[cfg(feature = "txn")]
pub mod txn;
#[cfg(feature = "lock")]
pub mod wait;

/// The pages for users: their examples in Rust compile and run.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../../README.md")]
    mod readme {}
    #[doc = include_str!("../README.md")]
    mod package {}
    #[doc = include_str!("../../../docs/locks.md")]
    mod locks {}
    #[doc = include_str!("../../../docs/pools.md")]
    mod pools {}
    #[doc = include_str!("../../../docs/ranges.md")]
    mod ranges {}
    #[cfg(feature = "cluster")]
    #[doc = include_str!("../../../docs/ranges-cluster.md")]
    mod ranges_cluster {}
    #[doc = include_str!("../../../docs/slo.md")]
    mod slo {}
    #[doc = include_str!("../../../docs/transactions.md")]
    mod transactions {}
}
