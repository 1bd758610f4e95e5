//! Users in a file: a line each, `user NAME RULE RULE …`, as Redis reads and writes it.
//!
//! A file with any mistake is refused as a whole. It is written anew beside the old one, made
//! durable, and then takes its name: whatever happens, one of the two is there.

use super::catalogue::Catalogue;
use super::rights::{Rights, is_word};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// No file of users is larger.
const BYTES_MAX: u64 = 16 << 20;

/// Reads a file.
///
/// # Errors
/// All that is wrong with it.
pub(super) fn read(path: &Path, catalogue: &Catalogue) -> Result<BTreeMap<Box<[u8]>, Rights>, String> {
    let place = path.display();
    let unread = |why: &dyn std::fmt::Display| format!("Error loading ACLs, opening file '{place}': {why}");
    let length = fs::metadata(path).map_err(|error| unread(&error))?.len();
    if length > BYTES_MAX {
        return Err(unread(&format!("larger than {BYTES_MAX} bytes")));
    }
    let text = fs::read(path).map_err(|error| unread(&error))?;
    let (mut users, mut errors) = (BTreeMap::new(), String::new());
    for (index, line) in text.split(|byte| *byte == b'\n').enumerate() {
        let number = index + 1;
        let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let name = match (words.next(), words.next()) {
            (None, _) => continue,
            (Some(b"user"), Some(name)) if is_word(name) => name,
            _ => {
                let _ = write!(
                    errors,
                    "{place}:{number} should start with user keyword followed by the username. "
                );
                continue;
            }
        };
        let mut rights = Rights::default();
        for rule in words {
            if let Err(why) = rights.apply(rule, catalogue) {
                let _ = write!(errors, "{place}:{number}: {why}. ");
            }
        }
        if users.insert(name.into(), rights).is_some() {
            let name = String::from_utf8_lossy(name);
            let _ = write!(errors, "WARNING: Duplicate user '{name}' found on line {number}. ");
        }
    }
    if errors.is_empty() { Ok(users) } else { Err(errors.trim_end().to_owned()) }
}

/// Replaces the file by these lines.
pub(super) fn write(path: &Path, lines: &[Vec<u8>]) -> io::Result<()> {
    let mut text = lines.join(&b'\n');
    text.push(b'\n');
    let mut beside = OsString::from(path);
    beside.push(format!(".tmp-{}", std::process::id()));
    // What a process of this number has left there, or whatever another user has put there.
    match fs::remove_file(&beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    // The passwords' hashes are no business of others.
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let written = options.open(&beside).and_then(|mut file| {
        file.write_all(&text)?;
        file.sync_all()?;
        fs::rename(&beside, path)
    });
    if written.is_err() {
        // It may not even be there.
        let _ = fs::remove_file(&beside);
        return written;
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}
