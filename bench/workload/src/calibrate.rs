//! `manx bench calibrate`: the distances and costs of this machine, and a machine file of the
//! simulator (`platform-sim`) with these figures.
//!
//! Each mechanism has a file, and its header says why it measures what it says. This file lets the
//! mechanisms alternate, round after round: a disturbance of a few seconds hits one round of each,
//! and not all rounds of one. A figure is the median over the rounds of the median of a round.
//!
//! The simulator adds times up. So the machine file has the parts, and not the times that were
//! measured. For example, a wake-up is a system call, what a futex takes more, and what the wake-up
//! takes more. Let `f` be the median of what stands in quotes:
//!
//! | key | from |
//! | --- | --- |
//! | `thread_ns`, `core_ns`, `group_ns`, `socket_ns` | half a round trip; the median of the pairs of this kind, or of the nearest kind that the machine has |
//! | `step_ns` | a guess: `f("addition")` for what a program does between two accesses |
//! | `hit_ns`, `memory_ns`, `change_ns`, `pause_ns`, `clock_ns`, `call_ns` | as measured |
//! | `futex_ns` | the mean of `f("futex wait")` and `f("futex wake")`, without a call |
//! | `wake_ns` | `f("wake-up on the own CPU: the call")` without a look at the clock, a call and `futex_ns` |
//! | `idle_wake_ns` | `f("wake-up of an idle CPU: until it runs")` without the three: the simulator begins it at the end of the call |
//! | `kick_ns` | `f("wake-up of an idle CPU: the call")` without `f("wake-up on the own CPU: the call")` |
//! | `switch_ns` | a turn without its calls, wake-ups and accesses (`handover.rs`) |
//! | `slack_ns` | what `prctl` says; "sleep: late" shows the rest |
//! | `yield_forfeits` | whether the yielder's share is below a quarter |
//!
//! A call that wakes an *idle* CPU takes longer, because it sends an interrupt; on a virtual
//! machine the interrupt is the larger part. That is `kick_ns`: what the waker loses by it.
//!
//! A difference can come out below 0: a CPU that is awake may run the sleeper before the waker's
//! call returns, and the simulator does one after the other. Then the figure is 0, and its line in
//! the table says so.

mod busy;
mod chase;
mod handover;
mod instructions;
mod quantity;
mod samples;
mod sections;
mod settings;
mod topology;
mod wake;

use crate::error::Error;
use crate::harness::{Bench, Case, Sample};
use crate::{machine, verdict};
use handover::Turn;
use platform::clock;
use quantity::Quantity;
use quantity::Quantity::{
    Addition, Call, Change, FutexWait, FutexWake, Hit, Late, Memory, Pause, Ticks, UntilRun, WakeBeside,
    WakeIdle,
};
use report::{Report, Sheet, Table};
use sections::Figure::{Decimal, Flag, Whole};
use sections::{Entry, Section};
use settings::{Setting, Settings};
use std::path::Path;
use std::time::Duration;
use topology::{Place, Step, Topology};

/// Rounds of everything.
const ROUNDS: usize = 9;
/// A yielder that gets less of the CPU gives up its slices. It gets about 0.5 if it does not, and
/// about 0 if it does.
const YIELDER: f64 = 0.25;
/// Groups whose speeds differ by less are equally fast.
const SPEED: f64 = 0.05;
/// Distances of one kind that differ by more than this factor are not of one kind.
const ALIKE: f64 = 1.5;
/// What stands for the length of a line if the kernel does not tell it.
const LINE_BYTES: f64 = 64.0;
/// Linux begins with these: how long a cache is hot, and how often two busy CPUs are balanced.
const HOT_NS: f64 = 500_000.0;
const BALANCE_NS: f64 = 32_000_000.0;
const SLACK_NS: f64 = 50_000.0;
const HZ: f64 = 250.0;

const DISTANCE: &str = "distance";
const SPEEDS: &str = "speed";
const COST: &str = "cost";
const SCHEDULER: &str = "scheduler";

/// What the experiment needs to know.
#[derive(Clone, Debug)]
pub struct Setup {
    topology: Topology,
    settings: Settings,
    /// All pairs of the first CPUs are measured, up to this number.
    cpus: usize,
}

