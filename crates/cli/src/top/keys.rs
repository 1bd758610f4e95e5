//! Keys, and what they ask for.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// What a key asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Leave
    Quit,
    /// Go to the background, as the shell's job
    Suspend,
    /// Draw everything anew
    Redraw,
    /// Go down by this number of rows; up if it is negative
    Move(isize),
    /// Go down by this number of pages; up if it is negative
    Page(isize),
    /// Go to the first row
    First,
    /// Go to the last row
    Last,
    /// Open the selected process
    Open,
    /// Go back to where one came from
    Back,
    /// Go to the next part of a process, or to the one before
    Part(isize),
    /// Sort by the column that is this number of places to the right
    Sort(isize),
    /// Turn the order round
    Reverse,
    /// Show all processes, or those under Manx
    All,
    /// Begin to write a filter
    Filter,
    /// Put a character behind the filter
    Letter(char),
    /// Take the filter's last character away
    Erase,
    /// Keep the filter
    Accept,
    /// Remove the filter
    Clear,
    /// Stop or go on looking
    Pause,
    /// Look more seldom, or more often
    Slower(bool),
    /// Show the keys
    Help,
}

/// The keys, as the help shows them.
pub const KEYS: [(&str, &str); 14] = [
    ("q", "quit"),
    ("up down PgUp PgDn Home End", "choose a process"),
    ("enter", "open it: its threads, loops and locks"),
    ("tab", "in a process: the next of the three lists"),
    ("esc, backspace", "back"),
    ("s, >", "sort by the next column"),
    ("<", "sort by the column before"),
    ("r", "turn the order round"),
    ("a", "show all processes, or those under Manx"),
    ("/", "show processes with a text in name or command"),
    ("p", "pause, and go on"),
    ("+ -", "look more seldom, more often"),
    ("ctrl-l", "draw everything anew"),
    ("h, ?", "this page, or back"),
];

/// What a key asks for; `writing` says that it goes into the filter.
pub fn command(key: KeyEvent, writing: bool) -> Option<Command> {
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return match key.code {
            KeyCode::Char('c' | 'd') => Some(Command::Quit),
            KeyCode::Char('z') => Some(Command::Suspend),
            KeyCode::Char('l') => Some(Command::Redraw),
            KeyCode::Char('u') if writing => Some(Command::Clear),
            _ => None,
        };
    }
    if writing {
        return match key.code {
            KeyCode::Enter => Some(Command::Accept),
            KeyCode::Esc => Some(Command::Clear),
            KeyCode::Backspace => Some(Command::Erase),
            KeyCode::Char(letter) => Some(Command::Letter(letter)),
            _ => None,
        };
    }
    Some(match key.code {
        KeyCode::Char('q') => Command::Quit,
        KeyCode::Up | KeyCode::Char('k') => Command::Move(-1),
        KeyCode::Down | KeyCode::Char('j') => Command::Move(1),
        KeyCode::PageUp => Command::Page(-1),
        KeyCode::PageDown | KeyCode::Char(' ') => Command::Page(1),
        KeyCode::Home => Command::First,
        KeyCode::End => Command::Last,
        KeyCode::Enter => Command::Open,
        KeyCode::Esc | KeyCode::Backspace => Command::Back,
        KeyCode::Tab => Command::Part(1),
        KeyCode::BackTab => Command::Part(-1),
        KeyCode::Char('s' | '>') => Command::Sort(1),
        KeyCode::Char('<') => Command::Sort(-1),
        KeyCode::Char('r') => Command::Reverse,
        KeyCode::Char('a') => Command::All,
        KeyCode::Char('/') => Command::Filter,
        KeyCode::Char('p') => Command::Pause,
        KeyCode::Char('+' | '=') => Command::Slower(true),
        KeyCode::Char('-') => Command::Slower(false),
        KeyCode::Char('h' | '?') => Command::Help,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(code: KeyCode) -> KeyEvent {
        KeyEvent::new(code, KeyModifiers::NONE)
    }

    #[test]
    fn letters_go_into_the_filter_while_it_is_written() {
        assert_eq!(command(key(KeyCode::Char('q')), false), Some(Command::Quit));
        assert_eq!(command(key(KeyCode::Char('q')), true), Some(Command::Letter('q')));
        assert_eq!(command(key(KeyCode::Esc), true), Some(Command::Clear));
        assert_eq!(command(key(KeyCode::Esc), false), Some(Command::Back));
        assert_eq!(command(key(KeyCode::F(5)), false), None);
    }

    #[test]
    fn the_terminal_s_own_keys_work_in_raw_mode() {
        for writing in [false, true] {
            let control = |letter| KeyEvent::new(KeyCode::Char(letter), KeyModifiers::CONTROL);
            assert_eq!(command(control('c'), writing), Some(Command::Quit));
            assert_eq!(command(control('z'), writing), Some(Command::Suspend));
        }
    }
}
