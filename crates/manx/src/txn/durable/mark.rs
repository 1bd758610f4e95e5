//! The mark of a folder: that it holds a store, of which format, and whether it was ever finished.
//!
//! A new store is made in this order: the mark says `new` and is durable; the other files are made and are durable, names included; the
//! mark says `ready` and is durable. So
//! 1. a folder without a mark that is not empty is somebody else's, and is refused;
//! 2. with `new`, or with a mark that was not even written whole and nothing else, the making was cut off, nobody was told of
//!    success, and it begins again;
//! 3. with `ready` every file is whole.
//!
//! The mark has one length, and its two forms differ within one sector, so that a change is there or is not.

use super::disk::{Disk, Medium};
use super::failure;
use crate::txn::DataError;

/// The mark's name.
pub(super) const NAME: &str = "MANX";

const NEW: &[u8; 48] = b"manx durable store\nformat 2\nstate new           ";
const READY: &[u8; 48] = b"manx durable store\nformat 2\nstate ready         ";
/// What every format has in common.
const OURS: &[u8; 26] = b"manx durable store\nformat ";

/// What a folder is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum State {
    /// A store is still to be made in it.
    New,
    /// It holds one.
    Ready,
}

/// The mark of a folder, open.
#[derive(Debug)]
pub(super) struct Mark {
    file: Box<dyn Medium>,
    place: String,
}

impl Mark {
    /// Looks whose the folder is, and claims an empty one. One that is ready has these files, or some of it is lost.
    pub(super) fn open(disk: &dyn Disk, needed: &[&str]) -> Result<(Mark, State), DataError> {
        let folder = disk.place();
        let names = disk.names().map_err(|error| failure::of_io(&folder, "listed", &error))?;
        if !names.is_empty() && !names.iter().any(|name| name == NAME) {
            let first = &names[0];
            return Err(DataError(format!(
                "{folder} holds something else ({first:?}, and no {NAME:?}): name an empty folder, or one of a store"
            )));
        }
        let place = format!("{folder}/{NAME}");
        let file = disk.open(NAME).map_err(|error| failure::of_io(&place, "opened", &error))?;
        let mark = Mark { file, place };
        let bytes = mark.read()?;
        let state = match &bytes[..] {
            bytes if bytes == READY => {
                match needed.iter().find(|needed| !names.iter().any(|name| name == *needed)) {
                    None => State::Ready,
                    Some(missing) => {
                        return Err(failure::damaged(&format!("{folder}/{missing}"), "it is missing"));
                    }
                }
            }
            bytes if bytes == NEW => State::New,
            bytes if names.iter().all(|name| name == NAME) && is_unfinished(bytes) => {
                mark.write(NEW)?;
                disk.sync().map_err(|error| failure::of_io(&folder, "synced", &error))?;
                State::New
            }
            bytes if bytes.starts_with(OURS) => {
                let format = bytes[OURS.len()..].split(|byte| *byte == b'\n').next().unwrap_or_default();
                return Err(DataError(format!(
                    "{folder} holds a store of format {}, and this version knows format 2: use the version that made it",
                    format.escape_ascii()
                )));
            }
            _ => return Err(failure::damaged(&mark.place, "it is no mark of a store")),
        };
        Ok((mark, state))
    }

    /// Says, durably, that the store was made.
    pub(super) fn make_ready(&self) -> Result<(), DataError> {
        self.write(READY)
    }

    fn read(&self) -> Result<Vec<u8>, DataError> {
        let failed = |error| failure::of_io(&self.place, "read", &error);
        // A foreign file of that name may be of any length; one byte too many tells.
        let length = self.file.length().map_err(failed)?.min(READY.len() as u64 + 1);
        let mut bytes = vec![0; length as usize];
        self.file.read(&mut bytes, 0).map_err(failed)?;
        Ok(bytes)
    }

    fn write(&self, bytes: &[u8]) -> Result<(), DataError> {
        let written = self.file.write(bytes, 0).and_then(|()| self.file.sync());
        written.map_err(|error| failure::of_io(&self.place, "written", &error))
    }
}

/// Whether it is what may be left of a first mark whose writing was cut off: a beginning, and zeroes.
fn is_unfinished(bytes: &[u8]) -> bool {
    let written = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    bytes.len() <= NEW.len() && NEW.starts_with(&bytes[..written])
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
        Mark::open(&Folder::open(folder.path())?, &["data"]).map(|(_, state)| state)
    }

    #[test]
    fn an_empty_folder_and_one_whose_making_was_cut_off_are_new() {
        assert_eq!(state(None, false), Ok(State::New));
        for written in 0..=NEW.len() {
            assert_eq!(state(Some(&NEW[..written]), false), Ok(State::New), "{written}");
            let mut zeroes = NEW.to_vec();
            zeroes[written..].fill(0);
            assert_eq!(state(Some(&zeroes), false), Ok(State::New), "{written}");
        }
        assert_eq!(state(Some(NEW), true), Ok(State::New));
        assert_eq!(state(Some(READY), true), Ok(State::Ready));
    }

    #[test]
    fn what_is_not_ours_is_refused_and_says_so() {
        let refused = [
            (Some(READY.as_slice()), false, "data is damaged: it is missing"),
            (None, true, "holds something else"),
            (Some(&NEW[..20]), true, "damaged"),
            (Some(b"once upon a time".as_slice()), false, "damaged"),
            (Some(b"manx durable store\nformat 3\nstate ready         ".as_slice()), true, "format 3"),
        ];
        for (content, other, word) in refused {
            let error = state(content, other).expect_err(word);
            assert!(error.0.contains(word), "{error}");
        }
    }
}