impl Setup {
    /// Reads what the kernel says of this machine. All pairs of the first `cpus` CPUs are to be
    /// measured, and one pair of each kind that is not among them.
    ///
    /// # Errors
    /// If this process may use less than two CPUs.
    pub fn here(cpus: usize) -> Result<Setup, Error> {
        let topology = Topology::read(Path::new("/sys"), &machine::cpus())?;
        let settings = Settings::read(Path::new("/sys/kernel/debug/sched"));
        Ok(Setup { topology, settings, cpus })
    }
}

const BUSY: &str = "two busy threads on one CPU: a turn";
const YIELDS: &str = "a thread that yields beside one that works";

/// Runs every measurement; what was found is in `bench.report`.
///
/// # Errors
/// [`Error::Interrupted`], and a CPU on which a thread may not run.
pub fn measure(setup: &Setup, bench: &mut Bench) -> Result<(), Error> {
    clock::init();
    bench.note("times are medians over the rounds, each of the quartiles of many samples in a round");
    bench.note("other programs on these CPUs disturb it: measure on a quiet machine");
    let topology = &setup.topology;
    let costs = Quantity::ALL.map(Quantity::name);
    let case = Case { name: COST, variants: &costs, expected: Duration::from_millis(200) };
    bench.rounds(case, ROUNDS, |variant, _| Quantity::ALL[variant].measure(topology))?;

    let pairs = topology.pairs(setup.cpus);
    let names: Vec<String> = pairs.iter().map(|pair| pair_name(*pair)).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let case = Case { name: DISTANCE, variants: &names, expected: Duration::from_millis(50) };
    bench.rounds(case, ROUNDS, |variant, _| {
        Ok(chase::between(pairs[variant].map(|place| place.cpu))?.summary())
    })?;

    let groups = topology.groups();
    let names: Vec<String> = (0..groups.len()).map(group_name).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let case = Case { name: SPEEDS, variants: &names, expected: Duration::from_millis(20) };
    bench.rounds(case, ROUNDS, |variant, _| {
        Ok(samples::alone(groups[variant][0].cpu, instructions::addition)?.summary())
    })?;

    let cpu = topology.neighbours()[0];
    let case = Case { name: SCHEDULER, variants: &[BUSY, YIELDS], expected: Duration::from_millis(350) };
    bench.rounds(case, ROUNDS, |variant, _| match variant {
        0 => Ok(busy::turns(cpu)?.summary()),
        _ => Ok(Sample::of([("yielder_share", busy::yielders_share(cpu)?)])),
    })
}

fn pair_name(pair: [Place; 2]) -> String {
    format!("CPUs {} and {}, {}", pair[0].cpu, pair[1].cpu, Step::between(pair).name())
}

fn group_name(group: usize) -> String {
    format!("group {group}: addition")
}

const TABLE: &str = "
    what = version | rounds [] = rounds | p25 [ns] = p25_ns | median [ns] = p50_ns
    p75 [ns] = p75_ns | least [ns] = least p50_ns | most [ns] = worst p50_ns
    ?share [%] = yielder_share";

/// Draws the tables of what was measured and of the machine file, and returns the text of the file.
///
/// # Errors
/// A figure is missing or cannot be; in words.
pub fn conclude(report: &mut Report, setup: &Setup) -> Result<String, String> {
    let titles = [
        (COST, "What things take; least and most are medians of rounds"),
        (DISTANCE, "Half a round trip of a line between two CPUs"),
        (SPEEDS, "The speed of each group's first CPU"),
        (SCHEDULER, "The scheduler"),
    ];
    for (case, title) in titles {
        let table = Sheet::new(TABLE).of(report, title, &[case]);
        report.show(table);
    }
    verdict::judge(report, |_, _| None);
    let sections = Found { report, setup }.sections();
    if let Some(words) = (Found { report, setup }).unlike() {
        report.notes.push(words);
    }
    report.show(table(&sections));
    sections::toml(&source(report, &sections), &sections)
}

/// The machine file as a table.
fn table(sections: &[Section]) -> Table {
    let mut table = Table::new("The machine file", &["section", "key", "figure []", "from"]);
    for section in sections {
        for entry in &section.entries {
            let header = section.header.trim_matches(['[', ']']);
            let figure = sections::written(entry).unwrap_or_else(|_| "-".into());
            table.row([header.into(), entry.key.into(), figure, entry.origin.clone()]);
        }
    }
    table
}

