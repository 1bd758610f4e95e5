//! The marker of a folder: that it holds a store, of which format, and whether it was ever
//! finished.
//!
//! A new store is made in this order: the marker says `new` and is durable; the other files are
//! made and are durable, names included; the marker says `ready` and is durable. So
//! 1. a folder that is not empty and has no marker is not ours, and is refused;
//! 2. with `new`, or with a marker that was not even written whole and nothing else, the making was
//!    cut off, no caller got a success, and it begins again;
//! 3. with `ready` every file is whole.
//!
//! The marker has one length, and its two forms differ in a word, within one sector, so that a
//! change is there or is not.
//!
//! It also has the store's secret, from the beginning; with a checksum, since with another one all
//! groups of the log would seem not to be there.

use super::disk::{Disk, Medium};
use super::failure;
use super::secret::{self, Secret};
use crate::txn::DataError;
use std::io;

/// The marker's name.
pub(super) const NAME: &str = "MANX";

/// What every format has in common.
const OURS: &str = "manx durable store\nformat ";
/// This one.
const FORMAT: &str = "4";
/// How long a marker is.
const LENGTH: usize = 87;
/// Where the secret is.
const SECRET_AT: usize = LENGTH - 10 - secret::TEXT;

/// What a folder is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// A store is still to be made in it.
    New,
    /// It holds one.
    Ready,
}

/// The whole marker.
pub(super) fn text(state: State, secret: Secret) -> Vec<u8> {
    let word = match state {
        State::New => "new",
        State::Ready => "ready",
    };
    let secret = secret.text();
    let sum = crc32fast::hash(secret.as_bytes());
    format!("{OURS}{FORMAT}\nstate {word:<14}\nlog {secret} {sum:08x}\n").into_bytes()
}

/// What a marker says, if it is whole.
pub(super) fn parse(bytes: &[u8]) -> Option<(State, Secret)> {
    let secret = Secret::of_text(bytes.get(SECRET_AT..SECRET_AT + secret::TEXT)?)?;
    let state = [State::New, State::Ready].into_iter().find(|state| bytes == text(*state, secret))?;
    Some((state, secret))
}

/// The marker of a folder, open.
#[derive(Debug)]
pub(super) struct Marker {
    file: Box<dyn Medium>,
    place: String,
    secret: Secret,
}

impl Marker {
    /// Checks whether the folder is a store's, and claims an empty folder. A folder that is ready
    /// has these files, or some of it is lost.
    pub(super) fn open(disk: &dyn Disk, needed: &[&str]) -> Result<(Marker, State), DataError> {
        let folder = disk.place();
        let names = disk.names().map_err(|error| failure::of_io(&folder, "listed", &error))?;
        if !names.is_empty() && !names.iter().any(|name| name == NAME) {
            let first = &names[0];
            return Err(DataError::new(format!(
                "{folder} holds something else ({first:?}, and no {NAME:?}): name an empty folder, or one of a store"
            )));
        }
        let place = format!("{folder}/{NAME}");
        let file = disk.open(NAME).map_err(|error| failure::of_io(&place, "opened", &error))?;
        let bytes = read(&*file).map_err(|error| failure::of_io(&place, "read", &error))?;
        let (state, secret) = match parse(&bytes) {
            Some((State::Ready, secret)) => {
                if let Some(missing) = needed.iter().find(|needed| !names.iter().any(|name| name == *needed))
                {
                    return Err(failure::damaged(&format!("{folder}/{missing}"), "it is missing"));
                }
                (State::Ready, secret)
            }
            Some((State::New, secret)) => (State::New, secret),
            None if names.iter().all(|name| name == NAME) && is_unfinished(&bytes) => {
                let secret = Secret::draw().map_err(|error| {
                    let source = secret::SOURCE;
                    DataError::new(format!(
                        "{folder}: no store can be made without {source} ({error}): make it readable here"
                    ))
                })?;
                let marker = Marker { file, place, secret };
                marker.write(State::New)?;
                disk.sync().map_err(|error| failure::of_io(&folder, "synced", &error))?;
                return Ok((marker, State::New));
            }
            None => return Err(foreign(&folder, &place, &bytes)),
        };
        Ok((Marker { file, place, secret }, state))
    }

    /// What the store's records are known by.
    pub(super) fn secret(&self) -> Secret {
        self.secret
    }

    /// Says, durably, that the store was made.
    pub(super) fn make_ready(&self) -> Result<(), DataError> {
        self.write(State::Ready)
    }

    fn write(&self, state: State) -> Result<(), DataError> {
        let written = self.file.write(&text(state, self.secret), 0).and_then(|()| self.file.sync());
        written.map_err(|error| failure::of_io(&self.place, "written", &error))
    }
}

fn read(file: &dyn Medium) -> io::Result<Vec<u8>> {
    // A foreign file of that name may be of any length; one byte too many tells.
    let mut bytes = vec![0; file.length()?.min(LENGTH as u64 + 1) as usize];
    file.read(&mut bytes, 0)?;
    Ok(bytes)
}

