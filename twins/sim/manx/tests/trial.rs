//! The trial of ways to wait (`manx::wait::trial`) by the simulated scheduler: programs on two CPUs
//! wait as their author wrote, with the cure, or as the trial says.
//!
//! A program is a gang: its members work, meet, and begin again. A wait is a loop as the preload
//! library sees one: it looks at the clock each few microseconds, and asks there.

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
const UNTIL_NS: u64 = 3_500 * MS;
const SEEDS: u64 = 4;
/// How often a thread that spins looks.
const LOOK_NS: u64 = 1_000;
/// A thread that spins asks the trial at each look whose number is a multiple of this.
const LOOKS: u32 = 3;
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
}

/// A gang of threads.
#[derive(Clone, Copy, Debug)]
struct Gang {
    waits: Loop,
    members: u32,
    work_ns: u64,
}

struct Program {
    gang: Gang,
    says: Says,
    trial: Trial<1>,
    arrived: AtomicU32,
    phase: AtomicU32,
    /// The last member that arrives says so, so that all make as many phases.
    over: AtomicU32,
    work_ns: AtomicU64,
    /// The work by `FROM_NS`.
    before_ns: AtomicU64,
}

impl Program {
    /// Whether the cure acts. Asked by a thread that waits.
    fn cures(&self, now_ns: u64) -> bool {
        match self.says {
            Says::Author => false,
            Says::Cure => true,
            Says::Trial => {
                let work_ns = self.work_ns.load(Ordering::Relaxed);
                // CPUs are short all the time.
                self.trial.drive(now_ns, || Progress { work_ns, short_ns: now_ns });
                self.trial.acts(0)
            }
        }
    }

