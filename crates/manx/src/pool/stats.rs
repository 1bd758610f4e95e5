//! What a pool tells of itself: latencies, counts, and why it last grew or shrank.
//!
//! Each worker writes a record of its own, with plain loads and stores: no other thread writes it,
//! so counting costs no more than a few instructions, and a reader may be one job late. *Queue
//! latency* is from the moment when a job was queued to the moment when a worker began it, *service
//! latency* from there to its end, and *total latency* is both: the time that the caller has waited
//! for the job. Service latency alone misleads: a pool can shorten it by beginning late.

use super::control::Decision;
use crate::slo::{Histogram, Summary};
use platform::atomic::{AtomicU64, Ordering};

/// How long the jobs of a pool took, all that have ended. See
/// [`FriendlyPool::latencies`](super::FriendlyPool::latencies).
///
/// ```
/// let pool = manx::pool::FriendlyPool::builder().build()?;
/// pool.submit(|| ())?.join()?;
/// let total = pool.latencies().total.summary();
/// println!("{} jobs, the slowest one took {:?} in all", total.count, total.max);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Latencies {
    /// From a job's coming to its beginning.
    pub queue: Histogram,
    /// From its beginning to its end.
    pub service: Histogram,
    /// Both.
    pub total: Histogram,
}

/// A worker's record.
#[derive(Debug, Default)]
pub(super) struct Record {
    took: Latencies,
    panicked: AtomicU64,
    late: AtomicU64,
}

impl Record {
    /// A job was queued, begun and ended.
    #[inline]
    pub(super) fn record(&self, queue_ns: u64, service_ns: u64) {
        self.took.queue.record_alone(queue_ns);
        self.took.service.record_alone(service_ns);
        self.took.total.record_alone(queue_ns + service_ns);
    }

    pub(super) fn panicked(&self) {
        self.panicked.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn late(&self) {
        self.late.fetch_add(1, Ordering::Relaxed);
    }
}

/// What a pool did and does. See [`FriendlyPool::stats`](super::FriendlyPool::stats).
///
/// ```
/// let pool = manx::pool::FriendlyPool::builder().num_threads(2).build()?;
/// pool.submit(|| ())?.join()?;
/// let stats = pool.stats();
/// println!("{} of at most {} workers are active, for {} CPUs", stats.active, stats.limit, stats.budget_cpus);
/// assert!(stats.limit <= 2 && stats.panicked == 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Stats {
    /// From a job's coming to its beginning, all jobs that have ended.
    pub queue: Summary,
    /// From its beginning to its end.
    pub service: Summary,
    /// Both.
    pub total: Summary,
    /// Jobs that ended, in whatever way.
    pub completed: u64,
    /// How many of these panicked.
    pub panicked: u64,
    /// Jobs that were dropped because their deadline had passed.
    pub late: u64,
    /// Jobs that are queued, about.
    pub queued: usize,
    /// Workers that run a job or look for one.
    pub active: u32,
    /// Workers in [`block_in_place`](super::block_in_place), or waiting for other jobs.
    pub blocked: u32,
    /// Workers that have a thread and are parked.
    pub parked: u32,
    /// The maximum number of workers that are to be active while CPUs are scarce.
    pub target: u32,
    /// The maximum number of workers that may be active, by the CPU budget and the builder.
    pub limit: u32,
    /// How often a worker slept because the quota was used up.
    pub paced: u64,
    /// How often the system had no thread for a worker.
    pub threads_refused: u64,
    /// The CPUs that the process may use, as last read.
    pub budget_cpus: f64,
    /// How often the number of active workers was changed by the control.
    pub decisions: u64,
    /// The last change, and why.
    pub last: Option<Decision>,
}

/// The latencies in the workers' records.
pub(super) fn latencies<'a>(records: impl Iterator<Item = &'a Record>) -> Latencies {
    let all = Latencies::default();
    for Record { took, .. } in records {
        all.queue.add(&took.queue);
        all.service.add(&took.service);
        all.total.add(&took.total);
    }
    all
}

/// The sum of the workers' records, in the fields that come of them.
pub(super) fn sum<'a>(records: impl Iterator<Item = &'a Record> + Clone) -> Stats {
    let mut stats = Stats::default();
    for record in records.clone() {
        stats.panicked += record.panicked.load(Ordering::Relaxed);
        stats.late += record.late.load(Ordering::Relaxed);
    }
    let Latencies { queue, service, total } = latencies(records);
    (stats.queue, stats.service, stats.total) = (queue.summary(), service.summary(), total.summary());
    stats.completed = stats.total.count;
    stats
}
