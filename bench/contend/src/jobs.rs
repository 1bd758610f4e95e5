//! Lets a pool do jobs that come at equal distances, and records when each began and ended.
//!
//! The calling thread puts each job into the queue when it is due, or as soon as it can. A job's
//! times are counted from the moment at which it was due. Jobs that have not ended when the time is
//! over are left.
//!
//! 1. A job's stamps are written by the worker that does it, and read when the pool has ended.

use crate::burn::{amount, spend};
use contention::jobs::{Jobs, Rules, Served};
use manx::pool::registry::Registry;
use manx::pool::{Control, FriendlyPool, Shutdown};
use platform::clock::{duration_ns, now_ns, ticks};
use platform::thread::sleep_ns;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How long jobs that run at the end may take.
const END: Duration = Duration::from_secs(60);

/// When a job began and ended, in nanoseconds; 0: it has not. To write them takes no virtual time.
#[derive(Default)]
struct Stamps {
    begun_ns: AtomicU64,
    ended_ns: AtomicU64,
}

/// Lets a pool do jobs.
///
/// # Errors
/// A pool that cannot be made, or does not end; a registry that cannot be opened.
pub fn serve(jobs: &Jobs) -> Result<Served, String> {
    platform::clock::init();
    let control = match jobs.rules {
        Rules::All | Rules::Optimal => Control::Fixed,
        Rules::Paper => Control::Share,
        Rules::Manx | Rules::Registry => Control::Pressure,
    };
    let time_ns = duration_ns(jobs.time);
    let count = time_ns.saturating_sub(jobs.phase_ns).div_ceil(jobs.every_ns.max(1));
    let stamps: Arc<[Stamps]> = (0..count).map(|_| Stamps::default()).collect();
    let mut pool = FriendlyPool::builder().num_threads(jobs.workers).control(control);
    if jobs.rules == Rules::Registry {
        let joined = Registry::at(&jobs.registry).and_then(|it| it.join(1, jobs.workers as f64));
        pool = pool.registry(joined.map_err(|error| error.to_string())?);
    }
    // A job waits in the queue, and the caller never.
    let pool = pool.queue_capacity(count.max(1) as usize).build().map_err(|error| error.to_string())?;
    let (burn, amount, start_ns) = (jobs.burn, amount(jobs.burn, jobs.job_ns, 1.0), now_ns());
    let end_ns = start_ns + time_ns;
    let due_ns = |index| start_ns + jobs.phase_ns + index as u64 * jobs.every_ns;
    for index in 0..count as usize {
        sleep_until(due_ns(index));
        let stamps = Arc::clone(&stamps);
        let job = move || {
            let job = &stamps[index];
            job.begun_ns.store(now_ns(), Ordering::Relaxed);
            spend(burn, ticks(), amount);
            job.ended_ns.store(now_ns(), Ordering::Relaxed);
        };
        pool.execute(job).map_err(|error| error.to_string())?;
    }
    sleep_until(end_ns);
    let active = pool.stats().target;
    pool.shutdown(Shutdown::Discard, END).map_err(|error| error.to_string())?;
    Ok(served(&stamps, due_ns, start_ns..end_ns, active))
}

fn sleep_until(end_ns: u64) {
    loop {
        match end_ns.saturating_sub(now_ns()) {
            0 => return,
            left_ns => sleep_ns(left_ns),
        }
    }
}

fn served(stamps: &[Stamps], due_ns: impl Fn(usize) -> u64, time: Range<u64>, active: u32) -> Served {
    let mut served = Served { active, offered: stamps.len() as u64, ..Served::default() };
    let mut begun_for_ns = 0;
    for (index, job) in stamps.iter().enumerate() {
        // Invariant 1: the pool's end orders the stamps before these.
        let [begun_ns, ended_ns] = [&job.begun_ns, &job.ended_ns].map(|stamp| stamp.load(Ordering::Relaxed));
        if begun_ns == 0 {
            continue;
        }
        begun_for_ns += ended_ns.min(time.end).saturating_sub(begun_ns);
        if ended_ns > time.end {
            continue;
        }
        let due_ns = due_ns(index);
        served.queue.record(begun_ns.saturating_sub(due_ns));
        served.service.record(ended_ns - begun_ns);
        served.total.record(ended_ns.saturating_sub(due_ns));
    }
    served.begun = begun_for_ns as f64 / (time.end - time.start) as f64;
    served
}

#[cfg(test)]
mod tests {
    use super::*;
    use contention::run::Burn;

    #[test]
    fn a_job_that_has_ended_has_its_times_and_others_are_left() {
        let registry = std::env::temp_dir().join(format!("manx-jobs-{}", std::process::id()));
        for rules in Rules::ALL {
            let (job_ns, every_ns) = (20_000, 2_000_000);
            let time = Duration::from_millis(100);
            let (burn, phase_ns) = (Burn::Time, 1_000_000);
            let registry = registry.clone();
            let jobs = Jobs { rules, registry, workers: 2, job_ns, every_ns, phase_ns, burn, time };
            let served = serve(&jobs).unwrap();
            let done = served.service.count();
            assert!(done > 0 && done == served.total.count(), "{rules:?}");
            assert_eq!(served.offered, 50);
            assert!(served.service.summary().max_ns >= job_ns);
        }
        std::fs::remove_file(&registry).unwrap();
        let stamps = [(5, 9), (0, 0), (30, 70)]
            .map(|(begun, ended)| Stamps { begun_ns: begun.into(), ended_ns: ended.into() });
        let served = served(&stamps, |index| 2 + index as u64, 2..62, 1);
        assert_eq!((served.service.count(), served.total.summary().max_ns, served.offered), (1, 7, 3));
        // 4 ns of the first, and 32 of the last.
        assert!((served.begun - 36.0 / 60.0).abs() < 1e-9);
    }
}
