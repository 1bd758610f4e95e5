//! From the state to the screen, and nothing else: the same state gives the same screen.

mod help;
mod list;
mod process;

use super::paper::Paper;
use super::state::{Page, State};
use ratatui::buffer::Buffer;

/// Draws the state on an empty buffer.
pub fn draw(state: &mut State, buffer: &mut Buffer, colours: bool) {
    let mut paper = Paper::new(buffer, colours);
    match state.page {
        _ if state.help => help::draw(&mut paper),
        Page::List => list::draw(state, &mut paper),
        Page::Process(pid) => process::draw(state, pid, &mut paper),
    }
}

pub use list::{host, summary};

#[cfg(test)]
mod tests;
