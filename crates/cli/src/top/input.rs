//! From the bytes that a terminal sends to keys.
//!
//! The reader of crossterm is not used: when the terminal goes away it reads the end of its input
//! again and again and never returns. Here that end is an answer. What is not known is skipped,
//! whole sequences at once, so that no part of one counts as a letter.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::fs::File;
use std::io::{self, Read as _};
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd as _, FromRawFd as _};

const ESCAPE: u8 = 0x1b;
/// No sequence that a terminal sends for a key is longer.
const SEQUENCE_MAX: usize = 32;
/// An escape that is followed by nothing for so long, in ms, is the key.
const ESCAPE_MS: i32 = 30;

/// What is typed.
#[derive(Debug, Default)]
pub struct Input {
    /// The beginning of a sequence or of a character
    rest: Vec<u8>,
}

impl Input {
    /// Reads what there is; blocks if there is nothing. `None` if the terminal has gone.
    ///
    /// # Errors
    /// Those of the system.
    pub fn read(&mut self) -> io::Result<Option<Vec<KeyEvent>>> {
        let mut bytes = [0; 1024];
        // Not `Stdin` of the standard library: it would read ahead, and a poll does not see that.
        // SAFETY: standard input stays open, because it is never closed by this.
        let mut stdin = ManuallyDrop::new(unsafe { File::from_raw_fd(libc::STDIN_FILENO) });
        loop {
            let length = match stdin.read(&mut bytes) {
                Ok(0) => return Ok(None),
                Ok(length) => length,
                Err(error) if error.raw_os_error() == Some(libc::EIO) => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Some(vec![])),
                Err(error) => return Err(error),
            };
            self.rest.extend_from_slice(&bytes[..length]);
            // The rest of a sequence may come a moment later.
            if !(self.rest.ends_with(&[ESCAPE]) && is_ready(stdin.as_raw_fd())) {
                return Ok(Some(self.take_keys()));
            }
        }
    }

    /// The keys in `rest`, without what has only begun.
    fn take_keys(&mut self) -> Vec<KeyEvent> {
        let mut keys = Vec::new();
        let mut at = 0;
        while let Some((length, key)) = next(&self.rest[at..]) {
            at += length;
            keys.extend(key.map(|(code, modifiers)| KeyEvent::new(code, modifiers)));
        }
        self.rest.drain(..at);
        keys
    }
}

fn is_ready(fd: i32) -> bool {
    let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: the address is that of a local.
    unsafe { libc::poll(&raw mut poll, 1, ESCAPE_MS) > 0 }
}

type Key = (KeyCode, KeyModifiers);

/// How many bytes the first key takes, and the key if it is known. `None` if the bytes end before
/// it does.
fn next(bytes: &[u8]) -> Option<(usize, Option<Key>)> {
    let key = |code| Some((code, KeyModifiers::NONE));
    Some(match *bytes {
        [] => return None,
        [ESCAPE] | [ESCAPE, ESCAPE, ..] => (1, key(KeyCode::Esc)),
        [ESCAPE, b'[', ref rest @ ..] => {
            let Some(end) = rest.iter().position(|byte| (0x40..=0x7e).contains(byte)) else {
                return (bytes.len() > SEQUENCE_MAX).then_some((bytes.len(), None));
            };
            (end + 3, sequence(&rest[..end], rest[end]).and_then(key))
        }
        [ESCAPE, b'O'] => return None,
        [ESCAPE, b'O', end, ..] => (3, sequence(b"", end).and_then(key)),
        [ESCAPE, ref rest @ ..] => (1 + next(rest)?.0, None),
        [b'\r' | b'\n', ..] => (1, key(KeyCode::Enter)),
        [b'\t', ..] => (1, key(KeyCode::Tab)),
        // Some terminals send the second one.
        [0x7f | 0x08, ..] => (1, key(KeyCode::Backspace)),
        [control @ 1..=0x1a, ..] => {
            (1, Some((KeyCode::Char(char::from(control + b'a' - 1)), KeyModifiers::CONTROL)))
        }
        [0..0x20, ..] => (1, None),
        _ => {
            let chunk = bytes.utf8_chunks().next()?;
            match chunk.valid().chars().next() {
                Some(letter) => (letter.len_utf8(), key(KeyCode::Char(letter))),
                // A character that has only begun, or bytes that are none.
                None if bytes.len() == chunk.invalid().len() && bytes.len() < 4 => return None,
                None => (chunk.invalid().len(), None),
            }
        }
    })
}

