//! What follows from the runs: medians, the knee, the suggestion, a table and the graph.

use super::schema::{Advice, Conclusion, Point, Profile, Run, Variant};
use crate::drawing::{diagonal, dot, dots, duration, rates, times};
use report::chart::Chart;
use report::figure::{self, change};
use report::{Table, knee, median};

/// The colours of what was measured.
const BLUE: u32 = 0x1f_77_b4;
const ORANGE: u32 = 0xe6_7e_00;
const GREEN: u32 = 0x2c_a0_2c;
const RED: u32 = 0xd6_27_28;

/// Draws the conclusion of what has been measured.
pub fn conclude(profile: &Profile) -> Conclusion {
    let of = |variant| {
        let runs: Vec<&Run> = profile.runs.iter().filter(|run| run.variant == variant).collect();
        let figures =
            |figure: fn(&Run) -> f64| median(&runs.iter().map(|run| figure(run)).collect::<Vec<_>>());
        let point = Point {
            throughput_per_s: figures(|run| run.throughput_per_s),
            tail_ns: figures(|run| run.tail_ns),
            // A run without a maximum counts as the longest.
            max_ns: Some(figures(|run| run.max_ns.map_or(f64::NAN, |ns| ns as f64)))
                .filter(|ns| ns.is_finite()),
            runs: runs.len(),
        };
        (point.runs > 0).then_some((variant, point))
    };
    let points: Vec<_> = profile.sweep.variants().into_iter().filter_map(of).collect();
    let slos = slos(&points);
    let curve: Vec<_> =
        slos.iter().map(|(slo, point)| ((*slo as f64).ln(), point.throughput_per_s)).collect();
    let knee = knee::knee(&curve);
    let advice = advise(&slos, knee, find(&points, Variant::Fifo));
    Conclusion { knee_slo_ns: knee.map(|index| slos[index].0), advice, points }
}

fn slos(points: &[(Variant, Point)]) -> Vec<(u64, Point)> {
    let slo = |&(variant, point): &(Variant, Point)| match variant {
        Variant::SloNs(slo_ns) => Some((slo_ns, point)),
        _ => None,
    };
    points.iter().filter_map(slo).collect()
}

fn find(points: &[(Variant, Point)], variant: Variant) -> Option<Point> {
    points.iter().find(|(this, _)| *this == variant).map(|(_, point)| *point)
}

/// The command in a title: its program without the folder.
fn command(words: &[String]) -> String {
    let [program, arguments @ ..] = words else { return String::new() };
    let name = program.rsplit('/').next().unwrap_or(program);
    [&[name.to_owned()], arguments].concat().join(" ")
}

/// The table of the points.
pub fn table(profile: &Profile, conclusion: &Conclusion) -> Table {
    let tail = format!("{} [µs]", profile.sweep.percentile_name());
    let title = format!("{}, medians", command(&profile.sweep.program));
    let headers =
        ["SLO", &tail, "of the SLO [%]", "max [ms]", "throughput [/s]", "to FIFO []", "runs []", ""];
    let mut table = Table::new(&title, &headers);
    let fifo = find(&conclusion.points, Variant::Fifo);
    for &(variant, point) in &conclusion.points {
        let slo_ns = match variant {
            Variant::SloNs(slo_ns) => Some(slo_ns),
            _ => None,
        };
        let mut marks = Vec::new();
        if slo_ns.is_some() && slo_ns == conclusion.knee_slo_ns {
            marks.push("knee");
        }
        if slo_ns.is_some() && slo_ns == conclusion.advice.slo_ns {
            marks.push("suggested");
        }
        table.row([
            variant.to_string(),
            figure::three_digits(point.tail_ns / 1e3),
            slo_ns.map_or("-".into(), |slo_ns| format!("{:.0}", point.tail_ns / slo_ns as f64 * 100.0)),
            point.max_ns.map_or("-".into(), |ns| figure::three_digits(ns / 1e6)),
            figure::three_digits(point.throughput_per_s),
            fifo.map_or("-".into(), |fifo| format!("{:.2}", point.throughput_per_s / fifo.throughput_per_s)),
            point.runs.to_string(),
            marks.join(", "),
        ]);
    }
    table
}

