//! Many threads write one file with `pwrite`: to separate regions, or to regions that overlap.
//!
//! A [`Keeper`] keeps overlapping writes apart: a range lock of the process, the kernel's range
//! locks (`F_OFD_SETLKW`, with an open file description for each thread), or one mutex for the
//! whole file. A write is some blocks long and takes two calls of `pwrite`, because the file
//! systems of Linux lock the file during a call, so that a single call is atomic. So at most one
//! CPU at a time writes, with every keeper. The figures show the cost that a keeper adds, and how
//! long it delays other writes.
//!
//! Every write is stamped (`stamp`). Sometimes a thread reads its region back before it releases
//! it, and at the end the whole file is read. Both count torn writes; a correct keeper has 0.
//!
//! The file is in a new folder for temporary files, or in another folder. It is removed at the end.

mod stamp;

use super::case::{FILE, scaled};
use super::competitor::Measured;
use super::plan::{Checked, Plan, expected, names};
use super::request::dice;
use super::run::run_apart;
use super::variant::Variant;
use crate::error::Error;
use crate::harness::{Bench, Sample};
use crate::machine::one_each;
use contend::workers::{self, Phases};
use manx::range::{Access, RawRangeLock, Span};
use platform::clock::{ticks, ticks_to_ns};
use platform::file::File;
use report::Histogram;
use stamp::{BLOCK, Stamp};
use std::ffi::CString;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The longest write, in blocks.
const BLOCKS_MAX: usize = 16;
/// One of this number of writes is read back at once.
const READ_BACK: u64 = 64;

/// Which regions threads write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Regions {
    /// Each thread in its own part of the file.
    Own,
    /// Anywhere.
    Anywhere,
}

/// Done, or the kernel's error number.
type Written = Result<(), i32>;

/// Keeps overlapping writes apart.
pub trait Keeper: Sync {
    /// Runs `write` while no other thread writes these bytes of the file, which this thread has
    /// opened.
    ///
    /// # Errors
    /// The kernel's error number.
    fn keep(&self, file: &File, bytes: Range<u64>, write: impl FnOnce() -> Written) -> Written;
}

/// A range lock of the process.
pub struct Ranges<L>(pub L);

impl<L: RawRangeLock> Keeper for Ranges<L> {
    fn keep(&self, _file: &File, bytes: Range<u64>, write: impl FnOnce() -> Written) -> Written {
        let span = Span::new(bytes.start, bytes.end).map_err(|_| libc::EINVAL)?;
        let held = self.0.lock(&span, Access::Exclusive);
        let written = write();
        // SAFETY: this lock returned it.
        unsafe { self.0.unlock(held) };
        written
    }
}

/// The kernel's locks of ranges of files.
pub struct Kernel;

impl Keeper for Kernel {
    fn keep(&self, file: &File, bytes: Range<u64>, write: impl FnOnce() -> Written) -> Written {
        let length = bytes.end - bytes.start;
        file.lock_range(bytes.start, length)?;
        let written = write();
        file.unlock_range(bytes.start, length)?;
        written
    }
}

/// One mutex for the whole file.
#[derive(Default)]
pub struct Whole(Mutex<()>);

impl Keeper for Whole {
    fn keep(&self, _file: &File, _bytes: Range<u64>, write: impl FnOnce() -> Written) -> Written {
        let _held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        write()
    }
}

/// The settings of a run.
#[derive(Clone, Debug)]
pub struct Run {
    /// How many threads write.
    pub threads: usize,
    /// Where they write.
    pub regions: Regions,
    /// The file's length, in blocks of 4 KiB.
    pub blocks: usize,
    /// The time that is measured; before it a fifth of that is warm-up.
    pub time: Duration,
    /// The folder of the file, if it is not that for temporary files.
    pub folder: Option<PathBuf>,
}

#[derive(Default)]
struct Record {
    writes: u64,
    bytes: u64,
    write: Histogram,
    checked: u64,
    torn: u64,
}

impl Record {
    /// The part of the warm-up that counts.
    fn begin(&self) -> Record {
        Record { checked: self.checked, torn: self.torn, ..Record::default() }
    }
}

