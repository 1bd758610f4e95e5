//! The size of a lock at rest, and the growth of the process by its use.
//!
//! The size at rest is the lock's own size plus the memory that it allocates when it is made, as
//! the C library counts. The growth is that of the process while `PAIRS` ranges are locked and
//! unlocked. The same number of pairs comes before, so that pools are full.
//!
//! A million pairs of two threads show a lock that keeps memory for each pair. A lock may also keep
//! memory each time that a thread is preempted. That shows only with more threads than CPUs, and
//! after a longer time. So the locks that promise a constant size have a second case: eight threads
//! make a hundred million pairs. The figure is the largest size after any tenth of the pairs, minus
//! the size after the first tenth.

use super::case;
use super::competitor::{Competitor, Measured};
use super::plan::{Plan, names};
use super::request::{Pattern, Request, SPACE};
use super::run::run_apart;
use super::variant::{Form, SMALLEST, Variant};
use crate::error::Error;
use crate::harness::{Bench, Case, Sample};
use manx::range::RawRangeLock;
use procfs::process::Process;
use std::thread;
use std::time::Duration;

/// Threads that use the lock.
const THREADS: usize = 2;
/// Ranges locked and unlocked by each: first to fill pools, then to see what grows.
const PAIRS: usize = 1_000_000;
const PAIRS_QUICK: usize = 100_000;
/// The time that this is expected to take.
const EXPECTED: Duration = Duration::from_secs(2);
const EXPECTED_QUICK: Duration = Duration::from_millis(50);

/// The lasting case: the number of threads, the pairs of all threads together, and the number of
/// parts after which the process is measured.
const LASTING_THREADS: usize = 8;
const LASTING_PAIRS: usize = 100_000_000;
const LASTING_PAIRS_QUICK: usize = 1_000_000;
const PARTS: usize = 10;
const LASTING_EXPECTED: Duration = Duration::from_secs(20);
/// The locks of the lasting case.
const LASTING: [Competitor; 2] = [Competitor::Manx, Competitor::SkipList];

impl Plan {
    /// Size and growth.
    pub(super) fn memory(&self, bench: &mut Bench) -> Result<(), Error> {
        if self.setup.check {
            return Ok(());
        }
        self.memory_once(bench)?;
        self.memory_lasting(bench)
    }

    fn memory_lasting(&self, bench: &mut Bench) -> Result<(), Error> {
        let (pairs, expected) = match self.setup.quick {
            true => (LASTING_PAIRS_QUICK, EXPECTED_QUICK),
            false => (LASTING_PAIRS, LASTING_EXPECTED),
        };
        bench.note(format!(
            "{}: {LASTING_THREADS} threads, {pairs} pairs in {PARTS} parts; growth: the process' largest size after a part over that \
             after the first",
            case::MEMORY_LASTING
        ));
        let names = LASTING.map(Competitor::name);
        let case = Case { name: case::MEMORY_LASTING, variants: &names, expected };
        bench.rounds(case, 1, |at, _| {
            let once = || Ok(Variant::of(LASTING[at]).measure(SPACE as u64, None, Lasting { pairs }));
            // In a process of its own, so that no free memory hides the growth.
            run_apart(true, once).map_err(Error::failed)
        })
    }

    fn memory_once(&self, bench: &mut Bench) -> Result<(), Error> {
        let (pairs, expected) =
            if self.setup.quick { (PAIRS_QUICK, EXPECTED_QUICK) } else { (PAIRS, EXPECTED) };
        bench.note(format!(
            "{}: at rest: the lock and what it allocates when it is made, for {} KiB of keys; growth: of the process, \
             over {THREADS} x {pairs} pairs that follow as many",
            case::MEMORY,
            SPACE / 1024
        ));
        let mut variants = Variant::locks();
        variants.push(Variant::manx(SMALLEST, Form::Smallest));
        self.compare_by(bench, case::MEMORY, &names(&variants), expected, |at| {
            let variant = &variants[at];
            let once = || Ok(variant.measure(SPACE as u64, None, Use { pairs }));
            run_apart(variant.competitor.leaks(), once).map_err(Error::failed)
        })
    }
}

struct Use {
    pairs: usize,
}

impl Measured for Use {
    type Output = Sample;