/// The graph: the tail over the target with the line y = x, and throughput below. A variant without
/// a target is drawn at its own tail.
pub fn chart(profile: &Profile, conclusion: &Conclusion) -> Chart {
    let slos = slos(&conclusion.points);
    let percentile = profile.sweep.percentile_name();
    let over =
        |figure: fn(&Point) -> f64| slos.iter().map(|(slo, p)| (*slo as f64, figure(p))).collect::<Vec<_>>();
    let mut tails =
        vec![diagonal(slos.iter().map(|(slo, _)| *slo as f64)), dots(&percentile, BLUE, over(|p| p.tail_ns))];
    let mut throughput = vec![dots("throughput", BLUE, over(|p| p.throughput_per_s))];
    for (variant, colour) in [(Variant::Fifo, ORANGE), (Variant::Plain, GREEN)] {
        if let Some(point) = find(&conclusion.points, variant) {
            tails.push(dot(&variant.to_string(), colour, (point.tail_ns, point.tail_ns)));
            throughput.push(dot(&variant.to_string(), colour, (point.tail_ns, point.throughput_per_s)));
        }
    }
    let at = |slo_ns| {
        slos.iter().find(|(slo, _)| Some(*slo) == slo_ns).map(|(slo, p)| (*slo as f64, p.throughput_per_s))
    };
    let (knee, advice) = (conclusion.knee_slo_ns, conclusion.advice.slo_ns);
    throughput.extend(at(knee).map(|point| dot("knee", RED, point)));
    throughput.extend(at(advice.filter(|_| advice != knee)).map(|point| dot("suggested", RED, point)));
    Chart {
        title: command(&profile.sweep.program),
        name: "SLO (FIFO and without Manx: at their own latency)".into(),
        logarithmic: true,
        label: duration,
        panels: vec![times(&format!("{percentile} latency"), tails), rates("throughput", throughput)],
    }
}

// Which target to take, and why: a pure function of what was measured.
//
// A target is *kept* if the measured percentile is within it. Of the kept targets, the one at the
// knee is suggested, or the next longer one: beyond it, a longer target buys little. If throughput
// has no knee, it is the shortest that brings nearly all there is to gain. If nothing is gained,
// nothing is suggested.

/// How far the percentile may be above a target that counts as kept: the accuracy that the feedback
/// promises.
const TOLERANCE: f64 = 1.05;
/// From this much of FIFO's throughput on, a target is worth its latency.
pub const GAIN: f64 = 1.05;
/// Without a knee, this share of the best throughput is nearly all.
const NEARLY_ALL: f64 = 0.95;

