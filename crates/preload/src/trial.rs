//! What the library does while CPUs are short, and whether it helps: see [`manx::wait::trial`].
//!
//! | cure | as the author wrote | with the cure | at first |
//! | --- | --- | --- | --- |
//! | [`SPIN`] | a loop spins | [`crate::guard::visit`] | acts |
//! | [`YIELD`] | a loop yields, and its yields let others run | it sleeps: [`crate::yields`] | does not act |

use core::sync::atomic::{AtomicU64, Ordering};
use manx::wait::trial::Trial;
use platform::clock;

/// Loops that spin.
pub const SPIN: usize = 0;
/// Loops that yield.
pub const YIELD: usize = 1;

static TRIAL: Trial<2> = Trial::new(1 << SPIN);
/// The time that threads burned in waits, in ticks, as far as it was counted.
static BURNED: AtomicU64 = AtomicU64::new(0);

/// Whether a thread that waits there, while CPUs are short, does what the cure says.
#[inline]
pub fn acts(cure: usize, now_ticks: u64) -> bool {
    TRIAL.ask(cure);
    drive(now_ticks);
    TRIAL.acts(cure)
}

/// Whether.
pub fn is_on(cure: usize) -> bool {
    TRIAL.acts(cure)
}

/// Ask.
pub fn ask(cure: usize) {
    TRIAL.ask(cure);
}

/// Makes the step that is due.
#[inline]
pub fn drive(now_ticks: u64) {
    TRIAL.drive(now_ticks, work_ns);
}

#[cold]
fn work_ns() -> u64 {
    clock::process_cpu_ns().saturating_sub(clock::ticks_to_ns(BURNED.load(Ordering::Relaxed)))
}

/// A wait used the CPU for this time, up to `most_ns`: for longer, the thread was away.
#[inline]
pub fn burned(ticks: u64, most_ns: u64) {
    if TRIAL.measures() {
        BURNED.fetch_add(ticks.min(clock::ns_to_ticks(most_ns)), Ordering::Relaxed);
    }
}