    fn meet(&self) {
        let phase = self.phase.load(Ordering::Acquire);
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 < self.gang.members {
            return match self.gang.waits {
                Loop::Spins => self.spin(phase),
                Loop::Yields => self.yield_on(phase),
            };
        }
        let now_ns = clock::now_ns();
        if now_ns < FROM_NS {
            self.before_ns.store(self.work_ns.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        self.over.store(u32::from(now_ns >= UNTIL_NS), Ordering::Relaxed);
        self.arrived.store(0, Ordering::Relaxed);
        self.phase.fetch_add(1, Ordering::AcqRel);
    }

    fn spin(&self, phase: u32) {
        let began_ns = clock::now_ns();
        let mut last_ns = began_ns;
        loop {
            for _ in 0..LOOKS {
                if self.phase.load(Ordering::Acquire) != phase {
                    return;
                }
                cpu::work(LOOK_NS);
            }
            let now_ns = clock::now_ns();
            if self.cures(now_ns) {
                thread::sleep_ns(SLEEP_NS);
                last_ns = clock::now_ns();
            } else {
                if now_ns - began_ns >= LOSING_NS {
                    // For more than that the thread was away.
                    let burned_ns = (now_ns - last_ns).min(2 * u64::from(LOOKS) * LOOK_NS);
                    self.trial.lost(0, burned_ns);
                }
                last_ns = now_ns;
            }
        }
    }

    fn yield_on(&self, phase: u32) {
        platform::thread_local! {
            static DEAR_UNTIL: AtomicU64 = AtomicU64::new(0);
        }
        while self.phase.load(Ordering::Acquire) == phase {
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

    fn take_part(&self) {
        while self.over.load(Ordering::Relaxed) == 0 {
            cpu::work(self.gang.work_ns);
            self.work_ns.fetch_add(self.gang.work_ns, Ordering::Relaxed);
            self.meet();
        }
    }
}

/// The work that each program does in a second, in CPUs, and whether the cure acts in it.
fn work(machine: &Machine, seed: u64, gangs: &'static [Gang], says: Says) -> Vec<(f64, bool)> {
    let outcome = run(machine, seed, move || {
        let (mut all, mut threads, mut chance) = (Vec::new(), Vec::new(), Chance::new(seed));
        for &gang in gangs {
            let program = Arc::new(Program {
                gang,
                says,
                trial: Trial::new(0),
                arrived: AtomicU32::new(0),
                phase: AtomicU32::new(0),
                over: AtomicU32::new(0),
                work_ns: AtomicU64::new(0),
                before_ns: AtomicU64::new(0),
            });
            for _ in 0..gang.members {
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
            let before_ns = program.before_ns.load(Ordering::Relaxed);
            let work_ns = program.work_ns.load(Ordering::Relaxed) - before_ns;
            (work_ns as f64 / (UNTIL_NS - FROM_NS) as f64, program.trial.verdict(0).acts)
        };
        all.iter().map(result).collect()
    });
    outcome.value
}

/// Work as written, with the cure, and by the trial, for a seed.
fn three(name: &str, machine: &Machine, seed: u64, gangs: &'static [Gang]) -> [Vec<f64>; 3] {
    let all = [Says::Author, Says::Cure, Says::Trial].map(|says| work(machine, seed, gangs, says));
    println!("{name}, seed {seed}, as written, cured, by trial: {all:.3?}");
    all.map(|programs| programs.iter().map(|&(work, _)| work).collect())
}

/// The smallest ratio of the trial's work to the better way's, of some seeds.
fn least(name: &str, machine: &Machine, gangs: &'static [Gang]) -> f64 {
    let ratio = |seed| {
        let [author, cure, trial] = three(name, machine, seed, gangs).map(|all| all.iter().sum::<f64>());
        trial / author.max(cure)
    };
    let least = (0..SEEDS).map(ratio).fold(f64::MAX, f64::min);
    println!("{name}: {least:.3} at least");
    least
}

fn here() -> Machine {
    Machine::known("here").expect("a machine")
}

const SPINS: Gang = Gang { waits: Loop::Spins, members: 2, work_ns: 20_000 };

#[test]
fn two_gangs_that_spin_come_out_of_lock_step() {
    // As written they are in lock-step or not, by luck, and each asks for itself. One that is cured
    // beside one that is not does less than both in luck, and more than both with the cure.
    for seed in 0..SEEDS {
        let all = three("a pair that spins", &here(), seed, &[SPINS, SPINS]);
        let [author, cure, trial] = all.map(|all| all.iter().sum::<f64>());
        assert!(trial >= 0.97 * cure, "seed {seed}: {trial}, not {cure}");
        assert!(trial >= 0.7 * author, "seed {seed}: {trial}, not {author}");
    }
}

#[test]
fn a_gang_that_yields_is_left_alone() {
    let gangs = &[Gang { waits: Loop::Yields, members: 4, work_ns: 20_000 }];
    assert!(least("four that yield", &here(), gangs) >= 0.97);
}

#[test]
fn a_gang_with_a_quota_is_cured() {
    let mut machine = here();
    machine.quota = Some(Quota { quota_ns: 150 * MS, period_ns: 100 * MS, slice_ns: 5 * MS });
    let gangs = &[Gang { waits: Loop::Spins, members: 4, work_ns: 20_000 }];
    assert!(least("a quota", &machine, gangs) >= 0.95);
}

#[test]
fn a_gang_that_starves_beside_one_that_spins_is_rescued() {
    // As written the gang that yields gives nearly all of its time to the other one. Each program
    // asks for itself, so the sum may fall, and what counts is what the slower one does.
    let gangs = &[SPINS, Gang { waits: Loop::Yields, members: 2, work_ns: 35_000 }];
    let mut rescued = 0;
    for seed in 0..SEEDS {
        let slower = |all: Vec<f64>| all.into_iter().fold(f64::MAX, f64::min);
        let [author, cure, trial] = three("an unlike pair", &here(), seed, gangs).map(slower);
        assert!(trial >= 0.97 * author, "seed {seed}: {trial}, not {author}");
        rescued += u64::from(trial >= 0.97 * cure);
    }
    // Where the first question found it in luck, the answer holds for a rest.
    assert!(rescued >= SEEDS - 1, "{rescued} of {SEEDS}");
}