/// Suggests one of `points`, which are sorted by target, given the index of their knee and FIFO's
/// point.
pub fn advise(points: &[(u64, Point)], knee: Option<usize>, fifo: Option<Point>) -> Advice {
    let none = |reason: String| Advice { slo_ns: None, reason };
    let is_kept = |(slo_ns, point): &(u64, Point)| point.tail_ns <= *slo_ns as f64 * TOLERANCE;
    let Some(longest) = points.last() else { return none("no target was measured".into()) };
    let kept: Vec<usize> = (0..points.len()).filter(|&index| is_kept(&points[index])).collect();
    let best = kept.iter().map(|&index| points[index].1.throughput_per_s).fold(f64::NAN, f64::max);
    if kept.is_empty() {
        let text = format!("no target up to {} was kept: sweep longer ones", figure::duration(longest.0));
        return none(text);
    }
    if let Some(fifo) = fifo
        && best < fifo.throughput_per_s * GAIN
    {
        let gain = change(best / fifo.throughput_per_s);
        return none(format!("no target that was kept brings much: {gain} at best against FIFO"));
    }
    let at_knee = knee.and_then(|knee| kept.iter().copied().find(|&index| index >= knee));
    // FIFO's throughput is what a knee must be better than, too.
    let worth = |index: &usize| {
        let enough =
            fifo.is_none_or(|fifo| points[*index].1.throughput_per_s >= fifo.throughput_per_s * GAIN);
        enough.then_some(*index)
    };
    let nearly = kept.iter().copied().find(|&index| points[index].1.throughput_per_s >= best * NEARLY_ALL);
    let Some(index) = at_knee.as_ref().and_then(worth).or(nearly) else {
        return none("no target that was kept has a throughput".into());
    };
    let (slo_ns, point) = points[index];
    let why = if knee == Some(index) {
        "it is at the knee: longer targets bring little more".to_owned()
    } else if at_knee == Some(index) && worth(&index).is_some() {
        "it is the first behind the knee that was kept".to_owned()
    } else {
        "it is the shortest that was kept and brings 95 % of the best throughput".to_owned()
    };
    let gain = fifo.map(|fifo| {
        format!("; throughput {} against FIFO", change(point.throughput_per_s / fifo.throughput_per_s))
    });
    let tail = figure::duration(point.tail_ns as u64);
    Advice {
        slo_ns: Some(slo_ns),
        reason: format!("{why}; measured tail {tail}{}", gain.unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::schema::tests::sweep;
    use proptest::prelude::*;
    use report::Machine;

    #[test]
    fn a_title_leaves_out_the_folder_of_the_program_only() {
        let words = ["/opt/bin/server", "--home", "/var/lib"].map(str::to_owned);
        assert_eq!(command(&words), "server --home /var/lib");
        assert_eq!((command(&["server".to_owned()]), command(&[])), ("server".to_owned(), String::new()));
    }

    /// Throughput rises up to 500 µs and stays.
    fn measured() -> Profile {
        let mut profile = Profile::new(sweep(), Machine::default());
        for variant in profile.sweep.variants() {
            for round in 0..3 {
                let (throughput_per_s, tail_ns) = match variant {
                    Variant::Plain => (900.0, 300_000.0),
                    Variant::Fifo => (1000.0, 40_000.0),
                    Variant::SloNs(slo) => (1000.0 + (slo as f64 / 500.0).min(1000.0), slo as f64),
                };
                // One of three is an outlier, which a median does not see.
                let tail_ns = if round == 1 { tail_ns * 100.0 } else { tail_ns };
                profile.runs.push(Run { variant, round, throughput_per_s, tail_ns, max_ns: None });
            }
        }
        profile
    }

    #[test]
    fn the_knee_of_the_medians_is_suggested_and_marked() {
        let profile = measured();
        let conclusion = conclude(&profile);
        let knee = conclusion.knee_slo_ns.unwrap();
        assert!((400_000..700_000).contains(&knee), "{knee}");
        assert_eq!(conclusion.advice.slo_ns, Some(knee));
        let table = table(&profile, &conclusion).to_string();
        assert_eq!(table.matches("knee, suggested").count(), 1, "{table}");
        assert!(chart(&profile, &conclusion).svg().contains("y = x"));
    }

    #[test]
    fn nothing_measured_is_an_empty_table() {
        let profile = Profile::new(sweep(), Machine::default());
        let conclusion = conclude(&profile);
        assert!(conclusion.points.is_empty() && conclusion.advice.slo_ns.is_none());
        assert!(table(&profile, &conclusion).rows.is_empty());
        assert!(chart(&profile, &conclusion).svg().ends_with("</svg>\n"));
    }

    fn point(throughput_per_s: f64, tail_ns: f64) -> Point {
        Point { throughput_per_s, tail_ns, max_ns: None, runs: 1 }
    }

    #[test]
    fn the_knee_is_suggested_if_it_is_kept() {
        let mut points =
            vec![(100, point(10.0, 100.0)), (200, point(19.0, 200.0)), (400, point(20.0, 400.0))];
        let fifo = Some(point(10.0, 80.0));
        let advice = advise(&points, Some(1), fifo);
        assert_eq!(advice.slo_ns, Some(200));
        assert!(
            advice.reason.contains("at the knee") && advice.reason.contains("+90.0 %"),
            "{}",
            advice.reason
        );
        points[1].1.tail_ns = 300.0;
        let advice = advise(&points, Some(1), fifo);
        assert_eq!(advice.slo_ns, Some(400));
        assert!(advice.reason.contains("behind the knee"), "{}", advice.reason);
    }

    #[test]
    fn without_a_gain_or_a_kept_target_there_is_none() {
        let points = [(100, point(10.0, 100.0)), (200, point(10.2, 100.0))];
        let advice = advise(&points, None, Some(point(10.0, 90.0)));
        assert!(advice.slo_ns.is_none() && advice.reason.contains("brings much"), "{advice:?}");
        let advice = advise(&[(100, point(10.0, 500.0))], None, None);
        assert!(advice.slo_ns.is_none() && advice.reason.contains("sweep longer"), "{advice:?}");
        assert_eq!(advise(&[], None, None).slo_ns, None);
    }

    #[test]
    fn without_a_knee_it_is_the_shortest_with_nearly_all() {
        let points = [(100, point(10.0, 50.0)), (200, point(19.5, 50.0)), (400, point(20.0, 50.0))];
        assert_eq!(advise(&points, None, None).slo_ns, Some(200));
    }

    proptest! {
        #[test]
        fn a_suggested_target_was_kept_and_pays(
            figures in prop::collection::vec((1.0..100.0f64, 1.0..5000.0f64), 0..12),
            knee in prop::option::of(0usize..12),
            fifo in prop::option::of(1.0..100.0f64),
        ) {
            let points: Vec<_> = figures.iter().enumerate().map(|(n, &(t, l))| (100 << n, point(t, l))).collect();
            let knee = knee.filter(|&knee| knee < points.len());
            let advice = advise(&points, knee, fifo.map(|t| point(t, 1.0)));
            prop_assert!(!advice.reason.is_empty());
            if let Some(slo_ns) = advice.slo_ns {
                let point = points.iter().find(|p| p.0 == slo_ns).unwrap().1;
                prop_assert!(point.tail_ns <= slo_ns as f64 * TOLERANCE);
                prop_assert!(fifo.is_none_or(|t| point.throughput_per_s >= t * GAIN * NEARLY_ALL));
            }
        }
    }
}
