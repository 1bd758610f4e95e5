//! Where everything that limits a process is written on this machine: the folders of its groups and their ancestors.
//!
//! The controllers `cpu`, `cpuset` and `cpuacct` may each have a hierarchy of version 1, in which the process has a group of its
//! own, and beside them there may be the unified hierarchy. All that are mounted are looked at: where a controller is not, its
//! files are not there. Of several mounts of one hierarchy the one that shows the most ancestors is taken, unless something
//! else has been mounted over it.
//!
//! What is masked does not stop the search. Without `/proc/self/cgroup` the process is taken to be in the group at each mount's
//! root, which is so in a container; without `/proc/self/mountinfo` the hierarchies are looked for where they usually are. Both are said.

use super::files::{Files, words};
use super::groups::{self, Below, Place};
use super::membership::{self, Membership};
use super::mounts::{self, Hierarchy, Mount};

/// The groups of the calling process.
pub(super) const MEMBERSHIPS: &[u8] = b"/proc/self/cgroup";
const MOUNTS: &[u8] = b"/proc/self/mountinfo";
/// Every group has this file, whatever its controllers are.
const MARK: &str = "cgroup.procs";

/// Where hierarchies usually are: the options of version 1, or nothing for the unified one.
const USUAL: [(&str, &str); 6] = [
    ("", "/sys/fs/cgroup"),
    ("", "/sys/fs/cgroup/unified"),
    ("cpu,cpuacct", "/sys/fs/cgroup/cpu,cpuacct"),
    ("cpu", "/sys/fs/cgroup/cpu"),
    ("cpuset", "/sys/fs/cgroup/cpuset"),
    ("cpuacct", "/sys/fs/cgroup/cpuacct"),
];

/// The folders, each list from the process' own group up to the mount's root.
#[derive(Clone, Debug, Default)]
pub(super) struct Layout {
    /// Groups that may have a quota: of the controller `cpu`, then those of the unified hierarchy.
    pub(super) cpu: Vec<Vec<Place>>,
    /// Groups that may be bound to CPUs, in the same way.
    pub(super) cpuset: Vec<Vec<Place>>,
    /// Groups of `cpuacct` of version 1.
    pub(super) cpuacct: Vec<Place>,
    /// What could not be found, in words.
    pub(super) doubts: Vec<String>,
}

impl Layout {
    /// Looks for them. `memberships` is what [`MEMBERSHIPS`] says.
    pub(super) fn find(files: &Files, memberships: &Result<Vec<u8>, i32>) -> Layout {
        let mut layout = Layout::default();
        let found = match memberships {
            Ok(text) => membership::parse(text),
            Err(_) => Vec::new(),
        };
        if found.is_empty() {
            let why = memberships.as_ref().err().map_or("is empty".into(), |&error| words(error));
            layout.doubt(format!("/proc/self/cgroup {why}: the group is taken for the one that is mounted"));
        }
        let mounts = match files.read(MOUNTS) {
            Ok(text) => mounts::parse(&text),
            Err(error) => {
                let why = words(error);
                layout.doubt(format!(
                    "/proc/self/mountinfo {why}: groups are looked for where they usually are"
                ));
                usual(files)
            }
        };
        let search = Search { files, mounts: &mounts, memberships: &found };
        let unified = search.places(|mount| mount == &Hierarchy::V2, Membership::is_unified);
        let mut of = |controller: &str| {
            let places = search
                .places(|mount| mount.controls(controller), |membership| membership.controls(controller));
            places.unwrap_or_else(|doubt| {
                layout.doubts.push(doubt);
                Vec::new()
            })
        };
        (layout.cpu, layout.cpuset, layout.cpuacct) = (vec![of("cpu")], vec![of("cpuset")], of("cpuacct"));
        match unified {
            Ok(places) => {
                layout.cpu.push(places.clone());
                layout.cpuset.push(places);
            }
            Err(doubt) => layout.doubt(doubt),
        }
        layout
    }

    fn doubt(&mut self, doubt: String) {
        self.doubts.push(doubt);
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

struct Search<'a> {
    files: &'a Files,
    mounts: &'a [Mount],
    memberships: &'a [Membership],
}

impl Search<'_> {
    /// The folders of a hierarchy: empty if it is not mounted or the process is in none of its groups.
    ///
    /// # Errors
    /// It is mounted, but the process' group is not below any of its mounts.
    fn places(
        &self,
        is_it: impl Fn(&Hierarchy) -> bool,
        is_of_it: impl Fn(&Membership) -> bool,
    ) -> Result<Vec<Place>, String> {
        let own = self.memberships.iter().find(|&it| is_of_it(it)).map(|it| &it.path[..]);
        if own.is_none() && !self.memberships.is_empty() {
            return Ok(Vec::new());
        }
        let mounts: Vec<&Mount> = self.mounts.iter().filter(|it| is_it(&it.hierarchy)).collect();
        let with_way = |&mount: &&'_ Mount| {
            let own = own.unwrap_or(&mount.root).to_vec();
            groups::below(&own, &mount.root)?;
            Some((mount.clone(), own))
        };
        let mut candidates: Vec<(Mount, Vec<u8>)> = mounts.iter().filter_map(with_way).collect();
        candidates.sort_by_key(|(mount, own)| {
            let depth = groups::below(own, &mount.root).map_or(0, |below| below.depth());
            std::cmp::Reverse(depth)
        });
        let all: Vec<Vec<Place>> = candidates.iter().map(|(mount, own)| self.chain(mount, own)).collect();
        let alive = all.iter().position(|places| places.iter().any(|it| self.files.exists(&it.file(MARK))));
        match all.into_iter().nth(alive.unwrap_or(0)) {
            Some(places) => Ok(places),
            None => match mounts.first() {
                Some(mount) => Err(format!(
                    "the group {} is not below {}, which is what is mounted at {}",
                    String::from_utf8_lossy(own.unwrap_or_default()),
                    String::from_utf8_lossy(&mount.root),
                    String::from_utf8_lossy(&mount.point),
                )),
                None => Ok(Vec::new()),
            },
        }
    }

    fn chain(&self, mount: &Mount, own: &[u8]) -> Vec<Place> {
        let nowhere = Below { unknown: 0, names: Vec::new() };
        let below = groups::below(own, &mount.root).unwrap_or(nowhere);
        groups::places(mount, own, &below, None)
    }
}