fn words(what: &str, error: i32) -> String {
    format!("{what}: {}", std::io::Error::from_raw_os_error(error))
}

/// The name of a file system, by its number.
fn file_system(number: i64) -> String {
    match number {
        0x0102_1994 => "tmpfs".into(),
        0xef53 => "ext4".into(),
        0x5846_5342 => "xfs".into(),
        0x9123_683e => "btrfs".into(),
        0x2fc1_2fc1 => "zfs".into(),
        0x794c_7630 => "overlayfs".into(),
        0x6969 => "nfs".into(),
        other => format!("file system {other:#x}"),
    }
}

/// The region of the next write: the first block and how many.
fn region(
    regions: Regions,
    blocks: usize,
    thread: usize,
    threads: usize,
    dice: &mut fastrand::Rng,
) -> (usize, usize) {
    let (first, available) = match regions {
        Regions::Own => (thread * (blocks / threads), blocks / threads),
        Regions::Anywhere => (0, blocks),
    };
    let count = 1 + dice.usize(..BLOCKS_MAX.min(available));
    (first + dice.usize(..=available - count), count)
}

/// Writes the region by two calls, and reads it back if there is a buffer `back`. Returns whether
/// it reads as it was written.
fn write_region(file: &File, at: u64, bytes: &[u8], back: Option<&mut [u8]>) -> Result<bool, i32> {
    let middle = bytes.len() / BLOCK / 2 * BLOCK;
    // The second half first, so that the kernel does not see one sequential write.
    file.write_at(&bytes[middle..], at + middle as u64)?;
    file.write_at(&bytes[..middle], at)?;
    let Some(back) = back else {
        return Ok(true);
    };
    let back = &mut back[..bytes.len()];
    Ok(file.read_at(back, at)? == bytes.len() && back == bytes)
}

impl Run {
    /// The bytes of the file, which are a lock's keys.
    pub fn space(&self) -> u64 {
        (self.blocks * BLOCK) as u64
    }

    /// The run with something that keeps writes apart.
    ///
    /// # Errors
    /// The file cannot be made, written, locked or read.
    fn with_keeper<K: Keeper>(&self, keeper: &K) -> Result<Checked, String> {
        assert!(self.threads > 0 && self.blocks >= self.threads, "each thread has a block");
        let parent = self.folder.clone().unwrap_or_else(std::env::temp_dir);
        let folder = tempfile::Builder::new()
            .prefix("manx-bench-")
            .tempdir_in(&parent)
            .map_err(|error| format!("{}: {error}", parent.display()))?;
        let path = folder.path().join("shared");
        let name = CString::new(path.as_os_str().as_bytes()).map_err(|error| error.to_string())?;
        let failed = |what: &str| {
            let place = path.display().to_string();
            let what = what.to_owned();
            move |error: i32| words(&format!("{place}: {what}"), error)
        };
        let file = File::create(&name).map_err(failed("open"))?;
        file.set_length(self.space() as usize).map_err(failed("ftruncate"))?;
        file.reserve(self.space() as usize).map_err(failed("fallocate"))?;
        let outcome = workers::run_on(
            &one_each(self.threads),
            self.threads,
            self.time,
            || {},
            |index, phases| {
                self.writer(index, phases, keeper, &name)
                    .map_err(|error| words(&path.display().to_string(), error))
            },
        )?;
        let records = &outcome.records;
        let mut all = vec![0; self.space() as usize];
        let read = file.read_at(&mut all, 0).map_err(failed("pread"))?;
        let seconds = outcome.elapsed.as_secs_f64();
        let sum = |of: fn(&Record) -> u64| records.iter().map(of).sum::<u64>();
        let mut sample = Sample::of([
            ("writes_per_s", sum(|record| record.writes) as f64 / seconds),
            ("bytes_per_s", sum(|record| record.bytes) as f64 / seconds),
            ("slowest_share", workers::slowest_share(records.iter().map(|record| record.writes))),
        ]);
        let write: Histogram = records.iter().map(|record| record.write.clone()).sum();
        sample.add_tail("write_", &write);
        Ok(Checked {
            sample: sample.with(&serde_json::json!({ "write": write })),
            checked: sum(|record| record.checked),
            wrong: sum(|record| record.torn) + stamp::torn(&all[..read]),
        })
    }

