//! The verdict on `manx run`: by the work that the program did, and by nothing else.
//!
//! CPU time that is burned, threads that wait and switches are evidence. Less of them is no gain if
//! the program does less, too: a program that sleeps loses nothing and does nothing. So each
//! verdict needs a figure of work: one that is read from the output (`figure`), or the wall time of
//! a program that ends by itself.
//!
//! Invariants:
//! 1. Without a figure of work there is no verdict.
//! 2. "Cures" and "helps" need a figure that got better.
//! 3. A run that failed did other work than one that did not: such a pair has no figure.
//! 4. The time of a run that was ended is the time of the watch: the program would have taken
//!    longer. So a change to the worse is at least as large as it is said to be.

use super::change::{CURED, Change, Kind, LOST_MIN, Pair, number};
use super::figure::{Better, Pattern};
use super::session::Session;
use command::statistics::PAIRS_MIN;
use serde::Serialize;
use std::time::Duration;

/// A change of less than this part is no change: the start of a program alone differs as much.
const MEASURABLE: f64 = 0.01;

/// The effect of `manx run` on the program's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    Harms,
    Cures,
    Helps,
    NoDifference,
    /// There is no figure of work, or it has no interval.
    Unknown,
}

/// The verdict.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Work {
    pub effect: Effect,
    /// The verdict in words; `None` with too few pairs, which the notes say
    pub said: Option<String>,
}

/// The figure of work as the user asked for it: none is the wall time.
pub type Asked<'a> = Option<(&'a Pattern, Better)>;

/// The change of the figure of work. `None` if no pair has it in both runs.
pub fn change(pairs: &[Pair], asked: Asked<'_>, time: Duration) -> Option<Change> {
    let same_end = pairs.iter().filter(|pair| pair.as_it_is.failed == pair.manx_run.failed);
    let (name, unit, better) = match asked {
        Some((pattern, better)) => (pattern.text(), "", better),
        None => ("wall time", "s", Better::Less),
    };
    let values: Vec<(f64, f64)> = same_end
        .filter_map(|Pair { as_it_is, manx_run, .. }| match asked {
            Some(_) => as_it_is.found.median.zip(manx_run.found.median),
            None if as_it_is.wall_s.or(manx_run.wall_s).is_none() => None,
            None => {
                let [one, other] = [as_it_is, manx_run].map(|run| run.wall_s.unwrap_or(time.as_secs_f64()));
                Some((one, other))
            }
        })
        .collect();
    Change::of(name, unit, Kind::Ratio, &values).map(|change| Change { better: Some(better), ..change })
}

