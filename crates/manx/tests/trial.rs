//! The trial of ways to wait, with programs that are made up: no threads, and no time but a number.
//!
//! A program is how much work it does in each way. What is promised is a ratio: the work that is
//! done with the trial, to that of the better of the two ways alone. It counts from the first
//! second on, since the first question takes some tens of milliseconds.

use fastrand::Rng;
use manx::wait::trial::{Progress, Trial, Verdict};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;
const SEEDS: u64 = 1_000;
/// The part of a CPU that threads lose in a wait as the author wrote, where nothing else is said.
const LOST: f64 = 0.9;
/// The least ratio that is allowed.
const PROMISE: f64 = 0.97;
/// The longest rest of a way that lost, with the part by which rests differ.
const REST_MAX_NS: u64 = 10 * SECOND;

/// A program that waits all the time, in one way or in the other.
struct Program {
    trial: Trial<1>,
    now_ns: u64,
    work_ns: f64,
    /// The CPU time that its waits burn as its author wrote.
    burned_ns: u64,
    short_ns: u64,
    /// How long the cure has acted.
    cured_ns: u64,
    is_short: bool,
    lost: f64,
    /// True if it burns what it loses.
    burns: bool,
}

impl Program {
    /// The cure acts until it is asked about, or does not.
    fn new(acts: bool) -> Program {
        Program {
            trial: Trial::new(u32::from(acts), 0),
            // Time has no beginning.
            now_ns: 7 * SECOND,
            work_ns: 0.0,
            burned_ns: 0,
            short_ns: 0,
            cured_ns: 0,
            is_short: true,
            lost: LOST,
            burns: false,
        }
    }

    /// Runs for a while. `rate` is how much work is done in a nanosecond: with the cure if it is
    /// given true.
    fn run(&mut self, lasts_ns: u64, mut rate: impl FnMut(bool) -> f64) -> &mut Program {
        let until_ns = self.now_ns + lasts_ns;
        while self.now_ns < until_ns {
            let acts = self.trial.acts(0);
            let step_ns = if self.trial.measures() { MS / 2 } else { 4 * MS };
            self.pass(step_ns, rate(acts));
            self.drive();
        }
        self
    }

    fn pass(&mut self, step_ns: u64, rate: f64) {
        let acts = self.trial.acts(0);
        self.now_ns += step_ns;
        self.work_ns += step_ns as f64 * rate;
        if self.is_short {
            self.short_ns += step_ns;
        }
        if acts {
            self.cured_ns += step_ns;
        } else {
            let lost_ns = (step_ns as f64 * self.lost) as u64;
            self.trial.lost(0, lost_ns);
            self.burned_ns += if self.burns { lost_ns } else { 0 };
        }
    }

    fn drive(&mut self) {
        let (work_ns, burned_ns, short_ns) = (self.work_ns as u64, self.burned_ns, self.short_ns);
        self.trial.drive(self.now_ns, || Progress { work_ns, burned_ns, short_ns });
    }

    fn verdict(&self) -> Verdict {
        self.trial.verdict(0)
    }

    fn questions(&self) -> u32 {
        self.verdict().kept + self.verdict().dropped
    }
}

/// Work by two ways, with noise: a factor that is drawn again after some milliseconds.
struct Noisy {
    rng: Rng,
    as_written: f64,
    cured: f64,
    /// The factor lies between 1 less this and 1 more this.
    noise: f64,
    factor: f64,
    steps: u32,
}

impl Noisy {
    fn new(seed: u64, as_written: f64, cured: f64, noise: f64) -> Noisy {
        Noisy { rng: Rng::with_seed(seed), as_written, cured, noise, factor: 1.0, steps: 0 }
    }

    fn rate(&mut self, acts: bool) -> f64 {
        if self.steps == 0 {
            self.factor = 1.0 + self.noise * (2.0 * self.rng.f64() - 1.0);
            // 0.5 to 8 ms, while it is measured.
            self.steps = self.rng.u32(1..=16);
        }
        self.steps -= 1;
        self.factor * if acts { self.cured } else { self.as_written }
    }
}

/// 2 to 100, each power of two as likely.
fn factor(seed: u64) -> f64 {
    2.0 * 50f64.powf(Rng::with_seed(!seed).f64())
}

/// The work of 60 seconds, after the first one, to that of the better way.
fn ratio(seed: u64, acts: bool, as_written: f64, cured: f64, noise: f64) -> (f64, Program) {
    let mut noisy = Noisy::new(seed, as_written, cured, noise);
    let mut program = Program::new(acts);
    program.run(SECOND, |acts| noisy.rate(acts));
    let before_ns = program.work_ns;
    program.run(60 * SECOND, |acts| noisy.rate(acts));
    // What the better way would have done with this noise, whose mean is near to 1.
    let best = as_written.max(cured) * 60.0 * SECOND as f64;
    ((program.work_ns - before_ns) / best, program)
}

