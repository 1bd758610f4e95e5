//! The budget again and again, from files that stay open.
//!
//! To find the groups of a process takes several long files; to read their quotas again takes a few short ones. So a watch keeps
//! the short ones open and reads those, and looks for the groups again when it has to:
//!
//! | what changes | when it is seen |
//! | --- | --- |
//! | a quota, of any group that had the file | at the next reading |
//! | the affinity, the CPUs of the group as far as they change it | at the next reading |
//! | the process forked | at the child's next reading |
//! | a group is removed, which means that the process has moved | at the next reading |
//! | the process is moved to another group | at the first reading that is [`MOVES_NS`] after the last look for that |
//! | a group gets the controller that it did not have | at the first reading that is [`GROUPS_NS`] after the last look for that |
//!
//! Nothing is read unless somebody asks; there is no thread behind it.

use super::files::{Files, read_all};
use super::layout::{Layout, MEMBERSHIPS};
use super::quota::{self, Nonsense};
use super::{CpuBudget, Place, Quota, Throttled};
use crate::cpu::CpuSet;
use crate::cpu::text::value_of;
use platform::clock::now_ns;
use platform::file::File;
use std::path::Path;

/// How long a move to another group may stay unseen while somebody reads: to look costs more than all else.
pub const MOVES_NS: u64 = 100_000_000;
/// How long it may stay unseen that a group has got the controller.
pub const GROUPS_NS: u64 = 1_000_000_000;
/// The files of a group are short; `cpu.stat` is the longest.
const SHORT: usize = 1024;

/// A budget that is kept up to date by who asks for it.
///
/// ```
/// use manx::cpu::BudgetWatch;
///
/// let mut watch = BudgetWatch::new();
/// let before = watch.version();
/// let cpus = watch.cpus();
/// if watch.version() != before {
///     println!("now {cpus}: {}", watch.budget().why());
/// }
/// # assert!(cpus > 0.0);
/// ```
#[derive(Debug)]
pub struct BudgetWatch {
    files: Files,
    asked: fn() -> CpuSet,
    version: u64,
    cpus: f64,
    look: Look,
}

/// What was found when the groups were looked for last.
#[derive(Debug)]
struct Look {
    process: u32,
    moves_seen_ns: u64,
    groups_seen_ns: u64,
    memberships: Result<Vec<u8>, i32>,
    memberships_file: Option<File>,
    layout: Layout,
    quotas: Vec<Kept>,
    /// The CPUs that all the sets have in common, while the affinity is this.
    affinity: CpuSet,
    in_sets: f64,
    meter: Option<Meter>,
}

/// The open files of a group that may have a quota.
#[derive(Debug)]
struct Kept {
    place: Place,
    quota: File,
    /// cgroup v1 only.
    period: Option<File>,
    now: Option<Quota>,
}

/// The open files by which a group is measured.
#[derive(Debug)]
struct Meter {
    folder: Vec<u8>,
    stat: Option<File>,
    /// cgroup v1 only.
    usage: Option<File>,
}

/// A file that was there is no more, or holds something else.
struct Gone;

impl From<Nonsense> for Gone {
    fn from(_: Nonsense) -> Gone {
        Gone
    }
}

impl BudgetWatch {
    /// Watches the calling process; the affinity is that of whoever asks.
    #[expect(clippy::new_without_default, reason = "it opens files")]
    pub fn new() -> BudgetWatch {
        BudgetWatch::of(Files::new("/".as_ref()), || CpuSet::from_words(platform::cpu::allowed()))
    }

    /// Watches a process whose `/proc` and `/sys` are below `root`, and of whose affinity nothing is known.
    ///
    /// ```
    /// let mut watch = manx::cpu::BudgetWatch::detect("/nonexistent".as_ref());
    /// assert_eq!(watch.cpus(), 1.0);
    /// ```
    pub fn detect(root: &Path) -> BudgetWatch {
        BudgetWatch::of(Files::new(root), || CpuSet::EMPTY)
    }

    fn of(files: Files, asked: fn() -> CpuSet) -> BudgetWatch {
        let look = Look::now(&files, asked());
        let mut watch = BudgetWatch { files, asked, version: 0, cpus: 1.0, look };
        watch.cpus = watch.look.least();
        watch
    }

    /// How many CPUs, read now: more than 0.
    pub fn cpus(&mut self) -> f64 {
        let cpus = self.read();
        if cpus != self.cpus {
            self.cpus = cpus;
            self.version += 1;
        }
        cpus
    }

    /// The whole story, read now. It takes as long as [`CpuBudget::now`].
    pub fn budget(&mut self) -> CpuBudget {
        self.look_again();
        let affinity = Some((self.asked)());
        CpuBudget::read(&self.files, &self.look.layout, affinity.as_ref())
    }

    /// A number that grows whenever the budget was found to be another one.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Looks for the process' groups again, now.
    pub fn look_again(&mut self) {
        self.look = Look::now(&self.files, (self.asked)());
        let cpus = self.look.least();
        if cpus != self.cpus {
            self.cpus = cpus;
            self.version += 1;
        }
    }

    /// The quota that is the least of all that hold for the process, as it was read last.
    pub fn quota(&self) -> Option<Quota> {
        self.look.least_quota()?.now
    }