/// Judges the change of the figure of work. `lost` is that of the threads lost to all causes.
pub fn judge(pairs: &[Pair], change: Option<&Change>, lost: Option<&Change>, asked: Asked<'_>) -> Work {
    let with = |effect, said: Option<String>| Work { effect, said };
    let count = |of: &dyn Fn(&Pair) -> bool| pairs.iter().filter(|pair| of(pair)).count();
    let all = pairs.len();
    let failed = |run: &Session| run.failed.is_some();
    if count(&|pair| failed(&pair.manx_run)) == all && count(&|pair| failed(&pair.as_it_is)) == 0 {
        let said = format!("All {all} runs failed under `manx run`, and none as it is. Do not use it here.");
        return with(Effect::Harms, Some(said));
    }
    if let Some((pattern, better)) = asked {
        // A rate of nothing is no work; a time of nothing is a coarse clock.
        let works = |run: &Session| run.found.median.is_some_and(|it| it > 0.0 || better == Better::Less);
        let (as_it_is, manx_run) =
            (count(&|pair| works(&pair.as_it_is)), count(&|pair| works(&pair.manx_run)));
        if as_it_is == all && manx_run == 0 {
            let said = format!(
                "`manx run` keeps this program from its work: the output of all {all} runs as it is has \
                 `{}`, and that of no run under `manx run`.",
                pattern.text()
            );
            return with(Effect::Harms, Some(said));
        }
    }
    let Some(change) = change else {
        return with(
            Effect::Unknown,
            Some(format!("It is not known whether `manx run` helps. {}", ask(asked))),
        );
    };
    let Some((low, high)) = change.low.zip(change.high) else {
        let few = format!(
            "It is not known whether `manx run` helps: only {} of {all} pairs have the figure of work in both \
             runs, and fewer than {PAIRS_MIN} have no interval.",
            change.pairs
        );
        return with(Effect::Unknown, Some(few).filter(|_| all >= PAIRS_MIN));
    };
    // As a figure that is better if it is less.
    let (cost, low, high) = match change.better {
        Some(Better::More) => (1.0 / change.change, 1.0 / high, 1.0 / low),
        _ => (change.change, low, high),
    };
    let unit = if change.unit.is_empty() { String::new() } else { format!(" {}", change.unit) };
    let figures = format!(
        "`{}` is {}{unit} as it is and {}{unit} under `manx run`",
        change.figure,
        number(change.as_it_is, 2),
        number(change.manx_run, 2),
    );
    let interval = |one: f64, other: f64| format!("95 % interval {} to {}", times(one), times(other));
    if low > 1.0 + MEASURABLE {
        let said = format!(
            "`manx run` makes this program {} times slower: {figures} ({}). Do not use it here.",
            times(cost),
            interval(low, high),
        );
        return with(Effect::Harms, Some(said));
    }
    if high < 1.0 - MEASURABLE {
        let lost = lost.filter(|lost| lost.as_it_is >= LOST_MIN && lost.high.is_some_and(|high| high < 0.0));
        let cures = lost.is_some_and(|lost| lost.manx_run <= CURED * lost.as_it_is);
        let (effect, word) = if cures { (Effect::Cures, "cures") } else { (Effect::Helps, "helps") };
        let threads = lost.map_or(String::new(), |lost| {
            let [one, other] = [lost.as_it_is, lost.manx_run].map(|threads| number(threads, 2));
            format!(" {one} threads are kept from their work as it is, and {other} under `manx run`.")
        });
        let said = format!(
            "`manx run` {word} this program, which becomes {} times faster: {figures} ({}).{threads}",
            times(1.0 / cost),
            interval(1.0 / high, 1.0 / low),
        );
        return with(effect, Some(said));
    }
    let said = format!(
        "`manx run` makes no difference to this program that can be measured: {figures} (95 % interval of \
         the ratio {} to {}).",
        number(change.low.unwrap_or(low), 3),
        number(change.high.unwrap_or(high), 3),
    );
    with(Effect::NoDifference, Some(said))
}

/// The reason why there is no figure, and how to give one.
fn ask(asked: Asked<'_>) -> String {
    match asked {
        Some((pattern, _)) => format!(
            "No pair has a number above 0 by `{}` in the output of both runs. See what the program writes; \
             what it keeps in a buffer is lost when it is ended (`stdbuf -oL PROGRAM`).",
            pattern.text()
        ),
        None => "Nothing says how much work the program did: less CPU time may be less work. Name a figure \
                 in its output, as by --figure 'step ([0-9.]+) ms' if less is better, or by --rate \
                 '([0-9.]+) requests/s' if more is better; or let it end by itself within --for."
            .to_owned(),
    }
}

/// A factor in three figures.
fn times(factor: f64) -> String {
    match factor {
        100.0.. => number(factor, 0),
        10.0.. => number(factor, 1),
        _ => number(factor, 2),
    }
}

#[cfg(test)]
mod tests {
    use super::super::figure::Found;
    use super::*;

    const TIME: Duration = Duration::from_secs(10);

    /// Five pairs of one kind.
    fn pairs(as_it_is: &Session, manx_run: &Session) -> Vec<Pair> {
        let pair = || Pair { as_it_is: as_it_is.clone(), manx_run: manx_run.clone(), ..Pair::default() };
        std::iter::repeat_with(pair).take(5).collect()
    }

    fn wall(seconds: f64) -> Session {
        Session { wall_s: Some(seconds), ..Session::default() }
    }

    fn printed(median: f64) -> Session {
        Session { found: Found { median: Some(median), numbers: 1, no_number: None }, ..Session::default() }
    }

    /// The effect and the words of pairs whose program loses seven threads as it is and none under
    /// `manx run`: what was called a cure.
    fn judged(pairs: &[Pair], asked: Asked<'_>) -> (Effect, String) {
        let lost = Change::of("lost", "threads", Kind::Difference, &[(7.0, 0.01); 5]);
        let work = judge(pairs, change(pairs, asked, TIME).as_ref(), lost.as_ref(), asked);
        (work.effect, work.said.unwrap_or_default())
    }