/// The smallest ratio of all seeds, and what its program came to.
fn least(acts: bool, rates: impl Fn(u64) -> (f64, f64)) -> f64 {
    let mut least = f64::MAX;
    for seed in 0..SEEDS {
        let (as_written, cured) = rates(seed);
        let (ratio, program) = ratio(seed, acts, as_written, cured, 0.2);
        assert!(
            ratio >= PROMISE,
            "seed {seed}, {as_written} as written, {cured} cured: {ratio} of the better way, {:?}",
            program.verdict()
        );
        least = least.min(ratio);
    }
    least
}

#[test]
fn a_cure_is_taken_and_kept() {
    let mut program = Program::new(false);
    program.run(SECOND, |acts| if acts { 1.0 } else { 0.1 });
    assert!(program.verdict().acts, "{:?}", program.verdict());
    program.cured_ns = 0;
    program.run(60 * SECOND, |acts| if acts { 1.0 } else { 0.1 });
    let verdict = program.verdict();
    assert!(verdict.acts && verdict.dropped == 0 && verdict.kept > 3, "{verdict:?}");
    assert!(program.cured_ns > 59 * SECOND, "it acted for {} ns", program.cured_ns);
    assert!((95..105).contains(&(verdict.as_written_ns / MS)), "{verdict:?}");
    assert!((995..1005).contains(&(verdict.cured_ns / MS)), "{verdict:?}");
}

#[test]
fn a_poison_acts_for_milliseconds_and_then_rests() {
    let mut program = Program::new(false);
    // How long it acted at a time.
    let mut stretch_ns = 0;
    for _ in 0..60 * SECOND / (MS / 2) {
        let acts = program.trial.acts(0);
        program.pass(MS / 2, if acts { 0.005 } else { 1.0 });
        program.drive();
        stretch_ns = if acts { stretch_ns + MS / 2 } else { 0 };
        assert!(stretch_ns <= 7 * MS, "it acts for {stretch_ns} ns");
    }
    let verdict = program.verdict();
    assert!(!verdict.acts && verdict.kept == 0, "{verdict:?}");
    assert!((5..40).contains(&verdict.dropped), "{verdict:?}");
    assert!(program.cured_ns <= u64::from(verdict.dropped) * 21 * MS, "{} ns, {verdict:?}", program.cured_ns);
    assert!(program.cured_ns <= 60 * SECOND / 100, "it acted for {} ns", program.cured_ns);
}

#[test]
fn a_tie_goes_to_the_author() {
    for acts in [false, true] {
        for cured in [0.9, 1.0, 1.15] {
            let mut program = Program::new(acts);
            program.run(20 * SECOND, |acts| if acts { cured } else { 1.0 });
            let verdict = program.verdict();
            assert!(!verdict.acts && verdict.dropped > 0, "{cured}, acts {acts}: {verdict:?}");
        }
    }
}

#[test]
fn a_tie_goes_to_the_cure_where_the_author_burns_half_a_cpu_in_vain() {
    for acts in [false, true] {
        for (cured, taken) in [(0.85, false), (0.95, true), (1.0, true), (1.15, true)] {
            let mut program = Program { burns: true, ..Program::new(acts) };
            program.run(20 * SECOND, |acts| if acts { cured } else { 1.0 });
            assert_eq!(program.verdict().acts, taken, "{cured}, acts {acts}: {:?}", program.verdict());
        }
    }
}

/// Beside a process that sleeps, one that spins takes more than its part of the CPUs. So each of
/// the two would spin, if each asked at a time of its own, and both would do less than if both
/// slept.
#[test]
fn processes_that_ask_together_do_not_come_to_harm_each_other() {
    for seed in 0..SEEDS {
        let mut rng = Rng::with_seed(seed);
        let mut pair = [Program::new(false), Program::new(false)];
        // They do not begin at the same time.
        let late_ns = rng.u64(0..300) * MS;
        let mut wrong_ns = 0;
        for step in 0..40 * SECOND / MS {
            let acts = pair.each_ref().map(|program| program.trial.acts(0));
            for number in [0, 1] {
                let rate = match (acts[number], acts[1 - number]) {
                    (false, false) => 0.2,
                    (true, true) => 0.75,
                    (false, true) => 0.95,
                    (true, false) => 0.4,
                };
                let program = &mut pair[number];
                program.pass(MS, rate * (0.8 + 0.4 * rng.f64()));
                if number == 0 || step * MS >= late_ns {
                    program.drive();
                }
            }
            let settled = step * MS > 12 * SECOND;
            let cured = pair.iter().all(|program| program.verdict().acts);
            wrong_ns += if settled && !cured { MS } else { 0 };
        }
        assert!(wrong_ns < 2 * SECOND, "seed {seed}: {} ms", wrong_ns / MS);
    }
}

