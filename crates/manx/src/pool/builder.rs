//! The settings of a pool.

use super::control::{Bounds, Control, DEFAULT_TICK, Steering};
use super::hooks::Hooks;
use super::jobserver::Tokens;
use super::pool::FriendlyPool;
use super::registry::Member;
use super::shared::{Entries, Parts, Shared, Shutdown};
use super::{controller, worker};
use crate::cpu::CpuBudget;
use std::fmt;
use std::time::Duration;

/// The highest factor of overcommitment that makes sense: this number of workers for each CPU.
const OVERCOMMIT_MAX: f64 = 1024.0;

/// The maximum number of threads of a pool, those for blocked workers included.
pub const MAX_THREADS: usize = 4096;
/// The default number of jobs that a pool's queue holds.
pub const DEFAULT_QUEUE_CAPACITY: usize = 65_536;
/// The default number of threads that may replace blocked workers.
pub const DEFAULT_MAX_BLOCKING_THREADS: usize = 64;
/// The default time that the drop of a pool waits for queued jobs.
pub const DEFAULT_DROP_TIMEOUT: Duration = Duration::from_secs(30);

/// The settings of a pool. [`FriendlyPool::builder`] returns the defaults.
///
/// ```
/// use manx::pool::{Control, FriendlyPool};
///
/// let pool = FriendlyPool::builder()
///     .name("http")
///     .num_threads(8)
///     .queue_capacity(1_000)
///     .control(Control::Share)
///     .panic_handler(|message| eprintln!("a request failed: {message}"))
///     .build()?;
/// assert_eq!(pool.name(), "http");
/// # Ok::<(), manx::pool::BuildError>(())
/// ```
#[must_use = "a builder builds by `build`"]
pub struct FriendlyPoolBuilder {
    name: String,
    num_threads: Option<usize>,
    max_blocking_threads: usize,
    queue_capacity: usize,
    /// 0: that of the standard library.
    stack_size: usize,
    control: Control,
    overcommit: f64,
    tick: Duration,
    hooks: Hooks,
    on_drop: (Shutdown, Duration),
    bounds: Bounds,
}

impl FriendlyPool {
    /// Returns the default settings.
    ///
    /// ```
    /// let pool = manx::pool::FriendlyPool::builder().name("http").num_threads(2).stack_size(256 << 10).build()?;
    /// assert_eq!(pool.name(), "http");
    /// # Ok::<(), manx::pool::BuildError>(())
    /// ```
    pub fn builder() -> FriendlyPoolBuilder {
        FriendlyPoolBuilder::new()
    }
}

impl FriendlyPoolBuilder {
    fn new() -> FriendlyPoolBuilder {
        FriendlyPoolBuilder {
            name: "manx".into(),
            num_threads: None,
            max_blocking_threads: DEFAULT_MAX_BLOCKING_THREADS,
            queue_capacity: DEFAULT_QUEUE_CAPACITY,
            stack_size: 0,
            control: Control::default(),
            overcommit: 1.0,
            tick: DEFAULT_TICK,
            hooks: Hooks::default(),
            on_drop: (Shutdown::Drain, DEFAULT_DROP_TIMEOUT),
            bounds: Bounds::default(),
        }
    }

    /// Sets the name of the pool. The name of each thread is the pool's name, a hyphen and the
    /// thread's index, unless [`thread_name`](FriendlyPoolBuilder::thread_name) sets another one.
    pub fn name(self, name: impl Into<String>) -> FriendlyPoolBuilder {
        FriendlyPoolBuilder { name: name.into(), ..self }
    }

