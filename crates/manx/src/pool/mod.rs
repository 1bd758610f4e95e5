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
//! A file uses only files below it:
//!
//! | file | what |
//! | --- | --- |
//! | `builder.rs` | how a pool is to be |
//! | `scope.rs`, `pool.rs` | the pool as its users see it |
//! | `handle.rs` | how threads wait for a job |
//! | `worker.rs`, `controller.rs` | a worker's life, and how its jobs wait; the control thread |
//! | `shared.rs` | what these threads share, and how it ends |
//! | `stats.rs`, `error.rs` | what the pool tells of itself, and of what went wrong |
//! | `control/` | the rules: how many workers are to be active |
//! | `workers.rs` | which workers are active, and which are parked |
//! | `queue.rs`, `job.rs` | what is to be done, and in which order |
//! | `pace.rs` | jobs begin as fast as a quota pays for them |
//! | `jobserver.rs` | tokens of `make -j`: one for each worker but the first |
//! | `registry.rs` | processes of one host that divide its CPUs |
//! | `gate/` | beside all this: workers of rayon and tokio follow the budget too |

pub mod gate;
pub mod registry;
pub mod workers;
platform::os_only! {
    mod builder;
    mod control;
    mod controller;
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

    pub use builder::{BuildError, Builder, DROP_TIMEOUT, QUEUE_BOUND, STAND_INS, WORKERS_MAX};
    pub use control::{Control, Decision, TICK, Why};
    pub use error::{JoinError, Refused, Rejected, StillRunning};
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
