//! A pool of threads that is friendly to its neighbours.
//!
//! A pool with a thread for each CPU is right while no other process uses the machine. Beside other
//! processes, or under a quota, it has more runnable threads than CPUs: jobs that have begun wait
//! in the scheduler's queue, and so do the neighbours' threads. This pool has as many *active*
//! workers as it has CPUs at the moment. The others are parked, and become active again as soon as
//! there are CPUs for them. The idea, the formula and the measurements that it is compared with are
//! in Jeffery, Jensen and Mortier, "Reducing tail latencies through environment- and
//! neighbour-aware thread management".
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
//! | `builder.rs` | the settings of a pool |
//! | `scope.rs`, `pool.rs` | the interface of a pool |
//! | `handle.rs` | how threads wait for a job |
//! | `worker.rs`, `controller.rs` | the loop of a worker, and how its jobs wait; the control thread |
//! | `shared.rs` | what these threads share, and how it ends |
//! | `hooks.rs` | functions of the program's that the pool's threads call |
//! | `stats.rs`, `error.rs` | statistics and errors |
//! | `control/` | the rules: how many workers are to be active |
//! | `workers.rs` | which workers are active, and which are parked |
//! | `queue.rs`, `job.rs` | the queued jobs, and their order |
//! | `places.rs` | on which CPUs workers run |
//! | `pace.rs` | jobs begin as fast as a quota pays for them |
//! | `jobserver.rs` | tokens of `make -j`: one for each worker but the first |
//! | `registry.rs` | processes of one host that divide its CPUs |
//! | `gate/` | lets the workers of rayon and tokio follow the budget too |

pub mod gate;
pub mod registry;
// For the tests of the twins, which check these modules alone.
#[doc(hidden)]
pub mod control;
#[doc(hidden)]
pub mod workers;
platform::timed! {
    mod builder;
    mod controller;
    mod error;
    mod handle;
    mod hooks;
    mod job;
    pub mod jobserver;
    mod pace;
    mod places;
    #[expect(clippy::module_inception, reason = "the pool itself")]
    mod pool;
    mod queue;
    mod scope;
    mod shared;
    mod stats;
    mod worker;

    pub use builder::{
        BuildError, DEFAULT_DROP_TIMEOUT, DEFAULT_MAX_BLOCKING_THREADS, DEFAULT_QUEUE_CAPACITY,
        FriendlyPoolBuilder, MAX_THREADS,
    };
    pub use control::{Control, DEFAULT_TICK, Decision, Why};
    pub use error::{ExecuteError, JoinError, PanicPayload, ShutdownError, TryExecuteError};
    pub use handle::JoinHandle;
    pub use job::{Priority, Task};
    pub use pool::FriendlyPool;
    pub use scope::Scope;
    pub use shared::Shutdown;
    pub use stats::{Latencies, Stats};
    pub use worker::block_in_place;
}
