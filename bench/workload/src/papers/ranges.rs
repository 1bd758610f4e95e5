//! Paper 004 on this machine: the experiments of [`crate::range`] that are the thesis', and its
//! numbers beside them.
//!
//! | part | of the thesis |
//! | --- | --- |
//! | shuffled | figures 5.2 and 5.3, as the author ran them |
//! | w1, w2 | the same workloads, each thread in its own slice |
//! | heights | figure 5.1 |
//! | blob | figure 5.4: LeanStore's own algorithm, and that of the author's fork |
//! | counters | figure 5.5 |
//!
//! *Our* is the thesis' skip list as published. Kogan's and Song's lock take part with their own
//! waiting (they spin) and with ours. The author's stored test of W1 (`test/sync/test_scale.cc` of
//! the fork) lets *Our* alone step over 15 of 16 ranges and divides all ranges by the time; a row
//! shows what that makes of the figures here.

use super::{Claim, Here, table};
use crate::error::Error;
use crate::harness::Bench;
use crate::range::blob::named;
use crate::range::case::{self, THESIS, W1, W1_SHUFFLED, W2, W2_SHUFFLED, scaled};
use crate::range::competitor::Competitor;
use crate::range::{self, Part, Setup, THREADS_MAX};
use report::{Compared, Report};

/// The parts that are the thesis'.
pub const PARTS: [Part; 6] = [Part::W1, Part::W2, Part::Shuffled, Part::Heights, Part::Blob, Part::Counters];
/// The locks: the thesis', ours, and the bitmap of LeanStore.
pub const LOCKS: [Competitor; 9] = [
    Competitor::Manx,
    Competitor::SkipList,
    Competitor::SkipListPublished,
    Competitor::Kogan,
    Competitor::KoganSpinning,
    Competitor::Song,
    Competitor::SongSpinning,
    Competitor::Bitmap,
    Competitor::None,
];
/// The author's stored W1 counts this number of ranges for each range that *Our* takes.
const STRIDE: f64 = 16.0;

/// Runs them; the results are in `bench.report`.
///
/// # Errors
/// As [`range::measure`].
pub fn measure(setup: Setup, bench: &mut Bench) -> Result<(), Error> {
    let locks = LOCKS.map(|lock| lock.name().to_owned()).to_vec();
    range::measure(Setup { parts: PARTS.to_vec(), locks, thesis: true, ..setup }, bench)
}

/// Adds tables and the thesis' claims, and judges the targets.
pub fn conclude(report: &mut Report) {
    range::conclude(report);
    let claims = claims(report);
    table(report, "The thesis' numbers and these", &claims);
}

fn claims(report: &Report) -> Vec<Claim> {
    let cases = report.cases();
    let measured = |name: &str| {
        (1..=THREADS_MAX).map(|threads| scaled(name, threads)).filter(|case| cases.contains(case)).collect()
    };
    let published = Competitor::SkipListPublished.name();
    let (manx, bitmap) = (Competitor::Manx.name(), Competitor::Bitmap.name());
    let mut claims = Vec::new();
    let mut add = |case: &str, over: &str, under: &str, figure: &str, what: &str, paper, factor| {
        let text = format!("{case}: {over} / {under}{what}");
        let compared = Compared { factor, ..Compared::new(case, over, under, figure) };
        claims.push(Claim { text, paper, here: Here::Ratio(compared) });
    };
    let pairs = "pairs_per_s";
    let rivals = [
        (Competitor::KoganSpinning, "4", "2 to 9"),
        (Competitor::Kogan, "4", "2 to 9"),
        (Competitor::SongSpinning, "12", "2 to 6"),
        (Competitor::Song, "12", "2 to 6"),
    ];
    for (name, figure, is_w1) in [
        (W1_SHUFFLED, "figure 5.2", true),
        (W2_SHUFFLED, "figure 5.3", false),
        (W1, "figure 5.2, in order", true),
        (W2, "figure 5.3, in order", false),
    ] {
        let found: Vec<String> = measured(name);
        for case in found {
            for (rival, of_w1, of_w2) in rivals {
                let paper = if is_w1 { of_w1 } else { of_w2 };
                add(&case, published, rival.name(), pairs, &format!(" ({figure})"), paper, 1.0);
            }
            if name == W1_SHUFFLED {
                let what = ", each range counted 16 times, as the stored test does";
                add(&case, published, Competitor::KoganSpinning.name(), pairs, what, "4", STRIDE);
                add(&case, published, Competitor::SongSpinning.name(), pairs, what, "12", STRIDE);
            }
            let none = Competitor::None.name();
            add(
                &case,
                none,
                Competitor::KoganSpinning.name(),
                pairs,
                ": the most that a lock can make",
                "",
                1.0,
            );
            for other in [Competitor::SkipListPublished, Competitor::KoganSpinning, Competitor::Song] {
                add(&case, manx, other.name(), pairs, "", "", 1.0);
            }
        }
    }
    for (name, more, most) in [(W1_SHUFFLED, "about 1", "about 1"), (W2_SHUFFLED, "above 1", "about 1")] {
        let found: Vec<String> = measured(&case::heights(name));
        for case in found {
            add(&case, "height 10", "height 1", pairs, " (figure 5.1)", more, 1.0);
            add(&case, "height 20", "height 10", pairs, " (figure 5.1)", most, 1.0);
        }
    }
    let reads = "reads_per_s";
    let found: Vec<String> = measured(&named("as the fork"));
    for case in found {
        for (over, paper) in [
            (Competitor::SkipListPublished, "slightly below 1"),
            (Competitor::SongSpinning, "near 1, falls from 24 threads on"),
            (Competitor::KoganSpinning, "0.15 to 0.3"),
            (Competitor::Manx, ""),
        ] {
            add(&case, over.name(), bitmap, reads, " (figure 5.4)", paper, 1.0);
        }
    }
    let found: Vec<String> = measured(&case::blob(THESIS));
    for case in found {
        for over in [Competitor::SkipListPublished, Competitor::SongSpinning, Competitor::Manx] {
            add(&case, over.name(), bitmap, reads, ", LeanStore's algorithm", "", 1.0);
        }
    }
    claims
}
