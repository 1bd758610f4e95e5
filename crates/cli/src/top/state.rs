//! What the screen shows, and how keys and new numbers change it. No terminal and no clock is in
//! here.
//!
//! Invariants:
//! 1. `shown` has the index of each process that the filters leave, in the order of the rows.
//! 2. The selected process stays selected whatever its row is. When it ends, the process that takes
//!    its row is selected. Before a key has selected one, it is always that in the first row.
//! 3. The interval is one of [`INTERVALS`], or the one that was asked for.

use super::columns::Column;
use super::input::Command;
use crate::processes::row::{Inside, Row, Snapshot};
use std::time::Duration;

/// The intervals that keys choose, in ms.
const INTERVALS: [u64; 9] = [100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000];
/// The longest filter, in characters.
const FILTER_MAX: usize = 40;

/// What is on the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Page {
    /// The processes
    List,
    /// One process
    Process(u32),
}

/// The lists of a process.
pub const PARTS: usize = 3;

/// What the screen shows.
#[derive(Clone, Debug)]
pub struct State {
    /// The numbers
    pub snapshot: Snapshot,
    /// The page
    pub page: Page,
    /// Whether the help is over it
    pub help: bool,
    /// The column by which rows are sorted
    pub sort: Column,
    /// Whether the least comes first
    pub reversed: bool,
    /// Whether only processes under Manx are shown
    pub only_manx: bool,
    /// Only names and commands with this text are shown
    pub filter: String,
    /// Whether keys go into the filter
    pub writing: bool,
    /// Whether nothing is read
    pub paused: bool,
    /// The time between two looks
    pub interval: Duration,
    /// Which list of a process keys scroll
    pub part: usize,
    /// The first row that each list of a process shows
    pub scrolled: [usize; PARTS],
    /// The rows (Invariant 1)
    shown: Vec<usize>,
    selected: Option<u32>,
    /// The row of the selected process when it was seen last
    row: usize,
    /// The first row on the screen, and the number of rows that fit
    first: usize,
    height: usize,
}

/// What the caller has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Draw
    Draw,
    /// Draw on an empty screen
    Redraw,
    /// Look now, and draw
    Look,
    /// Go to the background
    Suspend,
    /// End
    Quit,
}

impl State {
    /// Nothing has been seen yet.
    pub fn new(sort: Column, only_manx: bool, filter: String, interval: Duration) -> State {
        State {
            snapshot: Snapshot::default(),
            page: Page::List,
            help: false,
            sort,
            reversed: false,
            only_manx,
            filter,
            writing: false,
            paused: false,
            interval,
            part: 0,
            scrolled: [0; PARTS],
            shown: vec![],
            selected: None,
            row: 0,
            first: 0,
            height: 1,
        }
    }

    /// Takes new numbers.
    pub fn update(&mut self, snapshot: Snapshot) {
        self.snapshot = snapshot;
        self.arrange();
    }

