//! Where everything that limits a process is written on this machine: the folders of its groups and
//! their ancestors.
//!
//! The controllers `cpu` and `cpuset` may each have a hierarchy of version 1, in which the process
//! has a group of its own, and beside them there may be the unified hierarchy. All that
//! are mounted are looked at: where a controller is not, its files are not there. Of several mounts
//! of one hierarchy the mount that shows the most ancestors is taken, unless something else has
//! been mounted over it.
//!
//! What is masked does not stop the search. Without `/proc/self/cgroup` the process is taken to be
//! in the group at each mount's root, which is so in a container; without `/proc/self/mountinfo`
//! the hierarchies are looked for where they usually are. Both are said.

use super::files::{Files, words};
use super::groups::{self, Below, Place};
use super::membership::{self, Membership};
use super::mounts::{self, Hierarchy, Mount};
use super::search;

/// The groups of the calling thread, and where there is no such file those of the process' first
/// thread. With cgroup v1 that one seems to be in the root group once it has ended, though the
/// others go on.
const MEMBERSHIPS: [&[u8]; 2] = [b"/proc/thread-self/cgroup", b"/proc/self/cgroup"];
const MOUNTS: &[u8] = b"/proc/self/mountinfo";
/// Every group has this file, whatever its controllers are.
const MARK: &str = "cgroup.procs";

/// Where hierarchies usually are: the options of version 1, or nothing for the unified one.
const USUAL: [(&str, &str); 5] = [
    ("", "/sys/fs/cgroup"),
    ("", "/sys/fs/cgroup/unified"),
    ("cpu,cpuacct", "/sys/fs/cgroup/cpu,cpuacct"),
    ("cpu", "/sys/fs/cgroup/cpu"),
    ("cpuset", "/sys/fs/cgroup/cpuset"),
];

/// What `look` makes of the file that says to which groups the calling thread belongs.
///
/// # Errors
/// Those of `look`.
pub(super) fn memberships<T>(look: impl Fn(&[u8]) -> Result<T, i32>) -> Result<T, i32> {
    let [thread, process] = MEMBERSHIPS;
    look(thread).or_else(|_| look(process))
}

/// The folders, each list from the process' own group up to the mount's root.
#[derive(Clone, Debug, Default)]
pub(super) struct Layout {
    /// Groups that may have a quota: of the controller `cpu`, then those of the unified hierarchy.
    pub(super) cpu: Vec<Vec<Place>>,
    /// Groups that may be bound to CPUs, in the same way.
    pub(super) cpuset: Vec<Vec<Place>>,
    /// Whether names of groups had to be searched for: that takes long.
    pub(super) searched: bool,
    /// What could not be found, in words.
    pub(super) warnings: Vec<String>,
}

impl Layout {
    /// Looks for them. `memberships` is what [`memberships`] reads, and `process` the number of the
    /// process in its namespace.
    pub(super) fn find(files: &Files, memberships: &Result<Vec<u8>, i32>, process: u32) -> Layout {
        let mut layout = Layout::default();
        let found = match memberships {
            Ok(text) => membership::parse(text),
            Err(_) => Vec::new(),
        };
        if found.is_empty() {
            let why = memberships.as_ref().err().map_or("is empty".into(), |&error| words(error));
            layout
                .warning(format!("/proc/self/cgroup {why}: the group is taken for the one that is mounted"));
        }
        let mounts = match files.read(MOUNTS) {
            Ok(text) => mounts::parse(&text),
            Err(error) => {
                let why = words(error);
                layout.warning(format!(
                    "/proc/self/mountinfo {why}: groups are looked for where they usually are"
                ));
                usual(files)
            }
        };
        layout.searched = mounts.iter().any(|mount| mount.root.starts_with(b"/.."));
        let search = Search { files, process, mounts: &mounts, memberships: &found };
        let mut of = |(places, warning): (Vec<Place>, Option<String>)| {
            layout.warnings.extend(warning);
            places
        };
        let mut controlled = |name: &str| of(search.places(|it| it.controls(name), |it| it.controls(name)));
        let [cpu, cpuset] = ["cpu", "cpuset"].map(&mut controlled);
        let unified = of(search.places(|it| it == &Hierarchy::V2, Membership::is_unified));
        layout.cpu = vec![cpu, unified.clone()];
        layout.cpuset = vec![cpuset, unified];
        layout
    }

    fn warning(&mut self, warning: String) {
        self.warnings.push(warning);
    }

    /// The folders of all groups that may have a quota.
    pub(super) fn with_quotas(&self) -> impl Iterator<Item = &Place> {
        self.cpu.iter().flatten()
    }
}

fn usual(files: &Files) -> Vec<Mount> {
    let there = USUAL.into_iter().filter(|(_, point)| files.exists(format!("{point}/{MARK}").as_bytes()));
    there
        .map(|(controllers, point)| Mount {
            root: b"/".to_vec(),
            point: point.into(),
            hierarchy: if controllers.is_empty() { Hierarchy::V2 } else { Hierarchy::V1(controllers.into()) },
        })
        .collect()
}

/// A hierarchy that is mounted, and the way to the process' group.
struct Mounted<'a> {
    mount: &'a Mount,
    own: &'a [u8],
    below: Below<'a>,
}

struct Search<'a> {
    files: &'a Files,
    process: u32,
    mounts: &'a [Mount],
    memberships: &'a [Membership],
}

impl<'a> Search<'a> {
    /// The folders of a hierarchy, none if it is not mounted or the process is in none of its
    /// groups; and what is not known.
    fn places(
        &self,
        is_it: impl Fn(&Hierarchy) -> bool,
        is_of_it: impl Fn(&Membership) -> bool,
    ) -> (Vec<Place>, Option<String>) {
        let own = self.memberships.iter().find(|&it| is_of_it(it)).map(|it| &it.path[..]);
        if own.is_none() && !self.memberships.is_empty() {
            return (Vec::new(), None);
        }
        let mounts = || self.mounts.iter().filter(|it| is_it(&it.hierarchy));
        let mut mounted: Vec<Mounted<'a>> = mounts()
            .filter_map(|mount| {
                let own = own.unwrap_or(&mount.root);
                Some(Mounted { mount, own, below: groups::below(own, &mount.root)? })
            })
            .collect();
        mounted.sort_by_key(|one| std::cmp::Reverse(one.below.depth()));
        let is_there = |places: &Vec<Place>| places.iter().any(|it| self.files.exists(&it.file(MARK)));
        let mut first = None;
        for one in &mounted {
            let found = self.chain(one);
            if mounted.len() == 1 || is_there(&found.0) {
                return found;
            }
            first = first.or(Some(found));
        }
        first.unwrap_or_else(|| {
            let warning = mounts().next().map(|mount| {
                let text = String::from_utf8_lossy;
                let (own, root, point) =
                    (text(own.unwrap_or_default()), text(&mount.root), text(&mount.point));
                format!("the group {own} is not below {root}, which is what is mounted at {point}")
            });
            (Vec::new(), warning)
        })
    }

    fn chain(&self, one: &Mounted<'_>) -> (Vec<Place>, Option<String>) {
        let unknown = one.below.unknown;
        let found = match unknown {
            0 => None,
            _ => search::names(self.files, &one.mount.point, &one.below, self.process),
        };
        let warning = (unknown > 0 && found.is_none()).then(|| {
            let point = String::from_utf8_lossy(&one.mount.point);
            format!("which groups below {point} the process is in is not known, and so their quotas are not")
        });
        (groups::places(one.mount, one.own, &one.below, found.as_deref()), warning)
    }
}
