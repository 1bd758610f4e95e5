//! What a search of a large module found, kept for the next start.
//!
//! Most of a search is looking: tens of thousands of byte patterns that turn out to be nothing. So the places that turned out to be
//! something are kept in the user's cache folder, one file a module. A file says only *where to look*: each place is analysed again,
//! in the module as it is loaded. A file that lies can hide a loop, and no more.
//!
//! | bytes | what |
//! | --- | --- |
//! | 8 | `MAGIC`, which changes with what the finder looks for |
//! | 8 | the bytes of the module's text |
//! | 8 | how many places follow |
//! | 8 each | a place: its address in the module's file, and the seed in the lowest three bits |
//! | 8 | a checksum of all before |
//!
//! The file is called after the module's build id; a module without one is called after its file's device, number, size and time.
//!
//! Invariants:
//! 1. A folder or a file is used only if it belongs to the user as whom this process acts and no other user may write it.
//! 2. A file is written under a name of its own and then renamed, so a reader sees a whole one. What is not whole all the same fails the
//!    checksum, and is as good as absent.
//! 3. Nothing here reports an error: without a cache, the search is done again.

use super::search::file_name;
use crate::elf::modules::Module;
use crate::process::{self, Path};
use alloc::vec;
use alloc::vec::Vec;
use core::fmt::Write;
use platform::file::{self, File};
use spinloop::Seed;

/// "MANXLP" and the version of what the finder looks for.
const MAGIC: u64 = u64::from_le_bytes(*b"MANXLP03");
/// Smaller modules are searched faster than a file is read.
const TEXT_BYTES_MIN: usize = 1 << 20;
/// More places than this are not kept.
const PLACES_MAX: usize = 1 << 16;
/// By number.
const SEEDS: [Seed; 6] = [Seed::Pause, Seed::TimedPause, Seed::Nops, Seed::Clock, Seed::Short, Seed::Nested];

/// Where the places of a module are kept.
pub struct Entry {
    path: Path,
    text_bytes: usize,
    bias: usize,
}

impl Entry {
    /// The entry of a module; `None` if it is small, or there is nowhere to keep it. `wanted`: the user allows a cache.
    pub fn of(module: &Module<'_>, wanted: bool) -> Option<Entry> {
        let text_bytes = module.text().map(|(range, _)| range.len()).sum();
        if !wanted || text_bytes < TEXT_BYTES_MIN {
            return None;
        }
        let mut path = folder()?;
        path.push(b"/")?;
        name(module, &mut path)?;
        Some(Entry { path, text_bytes, bias: module.bias })
    }

    /// The places that an earlier search found.
    pub fn read(&self) -> Option<Vec<(Seed, usize)>> {
        let file = File::open(self.path.as_c_str()).ok()?;
        let status = file.status().ok()?;
        let limit = (4 + PLACES_MAX as u64) * 8;
        if !status.is_ordinary() || !is_ours(&status) || status.bytes > limit || status.bytes % 8 != 0 {
            return None;
        }
        let mut bytes = vec![0; status.bytes as usize];
        if file.read_at(&mut bytes, 0) != Ok(bytes.len()) {
            return None;
        }
        let (words, _) = bytes.as_chunks::<8>();
        let words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let (&sum, words) = words.split_last()?;
        let [MAGIC, text_bytes, count, places @ ..] = words else { return None };
        let whole =
            *text_bytes == self.text_bytes as u64 && *count == places.len() as u64 && checksum(words) == sum;
        if !whole {
            return None;
        }
        let place = |word: &u64| {
            Some((*SEEDS.get((word & 7) as usize)?, self.bias.wrapping_add((word >> 3) as usize)))
        };
        places.iter().map(place).collect()
    }

    /// Keeps the places for the next start.
    pub fn write(&self, places: &[(Seed, usize)]) -> Option<()> {
        if places.len() > PLACES_MAX {
            return None;
        }
        let mut words = Vec::from([MAGIC, self.text_bytes as u64, places.len() as u64]);
        for (seed, address) in places {
            let number = SEEDS.iter().position(|known| known == seed)?;
            words.push((address.wrapping_sub(self.bias) as u64) << 3 | number as u64);
        }
        words.push(checksum(&words));
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut own = self.path;
        write!(own, ".{}", process::id()).ok()?;
        let written = File::create(own.as_c_str()).and_then(|file| file.write_at(&bytes, 0));
        let kept = written.and_then(|()| file::rename(own.as_c_str(), self.path.as_c_str()));
        if kept.is_err() {
            let _ = file::remove(own.as_c_str());
        }
        kept.ok()
    }
}