    fn writer<K: Keeper>(
        &self,
        index: usize,
        phases: &Phases,
        keeper: &K,
        path: &std::ffi::CStr,
    ) -> Result<Record, i32> {
        let opened = File::open_read_write(path);
        let mut dice = dice(index as u64);
        let mut record = Record::default();
        let (mut bytes, mut back) = (vec![0; BLOCKS_MAX * BLOCK], vec![0; BLOCKS_MAX * BLOCK]);
        let (mut write, mut counted) = (0u64, false);
        phases.begin();
        let file = opened?;
        // At least one write, even in a very short run.
        let mut next = Some(false);
        while let Some(counts) = next {
            if counts && !counted {
                record = record.begin();
                counted = true;
            }
            let (first, count) = region(self.regions, self.blocks, index, self.threads, &mut dice);
            write += 1;
            let stamp = Stamp { writer: index as u64 + 1, write, first: first as u64, blocks: count as u64 };
            let bytes = &mut bytes[..count * BLOCK];
            stamp.fill(bytes);
            let start = (first * BLOCK) as u64;
            let back = write.is_multiple_of(READ_BACK).then_some(&mut back[..]);
            let mut whole = true;
            let begun = ticks();
            keeper.keep(&file, start..start + bytes.len() as u64, || {
                whole = write_region(&file, start, bytes, back)?;
                Ok(())
            })?;
            record.write.record(ticks_to_ns(ticks().saturating_sub(begun)));
            record.writes += 1;
            record.bytes += bytes.len() as u64;
            record.checked += 1;
            record.torn += u64::from(!whole);
            next = phases.next();
        }
        Ok(if counted { record } else { record.begin() })
    }
}

impl Measured for &Run {
    type Output = Result<Checked, String>;

    fn with<L: RawRangeLock>(self, make: impl Fn() -> L) -> Self::Output {
        self.with_keeper(&Ranges(make()))
    }
}

/// Where the file of a run is, for a note.
pub fn place(run: &Run) -> String {
    let folder = run.folder.clone().unwrap_or_else(std::env::temp_dir);
    let number = CString::new(Path::new(&folder).as_os_str().as_bytes())
        .ok()
        .and_then(|path| File::open(&path).ok())
        .and_then(|folder| folder.file_system().ok());
    let kind = number.map_or_else(|| "unknown".into(), file_system);
    format!("{} ({kind})", folder.display())
}

/// The keepers that are no range lock of the process.
pub(in crate::range) const KERNEL: &str = "fcntl OFD";
pub(in crate::range) const WHOLE: &str = "one mutex";
/// The file, in blocks of 4 KiB: 64 MiB, and 1 MiB where threads are to meet.
const BLOCKS: usize = 16 * 1024;
const BLOCKS_SHARED: usize = 256;
const BLOCKS_QUICK: usize = 1024;

/// The name of the cases with these regions.
pub(in crate::range) fn case(regions: Regions) -> String {
    let words = match regions {
        Regions::Own => "own regions",
        Regions::Anywhere => "overlapping",
    };
    format!("{FILE}, {words}")
}

impl Plan {
    /// Writes to one file.
    pub(in crate::range) fn file(&self, bench: &mut Bench) -> Result<(), Error> {
        for (regions, blocks) in [(Regions::Own, BLOCKS), (Regions::Anywhere, BLOCKS_SHARED)] {
            let blocks = if self.setup.quick { blocks.min(BLOCKS_QUICK) } else { blocks };
            for &threads in &self.setup.threads {
                let run = Run { threads, regions, blocks, time: self.setup.time, folder: None };
                bench.note(format!(
                    "{FILE}: writes of 4 to 64 KiB, by two calls of pwrite, to one file in {}",
                    place(&run)
                ));
                self.writes(bench, &scaled(&case(regions), threads), &run)?;
            }
        }
        Ok(())
    }

