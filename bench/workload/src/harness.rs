//! Comparing variants within one run: in turn, round after round, until their ratios are known.
//!
//! Invariants:
//! 1. Every round runs every variant once, in an order that is drawn anew ([`report::order`]).
//!    Samples of a variant with the same round number belong together: they are a pair.
//! 2. A comparison goes on until each ratio that its targets are about is known, or its time is
//!    over ([`report::resolution`]). A ratio to which the last round added no pair is not waited
//!    for: one of its versions has failed.
//! 3. A round is begun only if the budget allows for all of it; the first one is always tried
//!    unless the budget is spent. Runs in virtual time have no budget and no time that is over:
//!    what is run follows from counts, so that the same seed gives the same result everywhere.
//! 4. The report has the runs of a round in the order of the variants, whatever was drawn: tables
//!    are read from it.
//! 5. What was measured stays in the report, whatever happens later. What programs print,
//!    histograms above all, is kept of the first [`OUTPUTS`] rounds of a case: a thousand rounds of
//!    it would take more memory than what is measured.

use crate::error::Error;
use crate::interrupt;
use report::resolution::End;
use report::{Compared, Histogram, Machine, Order, Report, Resolution, Run, Ticks};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Rounds whose outputs are kept.
pub const OUTPUTS: usize = 100;

/// The most rounds of a case in virtual time.
const VIRTUAL_PAIRS_MAX: usize = 20;

/// Shows how far an experiment is.
pub trait Progress {
    /// Begins `what`: this number of steps will follow; `None`: as many as are needed.
    fn begin(&mut self, what: &str, steps: Option<usize>);
    /// The next step begins.
    fn step(&mut self, what: &str);
    /// The steps are over.
    fn end(&mut self);
}

/// Shows nothing.
pub struct Silent;

impl Progress for Silent {
    fn begin(&mut self, _what: &str, _steps: Option<usize>) {}
    fn step(&mut self, _what: &str) {}
    fn end(&mut self) {}
}

/// What one run of a variant says.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Sample {
    /// Figures by name
    pub values: BTreeMap<String, f64>,
    /// The program's own output, if it is JSON
    pub output: Option<Box<RawValue>>,
}

impl Sample {
    /// A sample of a few figures.
    pub fn of<const N: usize>(values: [(&str, f64); N]) -> Sample {
        Sample {
            values: values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
            output: None,
        }
    }

    /// Adds a figure, if it is a number: JSON has no word for what is none.
    pub fn add(&mut self, name: impl Into<String>, value: f64) {
        if value.is_finite() {
            self.values.insert(name.into(), value);
        }
    }

    /// Adds percentiles and the maximum, if there are any values, under names that begin like this.
    pub fn add_tail(&mut self, start: &str, latencies: &Histogram) {
        let summary = latencies.summary();
        let figures = summary.figures().into_iter().filter(|(name, _)| !["count", "mean_ns"].contains(name));
        for (name, value) in figures.filter(|_| summary.count > 0) {
            self.add(format!("{start}{name}"), value);
        }
    }

    /// The sample with what is kept of the run beside its figures.
    #[must_use]
    pub fn with(self, output: &impl Serialize) -> Sample {
        let text = serde_json::to_string(output).ok();
        Sample { output: text.and_then(|text| RawValue::from_string(text).ok()), ..self }
    }
}

/// An experiment while it runs.
pub struct Bench<'a> {
    /// What has been measured so far
    pub report: Report,
    /// How narrow ratios are to be known, and what that may take
    pub resolution: Resolution,
    progress: &'a mut dyn Progress,
    order: Order,
    started: Instant,
    ticks: Option<Ticks>,
    budget: Option<Duration>,
    complete: bool,
}

/// What is compared: its name, its versions, and what one run is thought to take.
#[derive(Clone, Copy, Debug)]
pub struct Case<'a> {
    /// What tables call it
    pub name: &'a str,
    /// The versions
    pub variants: &'a [&'a str],
    /// What a run takes, about
    pub expected: Duration,
}

