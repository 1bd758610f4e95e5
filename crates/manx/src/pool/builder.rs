//! How a pool is to be.

use super::control::{Bounds, Control, OVERCOMMIT_MAX, Steering, TICK};
use super::error::BuildPoolError;
use super::jobserver::Tokens;
use super::pool::FriendlyPool;
use super::registry::Member;
use super::shared::{Parts, Report, Shared, Shutdown};
use crate::cpu::CpuBudget;
use std::fmt;
use std::time::Duration;

/// The maximum number of workers of a pool, the stand-ins for blocked ones included.
pub const WORKERS_MAX: usize = 4096;
/// Room in a pool's queue, unless said otherwise.
pub const QUEUE_BOUND: usize = 65_536;
/// Workers that may stand in for blocked ones, unless said otherwise.
pub const STAND_INS: usize = 64;
/// How long dropping a pool waits for what it has to do, unless said otherwise.
pub const DROP_TIMEOUT: Duration = Duration::from_secs(30);

/// How a pool is to be; from [`FriendlyPool::builder`].
///
/// ```
/// use manx::pool::{Control, FriendlyPool};
///
/// let pool = FriendlyPool::builder()
///     .name("http")
///     .workers_max(8)
///     .queue_bound(1_000)
///     .control(Control::SHARE)
///     .on_panic(|text| eprintln!("a request failed: {text}"))
///     .build()?;
/// assert_eq!(pool.name(), "http");
/// # Ok::<(), manx::pool::BuildPoolError>(())
/// ```
#[must_use = "a builder builds by `build`"]
pub struct Builder {
    name: String,
    workers_max: Option<usize>,
    stand_ins: usize,
    queue_bound: usize,
    stack_bytes: usize,
    control: Control,
    tick: Duration,
    on_panic: Option<Report>,
    on_drop: (Shutdown, Duration),
    bounds: Bounds,
}

impl Builder {
    pub(super) fn new() -> Builder {
        Builder {
            name: "manx".into(),
            workers_max: None,
            stand_ins: STAND_INS,
            queue_bound: QUEUE_BOUND,
            stack_bytes: 0,
            control: Control::default(),
            tick: TICK,
            on_panic: None,
            on_drop: (Shutdown::Drain, DROP_TIMEOUT),
            bounds: Bounds::default(),
        }
    }

    /// The name of its threads, with their numbers behind it, as debuggers and `ps -L` show them.
    pub fn name(self, name: impl Into<String>) -> Builder {
        Builder { name: name.into(), ..self }
    }

    /// Sets the maximum number of workers that are active at a time. Unless told, as many as there
    /// are CPUs that the process may ever run on, by its affinity; the overcommitment of
    /// [`Control::Share`] multiplies that.
    pub fn workers_max(self, workers: usize) -> Builder {
        Builder { workers_max: Some(workers), ..self }
    }

    /// Sets the maximum number of further workers that stand in for blocked ones; [`STAND_INS`]
    /// unless told. They are started when they are needed first.
    pub fn stand_ins(self, workers: usize) -> Builder {
        Builder { stand_ins: workers, ..self }
    }

    /// Sets how many jobs from outside the queue holds; [`QUEUE_BOUND`] unless told.
    pub fn queue_bound(self, jobs: usize) -> Builder {
        Builder { queue_bound: jobs, ..self }
    }

    /// The stack of each worker, in bytes; the standard library's size unless told.
    pub fn stack_bytes(self, bytes: usize) -> Builder {
        Builder { stack_bytes: bytes, ..self }
    }

    /// Sets what decides how many workers are active.
    pub fn control(self, control: Control) -> Builder {
        Builder { control, ..self }
    }

    /// How often the control thread of [`Control::Pressure`] looks while more is queued than is
    /// being done; [`TICK`] unless told.
    pub fn tick(self, tick: Duration) -> Builder {
        Builder { tick, ..self }
    }

