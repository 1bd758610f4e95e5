//! The files of a group that a watch keeps open: those of its quota, and those by which it is
//! measured.
//!
//! Invariants:
//! 1. A quota is believed only if it was read from the files that were opened: when it is another
//!    one than before, and from time to time, their identity is looked at (`open.rs`).

use super::files::Files;
use super::groups::Place;
use super::open::{FileChanged, Open};
use super::quota::{self, Malformed, Quota, Throttled};

/// The files of a group are short; `cpu.stat` is the longest.
const SHORT: usize = 1024;

/// The open files of a group that may have a quota.
#[derive(Debug)]
pub(super) struct OpenGroup {
    pub(super) place: Place,
    quota: Open,
    /// cgroup v1 only.
    period: Option<Open>,
    /// As it was read last.
    pub(super) now: Option<Quota>,
}

/// The open file by which a group is measured.
#[derive(Debug)]
pub(super) struct Meter {
    pub(super) folder: Vec<u8>,
    stat: Option<Open>,
}

impl From<Malformed> for FileChanged {
    fn from(_: Malformed) -> FileChanged {
        FileChanged
    }
}

impl Meter {
    /// The file of a group whose quota is at `place`.
    pub(super) fn open(files: &Files, place: &Place) -> Meter {
        Meter { folder: place.folder.clone(), stat: Open::new(files, &place.file("cpu.stat")).ok() }
    }

    /// How often the group was stopped.
    pub(super) fn throttled(&self) -> Option<Throttled> {
        let mut buffer = [0; SHORT];
        quota::throttled(self.stat.as_ref()?.read(&mut buffer).ok()?)
    }

    /// Whether the file is still the file that was opened.
    pub(super) fn is_ours(&self) -> bool {
        self.stat.as_ref().is_none_or(Open::is_ours)
    }
}

impl OpenGroup {
    /// The files of a group, if it has them.
    pub(super) fn open(files: &Files, place: &Place) -> Option<OpenGroup> {
        let open = |name| Open::new(files, &place.file(name)).ok();
        let (quota, period) = if place.group.unified {
            (open("cpu.max")?, None)
        } else {
            (open("cpu.cfs_quota_us")?, Some(open("cpu.cfs_period_us")?))
        };
        Some(OpenGroup { place: place.clone(), quota, period, now: None })
    }

    /// Reads the quota, and the period if the quota is another one.
    pub(super) fn read(&mut self) -> Result<(), FileChanged> {
        let mut buffer = [0; SHORT];
        let text = self.quota.read(&mut buffer)?;
        if self.period.is_none() {
            return if quota::cpu_max(text)? == self.now { Ok(()) } else { self.read_thoroughly() };
        }
        let same = quota::cfs_quota(text)? == self.now.map(|now| now.time);
        if same { Ok(()) } else { self.read_thoroughly() }
    }

    /// Reads quota and period, and believes them if they are from the files that were opened.
    pub(super) fn read_thoroughly(&mut self) -> Result<(), FileChanged> {
        let mut buffer = [0; SHORT];
        let text = self.quota.read(&mut buffer)?;
        let now = match &self.period {
            None => quota::cpu_max(text)?,
            Some(period) => match quota::cfs_quota(text)? {
                Some(time) => Some(quota::in_period(time, quota::microseconds(period.read(&mut buffer)?)?)?),
                None => None,
            },
        };
        if !self.is_ours() {
            return Err(FileChanged);
        }
        self.now = now;
        Ok(())
    }

    fn is_ours(&self) -> bool {
        self.quota.is_ours() && self.period.as_ref().is_none_or(Open::is_ours)
    }

    /// How many CPUs that is, infinitely many without a quota.
    pub(super) fn cpus(&self) -> f64 {
        self.now.map_or(f64::INFINITY, |quota| quota.cpus())
    }
}