/// Says why a store is not opened if its marker is not of this format.
fn foreign(folder: &str, place: &str, bytes: &[u8]) -> DataError {
    let format = bytes.strip_prefix(OURS.as_bytes());
    let format = format.map(|rest| rest.split(|byte| *byte == b'\n').next().unwrap_or_default());
    match format {
        Some(format) if format != FORMAT.as_bytes() && format.iter().all(u8::is_ascii_digit) => {
            DataError::new(format!(
                "{folder} holds a store of format {}, and this version knows format {FORMAT}: use the version that made it",
                format.escape_ascii()
            ))
        }
        _ => failure::damaged(place, "it is no mark of a store"),
    }
}

/// Whether it is what may be left of a first marker whose writing was cut off: a beginning, and
/// zeroes.
pub(super) fn is_unfinished(bytes: &[u8]) -> bool {
    let written = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let (known, drawn) = bytes[..written].split_at(written.min(SECRET_AT));
    let any = text(State::New, Secret { start: [0; 8], sum: 0 });
    let is_drawn = |byte: &u8| byte.is_ascii_hexdigit() || byte.is_ascii_whitespace();
    bytes.len() <= LENGTH && any.starts_with(known) && drawn.iter().all(is_drawn)
}

#[cfg(test)]
mod tests {
    use super::super::folder::Folder;
    use super::*;

    fn state(content: Option<&[u8]>, other: bool) -> Result<State, DataError> {
        let folder = tempfile::tempdir().expect("a folder");
        if let Some(content) = content {
            std::fs::write(folder.path().join(NAME), content).expect("written");
        }
        if other {
            std::fs::write(folder.path().join("data"), "x").expect("written");
        }
        Marker::open(&Folder::open(folder.path())?, &["data"]).map(|(_, state)| state)
    }

    const SECRET: Secret = Secret { start: *b"\xABsecret!", sum: 7 };

    #[test]
    fn an_empty_folder_and_one_whose_making_was_cut_off_are_new() {
        assert_eq!(state(None, false), Ok(State::New));
        let (new, ready) = (text(State::New, SECRET), text(State::Ready, SECRET));
        for written in 0..=new.len() {
            assert_eq!(state(Some(&new[..written]), false), Ok(State::New), "{written}");
            let mut zeroes = new.clone();
            zeroes[written..].fill(0);
            assert_eq!(state(Some(&zeroes), false), Ok(State::New), "{written}");
        }
        assert_eq!(state(Some(&new), true), Ok(State::New));
        assert_eq!(state(Some(&ready), true), Ok(State::Ready));
    }

    #[test]
    fn a_folder_keeps_the_secret_that_it_was_made_with() {
        let folder = tempfile::tempdir().expect("a folder");
        let open = || Marker::open(&Folder::open(folder.path()).expect("taken"), &[]).expect("ours");
        let (marker, _) = open();
        let secret = marker.secret();
        // Also where the making was cut off.
        assert_eq!(open().0.secret(), secret);
        marker.make_ready().expect("written");
        let (marker, state) = open();
        assert_eq!((marker.secret(), state), (secret, State::Ready));
    }

    /// The format is this one, and every later version has to read it, or to say that it cannot.
    #[test]
    fn a_mark_of_an_earlier_day_is_read_and_written_as_it_was() {
        // The checksum is by another implementation.
        let sample =
            b"manx durable store\nformat 4\nstate ready         \nlog ab7365637265742100000007 26f26acd\n";
        assert_eq!(sample.len(), LENGTH);
        assert_eq!(text(State::Ready, SECRET), sample);
        assert_eq!(parse(sample), Some((State::Ready, SECRET)));
    }

    /// With another secret the log would seem to be empty.
    #[test]
    fn a_mark_that_is_changed_anywhere_is_refused() {
        let ready = text(State::Ready, SECRET);
        for at in 0..ready.len() {
            let mut changed = ready.clone();
            changed[at] ^= 1;
            let error = state(Some(&changed), true).expect_err("changed").to_string();
            assert!(error.contains("damaged") || error.contains("format 5"), "{at}: {error}");
        }
    }

    #[test]
    fn a_folder_that_is_not_ours_is_refused_with_the_reason() {
        let (new, ready) = (text(State::New, SECRET), text(State::Ready, SECRET));
        let refused = [
            (Some(ready.as_slice()), false, "data is damaged: it is missing"),
            (None, true, "holds something else"),
            (Some(&new[..20]), true, "damaged"),
            (Some(b"once upon a time".as_slice()), false, "damaged"),
            (Some(b"manx durable store\nformat 2\nstate ready         ".as_slice()), true, "format 2,"),
            (Some(b"manx durable store\nformat 3\nstate ready         ".as_slice()), false, "format 3,"),
            (
                Some(b"manx durable store\nformat 44\nstate ready        \nmore".as_slice()),
                true,
                "format 44,",
            ),
        ];
        for (content, other, word) in refused {
            let error = state(content, other).expect_err(word);
            assert!(error.to_string().contains(word), "{error}");
        }
    }
}