    fn writes(&self, bench: &mut Bench, case: &str, run: &Run) -> Result<(), Error> {
        let competitors = Variant::locks();
        let mut names = names(&competitors);
        names.extend([KERNEL, WHOLE]);
        self.compare_by(bench, case, &names, expected(run.time), |at| {
            let failed = |what| Error::failed(format!("{}, {case}: {what}", names[at]));
            let found = match names[at] {
                KERNEL => run.with_keeper(&Kernel),
                WHOLE => run.with_keeper(&Whole::default()),
                _ => {
                    let competitor = competitors[at].competitor;
                    run_apart(competitor.leaks(), || competitor.measure(run.space(), run))
                }
            };
            found.and_then(|found| self.checked(found, "writes were torn")).map_err(failed)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use baselines::range::Map;

    fn run(regions: Regions, blocks: usize) -> Run {
        Run { threads: 4, regions, blocks, time: Duration::from_millis(60), folder: None }
    }

    #[test]
    fn no_keeper_lets_a_write_be_torn() {
        for run in [run(Regions::Own, 64), run(Regions::Anywhere, 64), run(Regions::Anywhere, 5)] {
            let keepers = [
                ("ranges", run.with_keeper(&Ranges(Map::with_space(run.space())))),
                ("kernel", run.with_keeper(&Kernel)),
                ("whole", run.with_keeper(&Whole::default())),
            ];
            for (name, found) in keepers {
                let found = found.unwrap();
                assert!(found.checked >= run.threads as u64, "each thread writes");
                assert_eq!(found.wrong, 0, "{name}, {run:?}");
                assert!(found.sample.values["slowest_share"] <= 1.0);
            }
        }
    }

    /// Another writer writes into every region after each write.
    struct Intruder;

    impl Keeper for Intruder {
        fn keep(&self, file: &File, bytes: Range<u64>, write: impl FnOnce() -> Written) -> Written {
            write()?;
            let mut block = [0; BLOCK];
            let stranger = Stamp { writer: 99, write: 1, first: bytes.start / BLOCK as u64, blocks: 99 };
            stranger.fill(&mut block);
            file.write_at(&block, bytes.start)
        }
    }

    #[test]
    fn another_writer_in_a_region_is_found_at_the_end() {
        let run = Run { threads: 1, ..run(Regions::Anywhere, 8) };
        assert!(run.with_keeper(&Intruder).unwrap().wrong > 0);
    }

    #[test]
    fn reading_back_sees_what_is_not_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let name = CString::new(folder.path().join("f").as_os_str().as_bytes()).unwrap();
        let file = File::create(&name).unwrap();
        let mut bytes = vec![0; 3 * BLOCK];
        Stamp { writer: 1, write: 1, first: 0, blocks: 3 }.fill(&mut bytes);
        let mut back = vec![0; bytes.len()];
        assert_eq!(write_region(&file, 0, &bytes, Some(&mut back)), Ok(true));
        assert_eq!(back, bytes);
        let one_way = File::open(&name).unwrap();
        assert_eq!(write_region(&one_way, 0, &bytes, None), Err(libc::EBADF));
    }

    #[test]
    fn regions_of_ones_own_do_not_meet_and_others_reach_everywhere() {
        let mut dice = dice(3);
        for thread in 0..4 {
            for _ in 0..200 {
                let (first, count) = region(Regions::Own, 40, thread, 4, &mut dice);
                assert!((1..=10).contains(&count));
                assert!(thread * 10 <= first && first + count <= thread * 10 + 10);
            }
        }
        let mut written = [false; 40];
        for _ in 0..500 {
            let (first, count) = region(Regions::Anywhere, 40, 0, 4, &mut dice);
            assert!((1..=BLOCKS_MAX).contains(&count));
            written[first..first + count].fill(true);
        }
        assert!(written.iter().all(|block| *block));
    }

    #[test]
    fn a_folder_that_does_not_exist_is_named() {
        let run = Run { folder: Some("/no/such/folder".into()), ..run(Regions::Own, 4) };
        let error = run.with_keeper(&Kernel).unwrap_err();
        assert!(error.contains("/no/such/folder"), "{error}");
        assert!(place(&run).contains("unknown"));
    }
}