    /// Sets a function that returns the name of each worker's thread, from the thread's index.
    /// Debuggers and `ps -L` show the first 15 bytes. A thread for which the function panics has
    /// the usual name.
    ///
    /// ```
    /// let pool = manx::pool::FriendlyPool::builder().thread_name(|index| format!("http {index}")).build()?;
    /// let name = pool.submit(|| std::thread::current().name().map(str::to_owned))?.join()?;
    /// assert!(name.unwrap().starts_with("http "));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn thread_name(
        mut self,
        name: impl Fn(usize) -> String + Send + Sync + 'static,
    ) -> FriendlyPoolBuilder {
        self.hooks.thread_name = Some(Box::new(name));
        self
    }

    /// Sets the maximum number of workers that are active at a time, from 1 to [`MAX_THREADS`]. The
    /// default is the number of CPUs that the process may ever run on, by its affinity, times the
    /// factor of [`overcommit`](FriendlyPoolBuilder::overcommit).
    ///
    /// ```
    /// let pool = manx::pool::FriendlyPool::builder().num_threads(4).build()?;
    /// assert!(pool.stats().limit <= 4);
    /// # Ok::<(), manx::pool::BuildError>(())
    /// ```
    pub fn num_threads(self, threads: usize) -> FriendlyPoolBuilder {
        FriendlyPoolBuilder { num_threads: Some(threads), ..self }
    }

    /// Sets the maximum number of further threads. They work in place of workers that are in
    /// [`block_in_place`](super::block_in_place) or wait for other jobs. The default is
    /// [`DEFAULT_MAX_BLOCKING_THREADS`]. Each is started when it is first needed. All threads
    /// together are at most [`MAX_THREADS`].
    ///
    /// ```
    /// let pool = manx::pool::FriendlyPool::builder().max_blocking_threads(8).build()?;
    /// let answer = pool.submit(|| manx::pool::block_in_place(|| 42))?;
    /// assert_eq!(answer.join()?, 42);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn max_blocking_threads(self, threads: usize) -> FriendlyPoolBuilder {
        FriendlyPoolBuilder { max_blocking_threads: threads, ..self }
    }

    /// Sets how many jobs from outside the queue holds: at least 1. The default is
    /// [`DEFAULT_QUEUE_CAPACITY`].
    ///
    /// ```
    /// let pool = manx::pool::FriendlyPool::builder().queue_capacity(1_000).build()?;
    /// pool.try_execute(|| ())?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn queue_capacity(self, jobs: usize) -> FriendlyPoolBuilder {
        FriendlyPoolBuilder { queue_capacity: jobs, ..self }
    }

    /// Sets the stack size of each worker, in bytes. The default is that of the standard library.
    pub fn stack_size(self, bytes: usize) -> FriendlyPoolBuilder {
        FriendlyPoolBuilder { stack_size: bytes, ..self }
    }

    /// Sets what decides how many workers are active.
    pub fn control(self, control: Control) -> FriendlyPoolBuilder {
        FriendlyPoolBuilder { control, ..self }
    }

    /// Sets the factor of overcommitment: the number of workers for each CPU that the pool may use.
    /// It is above 0 and at most 1024; the default is 1. It is the factor *O* of Jeffery and others
    /// ("Reducing tail latencies through environment- and neighbour-aware thread management",
    /// section 5.2). The higher it is, the more jobs a second, and the longer each job takes (their
    /// figure 8). It counts for [`Control::Share`] and [`Control::Pressure`]; with
    /// [`Control::Fixed`], only for the default of
    /// [`num_threads`](FriendlyPoolBuilder::num_threads).
    ///
    /// ```
    /// use manx::pool::{BuildError, FriendlyPool};
    ///
    /// let pool = FriendlyPool::builder().overcommit(2.0).build()?;
    /// # drop(pool);
    /// let error = FriendlyPool::builder().overcommit(0.0).build().unwrap_err();
    /// assert_eq!(error.to_string(), "an overcommitment is above 0 and at most 1024, not 0");
    /// # Ok::<(), BuildError>(())
    /// ```
    pub fn overcommit(self, factor: f64) -> FriendlyPoolBuilder {
        FriendlyPoolBuilder { overcommit: factor, ..self }
    }

    /// Sets the tick of the control thread while jobs are queued. The default is [`DEFAULT_TICK`],
    /// the least 100 µs.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let pool = manx::pool::FriendlyPool::builder().tick(Duration::from_millis(2)).build()?;
    /// # Ok::<(), manx::pool::BuildError>(())
    /// ```
    pub fn tick(self, tick: Duration) -> FriendlyPoolBuilder {
        FriendlyPoolBuilder { tick, ..self }
    }

    /// Sets a function that a worker calls with the message of each panic of a job, of a
    /// [`start_handler`](FriendlyPoolBuilder::start_handler) or of an
    /// [`exit_handler`](FriendlyPoolBuilder::exit_handler). The panic is contained: the worker
    /// continues, and a thread that waits for the job gets an error. A panic of this function is
    /// ignored.
    ///
    /// ```
    /// use std::sync::mpsc::channel;
    ///
    /// let (sender, receiver) = channel();
    /// let pool = manx::pool::FriendlyPool::builder()
    ///     .panic_handler(move |message| sender.send(message.to_owned()).unwrap())
    ///     .build()?;
    /// pool.execute(|| panic!("as expected"))?;
    /// assert_eq!(receiver.recv()?, "as expected");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn panic_handler(mut self, handler: impl Fn(&str) + Send + Sync + 'static) -> FriendlyPoolBuilder {
        self.hooks.panic_handler = Some(Box::new(handler));
        self
    }

    /// Sets a function that each worker calls once, with its index, before its first job. Indices
    /// are counted from 0, and no two workers have the same one. The threads for blocked workers
    /// are workers too; the control thread is not. A panic of the function is contained.
    ///
    /// ```
    /// use manx::pool::{FriendlyPool, Shutdown};
    /// use std::sync::atomic::{AtomicUsize, Ordering};
    /// use std::time::Duration;
    ///
    /// static THREADS: AtomicUsize = AtomicUsize::new(0);
    /// let pool = FriendlyPool::builder()
    ///     .start_handler(|_index| _ = THREADS.fetch_add(1, Ordering::Relaxed))
    ///     .exit_handler(|_index| _ = THREADS.fetch_sub(1, Ordering::Relaxed))
    ///     .build()?;
    /// assert!(pool.submit(|| THREADS.load(Ordering::Relaxed))?.join()? >= 1);
    /// pool.shutdown(Shutdown::Drain, Duration::from_secs(60))?;
    /// assert_eq!(THREADS.load(Ordering::Relaxed), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn start_handler(mut self, handler: impl Fn(usize) + Send + Sync + 'static) -> FriendlyPoolBuilder {
        self.hooks.start_handler = Some(Box::new(handler));
        self
    }

    /// Sets a function that each worker calls once, with its index, after its last job. A worker
    /// ends when the pool is shut down, and a shutdown waits for this function too. The function
    /// must not wait for jobs of this pool. A panic of the function is contained.
    ///
    /// ```
    /// use manx::pool::{FriendlyPool, Shutdown};
    /// use std::time::Duration;
    ///
    /// let pool = FriendlyPool::builder().exit_handler(|index| println!("worker {index} ends")).build()?;
    /// pool.shutdown(Shutdown::Drain, Duration::from_secs(60))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn exit_handler(mut self, handler: impl Fn(usize) + Send + Sync + 'static) -> FriendlyPoolBuilder {
        self.hooks.exit_handler = Some(Box::new(handler));
        self
    }

    /// Sets how the drop of the pool shuts it down, and for how long it waits. By default it drains
    /// the pool, and waits for [`DEFAULT_DROP_TIMEOUT`]. After the timeout, jobs that run are not
    /// interrupted, and queued jobs are dropped.
    ///
    /// ```
    /// use manx::pool::{FriendlyPool, Shutdown};
    /// use std::time::Duration;
    ///
    /// let builder = FriendlyPool::builder().shutdown_on_drop(Shutdown::Discard, Duration::from_secs(1));
    /// drop(builder.build()?); // drops queued jobs, and waits for running ones
    /// # Ok::<(), manx::pool::BuildError>(())
    /// ```
    pub fn shutdown_on_drop(self, how: Shutdown, timeout: Duration) -> FriendlyPoolBuilder {
        FriendlyPoolBuilder { on_drop: (how, timeout), ..self }
    }

    /// Limits the active workers to what make's jobserver allows: one, and one for each token that
    /// is available while jobs are queued.
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
    pub fn jobserver(mut self, tokens: Tokens) -> FriendlyPoolBuilder {
        self.bounds.tokens = Some(tokens);
        self
    }

    /// Lets the pool use the share of a registry's member. The processes of a registry divide the
    /// CPUs exactly. For [`Control::Pressure`].
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
    pub fn registry(mut self, member: Member) -> FriendlyPoolBuilder {
        self.bounds.member = Some(member);
        self
    }

    /// Builds the pool. Its first worker is started now, the others when they are first needed.
    ///
    /// ```
    /// use manx::pool::{BuildError, FriendlyPool};
    ///
    /// let error = FriendlyPool::builder().num_threads(0).build().unwrap_err();
    /// assert!(matches!(error, BuildError::NumThreads(0)));
    /// assert_eq!(error.to_string(), "a pool needs 1 to 4096 threads, not 0");
    /// ```
    ///
    /// # Errors
    /// A number is out of its range, or the system cannot start the first worker.
    pub fn build(self) -> Result<FriendlyPool, BuildError> {
        let workers = self.check()?;
        let steering = Steering::new(self.control, self.overcommit, self.tick, workers as u32, self.bounds);
        let shared = Shared::new(Parts {
            name: self.name,
            slots: workers.saturating_add(self.max_blocking_threads).min(MAX_THREADS),
            queue_capacity: self.queue_capacity,
            stack_size: self.stack_size,
            steering,
            hooks: self.hooks,
            entries: Entries { worker: worker::run, control: controller::run },
        });
        shared.pace.set_quota(shared.steering.quota_cpus(&CpuBudget::now()));
        shared.first_worker().map_err(BuildError::Spawn)?;
        Ok(FriendlyPool::new(shared, self.on_drop))
    }

    /// Checks the ranges of all numbers. Returns the number of workers.
    fn check(&self) -> Result<usize, BuildError> {
        let overcommit = self.overcommit;
        if !(overcommit > 0.0 && overcommit <= OVERCOMMIT_MAX) {
            return Err(BuildError::Overcommit(overcommit));
        }
        if self.tick < Duration::from_micros(100) {
            return Err(BuildError::Tick(self.tick));
        }
        if self.queue_capacity == 0 {
            return Err(BuildError::QueueCapacity);
        }
        let usual = || ((platform::cpu::count() as f64 * overcommit).ceil() as usize).clamp(1, MAX_THREADS);
        let workers = self.num_threads.unwrap_or_else(usual);
        if (1..=MAX_THREADS).contains(&workers) { Ok(workers) } else { Err(BuildError::NumThreads(workers)) }
    }
}

impl fmt::Debug for FriendlyPoolBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FriendlyPoolBuilder")
            .field("name", &self.name)
            .field("control", &self.control)
            .finish_non_exhaustive()
    }
}

/// Why a pool cannot be built.
///
/// ```
/// use manx::pool::{BuildError, FriendlyPool};
///
/// let error = FriendlyPool::builder().num_threads(0).build().unwrap_err();
/// assert!(matches!(error, BuildError::NumThreads(0)));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// This number of threads is not in the range from 1 to [`MAX_THREADS`].
    #[error("a pool needs 1 to {MAX_THREADS} threads, not {0}")]
    NumThreads(usize),
    /// The queue has no room for a job.
    #[error("a pool's queue needs room for at least 1 job, not 0")]
    QueueCapacity,
    /// This factor of overcommitment is not above 0, or above 1024.
    #[error("an overcommitment is above 0 and at most {OVERCOMMIT_MAX}, not {0}")]
    Overcommit(f64),
    /// This tick is shorter than 100 µs.
    #[error("a pool's tick needs at least 100 µs, not {0:?}")]
    Tick(Duration),
    /// The system cannot start the first worker.
    #[error("the system cannot start the pool's first thread: {0}")]
    Spawn(#[source] std::io::Error),
}