    /// The CPU time that the group of [`BudgetWatch::quota`] has used, in ns, read now.
    ///
    /// With cgroup v1 it is in another hierarchy, `cpuacct`. If that is not mounted together with `cpu`, and the process' group has another name there, nobody knows.
    pub fn group_usage_ns(&mut self) -> Option<u64> {
        let meter = self.look.meter(&self.files)?;
        let mut buffer = [0; SHORT];
        match &meter.usage {
            Some(usage) => quota::number(short(usage, &mut buffer).ok()?).ok(),
            None => Some(
                value_of(short(meter.stat.as_ref()?, &mut buffer).ok()?, "usage_usec")?.saturating_mul(1000),
            ),
        }
    }

    /// How often the group of [`BudgetWatch::quota`] had used it up, read now.
    pub fn throttled(&mut self) -> Option<Throttled> {
        let meter = self.look.meter(&self.files)?;
        let mut buffer = [0; SHORT];
        quota::throttled(short(meter.stat.as_ref()?, &mut buffer).ok()?)
    }

    fn read(&mut self) -> f64 {
        let now_ns = now_ns();
        let affinity = (self.asked)();
        let stale = self.look.process != std::process::id()
            || now_ns.saturating_sub(self.look.groups_seen_ns) >= GROUPS_NS
            || self.look.has_moved(now_ns)
            || self.look.read_quotas().is_err()
            || affinity != self.look.affinity;
        if stale {
            self.look = Look::now(&self.files, affinity);
        }
        self.look.least()
    }
}

impl Look {
    fn now(files: &Files, affinity: CpuSet) -> Look {
        let memberships_file = files.open(MEMBERSHIPS);
        let memberships = memberships_file.as_ref().map_err(|&error| error).and_then(read_all);
        let layout = Layout::find(files, &memberships);
        let now_ns = now_ns();
        let in_sets = CpuBudget::sets(files, &layout, Some(&affinity), &mut Vec::new()).0;
        let quotas = layout.with_quotas().filter_map(|place| Kept::open(files, place)).collect();
        let process = std::process::id();
        let (moves_seen_ns, groups_seen_ns) = (now_ns, now_ns);
        let memberships_file = memberships_file.ok();
        let mut look = Look {
            process,
            moves_seen_ns,
            groups_seen_ns,
            memberships,
            memberships_file,
            layout,
            quotas,
            affinity,
            in_sets,
            meter: None,
        };
        // A group that is gone already is no group of this process any more, and the next reading finds that out.
        let _ = look.read_quotas();
        look
    }

    /// Whether the process is in other groups than it was, if it is time to look for that.
    fn has_moved(&mut self, now_ns: u64) -> bool {
        if now_ns.saturating_sub(self.moves_seen_ns) < MOVES_NS {
            return false;
        }
        self.moves_seen_ns = now_ns;
        match (&self.memberships_file, &self.memberships) {
            (Some(file), Ok(memberships)) => read_all(file).as_ref() != Ok(memberships),
            // Masked: there is nothing to see.
            _ => false,
        }
    }

    fn read_quotas(&mut self) -> Result<(), Gone> {
        self.quotas.iter_mut().try_for_each(Kept::read)
    }

    fn least_quota(&self) -> Option<&Kept> {
        let limited = self.quotas.iter().filter(|it| it.now.is_some());
        limited.min_by(|one, other| one.cpus().total_cmp(&other.cpus()))
    }

    fn least(&self) -> f64 {
        let quota = self.least_quota().map_or(f64::INFINITY, Kept::cpus);
        let least = quota.min(self.in_sets);
        if least.is_finite() { least } else { 1.0 }
    }

    /// The open files of the group with the least quota.
    fn meter(&mut self, files: &Files) -> Option<&Meter> {
        let place = &self.least_quota()?.place;
        if self.meter.as_ref().is_none_or(|meter| meter.folder != place.folder) {
            let usage = self.layout.cpuacct.iter().find(|it| it.group.path == place.group.path);
            let usage = usage.filter(|_| !place.group.unified);
            self.meter = Some(Meter {
                folder: place.folder.clone(),
                stat: files.open(&place.file("cpu.stat")).ok(),
                usage: usage.and_then(|it| files.open(&it.file("cpuacct.usage")).ok()),
            });
        }
        self.meter.as_ref()
    }
}

impl Kept {
    /// The files of a group, if it has them.
    fn open(files: &Files, place: &Place) -> Option<Kept> {
        let open = |name| files.open(&place.file(name)).ok();
        let (quota, period) = if place.group.unified {
            (open("cpu.max")?, None)
        } else {
            (open("cpu.cfs_quota_us")?, Some(open("cpu.cfs_period_us")?))
        };
        Some(Kept { place: place.clone(), quota, period, now: None })
    }

    fn read(&mut self) -> Result<(), Gone> {
        let mut buffer = [0; SHORT];
        let text = short(&self.quota, &mut buffer)?;
        let Some(period) = &self.period else {
            self.now = quota::cpu_max(text)?;
            return Ok(());
        };
        self.now = None;
        if let Some(quota_us) = quota::cfs_quota(text)? {
            self.now = Some(quota::in_period(quota_us, quota::number(short(period, &mut buffer)?)?)?);
        }
        Ok(())
    }

    fn cpus(&self) -> f64 {
        self.now.map_or(f64::INFINITY, |quota| quota.cpus())
    }
}

/// What a short file says.
fn short<'a>(file: &File, buffer: &'a mut [u8; SHORT]) -> Result<&'a [u8], Gone> {
    file.read_once_at(buffer, 0).map(|length| &buffer[..length]).map_err(|_| Gone)
}