    /// The processes in the order of the rows.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = &Row> {
        self.shown.iter().map(|&index| &self.snapshot.processes[index])
    }

    /// The process whose inside is shown.
    pub fn open(&self) -> Option<u32> {
        match self.page {
            Page::Process(pid) => Some(pid),
            Page::List => None,
        }
    }

    /// The open process's row and inside, if it runs.
    pub fn inside(&self) -> Option<(&Row, Option<&Inside>)> {
        let pid = self.open()?;
        let row = self.snapshot.processes.iter().find(|row| row.pid == pid)?;
        Some((row, self.snapshot.inside.as_ref().filter(|inside| inside.pid == pid)))
    }

    /// The selected row.
    pub fn selected(&self) -> usize {
        if self.selected.is_some() { self.row } else { 0 }
    }

    /// Says how many rows fit on the screen, and returns the first of them: such that the selected
    /// one is among them.
    pub fn fit(&mut self, height: usize) -> usize {
        self.height = height.max(1);
        let selected = self.selected();
        let last = self.shown.len().saturating_sub(self.height);
        self.first = self.first.clamp(selected.saturating_sub(self.height - 1), selected).min(last);
        self.first
    }

    /// Filters and sorts, and finds the selected process again.
    fn arrange(&mut self) {
        let text = self.filter.to_lowercase();
        let has = |of: &str| of.to_lowercase().contains(&text);
        let wanted = |row: &Row| {
            (!self.only_manx || row.manx.is_on()) && (text.is_empty() || has(&row.name) || has(&row.command))
        };
        let rows = &self.snapshot.processes;
        self.shown = (0..rows.len()).filter(|&index| wanted(&rows[index])).collect();
        self.shown.sort_by(|&one, &other| {
            let order = self.sort.order(&rows[one], &rows[other]);
            if self.reversed { order.reverse() } else { order }
        });
        // Invariant 2.
        let Some(pid) = self.selected else { return };
        let at = self.shown.iter().position(|&index| rows[index].pid == pid);
        self.row = at.unwrap_or(self.row).min(self.shown.len().saturating_sub(1));
        // With no rows there is none to take its place, and it may come back.
        self.selected = self.pid_at(self.row).or(self.selected);
    }

    fn pid_at(&self, row: usize) -> Option<u32> {
        self.shown.get(row).map(|&index| self.snapshot.processes[index].pid)
    }

    /// Does what a key asks for.
    pub fn apply(&mut self, command: Command) -> Effect {
        match command {
            Command::Quit => return Effect::Quit,
            Command::Suspend => return Effect::Suspend,
            Command::Redraw => return Effect::Redraw,
            Command::Help => self.help = !self.help,
            Command::Back if self.help => self.help = false,
            _ if self.help => {}
            Command::Pause => {
                self.paused = !self.paused;
                return if self.paused { Effect::Draw } else { Effect::Look };
            }
            Command::Slower(slower) => self.change_interval(slower),
            _ => {
                return match self.page {
                    Page::List => self.apply_to_list(command),
                    Page::Process(_) => self.apply_to_process(command),
                };
            }
        }
        Effect::Draw
    }

    fn apply_to_list(&mut self, command: Command) -> Effect {
        let rows = self.shown.len();
        match command {
            Command::Move(by) => self.select(self.selected().saturating_add_signed(by)),
            Command::Page(by) => {
                self.select(self.selected().saturating_add_signed(by * self.height as isize))
            }
            Command::First => self.select(0),
            Command::Last => self.select(rows),
            Command::Sort(by) => {
                self.sort = self.sort.step(by);
                self.arrange();
            }
            Command::Reverse => {
                self.reversed = !self.reversed;
                self.arrange();
            }
            Command::All => {
                self.only_manx = !self.only_manx;
                self.arrange();
            }
            Command::Filter => self.writing = true,
            Command::Accept => self.writing = false,
            Command::Clear => {
                self.writing = false;
                self.filter.clear();
                self.arrange();
            }
            Command::Letter(letter) if self.filter.chars().count() < FILTER_MAX && !letter.is_control() => {
                self.filter.push(letter);
                self.arrange();
            }
            Command::Erase => {
                self.filter.pop();
                self.arrange();
            }
            Command::Back if !self.filter.is_empty() => return self.apply_to_list(Command::Clear),
            Command::Open => {
                let row = self.selected();
                if let Some(pid) = self.pid_at(row) {
                    (self.selected, self.row) = (Some(pid), row);
                    (self.page, self.part, self.scrolled) = (Page::Process(pid), 0, [0; PARTS]);
                    return Effect::Look;
                }
            }
            _ => {}
        }
        Effect::Draw
    }

    fn apply_to_process(&mut self, command: Command) -> Effect {
        let most = self.lengths()[self.part].saturating_sub(1);
        let at = &mut self.scrolled[self.part];
        match command {
            Command::Back => self.page = Page::List,
            Command::Part(by) => self.part = (self.part + PARTS).saturating_add_signed(by) % PARTS,
            Command::Move(by) => *at = at.saturating_add_signed(by).min(most),
            Command::Page(by) => *at = at.saturating_add_signed(by * 10).min(most),
            Command::First => *at = 0,
            Command::Last => *at = most,
            _ => {}
        }
        Effect::Draw
    }

    /// The lengths of the lists of the open process.
    pub fn lengths(&self) -> [usize; PARTS] {
        let inside = self.inside().and_then(|(_, inside)| inside);
        inside.map_or([0; PARTS], |it| [it.threads.len(), it.loops.len(), it.locks.len()])
    }

    fn select(&mut self, row: usize) {
        self.row = row.min(self.shown.len().saturating_sub(1));
        self.selected = self.pid_at(self.row);
    }

    fn change_interval(&mut self, slower: bool) {
        let now = self.interval.as_millis() as u64;
        let next = match slower {
            true => INTERVALS.into_iter().find(|&ms| ms > now),
            false => INTERVALS.into_iter().rev().find(|&ms| ms < now),
        };
        self.interval = next.map_or(self.interval, Duration::from_millis);
    }
}

#[cfg(test)]
mod tests;