#[test]
fn while_cpus_are_not_short_there_is_no_answer() {
    for acts in [false, true] {
        let mut program = Program::new(acts);
        program.is_short = false;
        program.run(20 * SECOND, |acts| if acts { 1.0 } else { 0.1 });
        program.run(20 * SECOND, |acts| if acts { 0.1 } else { 1.0 });
        assert_eq!(program.verdict(), Verdict { acts, ..Verdict::default() });
    }
}

#[test]
fn nothing_is_asked_where_little_is_lost() {
    let mut program = Program::new(false);
    program.lost = 0.2;
    program.run(20 * SECOND, |acts| if acts { 1.0 } else { 0.1 });
    assert_eq!((program.questions(), program.cured_ns), (0, 0));
    program.lost = 0.3;
    program.run(SECOND, |acts| if acts { 1.0 } else { 0.1 });
    assert!(program.verdict().acts, "{:?}", program.verdict());
}

/// A process that gives half of its time to neighbours, and works in the other half, shares the
/// CPUs. One that is away for longer than it works loses what a cure may win.
#[test]
fn a_process_that_is_away_is_asked_only_if_it_gets_little_of_the_cpus() {
    for (used, questions) in [(1.0, false), (0.6, false), (0.4, true), (0.02, true)] {
        let mut program = Program { trial: Trial::new(0, 1), lost: 0.5, ..Program::new(false) };
        program.run(9 * SECOND, |_| used);
        assert_eq!(program.questions() > 0, questions, "{used} of a CPU");
    }
    // A moment of bad luck is none.
    let mut program = Program { trial: Trial::new(0, 1), lost: 0.5, ..Program::new(false) };
    for _ in 0..9 {
        program.run(SECOND, |_| 1.0).run(50 * MS, |_| 0.02);
    }
    assert_eq!(program.questions(), 0, "{:?}", program.verdict());
}

#[test]
fn a_step_in_which_no_thread_waited_changes_nothing() {
    let mut program = Program::new(false);
    // While a question is open no thread waits for half a second, in which ten times the work is
    // done: no answer comes of that, as often as it happens.
    for _ in 0..100 {
        for _ in 0..80 {
            program.pass(4 * MS, 0.1);
            program.drive();
            if program.trial.measures() {
                break;
            }
        }
        assert!(program.trial.measures(), "it asks again");
        for _ in 0..4 {
            program.pass(3 * MS, 0.1);
            program.drive();
        }
        program.pass(SECOND / 2, 1.0);
        program.drive();
        assert!(!program.trial.acts(0) && !program.trial.measures());
    }
    assert_eq!(program.verdict(), Verdict::default());
}

#[test]
fn a_noisy_tie_does_not_flap() {
    let (mut changes, mut questions) = (0, 0);
    for seed in 0..SEEDS {
        let cured = 0.95 + 0.1 * Rng::with_seed(!seed).f64();
        let (ratio, program) = ratio(seed, false, 1.0, cured, 0.2);
        assert!(ratio >= 0.9, "seed {seed}: {ratio}, {:?}", program.verdict());
        questions += program.questions();
        // It did not act to begin with, so each time in which it does is a change, and its end one.
        changes += program.verdict().kept * 2;
    }
    println!("{changes} changes in {questions} questions");
    assert!(questions > 5 * SEEDS as u32, "{questions} questions");
    assert!(changes * 50 <= questions, "{changes} changes in {questions} questions");
}

#[test]
fn a_poison_costs_three_percent_at_most() {
    for acts in [false, true] {
        println!("acts {acts}: {}", least(acts, |seed| (1.0, 1.0 / factor(seed))));
    }
}

#[test]
fn a_cure_is_worth_what_it_is_but_for_three_percent() {
    for acts in [false, true] {
        println!("acts {acts}: {}", least(acts, |seed| (1.0 / factor(seed), 1.0)));
    }
}

