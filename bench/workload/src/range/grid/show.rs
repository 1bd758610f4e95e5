//! The grid as tables and as a picture.

use super::super::cell::{Cell, GRID, HOLDS_NS, OVERLAPS, READERS, THREADS, access, hold, overlap};
use super::super::competitor::OWN;
use super::super::standing::{self, FAIR, Measured, measured};
use report::chart::heat::{self, Block, Heat};
use report::figure::interval;
use report::sheet::{number, throughput};
use report::{Ratio, Report, Table, median};

/// Two marks behind a ratio: one says that 1 lies in the interval or that there is no interval, the
/// other that the default lock is not fair.
fn marks(cell: &Measured) -> String {
    let ends = cell.ratio.as_ref().and_then(|ratio| ratio.interval());
    let open = ends.is_none_or(|(low, high)| low < 1.0 && 1.0 <= high);
    let unfair = cell.field.share(OWN) < FAIR;
    [(open, '?'), (unfair, '!')].map(|(marked, mark)| if marked { mark } else { ' ' }).iter().collect()
}

pub(super) const MARKS: [&str; 3] = [
    "?: undecided, since 1 lies in the 95 % interval, or there are fewer than five pairs",
    "!: the slowest thread has less than 0.9 of the mean with manx, too",
    "-: no peer is fair, or nothing was measured",
];

/// The rows: the holds and overlaps of all cells.
fn rows() -> impl Iterator<Item = (u64, Option<u32>)> {
    HOLDS_NS.into_iter().flat_map(|hold_ns| OVERLAPS.into_iter().map(move |overlap| (hold_ns, overlap)))
}

fn find(
    cells: &[Measured],
    threads: usize,
    (hold_ns, overlap): (u64, Option<u32>),
    readers_percent: u32,
) -> Option<&Measured> {
    let wanted = Cell { threads, hold_ns, overlap, readers_percent };
    cells.iter().find(|found| found.cell == wanted)
}

/// A ratio of two decimals, as it stands in a table and in the picture.
fn ratio(cell: &Measured) -> Option<String> {
    Some(format!("{:.2}", cell.ratio.as_ref()?.ratio))
}

/// A table of ratios for each access, one of how they are distributed, and one of all cells.
pub(in super::super) fn tables(report: &Report) -> Vec<Table> {
    let cells = measured(report);
    let mut tables = Vec::new();
    for readers_percent in READERS {
        let title =
            format!("{GRID}, {}: pairs of manx / of the best fair peer, by threads", access(readers_percent));
        let threads = THREADS.map(|threads| format!("{threads} []"));
        let headers: Vec<&str> =
            ["hold", "overlap"].into_iter().chain(threads.iter().map(String::as_str)).collect();
        let mut table = Table::new(&title, &headers);
        for row in rows() {
            let found = THREADS.map(|threads| find(&cells, threads, row, readers_percent));
            if found.iter().any(Option::is_some) {
                let cell = |found: Option<&Measured>| match found.map(|found| (ratio(found), marks(found))) {
                    Some((Some(ratio), marks)) => ratio + &marks,
                    _ => "-  ".into(),
                };
                let names = [hold(row.0), overlap(row.1)];
                table.row(names.into_iter().chain(found.map(cell)));
            }
        }
        if !table.rows.is_empty() {
            tables.push(table);
        }
    }
    if !cells.is_empty() {
        tables.extend([summary(&cells), details(report, &cells)]);
    }
    tables
}

/// The distribution of the ratios, for each access.
fn summary(cells: &[Measured]) -> Table {
    let headers = [
        "cells",
        "n []",
        "no fair peer []",
        "least []",
        "median []",
        "greatest []",
        "below 1 []",
        "above 1 []",
        "undecided []",
        "to the fastest of all: least []",
        "median []",
    ];
    let title = format!("{GRID}: how the ratios to the best fair peers are distributed");
    let mut table = Table::new(&title, &headers);
    for readers_percent in READERS.map(Some).into_iter().chain([None]) {
        let is_of =
            |found: &&Measured| readers_percent.is_none_or(|percent| percent == found.cell.readers_percent);
        let found: Vec<&Measured> = cells.iter().filter(is_of).collect();
        let ratios: Vec<&Ratio> = found.iter().filter_map(|found| found.ratio.as_ref()).collect();
        let ends = |side: fn((f64, f64)) -> bool| {
            ratios.iter().filter(|ratio| ratio.interval().is_some_and(side)).count()
        };
        let (below, above) = (ends(|(_, high)| high < 1.0), ends(|(low, _)| low > 1.0));
        let values: Vec<f64> = ratios.iter().map(|ratio| ratio.ratio).collect();
        let fastest = found.iter().filter_map(|found| Some(found.to_fastest.as_ref()?.ratio));
        let fastest: Vec<f64> = fastest.collect();
        let least = |values: &[f64]| number(values.iter().copied().fold(f64::NAN, f64::min));
        table.row([
            readers_percent.map_or("all".into(), access),
            found.len().to_string(),
            (found.len() - ratios.len()).to_string(),
            least(&values),
            number(median(&values)),
            number(values.iter().copied().fold(f64::NAN, f64::max)),
            below.to_string(),
            above.to_string(),
            (ratios.len() - below - above).to_string(),
            least(&fastest),
            number(median(&fastest)),
        ]);
    }
    table
}