/// The key of a sequence with these parameters and this last byte.
fn sequence(parameters: &[u8], end: u8) -> Option<KeyCode> {
    let number = parameters.split(|&byte| byte == b';').next().unwrap_or_default();
    Some(match (end, number) {
        (b'A', _) => KeyCode::Up,
        (b'B', _) => KeyCode::Down,
        (b'C', _) => KeyCode::Right,
        (b'D', _) => KeyCode::Left,
        (b'H', _) | (b'~', b"1" | b"7") => KeyCode::Home,
        (b'F', _) | (b'~', b"4" | b"8") => KeyCode::End,
        (b'~', b"5") => KeyCode::PageUp,
        (b'~', b"6") => KeyCode::PageDown,
        (b'M', b"") => KeyCode::Enter,
        (b'Z', _) => KeyCode::BackTab,
        _ => return None,
    })
}

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
    use proptest::prelude::*;

    fn keys(bytes: &[u8]) -> (Vec<KeyCode>, Vec<u8>) {
        let mut input = Input { rest: bytes.to_vec() };
        (input.take_keys().into_iter().map(|key| key.code).collect(), input.rest)
    }

    #[test]
    fn keys_are_told_apart_and_what_is_not_known_is_skipped_whole() {
        use KeyCode::{BackTab, Backspace, Char, Down, End, Enter, Esc, Home, PageDown, PageUp, Tab, Up};
        for (bytes, expected) in [
            (&b"qa"[..], vec![Char('q'), Char('a')]),
            (b"\x1b[A\x1bOB\x1b[1;5A", vec![Up, Down, Up]),
            (b"\x1b[5~\x1b[6~\x1b[H\x1b[4~\x1bOH\x1b[8~", vec![PageUp, PageDown, Home, End, Home, End]),
            (b"\r\n\t\x7f\x08\x1b[Z", vec![Enter, Enter, Tab, Backspace, Backspace, BackTab]),
            (b"\x1b", vec![Esc]),
            (b"\x1b\x1b[A", vec![Esc, Up]),
            (b"\x1b[200~q\x1b[15~\x1b[?1;2cq", vec![Char('q'), Char('q')]),
            (b"\x1bq/", vec![Char('/')]),
            ("é日".as_bytes(), vec![Char('é'), Char('日')]),
            (b"\xff\xfeq\0q", vec![Char('q'), Char('q')]),
        ] {
            assert_eq!(keys(bytes), (expected, vec![]), "{}", bytes.escape_ascii());
        }
        let control = Input { rest: b"\x03".to_vec() }.take_keys();
        assert_eq!(control, [KeyEvent::new(Char('c'), KeyModifiers::CONTROL)]);
    }

    #[test]
    fn what_has_only_begun_waits_for_its_end() {
        for (begin, end, expected) in [
            (&b"\x1b[1;"[..], &b"5B"[..], KeyCode::Down),
            (b"\x1bO", b"A", KeyCode::Up),
            (b"\xe6\x97", b"\xa5", KeyCode::Char('日')),
        ] {
            let (none, rest) = keys(begin);
            assert_eq!((none, rest.as_slice()), (vec![], begin));
            assert_eq!(keys(&[begin, end].concat()).0, [expected]);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_used_up_but_for_a_short_end(bytes: Vec<u8>) {
            prop_assert!(keys(&bytes).1.len() <= SEQUENCE_MAX);
        }

        #[test]
        fn text_is_typed_as_it_is(text in "[ -~é日]{0,20}") {
            let expected: Vec<KeyCode> = text.chars().map(KeyCode::Char).collect();
            prop_assert_eq!(keys(text.as_bytes()), (expected, vec![]));
        }
    }

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
