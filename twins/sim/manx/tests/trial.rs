//! The trial of ways to wait (`manx::wait::trial`) by the simulated scheduler: programs on two CPUs
//! wait as their author wrote, with the cure, or as the trial says.
//!
//! The threads of a program work, and then meet, or queue at a lock that is handed over in the
//! order of arrival. A wait is a loop as the preload library sees one: it looks at the clock each
//! few microseconds, and asks there. Programs run alone, with a quota, beside threads that compute,
//! and in pairs, where each program asks for itself.
//!
//! A case says what the work of the trial is at least, to that of the better way: of each seed, and
//! of all together. Many a program is in lock-step or in luck by chance, in its author's way: there
//! the better way of a seed is known only in the end, and the trial is measured by all seeds, and
//! by the cure, which knows no luck. Nothing here depends on the clock of the machine.
//!
//! `MANX_FULL=1` runs five times as many seeds, 1,160 in all. `--nocapture` shows the figures.

use manx_sim::wait::trial::{Progress, Trial};
use platform::atomic::{AtomicU32, Ordering};
use platform::chance::Chance;
use platform::machine::{Machine, Quota};
use platform::memory::Allocator;
use platform::simulation::run;
use platform::{clock, cpu, thread};
// The standard library's: what is counted there is no step of the program.
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

const MS: u64 = 1_000_000;
/// Work counts from here on: the first question is over.
const FROM_NS: u64 = 500 * MS;
const UNTIL_NS: u64 = 2_500 * MS;
/// The seeds of a case, and with `MANX_FULL=1`.
const SEEDS: u64 = 8;
const SEEDS_FULL: u64 = 40;
/// The trial does this much of the work of the better way, at least.
const PROMISE: f64 = 0.97;
/// How often an answer changes in two and a half seconds, at most.
const FLAPS: u64 = 7;
/// How often a thread that spins looks.
const LOOK_NS: u64 = 3_000;
/// A wait that spins loses what it burns after this time.
const LOSING_NS: u64 = 250_000;
/// A yield that took this long is dear, and yields may be dear for `DEAR_FOR_NS`.
const DEAR_NS: u64 = MS;
const DEAR_FOR_NS: u64 = 100 * MS;
const SLEEP_NS: u64 = 50_000;

/// The judge of the way in which threads wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Says {
    Author,
    Cure,
    Trial,
}

/// How a loop waits as its author wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loop {
    Spins,
    Yields,
    /// It spins for this number of nanoseconds, and then sleeps until it is woken. The cure sleeps
    /// at once.
    SpinsThenSleeps(u64),
}

/// What the threads of a program do between two pieces of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Does {
    /// All meet.
    Meet,
    /// Each holds a lock for this number of nanoseconds, in the order of arrival.
    Queue(u64),
    /// Nothing: they wait for nobody.
    Compute,
}

/// A kind of program.
#[derive(Clone, Copy, Debug)]
struct Kind {
    does: Does,
    waits: Loop,
    threads: u32,
    work_ns: u64,
}

struct Program {
    kind: Kind,
    says: Says,
    trial: Trial<1>,
    arrived: AtomicU32,
    phase: AtomicU32,
    /// The last member that arrives says so, so that all make as many phases; in a queue and
    /// without waits, any thread.
    over: AtomicU32,
    work_ns: AtomicU64,
    /// The CPU time that its loops burned.
    burned_ns: AtomicU64,
    /// The work by `FROM_NS`.
    before_ns: AtomicU64,
    /// How often the answer changed, and the last one.
    changes: AtomicU64,
    acts: AtomicU64,
}