/// Where the file comes from.
fn source(report: &Report, sections: &[Section]) -> String {
    let guesses: Vec<&str> = sections
        .iter()
        .flat_map(|section| &section.entries)
        .filter(|entry| entry.is_guess)
        .map(|entry| entry.key)
        .collect();
    let machine = &report.machine;
    let quick = if report.quick { " (a smoke check, not a measurement)" } else { "" };
    format!(
        "Measured by manx bench calibrate on {}{quick}: {}, {} CPUs, {}. Guesses: {}.",
        date(report.started_unix_s),
        machine.processor,
        machine.cpus,
        machine.kernel,
        if guesses.is_empty() { "none".into() } else { guesses.join(", ") },
    )
}

/// The day of a time in seconds since 1970, in UTC.
fn date(unix_s: u64) -> String {
    // SAFETY: a broken-down time is plain integers and a pointer, for which zero is a value.
    let mut day: libc::tm = unsafe { std::mem::zeroed() };
    let time = libc::time_t::try_from(unix_s).unwrap_or(0);
    // SAFETY: reads the time and writes the other place; both live until the call returns.
    unsafe { libc::gmtime_r(&time, &mut day) };
    format!("{}-{:02}-{:02}", day.tm_year + 1900, day.tm_mon + 1, day.tm_mday)
}

/// What was measured, by its meaning.
struct Found<'a> {
    report: &'a Report,
    setup: &'a Setup,
}

