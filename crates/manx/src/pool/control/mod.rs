//! How many workers are to be active: which thread decides, when, and by what.
//!
//! Two things decide at once, in the thread that queues a job or has just done one: an idle CPU
//! lets one more work (`idle.rs`), and a quota that is used up lets one less (`pace.rs`). What
//! takes a view over some time is decided by the pool's *control thread* (`controller.rs`), as in
//! the paper, at each *tick*: by the rules of [`pressure`], which are ours, or of `share.rs`, which
//! are the paper's.
//!
//! The control thread sleeps while nothing is queued: then the pool needs no more workers, and the
//! active ones were needed. It is started by the first job that finds all workers at work, and
//! woken by such jobs from then on, and once a second while jobs come, for the budget's sake. So a
//! pool that is idle costs nothing.
//!
//! | file | what |
//! | --- | --- |
//! | `steering.rs` | what the pool's threads have of all this |
//! | `idle.rs` | whether a CPU is idle |
//! | `pressure.rs`, `fair.rs` | our rules, and when they are not to be kept |
//! | `share.rs` | the paper's rules |
//! | `decision.rs` | what was decided, in words |
//!
//! Two more limits may be set. Under `make -j` there are as many workers as there are tokens. And
//! in a registry the process says what it could use, and its share takes the place of what the
//! rules would find out.
//!
//! Invariants:
//! 1. `limit` is from 1 to the number of workers that the builder has set, and so is the target;
//!    after the next tick it is no higher than `limit`.
//! 2. The control thread is started once. It goes to sleep by changing its `state` from awake to
//!    asleep, and then looks at the queue once more; a thread that has queued a job looks at
//!    `state` afterwards. Each has a fence in between, so no queue stays without a thread that
//!    decides.

mod decision;
pub mod pressure;
platform::timed! {
    pub(super) mod fair;
    mod idle;
    pub(super) mod share;
    mod steering;

    pub(super) use steering::{ASLEEP, AWAKE, Bounds, STOPPED, Steering};
}

use std::time::Duration;

pub use decision::{Decision, Why};

/// The default time between two decisions of the control thread while jobs are queued: an
/// accounting tick of the kernel, as in the paper.
pub const DEFAULT_TICK: Duration = Duration::from_millis(10);

/// What decides how many of a pool's workers are active.
///
/// ```
/// use manx::pool::{Control, FriendlyPool};
///
/// // All four are active while there are jobs.
/// let pool = FriendlyPool::builder().num_threads(4).control(Control::Fixed).build()?;
/// assert_eq!(pool.submit(|| 6 * 7)?.join()?, 42);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Control {
    /// By how long the workers wait for a CPU, which CPUs are idle, and the CPU budget: the
    /// default. Also under a quota, which is paced.
    #[default]
    Pressure,
    /// By the part of all busy CPU time that is the process's, as in the paper (section 5.2):
    /// `ceil(overcommit · own / all · CPUs)`. What the CPUs are is the process's budget, not the
    /// machine's.
    Share,
    /// By no rule: all workers are active while there are jobs, as in most pools.
    Fixed,
}

/// What was seen between two ticks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    /// How many workers are to be active …
    pub target: u32,
    /// … and may be.
    pub limit: u32,
    /// All workers together ran for so long …
    pub run_ns: u64,
    /// … and waited for a CPU for so long.
    pub wait_ns: u64,
    /// The time between the two ticks.
    pub elapsed_ns: u64,
    /// The number of ticks of the usual length: one, but for a control that has looked more rarely.
    pub ticks: u32,
    /// Whether jobs are queued.
    pub queued: bool,
    /// Whether a CPU is idle, if that can be known.
    pub cpu_idle: Option<bool>,
}
