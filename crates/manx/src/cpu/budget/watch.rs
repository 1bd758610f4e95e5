//! The budget again and again, from files that stay open.
//!
//! To find the groups of a process takes several long files; to read their quotas again takes a few
//! short ones. So a watch keeps the short ones open and reads those, and looks for the groups again
//! when it has to:
//!
//! | what changes | when it is seen |
//! | --- | --- |
//! | a quota, of any group that had the file | at the next reading |
//! | with cgroup v1 the period alone | as a move |
//! | the affinity, the CPUs of the group as far as they change it | at the next reading |
//! | the process forked | at the child's next reading |
//! | a group is removed, which means that the process has moved | at the next reading |
//! | the process is moved to another group | at the first reading that is [`MOVES_NS`] after the last look for that |
//! | a group gets the controller that it did not have | at the first reading that is [`GROUPS_NS`] after the last look for that |
//!
//! Nothing is read unless a caller asks; there is no thread behind it. A reading takes one to three
//! µs: a system call for the affinity, one for the process' number, and one for each group that may
//! have a quota.

use super::files::{Files, read_piece};
use super::layout::{self, Layout};
use super::open::Open;
use super::open_group::{Meter, OpenGroup};
use super::{CpuBudget, Quota, Throttled};
use crate::cpu::CpuSet;
use platform::clock::now_ns;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// How long a move to another group may stay unseen while a caller reads: to look costs more than
/// all else.
const MOVES_NS: u64 = 100_000_000;
/// How long it may stay unseen that a group has got the controller.
const GROUPS_NS: u64 = 1_000_000_000;
/// The same where the names of groups have to be searched for.
const SEARCH_NS: u64 = 60 * GROUPS_NS;

/// A budget that its callers keep up to date by asking for it.
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
    announced: f64,
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
    memberships_file: Option<Open>,
    layout: Layout,
    quotas: Vec<OpenGroup>,
    /// The CPUs that all the sets have in common, while the affinity is this.
    affinity: CpuSet,
    in_sets: f64,
    meter: Option<Meter>,
}

impl BudgetWatch {
    /// Watches the calling process. Its groups are those of the calling thread, and the affinity is
    /// that of the thread that asks.
    #[expect(clippy::new_without_default, reason = "it opens files")]
    pub fn new() -> BudgetWatch {
        BudgetWatch::of(Files::new("/".as_ref()), CpuSet::of_this_thread)
    }

    /// Watches a process whose `/proc` and `/sys` are below `root`; nothing is known of its
    /// affinity.
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
        let mut watch = BudgetWatch { files, asked, version: 0, announced: 1.0, cpus: 1.0, look };
        watch.cpus = watch.look.least();
        watch.announced = watch.cpus;
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

    /// The whole story, read now. It takes about twice as long as [`CpuBudget::now`].
    pub fn budget(&mut self) -> CpuBudget {
        self.rescan();
        CpuBudget::read(&self.files, &self.look.layout, Some(&self.look.affinity))
    }

    /// The whole story, if it is another number of CPUs now than when this was called last, or the
    /// watch was made.
    ///
    /// ```
    /// let mut watch = manx::cpu::BudgetWatch::new();
    /// if let Some(budget) = watch.changed() {
    ///     println!("now {budget}");
    /// }
    /// ```
    pub fn changed(&mut self) -> Option<CpuBudget> {
        if self.cpus() == self.announced {
            return None;
        }
        let budget = self.budget();
        self.announced = budget.cpus();
        Some(budget)
    }

    /// A number that grows whenever a reading has found another number of CPUs than the one before.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Looks for the process' groups again, now.
    pub fn rescan(&mut self) {
        self.look = Look::now(&self.files, (self.asked)());
        let cpus = self.look.least();
        if cpus != self.cpus {
            self.cpus = cpus;
            self.version += 1;
        }
    }

