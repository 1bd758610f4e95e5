//! How many CPUs a process can really use: a fraction, where it comes from, and why.
//!
//! The kernel limits a process in several ways at once, and each is written somewhere else: the
//! CPUs that are online, the thread's affinity, the CPUs of its group (cpuset), and the CPU time
//! that its group *or any group above it* gets in each period (quota). The budget is the least of
//! these. Most runtimes read some of them, of the process' own group alone, and round before a
//! program can see the fraction; see [`Rounding`] for that.
//!
//! | file | what |
//! | --- | --- |
//! | `files.rs` | files below a folder that looks like `/` |
//! | `mounts.rs` | where hierarchies of groups are mounted |
//! | `membership.rs` | to which groups the process belongs |
//! | `groups.rs` | the folders of a group and its ancestors |
//! | `search.rs` | the names of groups that no file tells |
//! | `layout.rs` | the four together, whatever is masked |
//! | `quota.rs` | what the files of a group say |
//! | `sources.rs` | which file says which limit |
//! | `limit.rs` | what limits, in words |
//! | `rounding.rs` | from a fraction to a count |
//! | `open.rs` | a file that stays open |
//! | `open_group.rs` | those of a group |
//! | `watch.rs` | the same again and again, from open files |
//! | `process.rs` | the groups of another process |
//!
//! 1. A limit that cannot be read is left out, and [`CpuBudget::warnings`] says so. Nothing fails:
//!    there is always an answer, more than 0.
//! 2. CPUs are intersected, and quotas of all ancestors up to the mount's root compared; the least
//!    decides. Of two that say the same, the one named first in this sentence does: online, cpuset,
//!    affinity, quota from the own group upwards.
//! 3. A weight is never a limit.

mod files;
mod groups;
mod layout;
mod limit;
pub(crate) mod membership;
mod mounts;
mod open;
mod open_group;
mod process;
mod quota;
mod rounding;
mod search;
mod sources;
mod watch;

pub use groups::Group;
pub use limit::{Limit, LimitKind};
#[doc(hidden)]
pub use process::{GroupLevel, ProcessGroups};
pub use quota::{Quota, Throttled, Weight};
pub use rounding::{ParseRoundingError, Rounding};
pub use watch::BudgetWatch;

use super::CpuSet;
use files::Files;
use layout::{Layout, memberships};
use limit::Cpus;
use std::fmt;
use std::path::Path;

/// How many CPUs a process could use at one moment, and why not more.
///
/// ```
/// use manx::cpu::{CpuBudget, Rounding};
///
/// let budget = CpuBudget::now();
/// println!("{budget}"); // 1.5 CPUs: quota 150000/100000 of the parent group /a of /a/b
/// assert!(budget.cpus() > 0.0);
/// let threads = budget.count(Rounding::Floor);
/// assert!(threads >= 1);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct CpuBudget {
    cpus: f64,
    limits: Vec<Limit>,
    weight: Option<Weight>,
    warnings: Vec<String>,
}

impl CpuBudget {
    /// Returns the budget of the calling process at this moment. Affinity and groups are the
    /// calling thread's, as threads that it starts inherit them.
    ///
    /// Nothing that the kernel hides or garbles makes this fail: it is left out, and
    /// [`CpuBudget::warnings`] says so. It opens a dozen files (some 0.1 ms); a program that asks
    /// again and again has a [`BudgetWatch`].
    pub fn now() -> CpuBudget {
        CpuBudget::detect("/".as_ref(), Some(&CpuSet::of_this_thread()))
    }

    /// Returns the budget of a process whose `/proc` and `/sys` are below `root`, which has the
    /// calling process' number, and whose affinity is this if it is known.
    ///
    /// ```
    /// use manx::cpu::{CpuBudget, CpuSet, LimitKind};
    ///
    /// let affinity: CpuSet = "0-2".parse()?;
    /// let budget = CpuBudget::detect("/nonexistent".as_ref(), Some(&affinity));
    /// assert_eq!(budget.cpus(), 3.0);
    /// assert!(matches!(budget.source(), LimitKind::Affinity { .. }));
    /// # Ok::<(), manx::cpu::ParseCpuListError>(())
    /// ```
    pub fn detect(root: &Path, affinity: Option<&CpuSet>) -> CpuBudget {
        let files = Files::new(root);
        let memberships = memberships(|path| files.read_piece(path));
        let layout = Layout::find(&files, &memberships, std::process::id());
        CpuBudget::read(&files, &layout, affinity)
    }

