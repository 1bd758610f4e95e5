//! `--watch`: the budget now, and again after each change, on a line.

use command::failure::Failure;
use command::sigpipe::unwritable;
use manx::cpu::{BudgetWatch, CpuBudget};
use std::io::{self, ErrorKind, Write as _};
use std::time::Duration;

/// The time between two readings, so a change may stay unseen for that long. A reading takes some
/// microseconds.
const INTERVAL: Duration = Duration::from_millis(100);

/// Writes `line` of the budget until standard output has no reader any more.
pub fn run(line: impl Fn(&CpuBudget) -> String) -> Result<u8, Failure> {
    let mut watch = BudgetWatch::new();
    let mut shown = watch.budget();
    let mut out = io::stdout().lock();
    loop {
        match out.write_all(line(&shown).as_bytes()).and_then(|()| out.flush()) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(0),
            Err(error) => return Err(unwritable(error)),
        }
        shown = next(&mut watch, &shown);
    }
}

/// Waits for another budget.
fn next(watch: &mut BudgetWatch, shown: &CpuBudget) -> CpuBudget {
    loop {
        std::thread::sleep(INTERVAL);
        if watch.cpus() != shown.cpus() {
            // Read once more for the reasons: it may be what it was again.
            let found = watch.budget();
            if found.cpus() != shown.cpus() {
                return found;
            }
        }
    }
}