    #[test]
    fn a_program_that_does_less_work_is_harmed_however_little_it_burns() {
        let (effect, said) = judged(&pairs(&wall(0.02), &wall(2.9)), None);
        assert_eq!(effect, Effect::Harms);
        assert!(said.starts_with("`manx run` makes this program 145 times slower: "), "{said}");
        // One that does not come to its end under `manx run` at all.
        let (effect, said) = judged(&pairs(&wall(0.1), &Session::default()), None);
        assert!(effect == Effect::Harms && said.contains(" 100 times slower"), "{said}");
        let failed = Session { failed: Some("signal 11".into()), ..wall(0.01) };
        assert_eq!(judged(&pairs(&wall(1.0), &failed), None).0, Effect::Harms);
    }

    #[test]
    fn without_a_figure_of_work_there_is_no_verdict_and_the_options_are_named() {
        let (effect, said) = judged(&pairs(&Session::default(), &Session::default()), None);
        assert_eq!(effect, Effect::Unknown);
        assert!(said.contains("--figure '") && said.contains("--rate '"), "{said}");
        // Too few pairs: the notes say so.
        assert_eq!(judged(&pairs(&wall(2.0), &wall(1.0))[..4], None), (Effect::Unknown, String::new()));
        // One that fails under `manx run` at times has no wall time there (Invariant 3).
        let mut some = pairs(&wall(1.0), &wall(1.0));
        some[0].manx_run = Session { failed: Some("signal 11".into()), ..wall(0.01) };
        let (effect, said) = judged(&some, None);
        assert!(effect == Effect::Unknown && said.contains("only 4 of 5 pairs"), "{said}");
    }

    #[test]
    fn a_program_is_cured_only_if_it_does_more_work() {
        let (effect, said) = judged(&pairs(&wall(4.0), &wall(1.0)), None);
        assert_eq!(effect, Effect::Cures);
        assert!(said.contains("cures this program, which becomes 4.00 times faster"), "{said}");
        let helps = |lost: (f64, f64)| {
            let pairs = pairs(&wall(4.0), &wall(1.0));
            let lost = Change::of("lost", "threads", Kind::Difference, &[lost; 5]);
            judge(&pairs, change(&pairs, None, TIME).as_ref(), lost.as_ref(), None).effect
        };
        assert_eq!(helps((7.0, 3.0)), Effect::Helps);
        assert_eq!(helps((0.0, 0.0)), Effect::Helps);
        for same in [1.0, 0.995, 1.005] {
            let (effect, said) = judged(&pairs(&wall(1.0), &wall(same)), None);
            assert!(effect == Effect::NoDifference && said.contains("no difference"), "{said}");
        }
    }

    #[test]
    fn a_pattern_says_which_direction_is_better() {
        let pattern = Pattern::parse(r"n (\d+)").expect("a pattern");
        let effect = |one: f64, other: f64, better| {
            judged(&pairs(&printed(one), &printed(other)), Some((&pattern, better))).0
        };
        assert_eq!(effect(1.0, 2.0, Better::Less), Effect::Harms);
        assert_eq!(effect(2.0, 1.0, Better::More), Effect::Harms);
        assert_eq!(effect(2.0, 1.0, Better::Less), Effect::Cures);
        assert_eq!(effect(1.0, 2.0, Better::More), Effect::Cures);
        let (_, said) = judged(&pairs(&printed(195.0), &printed(1.0)), Some((&pattern, Better::More)));
        assert!(said.contains("195 times slower: `n (\\d+)` is 195.00 as it is and 1.00 under"), "{said}");
    }

    #[test]
    fn a_program_that_comes_to_no_figure_at_all_is_harmed() {
        let pattern = Pattern::parse(r"n (\d+)").expect("a pattern");
        let less = Some((&pattern, Better::Less));
        assert_eq!(judged(&pairs(&printed(2.0), &wall(9.0)), less).0, Effect::Harms);
        assert_eq!(
            judged(&pairs(&printed(2.0), &printed(0.0)), Some((&pattern, Better::More))).0,
            Effect::Harms
        );
        // A step of 0 ms is a coarse clock.
        assert_eq!(judged(&pairs(&printed(2.0), &printed(0.0)), less).0, Effect::Unknown);
        // A pattern that matches nothing: the wall time is not taken instead.
        let (effect, said) = judged(&pairs(&wall(4.0), &wall(1.0)), less);
        assert!(effect == Effect::Unknown && said.contains("No pair has a number above 0"), "{said}");
    }
}