impl Program {
    /// Whether the cure acts. Asked by a thread that waits.
    fn cures(&self, now_ns: u64) -> bool {
        match self.says {
            Says::Author => false,
            Says::Cure => true,
            Says::Trial => {
                let work_ns = self.work_ns.load(Ordering::Relaxed);
                let burned_ns = self.burned_ns.load(Ordering::Relaxed);
                self.trial.drive(now_ns, || Progress { work_ns, burned_ns, short_ns: now_ns });
                let acts = u64::from(self.trial.verdict(0).acts);
                if self.acts.swap(acts, Ordering::Relaxed) != acts {
                    self.changes.fetch_add(1, Ordering::Relaxed);
                }
                self.trial.acts(0)
            }
        }
    }

    /// Waits until the phase is over, or is this one.
    fn wait(&self, is_over: impl Fn(u32) -> bool) {
        match self.kind.waits {
            Loop::Spins => self.spin(&is_over, u64::MAX),
            Loop::Yields => self.yield_on(&is_over),
            Loop::SpinsThenSleeps(spins_ns) => self.spin(&is_over, spins_ns),
        }
    }

    /// Ends the phase.
    fn next(&self) {
        self.phase.fetch_add(1, Ordering::AcqRel);
        if matches!(self.kind.waits, Loop::SpinsThenSleeps(_)) {
            platform::futex::wake(&self.phase, u32::MAX);
        }
    }

    fn meet(&self) {
        let phase = self.phase.load(Ordering::Acquire);
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 < self.kind.threads {
            return self.wait(|now| now != phase);
        }
        self.note();
        self.arrived.store(0, Ordering::Relaxed);
        self.next();
    }

