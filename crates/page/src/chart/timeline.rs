//! What threads did, thread by thread: a row each, over the time.
//!
//! A look is a letter (see [`State`]). Equal looks that follow each other are one box. States are
//! told apart by their heights as well as by their colours, and by a letter where there is room. If
//! there are more looks than a picture has room for, neighbouring looks are one: it shows the state
//! that most of them have, and of equals the worse one.

use super::axis::Axis;
use super::svg::{Anchor, GRID, INK, PALETTE, PAPER, QUIET, Shape};
use super::{Frame, LETTER, cut};
use crate::figure::duration;

/// Below this width a name stands above its row.
const NARROW: f64 = 400.0;
const NAMES: f64 = 190.0;
const ROW: f64 = 22.0;
const ROW_NARROW: f64 = 36.0;
/// How high the highest state is.
const HEIGHT: f64 = 16.0;
const BELOW: f64 = 44.0;
/// A row of the legend.
const LEGEND: f64 = 18.0;
/// One look of the picture is at least so wide.
const LOOK: f64 = 1.5;

/// The state of a thread at a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum State {
    /// The thread was not there, or its letter is not known
    Absent,
    Sleeping,
    Running,
    Disk,
    /// The thread sleeps for a lock: a lock with a letter, or a further lock
    Locked(Option<char>),
    Queued,
    Spinning,
}

/// All states but `Absent`, with their words.
pub(crate) const STATES: [(State, &str); 6] = [
    (State::Running, "runs"),
    (State::Queued, "runnable, without a CPU"),
    (State::Spinning, "burns CPU in a waiting loop"),
    (State::Locked(None), "sleeps for a lock"),
    (State::Disk, "waits for a disk"),
    (State::Sleeping, "sleeps"),
];

impl State {
    /// The state that a letter of the result stands for.
    pub(crate) fn of(letter: char) -> State {
        match letter {
            'r' => State::Running,
            'q' => State::Queued,
            's' => State::Sleeping,
            'd' => State::Disk,
            'w' => State::Spinning,
            'l' => State::Locked(None),
            'A'..='Z' => State::Locked(Some(letter)),
            _ => State::Absent,
        }
    }

    /// Without the lock's letter.
    pub(crate) fn kind(self) -> State {
        if let State::Locked(_) = self { State::Locked(None) } else { self }
    }

    fn look(self) -> (u32, f64) {
        match self {
            State::Absent => (QUIET, 0.0),
            State::Sleeping => (QUIET, 2.0),
            State::Running => (PALETTE[0], HEIGHT),
            State::Disk => (PALETTE[4], 8.0),
            State::Locked(_) => (PALETTE[3], 11.0),
            State::Queued => (PALETTE[1], 13.0),
            State::Spinning => (PALETTE[5], HEIGHT),
        }
    }

    fn words(self) -> String {
        let words = STATES.iter().find(|(state, _)| *state == self.kind()).map_or("was not there", |it| it.1);
        match self {
            State::Locked(Some(letter)) => format!("{words} {letter}"),
            _ => words.into(),
        }
    }
}

/// A thread's looks.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// Its name
    pub(crate) name: String,
    /// A state a look
    pub(crate) states: Vec<State>,
}

/// The state of a group of looks: that of most, and of equals the worse.
fn most(states: &[State]) -> State {
    let mut counts: Vec<(usize, State)> = Vec::new();
    for state in states {
        match counts.iter_mut().find(|(_, counted)| counted == state) {
            Some((count, _)) => *count += 1,
            None => counts.push((1, *state)),
        }
    }
    counts.into_iter().max().map_or(State::Absent, |(_, state)| state)
}