    /// Called in the worker with the words of each panic of a job. The panic itself is contained:
    /// the worker goes on, and a thread that waits for the job is told.
    pub fn on_panic(self, report: impl Fn(&str) + Send + Sync + 'static) -> Builder {
        Builder { on_panic: Some(Box::new(report)), ..self }
    }

    /// What dropping the pool does, and how long it waits for that; to drain it for
    /// [`DROP_TIMEOUT`] unless told. What then still runs ends when it ends, and what is still
    /// queued is dropped.
    pub fn on_drop(self, how: Shutdown, timeout: Duration) -> Builder {
        Builder { on_drop: (how, timeout), ..self }
    }

    /// As many workers are active as make's jobserver allows: one, and one for each token that is
    /// to be had while jobs are queued.
    ///
    /// ```
    /// use manx::pool::FriendlyPool;
    /// use manx::pool::jobserver::Tokens;
    ///
    /// let mut builder = FriendlyPool::builder();
    /// if let Some(tokens) = Tokens::from_env()? {
    ///     builder = builder.jobserver(tokens);
    /// }
    /// let pool = builder.build()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn jobserver(mut self, tokens: Tokens) -> Builder {
        self.bounds.tokens = Some(tokens);
        self
    }

    /// The pool takes its part of the CPUs as a member of a registry, among processes that divide
    /// them exactly. For [`Control::Pressure`].
    ///
    /// ```
    /// use manx::pool::FriendlyPool;
    /// use manx::pool::registry::Registry;
    ///
    /// # let path = std::env::temp_dir().join(format!("manx-doc-builder-{}", std::process::id()));
    /// let registry = Registry::at(&path)?;
    /// let pool = FriendlyPool::builder().registry(registry.join(1, 2.0)?).build()?;
    /// # std::fs::remove_file(&path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn registry(mut self, member: Member) -> Builder {
        self.bounds.member = Some(member);
        self
    }

    /// Makes the pool. Its first worker is started now, the others when there is something to do
    /// for them.
    ///
    /// # Errors
    /// A number makes no sense, or the system has no thread for the first worker.
    pub fn build(self) -> Result<FriendlyPool, BuildPoolError> {
        let workers = self.check()?;
        let tick = self.tick;
        let steering = Steering::new(self.control, tick, workers as u32, self.bounds);
        let shared = Shared::new(Parts {
            name: self.name,
            seats: (workers + self.stand_ins).min(WORKERS_MAX),
            queue_bound: self.queue_bound,
            stack_bytes: self.stack_bytes,
            steering,
            report: self.on_panic,
        });
        shared.pace.set_quota(shared.steering.quota_cpus(&CpuBudget::now()));
        shared.first_worker().map_err(BuildPoolError::Thread)?;
        Ok(FriendlyPool::new(shared, self.on_drop))
    }

    /// Whether all numbers make sense; how many workers these are.
    fn check(&self) -> Result<usize, BuildPoolError> {
        let mut tick = self.tick;
        let mut overcommit = 1.0;
        if let Control::Share { overcommit: factor, tick: own } = self.control {
            if !(factor > 0.0 && factor <= OVERCOMMIT_MAX) {
                return Err(BuildPoolError::Overcommit(factor));
            }
            (tick, overcommit) = (own, factor);
        }
        if tick < Duration::from_micros(100) {
            return Err(BuildPoolError::Tick(tick));
        }
        if self.queue_bound == 0 {
            return Err(BuildPoolError::EmptyQueue);
        }
        let usual = || ((platform::cpu::count() as f64 * overcommit).ceil() as usize).clamp(1, WORKERS_MAX);
        let workers = self.workers_max.unwrap_or_else(usual);
        if (1..=WORKERS_MAX).contains(&workers) { Ok(workers) } else { Err(BuildPoolError::Workers(workers)) }
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("name", &self.name)
            .field("control", &self.control)
            .finish_non_exhaustive()
    }
}
