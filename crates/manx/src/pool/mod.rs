//! A pool of threads that is friendly to its neighbours.
//!
//! A pool with a thread for each CPU is right as long as it has the machine for itself. Beside
//! others, or under a quota, it has more threads that could run than CPUs: jobs that have been
//! begun wait in the scheduler's queue, and so do the neighbours' threads. This pool has as many
//! *active* workers as it has CPUs at the moment; the others are parked, and come back as soon as
//! there is room. The idea, the formula and the measurements that it is compared with are in
//! Jeffery, Jensen and Mortier, "Reducing tail latencies through environment- and neighbour-aware
//! thread management".
//!
//! ```
//! use manx::pool::FriendlyPool;
//!
//! let pool = FriendlyPool::builder().name("requests").build()?;
//! pool.execute(|| println!("done by a worker"))?;
//! println!("{:?}", pool.stats().total);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | file | what |
//! | --- | --- |
//! | `builder.rs`, `pool.rs`, `error.rs` | the pool as its users see it |
//! | `job.rs`, `queue.rs` | what is to be done, and in which order |
//! | `crew.rs` | which workers are active, and which are parked |
//! | `worker.rs` | a worker's life, and how its jobs wait |
//! | `shared.rs` | what holds them together, and how it ends |
//! | `handle.rs`, `scope.rs` | how threads wait for a job |
//! | `pace.rs` | jobs begin as fast as a quota pays for them |
//! | `control/` | how many workers are to be active |
//! | `stats.rs` | what it tells of itself |
//! | `gate/` | workers of rayon and tokio follow the budget too |
//! | `jobserver.rs` | tokens of `make -j`: one for each worker but the first |
//! | `registry.rs` | processes of one host that divide its CPUs |

pub mod crew;
pub mod gate;
pub mod registry;
platform::os_only! {
    mod builder;
    mod control;
    mod error;
    mod handle;
    mod job;
    pub mod jobserver;
    mod pace;
    #[expect(clippy::module_inception, reason = "the pool itself")]
    mod pool;
    mod queue;
    mod scope;
    mod shared;
    mod stats;
    mod worker;

    pub use builder::{Builder, DROP_TIMEOUT, QUEUE_BOUND, STAND_INS, WORKERS_MAX};
    pub use control::{Control, Decision, TICK, Why};
    pub use error::{BuildPoolError, JoinError, Refused, Rejected, StillRunning};
    pub use handle::JoinHandle;
    pub use job::{Priority, Task};
    pub use pace::BURST_NS;
    pub use pool::FriendlyPool;
    pub use queue::FAIR;
    pub use scope::Scope;
    pub use shared::Shutdown;
    pub use stats::{Latencies, Stats};
    pub use worker::block_in_place;
}