impl Found<'_> {
    /// The median of a quantity in nanoseconds; `NaN` if it was not measured.
    fn ns(&self, quantity: Quantity) -> f64 {
        self.report.middle(COST, quantity.name(), "p50_ns")
    }

    fn sections(&self) -> Vec<Section> {
        let mut sections = vec![Section { header: "", entries: vec![self.line_bytes()] }];
        let groups = self.setup.topology.groups();
        sections.extend(groups.iter().enumerate().map(|(number, places)| self.group(number, places)));
        sections.push(self.distance());
        sections.push(self.cost());
        sections.push(self.scheduler());
        sections
    }

    fn line_bytes(&self) -> Entry {
        match self.setup.topology.line_bytes {
            Some(bytes) => Entry::known("line_bytes", Whole(bytes as f64), "sysfs"),
            None => Entry::guess("line_bytes", Whole(LINE_BYTES), "the kernel does not tell it"),
        }
    }

    fn group(&self, number: usize, places: &[Place]) -> Section {
        let mut cores: Vec<usize> = places.iter().map(|place| place.core).collect();
        cores.sort_unstable();
        cores.dedup();
        let cpus: Vec<String> = places.iter().map(|place| place.cpu.to_string()).collect();
        let origin = format!("sysfs: CPUs {}", cpus.join(", "));
        let (speed, said) = self.speed(number);
        Section {
            header: "[[group]]",
            entries: vec![
                Entry::known("socket", Whole(f64::from(places[0].socket)), "sysfs"),
                Entry::known("cores", Whole(cores.len() as f64), origin),
                Entry::known("threads_per_core", Whole((places.len() / cores.len()) as f64), "sysfs"),
                Entry::known("speed", Decimal(speed), said),
                self.way("core_ns", Step::Core, Some(number)),
            ],
        }
    }

    /// How fast a group is beside the first one, on which everything else was measured.
    fn speed(&self, group: usize) -> (f64, &'static str) {
        let addition_ns = |group| self.report.middle(SPEEDS, &group_name(group), "p50_ns");
        let speed = addition_ns(0) / addition_ns(group);
        match (speed - 1.0).abs() < SPEED {
            true => (1.0, "an addition takes as long as in group 0"),
            false => (speed, "an addition in group 0 over one here"),
        }
    }

    /// The distances of the measured pairs of a kind; for `Step::Core` of a group, or of all.
    fn ways(&self, step: Step, group: Option<usize>) -> Vec<f64> {
        let pairs = self.setup.topology.pairs(self.setup.cpus).into_iter();
        let is_one = |pair: &[Place; 2]| {
            Step::between(*pair) == step && group.is_none_or(|group| pair[0].group == group)
        };
        let ns = |pair| self.report.middle(DISTANCE, &pair_name(pair), "p50_ns");
        pairs.filter(is_one).map(ns).filter(|ns| ns.is_finite()).collect()
    }

    /// The distance of a kind, or of the nearest kind that there is.
    fn way(&self, key: &'static str, step: Step, group: Option<usize>) -> Entry {
        let own = self.ways(step, group);
        if !own.is_empty() {
            let origin = format!("pairs {}: {}", step.name(), own.len());
            return Entry::known(key, Whole(report::median(&own)), origin);
        }
        // Another group's, or another kind.
        let others = std::iter::once(step).chain(nearest(step));
        match others.map(|step| (step, self.ways(step, None))).find(|(_, ways)| !ways.is_empty()) {
            Some((other, ways)) => {
                let why = format!("there is none here; that {}", other.name());
                Entry::guess(key, Whole(report::median(&ways)), why)
            }
            None => Entry::known(key, Whole(f64::NAN), "not measured"),
        }
    }

    /// Whether distances of one kind differ.
    fn unlike(&self) -> Option<String> {
        let groups = 0..self.setup.topology.groups().len();
        let unlike = groups.filter_map(|group| {
            let ways = self.ways(Step::Core, Some(group));
            let ends = |of: fn(f64, f64) -> f64| ways.iter().copied().fold(f64::NAN, of);
            let (least, most) = (ends(f64::min), ends(f64::max));
            (most > ALIKE * least).then(|| format!("group {group}: from {least:.0} to {most:.0} ns"))
        });
        let unlike: Vec<String> = unlike.collect();
        let words = "distances within a group differ; the CPUs may lie otherwise than the kernel tells";
        (!unlike.is_empty()).then(|| format!("{words}: {}", unlike.join("; ")))
    }

    fn distance(&self) -> Section {
        Section {
            header: "[distance]",
            entries: vec![
                self.way("thread_ns", Step::Thread, None),
                self.way("group_ns", Step::Group, None),
                self.way("socket_ns", Step::Socket, None),
                Entry::known("memory_ns", Whole(self.ns(Memory)), "a walk through a large block"),
            ],
        }
    }

    fn cost(&self) -> Section {
        let clock_ns = self.ns(Ticks);
        let call_ns = self.ns(Call);
        let futex_ns = f64::midpoint(self.ns(FutexWait), self.ns(FutexWake)) - call_ns;
        let wake_ns = self.ns(WakeBeside) - clock_ns - call_ns - futex_ns;
        let idle_wake_ns = self.ns(UntilRun) - clock_ns - call_ns - futex_ns - wake_ns;
        let kick_ns = self.ns(WakeIdle) - self.ns(WakeBeside);
        let step_ns = self.ns(Addition);
        // The word is loaded before the wait, in it and after it, and the other word is changed.
        let accesses_ns = 3.0 * self.ns(Hit) + self.ns(Change) + 4.0 * step_ns;
        let switch_ns = self.turn().switch_ns(call_ns + futex_ns, wake_ns, accesses_ns);
        let as_is = |key, quantity| Entry::known(key, Decimal(self.ns(quantity)), quantity.name());
        Section {
            header: "[cost]",
            entries: vec![
                Entry::guess("step_ns", Decimal(step_ns), "an addition"),
                as_is("hit_ns", Hit),
                as_is("change_ns", Change),
                as_is("pause_ns", Pause),
                as_is("clock_ns", Ticks),
                as_is("call_ns", Call),
                derived("futex_ns", Decimal(futex_ns), "a futex call with nothing to do, without a call"),
                derived("wake_ns", Decimal(wake_ns), "the call on the own CPU, without a futex call"),
                derived("idle_wake_ns", Whole(idle_wake_ns), "until it runs, without such a call"),
                derived("kick_ns", Decimal(kick_ns), "the call, without that on the own CPU"),
                derived("switch_ns", Whole(switch_ns), "a turn, without its calls and wake-ups"),
                self.slack(),
            ],
        }
    }

    fn turn(&self) -> Turn {
        let middle = |figure| self.report.middle(COST, Quantity::Turn.name(), figure);
        Turn {
            ns: middle("p50_ns"),
            calls: middle("calls"),
            woken: middle("woken"),
            switches: middle("switches"),
        }
    }

    fn slack(&self) -> Entry {
        let (late_ns, slack) = (self.ns(Late), self.setup.settings.slack_ns);
        let late = format!("a sleep is late by {late_ns:.0} ns, with the way from timer to thread");
        match slack {
            Some(Setting { value, origin }) => {
                Entry::known("slack_ns", Whole(value as f64), format!("{origin}; {late}"))
            }
            None => Entry::guess("slack_ns", Whole(SLACK_NS), late),
        }
    }

    fn scheduler(&self) -> Section {
        let Settings { hz, slice_ns, hot_ns, balance_ns, .. } = self.setup.settings;
        let turn_ns = self.report.middle(SCHEDULER, BUSY, "p50_ns");
        let share = self.report.middle(SCHEDULER, YIELDS, "yielder_share");
        let or_guess = |key, setting: Option<Setting>, guess, why: &str| match setting {
            Some(Setting { value, origin }) => Entry::known(key, Whole(value as f64), origin),
            None => Entry::guess(key, Whole(guess), why),
        };
        let begins = "what Linux begins with";
        let yields = format!("a yielder's share is {:.1} %", 100.0 * share);
        let forfeits = match share.is_finite() {
            true => Entry::known("yield_forfeits", Flag(share < YIELDER), yields),
            false => Entry::known("yield_forfeits", Whole(f64::NAN), "not measured"),
        };
        Section {
            header: "[scheduler]",
            entries: vec![
                or_guess("hz", hz, HZ, "the coarse clock does not move with ticks"),
                or_guess("slice_ns", slice_ns, turn_ns, "a turn, which is up to a tick longer"),
                or_guess("hot_ns", hot_ns, HOT_NS, begins),
                or_guess("balance_ns", balance_ns, BALANCE_NS, begins),
                forfeits,
            ],
        }
    }
}