/// The shapes, and the picture's size; `looks_ns` says when each look was.
pub(crate) fn drawn(rows: &[Row], looks_ns: &[u64], frame: Frame) -> (Vec<Shape>, (f64, f64)) {
    let is_narrow = frame.width < NARROW;
    let (left, step) = if is_narrow { (6.0, ROW_NARROW) } else { (NAMES, ROW) };
    let right = frame.width - 24.0;
    let mut shapes = Vec::new();
    let (mut x, mut top) = (0.0, 0.0);
    for (state, words) in STATES {
        let width = 32.0 + LETTER * words.len() as f64;
        if x > 0.0 && x + width > frame.width {
            (x, top) = (0.0, top + LEGEND);
        }
        let (colour, height) = state.look();
        let at = (x, top + 2.0 + HEIGHT - height);
        shapes.push(Shape::Box { at, size: (12.0, height), colour, tip: String::new() });
        shapes.push(Shape::words((x + 18.0, top + 14.0), Anchor::Start, words, INK));
        x += width;
    }
    let top = top + LEGEND + 10.0;
    let looks = looks_ns.len().max(1);
    let (begin, end) = (looks_ns.first().copied().unwrap_or(0), looks_ns.last().copied().unwrap_or(0));
    // A look holds until the next one, and the last one as long as one on average.
    let each = (end.saturating_sub(begin) / looks.saturating_sub(1).max(1) as u64).max(1);
    let span = end.saturating_sub(begin).saturating_add(each);
    let time = |at: usize| looks_ns.get(at).map_or(span, |ns| ns.saturating_sub(begin).min(span));
    let place = |ns: u64| left + (right - left) * (ns as f64 / span as f64);
    let together = (looks as f64 * LOOK / (right - left)).ceil().max(1.0) as usize;
    let bottom = top + step * rows.len() as f64;
    let axis = Axis { low: 0.0, high: span as f64, logarithmic: false };
    let label = |ns: f64| duration(ns as u64);
    for tick in axis.ticks_across(right - left, label) {
        let x = place(tick as u64);
        shapes.push(Shape::line((x, top), (x, bottom), GRID));
        let anchor = if tick == 0.0 { Anchor::Start } else { Anchor::Middle };
        shapes.push(Shape::words((x, bottom + 16.0), anchor, &label(tick), INK));
    }
    let middle = f64::midpoint(left, right);
    shapes.push(Shape::words((middle, bottom + 36.0), Anchor::Middle, "since the first look", INK));
    for (at, row) in rows.iter().enumerate() {
        let floor = top + step * (at as f64 + 1.0) - 3.0;
        let (name, anchor, room) = match is_narrow {
            true => ((left, floor - HEIGHT - 4.0), Anchor::Start, frame.width),
            false => ((left - 8.0, floor - 3.0), Anchor::End, NAMES - 8.0),
        };
        shapes.push(Shape::words(name, anchor, &cut(&row.name, (room / LETTER) as usize), INK));
        let states: Vec<State> =
            row.states[..row.states.len().min(looks)].chunks(together).map(most).collect();
        let mut from = 0;
        for run in states.chunk_by(|one, other| one == other) {
            let to = from + run.len();
            let (state, since, until) = (run[0], time(from * together), time(to * together));
            from = to;
            let (colour, height) = state.look();
            if height == 0.0 || until <= since {
                continue;
            }
            let (x, width) = (place(since), place(until) - place(since));
            let tip = format!("{}: {}, {} to {}", row.name, state.words(), duration(since), duration(until));
            shapes.push(Shape::Box { at: (x, floor - height), size: (width, height), colour, tip });
            if let (State::Locked(Some(letter)), true) = (state, width >= 9.0) {
                let middle = (x + width / 2.0, floor - 1.5);
                shapes.push(Shape::words(middle, Anchor::Middle, &letter.to_string(), PAPER));
            }
        }
    }
    (shapes, (frame.width, bottom + BELOW))
}

#[cfg(test)]
mod tests {
    use super::super::{NARROW, WIDE};
    use super::*;

    fn rows(text: &str, looks: usize) -> (Vec<Row>, Vec<u64>) {
        let row = Row { name: "t".into(), states: text.chars().map(State::of).collect() };
        (vec![row], (0..looks as u64).map(|look| look * 1_000_000).collect())
    }

    fn tips(shapes: &[Shape]) -> Vec<String> {
        let tip = |shape: &Shape| match shape {
            Shape::Box { tip, .. } if !tip.is_empty() => Some(tip.clone()),
            _ => None,
        };
        shapes.iter().filter_map(tip).collect()
    }

    #[test]
    fn equal_looks_are_one_box_and_an_absent_thread_has_none() {
        let (rows, looks) = rows("rrq AA", 6);
        let expected = [
            "t: runs, 0 ns to 2.00 ms",
            "t: runnable, without a CPU, 2.00 ms to 3.00 ms",
            "t: sleeps for a lock A, 4.00 ms to 6.00 ms",
        ];
        assert_eq!(tips(&drawn(&rows, &looks, WIDE).0), expected);
    }

    #[test]
    fn thousands_of_looks_make_no_more_boxes_than_there_is_room_for() {
        let (rows, looks) = rows(&"rqsw".repeat(5_000), 20_000);
        assert!(tips(&drawn(&rows, &looks, NARROW).0).len() < 320);
    }

    #[test]
    fn odd_looks_are_no_panic() {
        for (text, looks) in [("", 0), ("rrrr", 0), ("rrrr", 1), ("r", 9), ("é\0", 2)] {
            let (rows, looks) = rows(text, looks);
            drawn(&rows, &looks, WIDE);
        }
        drawn(&rows("rr", 0).0, &[u64::MAX, 0], WIDE);
    }

    #[test]
    fn of_equally_many_looks_the_worse_is_shown() {
        assert_eq!(most(&[State::Running, State::Queued]), State::Queued);
        assert_eq!(most(&[State::Running, State::Running, State::Queued]), State::Running);
    }
}