    /// Notes what is done by now.
    fn note(&self) {
        let now_ns = clock::now_ns();
        if now_ns < FROM_NS {
            self.before_ns.store(self.work_ns.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        self.over.store(u32::from(now_ns >= UNTIL_NS), Ordering::Relaxed);
    }

    fn queue(&self, held_ns: u64) {
        let ticket = self.arrived.fetch_add(1, Ordering::AcqRel);
        if self.phase.load(Ordering::Acquire) != ticket {
            self.wait(|now| now == ticket);
        }
        self.work(held_ns);
        self.note();
        self.next();
    }

    fn spin(&self, is_over: &impl Fn(u32) -> bool, spins_ns: u64) {
        let began_ns = clock::now_ns();
        let mut last_ns = began_ns;
        loop {
            let seen = self.phase.load(Ordering::Acquire);
            if is_over(seen) {
                return;
            }
            cpu::work(LOOK_NS);
            let now_ns = clock::now_ns();
            let cured = self.cures(now_ns);
            if spins_ns < u64::MAX && (cured || now_ns - began_ns >= spins_ns) {
                platform::futex::wait(&self.phase, seen);
                last_ns = clock::now_ns();
            } else if cured {
                thread::sleep_ns(SLEEP_NS);
                last_ns = clock::now_ns();
            } else {
                // For more than that the thread was away.
                let burned_ns = (now_ns - last_ns).min(2 * LOOK_NS);
                self.burned_ns.fetch_add(burned_ns, Ordering::Relaxed);
                if now_ns - began_ns >= LOSING_NS {
                    self.trial.lost(0, burned_ns);
                }
                last_ns = now_ns;
            }
        }
    }

    fn yield_on(&self, is_over: &impl Fn(u32) -> bool) {
        platform::thread_local! {
            static DEAR_UNTIL: AtomicU64 = AtomicU64::new(0);
        }
        while !is_over(self.phase.load(Ordering::Acquire)) {
            let now_ns = clock::now_ns();
            let is_dear =
                self.says == Says::Cure || DEAR_UNTIL.with(|it| now_ns < it.load(Ordering::Relaxed));
            if is_dear && self.cures(now_ns) {
                thread::sleep_ns(SLEEP_NS);
                continue;
            }
            thread::yield_now();
            let after_ns = clock::now_ns();
            if after_ns - now_ns >= DEAR_NS {
                self.trial.lost(0, after_ns - now_ns);
                DEAR_UNTIL.with(|it| it.store(after_ns + DEAR_FOR_NS, Ordering::Relaxed));
            }
        }
    }

    fn work(&self, ns: u64) {
        cpu::work(ns);
        self.work_ns.fetch_add(ns, Ordering::Relaxed);
    }

    fn take_part(&self) {
        while self.over.load(Ordering::Relaxed) == 0 {
            self.work(self.kind.work_ns);
            match self.kind.does {
                Does::Meet => self.meet(),
                Does::Queue(held_ns) => self.queue(held_ns),
                Does::Compute => self.note(),
            }
        }
    }
}

/// What a program has come to.
#[derive(Clone, Copy, Debug)]
struct Did {
    /// The work of a second, in CPUs.
    work: f64,
    /// How often the answer changed.
    changes: u64,
}

/// What each program of a run has come to.
fn did(machine: &Machine, seed: u64, programs: &[Kind], says: Says) -> Vec<Did> {
    let programs = programs.to_vec();
    let outcome = run(machine, seed, move || {
        let (mut all, mut threads, mut chance) = (Vec::new(), Vec::new(), Chance::new(seed));
        for kind in programs {
            let program = Arc::new(Program {
                kind,
                says,
                trial: Trial::new(0, u32::from(kind.waits == Loop::Yields)),
                arrived: AtomicU32::new(0),
                phase: AtomicU32::new(0),
                over: AtomicU32::new(0),
                work_ns: AtomicU64::new(0),
                burned_ns: AtomicU64::new(0),
                before_ns: AtomicU64::new(0),
                changes: AtomicU64::new(0),
                acts: AtomicU64::new(0),
            });
            for _ in 0..kind.threads {
                let program = Arc::clone(&program);
                let starts_ns = chance.below(10 * MS);
                threads.push(thread::spawn(move || {
                    thread::sleep_ns(starts_ns);
                    program.take_part();
                }));
            }
            all.push(program);
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let result = |program: &Arc<Program>| {
            let work_ns = program.work_ns.load(Ordering::Relaxed) - program.before_ns.load(Ordering::Relaxed);
            Did {
                work: work_ns as f64 / (UNTIL_NS - FROM_NS) as f64,
                changes: program.changes.load(Ordering::Relaxed),
            }
        };
        all.iter().map(result).collect()
    });
    outcome.value
}

/// Some programs that run at once, and what is promised of those that wait.
struct Case {
    name: &'static str,
    programs: Vec<Kind>,
    has_quota: bool,
    /// Of programs that share the CPUs: the work of the one that does least, not of all.
    counts_least: bool,
    /// What the trial's work is at least, to that of the better way, in each seed.
    each: f64,
    /// The same of all seeds together.
    together: f64,
    /// To that of the cure, in each seed.
    of_cure: f64,
    /// How often an answer changes, at most.
    changes: u64,
}

impl Case {
    /// A case without chance: one way is better in each seed, and is found at once.
    fn new<const N: usize>(name: &'static str, programs: [Kind; N]) -> Case {
        Case {
            name,
            programs: programs.to_vec(),
            has_quota: false,
            counts_least: false,
            each: PROMISE,
            together: PROMISE,
            of_cure: PROMISE,
            changes: 1,
        }
    }

    fn check(&self) {
        let mut machine = Machine::known("here").expect("a machine");
        if self.has_quota {
            machine.quota = Some(Quota { quota_ns: 150 * MS, period_ns: 100 * MS, slice_ns: 5 * MS });
        }
        let full = std::env::var_os("MANX_FULL").is_some_and(|full| full == "1");
        let (mut sums, mut each, mut of_cure, mut changes) = ([0.0; 3], f64::MAX, f64::MAX, 0);
        for seed in 0..if full { SEEDS_FULL } else { SEEDS } {
            let all = [Says::Author, Says::Cure, Says::Trial];
            let all = all.map(|says| did(&machine, seed, &self.programs, says));
            changes = all[2].iter().map(|did| did.changes).fold(changes, u64::max);
            let works = all.map(|all| {
                let waits = all.iter().zip(&self.programs).filter(|(_, kind)| kind.does != Does::Compute);
                let works = waits.map(|(did, _)| did.work);
                if self.counts_least { works.fold(f64::MAX, f64::min) } else { works.sum() }
            });
            let [author, cure, trial] = works;
            sums = [sums[0] + author, sums[1] + cure, sums[2] + trial];
            each = each.min(trial / author.max(cure));
            of_cure = of_cure.min(trial / cure);
            let name = self.name;
            assert!(trial >= self.each * author.max(cure), "{name}, seed {seed}: {works:?}");
            assert!(trial >= self.of_cure * cure, "{name}, seed {seed}: {works:?}");
            assert!(changes <= self.changes, "{name}, seed {seed}: {changes} changes");
        }
        let together = sums[2] / sums[0].max(sums[1]);
        println!(
            "{}: work as written, cured, by trial {sums:.2?}; of the better way {each:.3} in each seed, \
             {together:.3} together; of the cure {of_cure:.3}; {changes} changes",
            self.name
        );
        assert!(together >= self.together, "{}: {sums:?}", self.name);
    }
}

fn meet(waits: Loop, threads: u32, work_ns: u64) -> Kind {
    Kind { does: Does::Meet, waits, threads, work_ns }
}

fn queue(waits: Loop, threads: u32) -> Kind {
    Kind { does: Does::Queue(5_000), waits, threads, work_ns: 20_000 }
}

fn compute(threads: u32) -> Kind {
    Kind { does: Does::Compute, waits: Loop::Spins, threads, work_ns: 100_000 }
}

use Loop::{Spins, SpinsThenSleeps, Yields};

/// GNU's OpenMP waits like this, and has two milliseconds or more for it.
const LONG: Loop = SpinsThenSleeps(2 * MS);

#[test]
fn gangs_alone() {
    let all = [
        Case::new("two that spin", [meet(Spins, 2, 20_000)]),
        Case::new("four that spin", [meet(Spins, 4, 20_000)]),
        Case::new("four that yield", [meet(Yields, 4, 20_000)]),
        Case::new("four that spin, then sleep", [meet(LONG, 4, 20_000)]),
    ];
    all.iter().for_each(Case::check);
    // Nobody loses what is burned in less than `LOSING_NS`, so nothing is asked.
    Case {
        each: 0.4,
        together: 0.4,
        of_cure: 0.4,
        changes: 0,
        ..Case::new("four that spin for 0.1 ms, then sleep", [meet(SpinsThenSleeps(100_000), 4, 20_000)])
    }
    .check();
}

#[test]
fn gangs_with_a_quota() {
    let all = [
        Case::new("two that spin, with a quota", [meet(Spins, 2, 20_000)]),
        Case::new("four that spin, with a quota", [meet(Spins, 4, 20_000)]),
        Case::new("four that yield, with a quota", [meet(Yields, 4, 20_000)]),
        Case::new("four that spin, then sleep, with a quota", [meet(LONG, 4, 20_000)]),
    ];
    all.into_iter().for_each(|case| Case { has_quota: true, ..case }.check());
}

/// A lock that is handed to a thread that does not run holds all others up.
#[test]
fn convoys() {
    Case::new("a convoy of four that yield", [queue(Yields, 4)]).check();
    Case::new("a convoy of four that spin, then sleep", [queue(LONG, 4)]).check();
    Case { each: 0.9, of_cure: 0.9, ..Case::new("the same with eight", [queue(LONG, 8)]) }.check();
    // With the cure it does 0.37 to 0.6 of a CPU, by chance.
    let chance =
        || Case { each: 0.6, together: 0.85, of_cure: 0.6, ..Case::new("four that spin", [queue(Spins, 4)]) };
    Case { name: "a convoy of four that spin", ..chance() }.check();
    Case { name: "the same with a quota", has_quota: true, ..chance() }.check();
    let computes = [queue(Spins, 4), compute(1)];
    Case {
        each: 0.9,
        of_cure: 0.9,
        ..Case::new("a convoy that spins beside a thread that computes", computes)
    }
    .check();
    let computes = [queue(LONG, 4), compute(1)];
    Case { each: 0.9, of_cure: 0.9, ..Case::new("a convoy that spins and sleeps beside it", computes) }
        .check();
}

/// Slices of the other threads bring a gang that spins into lock-step and out of it.
#[test]
fn gangs_beside_threads_that_compute() {
    // As written it is in lock-step for 40 to 80 ms and then in luck for longer, in turn. A
    // question is shorter than that, and is asked while it is in lock-step.
    let case = Case::new("two that spin beside one that computes", [meet(Spins, 2, 20_000), compute(1)]);
    Case { each: 0.6, together: 0.75, of_cure: 0.95, changes: FLAPS, ..case }.check();
    let case = Case::new("two that spin beside two that compute", [meet(Spins, 2, 20_000), compute(2)]);
    Case { each: 0.45, of_cure: 0.9, changes: FLAPS, ..case }.check();
    let case = Case::new("two that spin, then sleep, beside two", [meet(LONG, 2, 20_000), compute(2)]);
    Case { each: 0.65, together: 0.95, of_cure: 0.9, changes: FLAPS, ..case }.check();
    let case = Case::new("four that spin, then sleep, beside one", [meet(LONG, 4, 20_000), compute(1)]);
    Case { each: 0.95, of_cure: 0.95, changes: 3, ..case }.check();
    // Each thread yields again after `DEAR_FOR_NS`, and so loses a slice.
    let case = Case::new("two that yield beside two that compute", [meet(Yields, 2, 20_000), compute(2)]);
    Case { each: 0.9, together: 0.93, of_cure: 0.9, changes: 3, ..case }.check();
    let case = Case::new("four that yield beside two that compute", [meet(Yields, 4, 20_000), compute(2)]);
    Case { each: 0.9, together: 0.93, of_cure: 0.9, changes: 3, ..case }.check();
}

/// As written they are in lock-step or not, by luck, and each asks for itself. A gang that is cured
/// beside one that is not does less than both in luck, and more than both with the cure.
#[test]
fn pairs_of_gangs() {
    let like = [
        Case::new("two gangs that spin", [meet(Spins, 2, 20_000), meet(Spins, 2, 20_000)]),
        Case::new("two gangs that spin, then sleep", [meet(LONG, 2, 20_000), meet(LONG, 2, 35_000)]),
        Case::new("one that spins, one that then sleeps", [meet(Spins, 2, 35_000), meet(LONG, 2, 20_000)]),
    ];
    for case in like {
        Case { each: 0.65, of_cure: 0.85, changes: FLAPS, ..case }.check();
    }
    Case::new("two gangs that yield", [meet(Yields, 2, 20_000), meet(Yields, 2, 35_000)]).check();
    let case = Case::new("a convoy and a gang that spins", [queue(LONG, 4), meet(Spins, 2, 20_000)]);
    Case { each: 0.7, of_cure: 0.7, changes: FLAPS, ..case }.check();
    // As written the gang that yields gives nearly all of its time to the other one. Each program
    // asks for itself, so the sum may fall, and what counts is what the slower one does.
    let starves = [
        Case::new("one that yields, one that spins", [meet(Yields, 2, 35_000), meet(Spins, 2, 20_000)]),
        Case::new("one that yields, one that then sleeps", [meet(Yields, 2, 35_000), meet(LONG, 2, 20_000)]),
    ];
    for case in starves {
        Case { counts_least: true, each: 0.9, of_cure: 0.9, changes: FLAPS, ..case }.check();
    }
}
