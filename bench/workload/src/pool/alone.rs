//! More and more threads, with no other program there: the paper's figures 2 and 3.
//!
//! The machine gets nine tenths of what it can do, so that too few threads show as a queue, and too
//! many as service that takes longer. Under a mutex there is no more than one computation at a
//! time, whatever the threads.

use super::cases;
use super::kind::Kind;
use super::plan::Plan;
use super::spec::{Lock, Process, Task};
use super::variant::{Variant, process};
use crate::error::Error;
use crate::harness::Bench;
use std::time::Duration;

const THREADS: [usize; 8] = [1, 2, 3, 4, 5, 6, 7, 8];
const QUICK: [usize; 1] = [3];
/// Of what the machine can do.
const LOAD: f64 = 0.9;

impl Plan {
    /// The threads of a pool that knows of no neighbour, without a lock and with each.
    pub(super) fn threads(&self, bench: &mut Bench) -> Result<(), Error> {
        let rate_per_s = LOAD * self.capacity.jobs_per_s;
        bench.note(format!(
            "threads: {rate_per_s:.0} jobs/s, nine tenths of what the machine does without a lock"
        ));
        for threads in self.sweep(&THREADS, &QUICK) {
            let locks = [Lock::None, Lock::Std, Lock::ParkingLot, Lock::Manx];
            let variants: Vec<Variant> = locks
                .into_iter()
                .map(|lock| {
                    let task = Task::Serve(self.load(rate_per_s, 0, Duration::ZERO));
                    let process = Process { lock, ..process(Kind::Ignorant, threads, task) };
                    let name = if lock == Lock::None { cases::NO_LOCK } else { lock.name() };
                    Variant::of(name, vec![process])
                })
                .collect();
            self.compare(bench, &cases::threads(threads), &variants)?;
        }
        Ok(())
    }
}