/// A difference of times: 0 if it is below.
fn derived(key: &'static str, figure: sections::Figure, words: &str) -> Entry {
    match figure {
        Decimal(ns) if ns < 0.0 => Entry::guess(key, Decimal(0.0), format!("{words}: {ns:.0} ns")),
        Whole(ns) if ns < 0.0 => Entry::guess(key, Whole(0.0), format!("{words}: {ns:.0} ns")),
        figure => Entry::known(key, figure, words),
    }
}

/// The other kinds, the nearest first; of two that are as near, the farther CPUs.
fn nearest(step: Step) -> Vec<Step> {
    let mut others = vec![Step::Thread, Step::Core, Step::Group, Step::Socket];
    others.retain(|other| *other != step);
    others.sort_by_key(|other| ((*other as i32 - step as i32).abs(), -(*other as i32)));
    others
}

#[cfg(test)]
mod tests {
    use super::quantity::Quantity::{Now, UntilRunLong};
    use super::*;
    use platform_sim::machine::Machine;

    /// Two groups of two cores, the second one without siblings, and what a kernel says of them.
    fn setup() -> Setup {
        let place = |(cpu, group, core)| Place { cpu, socket: 0, group, core };
        let cpus = [(0, 0, 0), (1, 0, 0), (2, 0, 2), (3, 0, 2), (4, 1, 4), (5, 1, 5)].map(place);
        let topology = Topology { cpus: cpus.to_vec(), line_bytes: Some(64), cache_bytes: 0 };
        let settings = Settings { hz: Some(Setting { value: 300, origin: "a test" }), ..Settings::default() };
        Setup { topology, settings, cpus: 6 }
    }

    /// What a machine of round figures would have measured.
    fn report(setup: &Setup) -> Report {
        let mut report = Report::new("calibrate", report::Machine::default(), 1_000_000_000);
        for quantity in Quantity::ALL {
            let ns = match quantity {
                Addition => 0.25,
                Hit => 1.0,
                Change => 5.0,
                Memory => 90.4,
                Pause => 20.0,
                Ticks => 8.0,
                Now => 21.0,
                Call => 100.0,
                FutexWait => 220.0,
                FutexWake => 180.0,
                WakeBeside => 908.0,
                WakeIdle => 6000.0,
                UntilRun => 4908.0,
                UntilRunLong => 9000.0,
                Quantity::Turn => 2312.0,
                Late => 60_000.0,
            };
            let turn = [("p50_ns", ns), ("calls", 2.0), ("woken", 1.0), ("switches", 1.0)];
            report.add(COST, quantity.name(), 0, &turn[..if quantity == Quantity::Turn { 4 } else { 1 }]);
        }
        for pair in setup.topology.pairs(setup.cpus) {
            let ns = match Step::between(pair) {
                Step::Thread => 10.0,
                Step::Core => 40.0 + 10.0 * pair[0].group as f64,
                _ => 110.0,
            };
            report.add(DISTANCE, &pair_name(pair), 0, &[("p50_ns", ns)]);
        }
        report.add(SPEEDS, &group_name(0), 0, &[("p50_ns", 0.25)]);
        report.add(SPEEDS, &group_name(1), 0, &[("p50_ns", 0.5)]);
        report.add(SCHEDULER, BUSY, 0, &[("p50_ns", 3e6)]);
        report.add(SCHEDULER, YIELDS, 0, &[("yielder_share", 0.48)]);
        report
    }