    fn with<L: RawRangeLock>(self, make: impl Fn() -> L) -> Self::Output {
        let before = allocated();
        let lock = make();
        let at_rest = size_of::<L>() + allocated().saturating_sub(before);
        use_up(&lock, THREADS, self.pairs);
        trim();
        let before = resident();
        use_up(&lock, THREADS, self.pairs);
        let grown = resident() as f64 - before as f64;
        Sample::of([
            ("at_rest_bytes", at_rest as f64),
            ("grown_bytes_per_pair", grown / (THREADS * self.pairs) as f64),
        ])
    }
}

/// Many pairs of many threads.
struct Lasting {
    pairs: usize,
}

impl Measured for Lasting {
    type Output = Sample;

    fn with<L: RawRangeLock>(self, make: impl Fn() -> L) -> Self::Output {
        let lock = make();
        let pairs = self.pairs / PARTS / LASTING_THREADS;
        let sizes: Vec<u64> = (0..PARTS)
            .map(|_| {
                use_up(&lock, LASTING_THREADS, pairs);
                resident()
            })
            .collect();
        let largest = sizes.iter().copied().max().unwrap_or(0);
        let grown = (largest - sizes[0]) as f64;
        let after_first = pairs * LASTING_THREADS * (PARTS - 1);
        Sample::of([
            ("pairs", (pairs * LASTING_THREADS * PARTS) as f64),
            ("grown_bytes", grown),
            ("grown_bytes_per_pair", grown / after_first as f64),
        ])
    }
}

/// Each of `threads` threads locks and unlocks `pairs` ranges.
fn use_up<L: RawRangeLock>(lock: &L, threads: usize, pairs: usize) {
    let pattern = Pattern::Own { space: SPACE };
    thread::scope(|scope| {
        for index in 0..threads {
            let queue = pattern.queue(index, threads);
            scope.spawn(move || lock_and_unlock(lock, &queue, pairs));
        }
    });
}

/// Locks and unlocks, range after range.
pub(super) fn lock_and_unlock<L: RawRangeLock>(lock: &L, queue: &[Request], pairs: usize) {
    for request in queue.iter().cycle().take(pairs) {
        let held = lock.lock(&request.span(), request.access);
        // SAFETY: this lock returned it.
        unsafe { lock.unlock(held) };
    }
}

/// Bytes that the process has from the C library's allocator.
fn allocated() -> usize {
    // SAFETY: it only reads the allocator's figures.
    let figures = unsafe { libc::mallinfo2() };
    figures.uordblks + figures.hblkhd
}

/// Returns free memory to the kernel, so that its reuse does not hide growth.
fn trim() {
    // SAFETY: it has no preconditions.
    unsafe { libc::malloc_trim(0) };
}

/// Bytes of memory that the process has; 0 where the kernel does not say.
fn resident() -> u64 {
    let own = Process::myself().and_then(|process| process.statm());
    own.map_or(0, |own| own.resident * procfs::page_size())
}

#[cfg(test)]
mod tests {
    use super::*;
    use manx::range::{Access, Span};
    use std::sync::Mutex;

    /// A lock that keeps 64 bytes for each range that it ever gave.
    struct Leaking {
        leaked: Mutex<Vec<[u64; 8]>>,
        table: Box<[u8; 100_000]>,
    }

    // SAFETY: no thread in this test asks for what another holds.
    unsafe impl RawRangeLock for Leaking {
        type Held = ();
        const NAME: &'static str = "leaking";
        const SHARES: bool = false;

        fn with_space(_space: u64) -> Leaking {
            Leaking { leaked: Mutex::default(), table: Box::new([1; 100_000]) }
        }

        fn try_lock(&self, _span: &Span<u64>, _access: Access) -> Option<()> {
            Some(())
        }

        fn lock(&self, _span: &Span<u64>, _access: Access) {
            self.leaked.lock().unwrap().push([u64::from(self.table[0]); 8]);
        }

        unsafe fn unlock(&self, _held: ()) {}
    }

    #[test]
    fn a_lock_that_leaks_is_seen_and_so_is_what_it_allocates_at_first() {
        // Apart, because other tests allocate and free as well.
        let used = run_apart(true, || Ok(Use { pairs: 100_000 }.with(|| Leaking::with_space(0))));
        let found = used.unwrap().values;
        assert!(found["at_rest_bytes"] >= 100_000.0, "{found:?}");
        assert!(found["grown_bytes_per_pair"] >= 32.0, "{found:?}");
        let used = run_apart(true, || Ok(Lasting { pairs: 200_000 }.with(|| Leaking::with_space(0))));
        let found = used.unwrap().values;
        assert!(found["grown_bytes_per_pair"] >= 32.0, "{found:?}");
    }
}
