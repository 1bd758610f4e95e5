//! The papers that Manx stands on, made again: their experiments on this machine, with their
//! numbers beside what is measured.
//!
//! | module | paper |
//! | --- | --- |
//! | [`mongodb`] | 000: Andreoli and Cucinotta, "Inducing Huge Tail Latency on a MongoDB deployment" |
//! | [`pools`] | 003: Jeffery, Jensen and Mortier, "Reducing Tail Latencies Through Environment- and Neighbour-aware Thread Management" |
//! | [`ranges`] | 004: Nguyen, "Concurrent Range Locking" |
//!
//! `docs/papers.md` has what was found.

pub mod mongodb;
pub mod pools;
pub mod ranges;

use report::figure::interval;
use report::sheet::number;
use report::{Compared, Report, Table};

/// A number that a paper gives, and its counterpart here.
pub(crate) struct Claim {
    /// The claim in one line
    pub(crate) text: String,
    /// The paper's number, as it gives it
    pub(crate) paper: &'static str,
    /// The counterpart
    pub(crate) here: Here,
}

/// The counterpart of a paper's number.
pub(crate) enum Here {
    /// The median of a version's runs
    Median(String, &'static str, &'static str),
    /// The largest of all runs
    Worst(String, &'static str, &'static str),
    /// A ratio by pairs
    Ratio(Compared),
}

/// Adds the table of a paper's claims.
pub(crate) fn table(report: &mut Report, title: &str, claims: &[Claim]) {
    let mut table = Table::new(title, &["claim", "paper []", "here []", "95 % []"]);
    for Claim { text, paper, here } in claims {
        let time = |ns: f64| report::sheet::time(ns);
        let [measured, between] = match here {
            Here::Median(case, version, figure) => {
                [time(report.middle(case, version, figure)), String::new()]
            }
            Here::Worst(case, version, figure) => [time(report.worst(case, version, figure)), String::new()],
            Here::Ratio(compared) => match report.ratio(compared) {
                Some(ratio) => [number(ratio.ratio), interval(ratio.interval())],
                None => ["-".into(), "-".into()],
            },
        };
        table.row(vec![text.clone(), (*paper).into(), measured, between]);
    }
    report.show(table);
}