/// Each cell with its peers.
fn details(report: &Report, cells: &[Measured]) -> Table {
    let headers = [
        "cell",
        "rounds []",
        "pairs",
        "slowest [x]",
        "best fair peer",
        "its pairs",
        "its slowest [x]",
        "ratio []",
        "95 % []",
        "fastest of all",
        "its slowest [x]",
        "ratio []",
    ];
    let mut table = Table::new(&format!("{GRID}: the cells"), &headers);
    for found in cells {
        let Measured { cell, field, .. } = found;
        let fastest = field.fastest();
        let (best, pairs, share) = match field.best_fair() {
            Some(best) => (best, field.pairs_per_s(best), field.share(best)),
            None => ("-", f64::NAN, f64::NAN),
        };
        let own_rounds = report.values(&cell.case(), OWN, "pairs_per_s").len();
        table.row([
            cell.case().trim_start_matches(GRID).trim_start_matches(", ").to_owned(),
            own_rounds.to_string(),
            throughput(field.pairs_per_s(OWN)),
            number(field.share(OWN)),
            best.to_owned(),
            throughput(pairs),
            number(share),
            number(found.ratio.as_ref().map_or(f64::NAN, |ratio| ratio.ratio)),
            interval(found.ratio.as_ref().and_then(|ratio| ratio.interval())),
            fastest.unwrap_or("-").to_owned(),
            number(fastest.map_or(f64::NAN, |name| field.share(name))),
            number(found.to_fastest.as_ref().map_or(f64::NAN, |ratio| ratio.ratio)),
        ]);
    }
    table
}

/// The picture; `None` if no cell was measured.
pub fn heat(report: &Report) -> Option<Heat> {
    let cells = measured(report);
    if cells.is_empty() {
        return None;
    }
    let block = |readers_percent: u32| {
        let cell = |row, threads| {
            let found = find(&cells, threads, row, readers_percent)?;
            let text = format!("{}{}", ratio(found)?, marks(found).trim());
            Some(heat::Cell { ratio: found.ratio.as_ref()?.ratio, text })
        };
        let row = |row| THREADS.map(|threads| cell(row, threads)).to_vec();
        Block { name: format!("{}, by threads", access(readers_percent)), cells: rows().map(row).collect() }
    };
    let middle = standing::median_ratio(report).map_or(f64::NAN, |ratio| ratio.ratio);
    let mut notes = MARKS.map(str::to_owned).to_vec();
    notes.push(format!(
        "{} cells, median {}; {}, {} CPUs",
        cells.len(),
        number(middle),
        report.machine.processor,
        report.machine.cpus
    ));
    Some(Heat {
        title: "Pairs per second of manx over those of the best fair peer in each cell".into(),
        rows: rows().map(|(ns, percent)| format!("{}, {}", hold(ns), overlap(percent))).collect(),
        columns: THREADS.map(|threads| threads.to_string()).to_vec(),
        blocks: READERS.map(block).to_vec(),
        notes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::range::standing::tests::report as two_cells;

    #[test]
    fn a_table_has_the_ratio_and_its_marks_and_the_picture_has_the_same() {
        let report = two_cells(2);
        let tables = tables(&report);
        assert_eq!(tables[0].rows[0], ["no hold", "31 %", "1.25  ", "-  ", "-  ", "-  ", "-  "]);
        assert_eq!(tables[0].rows[1][2], "0.75  ");
        assert_eq!(
            tables[1].rows.last().unwrap()[..],
            ["all", "2", "0", "0.750", "1.00", "1.25", "1", "1", "0", "0.267", "0.356"]
        );
        let row = &tables[2].rows[0];
        assert_eq!((row[4].as_str(), row[9].as_str(), row[10].as_str()), ("map", "kogan", "0.222"));
        let picture = heat(&report).unwrap();
        let texts = picture.blocks[0].cells.iter().flatten().flatten().map(|cell| cell.text.as_str());
        assert!(texts.eq(["1.25", "0.75"]));
        assert_eq!(picture.rows.len(), picture.blocks[0].cells.len());
    }

    #[test]
    fn too_few_rounds_decide_nothing() {
        let mut report = two_cells(2);
        report.runs.retain(|run| run.round < 4);
        assert_eq!(tables(&report)[0].rows[0][2], "1.25? ");
    }
}