impl<'a> Bench<'a> {
    /// Begins; with a `budget` no round is begun that would exceed it.
    pub fn new(
        name: &str,
        machine: Machine,
        budget: Option<Duration>,
        progress: &'a mut dyn Progress,
    ) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut report = Report::new(name, machine, now.as_secs());
        report.quick = budget.is_some();
        if report.quick {
            report.notes.push("quick: a smoke check, not a measurement".into());
        }
        let (order, resolution, started) = (Order::new(0), Resolution::default(), Instant::now());
        let ticks = Ticks::now();
        let mut bench =
            Bench { report, resolution, progress, order, started, ticks, budget, complete: false };
        bench.draw_from(now.as_nanos() as u64);
        bench
    }

    /// Draws the orders of the rounds from this seed, instead of one from the clock.
    pub fn draw_from(&mut self, seed: u64) {
        let words =
            |seed| format!("each round runs the versions in an order drawn at random, from seed {seed}");
        let known = self.report.seed.map(words);
        self.report.notes.retain(|note| Some(note) != known.as_ref());
        (self.report.seed, self.order) = (Some(seed), Order::new(seed));
        self.note(words(seed));
    }

    /// Lets counts alone decide how much a smoke check runs.
    pub fn without_budget(&mut self) {
        self.budget = None;
    }

    /// Lets the clock decide nothing any more (Invariant 3).
    pub fn in_virtual_time(&mut self) {
        self.without_budget();
        // No time at all means the fewest rounds, whatever the clock says.
        if !self.resolution.limit.is_zero() {
            self.resolution.limit = Duration::MAX;
            self.resolution.pairs_max.get_or_insert(VIRTUAL_PAIRS_MAX);
        }
    }

    /// Something that the reader must know; said once.
    pub fn note(&mut self, text: impl Into<String>) {
        let text = text.into();
        if !self.report.notes.contains(&text) {
            self.report.notes.push(text);
        }
    }

    /// Returns true if `needed` of the budget is left.
    pub fn allows(&self, needed: Duration) -> bool {
        self.budget.is_none_or(|budget| self.started.elapsed() + needed <= budget)
    }

    /// Runs the variants for `rounds` rounds, or for fewer if the user says so.
    ///
    /// # Errors
    /// The first error of `run`, and [`Error::Interrupted`].
    pub fn rounds(
        &mut self,
        case: Case,
        rounds: usize,
        run: impl FnMut(usize, usize) -> Result<Sample, Error>,
    ) -> Result<(), Error> {
        let most = self.resolution.pairs_max.map_or(rounds, |most| rounds.min(most));
        let fixed = Resolution { pairs_min: most, pairs_max: Some(most), ..self.resolution };
        self.go(case, fixed, |_| Vec::new(), run)
    }

    /// Runs the variants until the ratios of `watch` are known (Invariant 2); `run` is told the
    /// variant and the round.
    ///
    /// # Errors
    /// As [`Bench::rounds`].
    pub fn compare(
        &mut self,
        case: Case,
        watch: impl FnMut(&Report) -> Vec<Compared>,
        run: impl FnMut(usize, usize) -> Result<Sample, Error>,
    ) -> Result<(), Error> {
        self.go(case, self.resolution, watch, run)
    }

    fn go(
        &mut self,
        case: Case,
        resolution: Resolution,
        mut watch: impl FnMut(&Report) -> Vec<Compared>,
        mut run: impl FnMut(usize, usize) -> Result<Sample, Error>,
    ) -> Result<(), Error> {
        let steps = resolution.pairs_max.map(|most| most * case.variants.len());
        self.progress.begin(case.name, steps);
        let result = self.until(case, resolution, &mut watch, &mut run);
        self.progress.end();
        result
    }

    fn until(
        &mut self,
        case: Case,
        resolution: Resolution,
        watch: &mut impl FnMut(&Report) -> Vec<Compared>,
        run: &mut impl FnMut(usize, usize) -> Result<Sample, Error>,
    ) -> Result<(), Error> {
        let (begun, mut expected, mut width) = (Instant::now(), case.expected, None);
        let mut comparison = resolution.begin();
        for round in 0.. {
            if !self.allows(expected * case.variants.len() as u32) {
                let done = if round == 0 { "left out" } else { "cut short" };
                self.note(format!("{}: {done} for want of time, after {round} rounds", case.name));
                return Ok(());
            }
            let mut placed: Vec<usize> = Vec::new();
            for variant in self.order.draw(case.variants.len()) {
                if interrupt::requested() {
                    return Err(Error::Interrupted);
                }
                self.progress.step(&place(round, width, case.variants[variant]));
                let begun = Instant::now();
                let sample = run(variant, round)?;
                expected = expected.max(begun.elapsed());
                let run = Run {
                    case: case.name.into(),
                    variant: case.variants[variant].into(),
                    round,
                    values: sample.values,
                    output: sample.output.filter(|_| round < OUTPUTS), // Invariant 5
                };
                // Invariant 4
                let later = placed.iter().filter(|&&other| other > variant).count();
                self.report.runs.insert(self.report.runs.len() - later, run);
                placed.push(variant);
            }
            let report = &self.report;
            let end = comparison.end(round + 1, begun.elapsed(), || {
                let found = widest(report, &watch(report), round);
                width = (found > 0.0).then_some(found);
                found
            });
            if end == Some(End::TimeOver)
                && let Some(width) = width
            {
                self.note(format!(
                    "{}: its time was over after {} pairs; the widest of its ratios is known to ±{:.1} %",
                    case.name,
                    round + 1,
                    width * 100.0
                ));
            }
            if end.is_some() {
                break;
            }
        }
        Ok(())
    }

    /// All that was to be measured was tried: an error that still follows is a finding, and no
    /// early end.
    pub fn complete(&mut self) {
        self.complete = true;
    }

    /// The report, with its last words.
    pub fn finish(mut self, result: &Result<(), Error>) -> Report {
        self.report.wall_s = self.started.elapsed().as_secs_f64();
        let steal = |begin| Ticks::now()?.steal_percent(begin);
        self.report.machine.steal_percent = self.ticks.and_then(steal);
        if result.is_err() && !self.complete {
            self.report.interrupted = true;
            self.note("ended early: what follows is what was measured until then");
        }
        self.report
    }
}