    /// The least of all quotas that hold for the process, as it was read last.
    ///
    /// ```
    /// let mut watch = manx::cpu::BudgetWatch::new();
    /// if let (Some(quota), Some(throttled)) = (watch.quota(), watch.throttled()) {
    ///     println!("{quota}: {throttled:?}");
    /// }
    /// ```
    pub fn quota(&self) -> Option<Quota> {
        self.look.least_quota()?.now
    }

    /// The folder of the group of [`BudgetWatch::quota`].
    // For the launcher.
    #[doc(hidden)]
    pub fn group_folder(&self) -> Option<&Path> {
        Some(Path::new(OsStr::from_bytes(&self.look.least_quota()?.place.folder)))
    }

    /// How often the group of [`BudgetWatch::quota`] had used it up, read now.
    pub fn throttled(&mut self) -> Option<Throttled> {
        self.look.meter(&self.files)?.throttled()
    }

    fn read(&mut self) -> f64 {
        let now_ns = now_ns();
        let affinity = (self.asked)();
        let stale = self.look.process != std::process::id()
            || self.look.is_old(now_ns)
            || self.look.has_moved(now_ns)
            || self.look.quotas.iter_mut().any(|it| it.read().is_err());
        if stale {
            self.look = Look::now(&self.files, affinity);
        } else if affinity != self.look.affinity {
            self.look.in_sets =
                CpuBudget::sets(&self.files, &self.look.layout, Some(&affinity), &mut Vec::new()).0;
            self.look.affinity = affinity;
        }
        self.look.least()
    }
}

impl Look {
    fn now(files: &Files, affinity: CpuSet) -> Look {
        let process = std::process::id();
        let memberships_file = layout::memberships(|path| Open::new(files, path));
        let memberships = memberships_file.as_ref().map_err(|&error| error);
        let memberships = memberships.and_then(|open| open.file().map_or(Ok(Vec::new()), read_piece));
        let layout = Layout::find(files, &memberships, process);
        let now_ns = now_ns();
        let in_sets = CpuBudget::sets(files, &layout, Some(&affinity), &mut Vec::new()).0;
        let quotas = layout.with_quotas().filter_map(|place| OpenGroup::open(files, place)).collect();
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
        // A file that makes no sense now is not asked again and again; neither is a file that is
        // gone already.
        look.quotas.retain_mut(|kept| kept.read_thoroughly().is_ok());
        look
    }

    fn is_old(&self, now_ns: u64) -> bool {
        let most_ns = if self.layout.searched { SEARCH_NS } else { GROUPS_NS };
        now_ns.saturating_sub(self.groups_seen_ns) >= most_ns
    }

    /// Whether the process is in other groups than it was, or files are not what they were, if it
    /// is time to look for that.
    fn has_moved(&mut self, now_ns: u64) -> bool {
        if now_ns.saturating_sub(self.moves_seen_ns) < MOVES_NS {
            return false;
        }
        self.moves_seen_ns = now_ns;
        let moved = match (&self.memberships_file, &self.memberships) {
            (Some(open), Ok(memberships)) => {
                open.file().map(read_piece).as_ref() != Some(&Ok(memberships.clone()))
            }
            // Masked: there is nothing to see.
            _ => false,
        };
        moved
            || self.quotas.iter_mut().any(|it| it.read_thoroughly().is_err())
            || self.meter.as_ref().is_some_and(|it| !it.is_ours())
    }

    fn least_quota(&self) -> Option<&OpenGroup> {
        let limited = self.quotas.iter().filter(|it| it.now.is_some());
        limited.min_by(|one, other| one.cpus().total_cmp(&other.cpus()))
    }

    fn least(&self) -> f64 {
        let quota = self.least_quota().map_or(f64::INFINITY, OpenGroup::cpus);
        let least = quota.min(self.in_sets);
        if least.is_finite() { least } else { 1.0 }
    }

    /// The open files of the group with the least quota.
    fn meter(&mut self, files: &Files) -> Option<&Meter> {
        let place = &self.least_quota()?.place;
        if self.meter.as_ref().is_none_or(|meter| meter.folder != place.folder) {
            self.meter = Some(Meter::open(files, place));
        }
        self.meter.as_ref()
    }
}