#[test]
fn the_author_loses_three_percent_at_most_whatever_the_cure_does() {
    // A cure that is better by less than half is not always taken: ties go to the author.
    let (mut least, mut least_of_better) = (f64::MAX, f64::MAX);
    for seed in 0..SEEDS {
        let cured = 0.5 + 1.5 * Rng::with_seed(!seed).f64();
        let (ratio, program) = ratio(seed, false, 1.0, cured, 0.2);
        let to_author = ratio * cured.max(1.0);
        assert!(to_author >= PROMISE, "seed {seed}, {cured}: {to_author}, {:?}", program.verdict());
        (least, least_of_better) = (least.min(to_author), least_of_better.min(ratio));
    }
    println!("{least} of the author's way, {least_of_better} of the better way");
}

#[test]
fn when_the_better_way_changes_a_rest_is_lost_at_most() {
    let mut longest_ns = 0;
    for seed in 0..SEEDS {
        let mut program = Program::new(false);
        let (worse, cured_first) = (1.0 / factor(seed), seed % 2 == 0);
        let rates = |cured_is_better| if cured_is_better { (worse, 1.0) } else { (1.0, worse) };
        let (as_written, cured) = rates(cured_first);
        let mut noisy = Noisy::new(seed, as_written, cured, 0.2);
        program.run(30 * SECOND, |acts| noisy.rate(acts));
        assert_eq!(program.verdict().acts, cured_first, "seed {seed}: {:?}", program.verdict());
        (noisy.as_written, noisy.cured) = rates(!cured_first);
        let mut wrong_ns = 0;
        while program.verdict().acts == cured_first {
            program.run(4 * MS, |acts| noisy.rate(acts));
            wrong_ns += 4 * MS;
            assert!(wrong_ns <= REST_MAX_NS, "seed {seed}: {:?}", program.verdict());
        }
        longest_ns = longest_ns.max(wrong_ns);
        program.work_ns = 0.0;
        program.run(30 * SECOND, |acts| noisy.rate(acts));
        let ratio = program.work_ns / (30.0 * SECOND as f64);
        assert!(ratio >= PROMISE, "seed {seed}: {ratio} after the change, {:?}", program.verdict());
    }
    println!("{} ms at most", longest_ns / MS);
}

#[test]
fn what_was_answered_on_more_cpus_is_asked_again() {
    let mut program = Program::new(false);
    while program.questions() == 0 {
        program.run(MS, |cured| if cured { 0.1 } else { 1.0 });
    }
    let cured = |cured| if cured { 1.0 } else { 0.5 };
    program.run(400 * MS, cured);
    assert!(!program.verdict().acts, "it rests for a hundred times the question");
    program.trial.begin_anew();
    program.run(400 * MS, cured);
    assert!(program.verdict().acts);
}

#[test]
fn a_program_that_comes_into_lock_step_does_not_wait_for_the_end_of_a_rest() {
    let mut longest_ns = 0;
    for seed in 0..SEEDS {
        // Better than lock-step, and not as good as luck, so it rests for seconds.
        let cured = 0.3 + 0.6 * Rng::with_seed(!seed).f64();
        let mut program = Program::new(false);
        let mut noisy = Noisy::new(seed, 1.0, cured, 0.2);
        program.run(SECOND + seed * MS, |acts| noisy.rate(acts));
        assert!(!program.verdict().acts, "seed {seed}: {:?}", program.verdict());
        noisy.as_written = 0.01;
        let mut wrong_ns = 0;
        while !program.verdict().acts {
            program.run(4 * MS, |acts| noisy.rate(acts));
            wrong_ns += 4 * MS;
            assert!(wrong_ns <= SECOND / 2, "seed {seed}, {cured}: {:?}", program.verdict());
        }
        longest_ns = longest_ns.max(wrong_ns);
    }
    println!("{} ms at most", longest_ns / MS);
}

#[test]
fn beside_a_neighbour_that_takes_whole_slices_no_poison_stays() {
    // The process gets nothing to twice its part for some milliseconds: too noisy to be always
    // right.
    let (mut worst, mut changes, mut questions) = (f64::MAX, 0, 0);
    for seed in 0..SEEDS {
        let cured = 1.0 / factor(seed);
        let (_, program) = ratio(seed, false, 1.0, cured, 1.0);
        let acted = program.cured_ns as f64 / (61 * SECOND) as f64;
        // By the mean of the noise: what the process got by luck is no merit.
        let to_author = 1.0 - acted * (1.0 - cured);
        assert!(to_author >= PROMISE, "seed {seed}, {cured}: {to_author}, {:?}", program.verdict());
        worst = worst.min(to_author);
        questions += program.questions();
        changes += 2 * program.verdict().kept;
    }
    assert!(changes * 50 <= questions, "{changes} changes in {questions} questions");
    println!("{worst} of the author's way, {changes} changes in {questions} questions");
}