    #[test]
    fn the_file_has_the_parts_that_add_up_to_what_was_measured() {
        let setup = setup();
        let mut report = report(&setup);
        let machine = Machine::parse(&conclude(&mut report, &setup).unwrap()).unwrap();
        assert_eq!(machine.cpus().len(), 6);
        let groups: Vec<_> =
            machine.group.iter().map(|it| (it.cores, it.threads_per_core, it.speed, it.core_ns)).collect();
        assert_eq!(groups, [(2, 2, 1.0, 40), (2, 1, 0.5, 50)]);
        let far = machine.distance;
        assert_eq!([far.thread_ns, far.group_ns, far.socket_ns, far.memory_ns], [10, 110, 110, 90]);
        let cost = machine.cost;
        assert_eq!((cost.step_ns, cost.hit_ns, cost.change_ns, cost.clock_ns), (0.25, 1.0, 5.0, 8.0));
        assert_eq!((cost.call_ns, cost.futex_ns, cost.wake_ns), (100.0, 100.0, 700.0));
        assert_eq!((cost.idle_wake_ns, cost.switch_ns, cost.slack_ns), (4000, 1203, 50_000));
        let scheduler = machine.scheduler;
        assert_eq!((scheduler.hz, scheduler.slice_ns, scheduler.yield_forfeits), (300, 3_000_000, false));
        let source = "Measured by manx bench calibrate on 2001-09-09";
        assert!(machine.source.starts_with(source), "{}", machine.source);
        let guesses = "Guesses: socket_ns, step_ns, slack_ns, slice_ns, hot_ns, balance_ns.";
        assert!(machine.source.ends_with(guesses), "{}", machine.source);
        assert_eq!(report.tables.len(), 5);
    }

    #[test]
    fn what_was_not_measured_is_an_error_with_its_key() {
        let setup = setup();
        let mut nothing = Report::new("calibrate", report::Machine::default(), 0);
        assert!(conclude(&mut nothing, &setup).unwrap_err().contains("not measured"));
        for (missing, key) in [(SCHEDULER, "yield_forfeits"), (COST, "memory_ns"), (SPEEDS, "speed")] {
            let mut report = report(&setup);
            report.runs.retain(|run| run.case != missing || run.variant == BUSY);
            let error = conclude(&mut report, &setup).unwrap_err();
            assert!(error.contains(key), "{error}");
        }
    }

    #[test]
    fn a_difference_below_nothing_is_nothing_and_is_said() {
        let setup = setup();
        let mut report = report(&setup);
        let name = UntilRun.name();
        report.runs.retain(|run| run.variant != name);
        report.add(COST, name, 0, &[("p50_ns", 500.0)]);
        let machine = Machine::parse(&conclude(&mut report, &setup).unwrap()).unwrap();
        assert_eq!(machine.cost.idle_wake_ns, 0);
        assert!(machine.source.contains("idle_wake_ns"), "{}", machine.source);
    }

    #[test]
    fn a_kind_that_is_not_there_is_as_the_nearest_one() {
        assert_eq!(nearest(Step::Thread), [Step::Core, Step::Group, Step::Socket]);
        assert_eq!(nearest(Step::Core), [Step::Group, Step::Thread, Step::Socket]);
        assert_eq!(nearest(Step::Socket), [Step::Group, Step::Core, Step::Thread]);
    }

    #[test]
    fn unlike_distances_within_a_group_are_told() {
        let setup = setup();
        let mut report = report(&setup);
        assert!(!report.notes.iter().any(|note| note.contains("differ")));
        let pair = [setup.topology.cpus[1], setup.topology.cpus[3]];
        report.add(DISTANCE, &pair_name(pair), 0, &[("p50_ns", 200.0)]);
        conclude(&mut report, &setup).unwrap();
        assert!(report.notes.iter().any(|note| note.contains("group 0: from 40 to 120 ns")), "{report}");
    }
}
