//! Live files that tests write.
#![allow(dead_code, reason = "each test binary uses a part")]

use preload_abi::histogram::bucket_of;
use preload_abi::live::{self, Cure, FILE_BYTES, FORMAT, Header, How, LOCKS_AT, Lock, MAGIC, Site, Trial};
use std::fs::{self, File};
use std::mem::offset_of;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// A live file in a folder.
pub struct Fake {
    pub path: PathBuf,
    file: File,
}

impl Fake {
    /// An empty one, of a program that began at this time.
    pub fn new(folder: &Path, name: &str, started_ns: u64) -> Fake {
        let path = folder.join(name);
        fs::write(&path, vec![0; FILE_BYTES]).expect("written");
        let file = File::options().read(true).write(true).open(&path).expect("opened");
        let fake = Fake { path, file };
        fake.begin(started_ns);
        fake
    }

    fn begin(&self, started_ns: u64) {
        self.number(offset_of!(Header, magic), MAGIC);
        self.put(offset_of!(Header, format), &FORMAT.to_ne_bytes());
        self.put(offset_of!(Header, state), &live::RUNNING.to_ne_bytes());
        self.number(offset_of!(Header, ticks_per_second), 1_000_000_000);
        self.number(offset_of!(Header, started_ns), started_ns);
    }

    pub fn put(&self, offset: usize, bytes: &[u8]) {
        self.file.write_all_at(bytes, offset as u64).expect("written");
    }

    pub fn number(&self, offset: usize, value: u64) {
        self.put(offset, &value.to_ne_bytes());
    }

    /// Sets a repaired site's counts.
    pub fn site(&self, place: usize, waits: u64, waited_ns: u64) {
        let at = size_of::<Header>() + place * size_of::<Site>();
        self.put(at + offset_of!(Site, how), &(How::Jump as u32).to_ne_bytes());
        self.number(at + offset_of!(Site, waits), waits);
        self.number(at + offset_of!(Site, waited_ticks), waited_ns);
        let count = self.read(offset_of!(Header, sites), 4).max(place as u64 + 1) as u32;
        self.put(offset_of!(Header, sites), &count.to_ne_bytes());
    }

    /// Sets a lock's counts: `waits` waits, each of this length.
    pub fn lock(&self, place: usize, symbol: &str, waits: u64, each_ns: u64) {
        let at = LOCKS_AT + place * size_of::<Lock>();
        self.number(at + offset_of!(Lock, address), 0x1000 + place as u64);
        self.put(at + offset_of!(Lock, named), &1_u32.to_ne_bytes());
        self.put(at + offset_of!(Lock, module), b"libengine.so");
        self.put(at + offset_of!(Lock, symbol), symbol.as_bytes());
        self.number(at + offset_of!(Lock, waits), waits);
        self.number(at + offset_of!(Lock, waited_ticks), waits * each_ns);
        self.number(at + offset_of!(Lock, histogram) + 8 * bucket_of(each_ns), waits);
        let word = offset_of!(Header, lock_places) + place / 64 * 8;
        self.number(word, self.read(word, 8) | 1 << (place % 64));
    }

    /// Sets an answer of the trial: whether the cure acts, and the work as written and cured.
    pub fn trial(&self, cure: Cure, acts: bool, work_ns: [u64; 2]) {
        let at = offset_of!(Header, trials) + cure as usize * size_of::<Trial>();
        self.put(at + offset_of!(Trial, acts), &u32::from(acts).to_ne_bytes());
        self.put(at + offset_of!(Trial, dropped), &1_u32.to_ne_bytes());
        self.number(at + offset_of!(Trial, as_written_ns), work_ns[0]);
        self.number(at + offset_of!(Trial, cured_ns), work_ns[1]);
    }

    /// Another program starts in the same process: its file takes the place of this one's contents.
    pub fn restart(&self, started_ns: u64) {
        self.put(0, &vec![0; FILE_BYTES]);
        self.begin(started_ns);
    }

    fn read(&self, offset: usize, bytes: usize) -> u64 {
        let mut room = [0; 8];
        self.file.read_exact_at(&mut room[..bytes], offset as u64).expect("read");
        u64::from_ne_bytes(room)
    }
}