/// By Invariant 1.
fn is_ours(status: &file::Status) -> bool {
    status.is_own() && status.mode & 0o022 == 0
}

/// The folder of all entries, which is made if it is not there.
fn folder() -> Option<Path> {
    let mut path = Path::new();
    let absolute = |value: &&[u8]| value.first() == Some(&b'/');
    match process::variable(b"XDG_CACHE_HOME").filter(absolute) {
        Some(folder) => path.push(folder)?,
        None => {
            path.push(process::variable(b"HOME").filter(absolute)?)?;
            path.push(b"/.cache")?;
            let _ = file::make_folder(path.as_c_str());
        }
    }
    path.push(b"/manx")?;
    let _ = file::make_folder(path.as_c_str());
    let status = File::open(path.as_c_str()).and_then(|folder| folder.status()).ok()?;
    is_ours(&status).then_some(path)
}

/// A name that no other module has.
fn name(module: &Module<'_>, path: &mut Path) -> Option<()> {
    if let Some(id) = module.build_id() {
        path.push(b"id-")?;
        return id.iter().try_for_each(|byte| write!(path, "{byte:02x}").ok());
    }
    let own = if module.path.is_empty() { c"/proc/self/exe" } else { module.path };
    let status = File::open(own).and_then(|file| file.status()).ok()?;
    let (device, number) = status.identity;
    write!(path, "file-{device:x}-{number:x}-{:x}-{:x}-", status.bytes, status.changed_ns).ok()?;
    // For people that look into the folder.
    let readable = file_name(module.path).iter().filter(|byte| byte.is_ascii_alphanumeric()).take(32);
    readable.copied().try_for_each(|byte| path.push(&[byte]))
}

/// FNV-1a, of words.
fn checksum(words: &[u64]) -> u64 {
    words
        .iter()
        .flat_map(|word| word.to_le_bytes())
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(folder: &std::path::Path) -> Entry {
        let mut path = Path::new();
        path.push(folder.join("module").as_os_str().as_encoded_bytes()).expect("room");
        Entry { path, text_bytes: 1 << 20, bias: 0x7000_0000 }
    }

    const PLACES: [(Seed, usize); 3] =
        [(Seed::Pause, 0x7000_1000), (Seed::Nops, 0x7000_2003), (Seed::Short, 0x7000_0000)];

    #[test]
    fn what_was_written_is_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let entry = entry(folder.path());
        assert_eq!(entry.read(), None);
        entry.write(&PLACES).expect("written");
        assert_eq!(entry.read().as_deref(), Some(&PLACES[..]));
        assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 1, "nothing is left over");
        let moved = Entry { bias: 0x1000, ..entry };
        assert_eq!(moved.read().expect("places")[0], (Seed::Pause, 0x2000));
    }

    #[test]
    fn whatever_is_not_whole_is_absent() {
        let folder = tempfile::tempdir().expect("a folder");
        let entry = entry(folder.path());
        let file = folder.path().join("module");
        entry.write(&PLACES).expect("written");
        let whole = std::fs::read(&file).expect("bytes");
        for length in 0..whole.len() {
            std::fs::write(&file, &whole[..length]).expect("cut");
            assert_eq!(entry.read(), None, "cut to {length}");
        }
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            std::fs::write(&file, &bytes).expect("changed");
            assert_eq!(entry.read(), None, "byte {at}");
        }
        std::fs::write(&file, &whole).expect("whole");
        assert!(entry.read().is_some());
        let larger = Entry { text_bytes: 2 << 20, ..entry };
        assert_eq!(larger.read(), None, "another module");
    }

    #[test]
    fn what_others_may_write_is_not_read() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().expect("a folder");
        let entry = entry(folder.path());
        entry.write(&PLACES).expect("written");
        let file = folder.path().join("module");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o620)).expect("a mode");
        assert_eq!(entry.read(), None);
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).expect("a mode");
        assert!(entry.read().is_some());
        if file::this_user() == 0 {
            std::os::unix::fs::chown(&file, Some(1), None).expect("root may");
            assert_eq!(entry.read(), None, "another user's");
        } else {
            println!("skipped in part: only root can give a file to another user");
        }
    }
}
