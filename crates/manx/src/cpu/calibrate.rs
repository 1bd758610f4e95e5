//! Measuring how fast each CPU is, with a fixed piece of work.
//!
//! The calling thread goes to each CPU that it may run on, one after the other and [`ROUNDS`] times
//! over, so that what changes with time (heat, other programs) meets all of them alike. There it
//! works until the core has left its low frequencies, and then times some pieces of work. The work
//! is a chain of multiplications and loads, where each one needs the one before, within the
//! first-level cache: what is measured is the core, not the memory. Times are of the thread's own
//! CPU clock, so a thread that takes the CPU away costs nothing; a busy sibling of a core, and a
//! host that gives the core to others, do slow it down, and that is what they do to critical
//! sections, too.
//!
//! It takes about 10 ms for each CPU, all of it busy: this is for a launcher, or for the start of a
//! program, never for a library behind a program's back.

use super::{Classes, CpuSet, MEASURED, ParseClassesError, Samples};
use platform::clock::{now_ns, thread_cpu_ns};
use platform::cpu;
use std::hint::black_box;

/// Each CPU is visited so often …
const ROUNDS: usize = 4;
/// … and times this number of pieces of work at each visit …
const PIECES: usize = 8;
/// … after it has been busy for so long.
const WARM_UP_NS: u64 = 2_000_000;
/// Steps of a piece of work: some 50 µs.
const STEPS: usize = 20_000;
const _: () = assert!(ROUNDS * PIECES >= super::measured::SAMPLES_MIN);
const _: () = assert!(ROUNDS * PIECES <= super::measured::SAMPLES_MAX);

impl Classes {
    /// What `MANX_CORES` says, if it is set. If that is `measured`, the CPUs are measured now: see
    /// [`Classes::measure`].
    ///
    /// # Errors
    /// It says something wrong. A program that its user may correct reports it; otherwise the
    /// variable is as good as not set.
    pub fn from_environment() -> Result<Option<Classes>, ParseClassesError> {
        Classes::read_environment(Classes::parse_or_measure)
    }

    /// Measures how fast the CPUs are that the calling thread may run on; those where it may not
    /// are big.
    ///
    /// The calling thread is busy for about 10 ms for each CPU, and visits all of them; afterwards
    /// it may run where it could before. Best on a machine that is doing little else, and not in
    /// two threads at once.
    ///
    /// ```
    /// use manx::cpu::{Classes, set_classes};
    ///
    /// let classes = Classes::measure();
    /// println!("{classes}, {}", classes.why());
    /// set_classes(&classes);
    /// ```
    pub fn measure() -> Classes {
        let allowed = CpuSet::of_this_thread();
        let machine = Classes::present().unwrap_or(CpuSet::EMPTY).union(&allowed);
        let mut samples = Samples::default();
        let work = Work::new();
        for _ in 0..ROUNDS {
            cpu::on_each(allowed.iter(), |cpu| work.time(cpu, &mut samples));
        }
        samples.classes_on(&machine)
    }

    /// Reads a text as [`Classes::parse`] does; if it is `measured`, measures. The text of the
    /// result names every CPU, so it can be passed on to another process.
    ///
    /// ```
    /// use manx::cpu::Classes;
    ///
    /// let told = Classes::parse_or_measure("big:0,little:1")?;
    /// let measured = Classes::parse_or_measure("measured")?;
    /// assert_eq!(Classes::parse(&measured.to_string())?.to_string(), measured.to_string());
    /// # Ok::<(), manx::cpu::ParseClassesError>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Classes::parse`].
    pub fn parse_or_measure(text: &str) -> Result<Classes, ParseClassesError> {
        if text.trim() == MEASURED { Ok(Classes::measure()) } else { Classes::parse(text) }
    }
}

/// The piece of work.
struct Work {
    table: [u32; 256],
}

impl Work {
    fn new() -> Work {
        Work { table: std::array::from_fn(|at| (at as u32).wrapping_mul(0x9e37_79b9)) }
    }

    /// Works for a while, then times some pieces.
    fn time(&self, cpu: usize, samples: &mut Samples) {
        let until_ns = now_ns() + WARM_UP_NS;
        while now_ns() < until_ns {
            black_box(self.piece());
        }
        for _ in 0..PIECES {
            let began_ns = thread_cpu_ns();
            black_box(self.piece());
            samples.record_ns(cpu, thread_cpu_ns().saturating_sub(began_ns));
        }
    }

    #[inline(never)]
    fn piece(&self) -> u32 {
        let mut state = black_box(1_u32);
        for _ in 0..STEPS {
            state = (state ^ self.table[(state >> 24) as usize]).wrapping_mul(0x85eb_ca6b).rotate_left(13);
        }
        state
    }
}