/// The largest half width of some ratios; 0 if there is none to wait for (Invariant 2).
fn widest(report: &Report, watched: &[Compared], round: usize) -> f64 {
    let grows = |compared: &&Compared| report.last_pair(compared) == Some(round);
    let ratios = watched.iter().filter(grows).filter_map(|compared| report.ratio(compared));
    ratios.map(|ratio| ratio.half_width()).fold(0.0, f64::max)
}

/// Which variant runs, in which pair, and how well the ratios are known so far.
fn place(round: usize, width: Option<f64>, variant: &str) -> String {
    let width = width.filter(|width| width.is_finite());
    let width = width.map_or(String::new(), |width| format!(", ±{:.1} %", width * 100.0));
    format!("pair {}{width}, {variant}", round + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bench(progress: &mut dyn Progress, budget: Option<Duration>) -> Bench<'_> {
        Bench::new("b", Machine::default(), budget, progress)
    }

    fn case<'a>(name: &'a str, variants: &'a [&'a str]) -> Case<'a> {
        Case { name, variants, expected: Duration::ZERO }
    }

    fn watch(_: &Report) -> Vec<Compared> {
        vec![Compared::new("c", "B", "A", "x")]
    }

    /// A sample with normal noise.
    fn noisy(random: &mut fastrand::Rng, scatter: f64) -> Sample {
        Sample::of([("x", 1.0 + scatter * ((0..12).map(|_| random.f64()).sum::<f64>() - 6.0))])
    }

    #[test]
    fn every_round_runs_every_variant_once_and_samples_come_back_by_round() {
        let mut progress = Silent;
        let mut bench = bench(&mut progress, None);
        let mut ran = Vec::new();
        let result = bench.rounds(case("c", &["A", "B", "C"]), 40, |variant, round| {
            ran.push((round, variant));
            Ok(Sample::of([("x", (round * 10 + variant) as f64)]))
        });
        assert!(result.is_ok());
        let mut first = [0; 3];
        for (round, runs) in ran.chunks(3).enumerate() {
            first[runs[0].1] += 1;
            let mut variants: Vec<usize> = runs.iter().map(|&(_, variant)| variant).collect();
            variants.sort_unstable();
            assert_eq!(variants, [0, 1, 2]);
            assert!(runs.iter().all(|run| run.0 == round));
        }
        // Each is the first of some rounds: the chance that one of three never is, in forty, is
        // 10^-7.
        assert!(first.iter().all(|&count| count > 0), "{first:?}");
        assert_eq!(bench.report.values("c", "B", "x")[..4], [1.0, 11.0, 21.0, 31.0]);
        assert_eq!(bench.report.variants("c"), ["A", "B", "C"]);
        let all = bench.report.runs.iter().map(|run| run.values["x"]);
        assert!(all.is_sorted(), "{:?}", bench.report.runs);
        let seed = bench.report.seed.unwrap().to_string();
        assert!(bench.report.notes.iter().any(|note| note.ends_with(&seed)), "{:?}", bench.report.notes);
    }

    #[test]
    fn constant_samples_end_a_comparison_after_five_pairs() {
        let mut progress = Silent;
        let mut bench = bench(&mut progress, None);
        let run = |variant, _| Ok(Sample::of([("x", 1.0 + variant as f64)]));
        bench.compare(case("c", &["A", "B"]), watch, run).unwrap();
        assert_eq!(bench.report.runs.len(), 2 * 5);
        // Nothing to watch, five rounds too.
        bench.compare(case("d", &["A", "B"]), |_| Vec::new(), run).unwrap();
        assert_eq!(bench.report.runs.len(), 4 * 5);
    }

    #[test]
    fn noise_makes_a_comparison_go_on_until_it_is_known_or_the_time_is_over() {
        let mut progress = Silent;
        let mut bench = bench(&mut progress, None);
        let mut random = fastrand::Rng::with_seed(1);
        bench.compare(case("c", &["A", "B"]), watch, |_, _| Ok(noisy(&mut random, 0.05))).unwrap();
        let known = bench.report.ratio(&watch(&bench.report)[0]).unwrap();
        assert!(known.pairs.len() > 10 && known.half_width() <= 0.02, "{known:?}");

        bench.report.runs.clear();
        bench.resolution.limit = Duration::from_millis(100);
        let begun = Instant::now();
        let run = |_, _| {
            std::thread::sleep(Duration::from_millis(1));
            Ok(noisy(&mut random, 0.3))
        };
        bench.compare(case("c", &["A", "B"]), watch, run).unwrap();
        assert!(begun.elapsed() >= bench.resolution.limit);
        assert!(bench.report.runs.len() >= 2 * 5);
        let over = bench.report.notes.iter().any(|note| note.starts_with("c: its time was over after"));
        assert!(over, "{:?}", bench.report.notes);
    }

    #[test]
    fn the_users_number_of_rounds_is_the_most_for_both_kinds() {
        let mut progress = Silent;
        let mut bench = bench(&mut progress, None);
        bench.resolution.pairs_max = Some(3);
        let mut random = fastrand::Rng::with_seed(1);
        bench.compare(case("c", &["A", "B"]), watch, |_, _| Ok(noisy(&mut random, 0.3))).unwrap();
        assert_eq!(bench.report.runs.len(), 2 * 3);
        bench.rounds(case("d", &["A"]), 20, |_, _| Ok(Sample::default())).unwrap();
        bench.rounds(case("e", &["A"]), 1, |_, _| Ok(Sample::default())).unwrap();
        assert_eq!(bench.report.runs.len(), 2 * 3 + 3 + 1);
    }

    #[test]
    fn outputs_are_kept_of_the_first_rounds_and_figures_of_all() {
        let mut progress = Silent;
        let mut bench = bench(&mut progress, None);
        let output = || RawValue::from_string("{}".into()).ok();
        let run = |_, _| Ok(Sample { output: output(), ..Sample::of([("x", 1.0)]) });
        bench.rounds(case("c", &["A"]), OUTPUTS + 7, run).unwrap();
        assert_eq!(bench.report.values("c", "A", "x").len(), OUTPUTS + 7);
        assert_eq!(bench.report.runs.iter().filter(|run| run.output.is_some()).count(), OUTPUTS);
    }

    #[test]
    fn a_version_that_fails_is_not_waited_for() {
        let mut progress = Silent;
        let mut bench = bench(&mut progress, None);
        let mut random = fastrand::Rng::with_seed(1);
        let run = |variant, round| match (variant, round) {
            (1, 2..) => Ok(Sample::default()),
            _ => Ok(noisy(&mut random, 0.3)),
        };
        bench.compare(case("c", &["A", "B"]), watch, run).unwrap();
        assert_eq!(bench.report.runs.len(), 2 * 5);
    }

    /// Keeps what it is told.
    #[derive(Default)]
    struct Told(Vec<String>);

    impl Progress for Told {
        fn begin(&mut self, what: &str, steps: Option<usize>) {
            self.0.push(format!("{what}: {steps:?}"));
        }
        fn step(&mut self, what: &str) {
            self.0.push(what.into());
        }
        fn end(&mut self) {}
    }

    #[test]
    fn progress_tells_the_pair_and_how_well_the_ratio_is_known() {
        let mut told = Told::default();
        let mut bench = bench(&mut told, None);
        bench.resolution.pairs_max = Some(9);
        let run = |variant, round| Ok(Sample::of([("x", if variant == round % 2 { 1.1 } else { 1.0 })]));
        bench.compare(case("c", &["A", "B"]), watch, run).unwrap();
        assert_eq!(told.0[0], "c: Some(18)");
        assert!(["pair 1, A", "pair 1, B"].contains(&told.0[1].as_str()), "{:?}", told.0);
        let last = told.0.last().unwrap();
        assert!(last.starts_with("pair 9, ±") && last.contains(" %, "), "{last}");
    }

    #[test]
    fn an_error_ends_it_and_keeps_what_was_measured() {
        let mut progress = Silent;
        let mut bench = bench(&mut progress, None);
        let result = bench.rounds(case("c", &["A", "B"]), 3, |variant, round| match (round, variant) {
            (1, 0) => Err(Error::request("broken", "")),
            _ => Ok(Sample::of([("x", 1.0)])),
        });
        assert!(result.is_err());
        // B ran in the second round if it was drawn first.
        assert!([2, 3].contains(&bench.report.runs.len()), "{:?}", bench.report.runs);
        assert!(bench.finish(&result).interrupted);
    }

    #[test]
    fn a_round_that_would_exceed_the_budget_is_not_begun() {
        let mut progress = Silent;
        let mut bench = bench(&mut progress, Some(Duration::from_secs(3600)));
        let count = |bench: &mut Bench, name, seconds| {
            let case = Case { name, variants: &["A", "B"], expected: Duration::from_secs(seconds) };
            bench.rounds(case, 5, |_, _| Ok(Sample::default())).unwrap();
            bench.report.runs.iter().filter(|run| run.case == name).count()
        };
        assert_eq!(count(&mut bench, "fits", 1), 10);
        assert_eq!(count(&mut bench, "too long", 1801), 0);
        assert!(bench.report.notes.iter().any(|note| note.contains("too long: left out")));
    }
}