    /// By the files that a layout names.
    fn read(files: &Files, layout: &Layout, affinity: Option<&CpuSet>) -> CpuBudget {
        let mut warnings = layout.warnings.clone();
        let (mut cpus, mut limits) = CpuBudget::sets(files, layout, affinity, &mut warnings);
        let mut binding = limits.iter().rposition(|it| it.binds).unwrap_or(0);
        for (quota, group) in sources::quotas(files, layout, &mut warnings) {
            if quota.cpus() < cpus {
                (cpus, binding) = (quota.cpus(), limits.len());
            }
            limits.push(Limit { cpus: quota.cpus(), kind: LimitKind::Quota { quota, group }, binds: false });
        }
        if limits.is_empty() {
            cpus = 1.0;
            limits.push(Limit { cpus, kind: LimitKind::Unknown, binds: false });
        }
        limits.iter_mut().enumerate().for_each(|(at, limit)| limit.binds = at == binding);
        CpuBudget { cpus, limits, weight: sources::weight(files, layout), warnings }
    }

    /// How many CPUs all sets have in common, infinitely many if none is known; and what each of
    /// them says. The last set that binds decides among them.
    fn sets(
        files: &Files,
        layout: &Layout,
        affinity: Option<&CpuSet>,
        warnings: &mut Vec<String>,
    ) -> (f64, Vec<Limit>) {
        let mut limits = Vec::with_capacity(4);
        let mut allowed = None::<CpuSet>;
        for kind in sources::sets(files, layout, affinity, warnings) {
            let Some(cpus) = kind.cpus() else { continue };
            let both = allowed.as_ref().map_or_else(|| cpus.clone(), |allowed| allowed.intersection(cpus));
            // A set that has nothing in common with the others is about some other machine.
            let binds = !both.is_empty() && allowed.as_ref() != Some(&both);
            if binds {
                allowed = Some(both);
            }
            limits.push(Limit { cpus: cpus.len() as f64, kind, binds });
        }
        (allowed.map_or(f64::INFINITY, |allowed| allowed.len() as f64), limits)
    }

    /// How many CPUs: more than 0, and a fraction where a quota decides.
    pub fn cpus(&self) -> f64 {
        self.cpus
    }

    /// How many threads that is: at least 1.
    pub fn count(&self, rounding: Rounding) -> usize {
        rounding.count(self.cpus)
    }

    /// What decides.
    pub fn source(&self) -> &LimitKind {
        &self.binding().kind
    }

    /// The number and the reason in words: `1.5 CPUs: quota 150000/100000 of the parent group /a of
    /// /a/b`. Behind it, after semicolons, is what could not be read.
    pub fn why(&self) -> String {
        let mut why = format!("{}: {}", Cpus(self.cpus), self.source());
        for warning in &self.warnings {
            why.push_str("; ");
            why.push_str(warning);
        }
        why
    }

    /// Every limit that was found, also the limit that decides.
    ///
    /// ```
    /// use manx::cpu::CpuBudget;
    ///
    /// let budget = CpuBudget::now();
    /// for limit in budget.limits() {
    ///     println!("{}{limit}", if limit.binds { "* " } else { "  " });
    /// }
    /// assert!(budget.limits().iter().any(|limit| limit.binds));
    /// ```
    pub fn limits(&self) -> &[Limit] {
        &self.limits
    }

    /// The machine's CPUs that are online, allowed or not; `None` if the kernel does not tell.
    pub fn online(&self) -> Option<&CpuSet> {
        self.limits.iter().find_map(|limit| match &limit.kind {
            LimitKind::Online { cpus } => Some(&**cpus),
            _ => None,
        })
    }

    /// How the process' own group fares against others when CPUs are short, if it says: no limit.
    pub fn weight(&self) -> Option<Weight> {
        self.weight
    }

    /// What could not be read, in words, so that the budget may be less than this says.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn binding(&self) -> &Limit {
        // One binds: see `read`.
        self.limits.iter().find(|it| it.binds).unwrap_or(&self.limits[0])
    }
}

impl fmt::Display for CpuBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why())
    }
}
