//! From the group of a process to the folders in which it and its ancestors stand.
//!
//! A mount shows the group *root* at its point, and a process is in the group *own*; both are
//! written from the root of the reader's cgroup namespace. So what stands between the two is the
//! path from the one to the other:
//!
//! | own | root | below the point | |
//! | --- | --- | --- | --- |
//! | `/a/b` | `/` | `a/b` | the whole hierarchy is mounted |
//! | `/docker/abc` | `/docker/abc` | | a container's own group, as a bind mount |
//! | `/` | `/` | | a cgroup namespace, and a mount that was made in it |
//! | `/` | `/../..` | two groups, of unknown names | a cgroup namespace, and a mount from outside of it |
//! | `/../x/y` | `/..` | `x/y` | the process is outside of the namespace, beside its root |
//! | `/a` | `/b` | not there | another group's mount |
//!
//! Every group from the process' own up to the mount's root is an ancestor whose quota holds for
//! the process. No process inside can see ancestors above the mount's root.

use super::mounts::Mount;
use std::fmt;

/// A group of processes, and where it stands above the process' own.
///
/// ```
/// let budget = manx::cpu::CpuBudget::now();
/// for limit in budget.limits() {
///     if let Some(group) = limit.kind.group() {
///         assert_eq!(group.levels_up == 0, group.path == group.own);
///     }
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The group, as `/proc/self/cgroup` would write it.
    pub path: String,
    /// The process' own group.
    pub own: String,
    /// How many levels the group is above the process' own: 0 if it is its own.
    pub levels_up: usize,
    /// Whether the group is in the unified hierarchy (cgroup v2).
    pub unified: bool,
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.levels_up {
            0 => write!(f, "the group {}", self.path),
            1 => write!(f, "the parent group {} of {}", self.path, self.own),
            levels => write!(f, "the group {}, {levels} levels above {}", self.path, self.own),
        }
    }
}

/// A group and its folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) folder: Vec<u8>,
    pub(super) group: Group,
}

impl Place {
    /// The path of one of the group's files.
    pub(super) fn file(&self, name: &str) -> Vec<u8> {
        [&self.folder[..], b"/", name.as_bytes()].concat()
    }
}

/// What stands between a mount's root and a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Below<'a> {
    /// The number of groups whose names are not known …
    pub(super) unknown: usize,
    /// … and below them these.
    pub(super) names: Vec<&'a [u8]>,
}

impl Below<'_> {
    /// How many groups there are between.
    pub(super) fn depth(&self) -> usize {
        self.unknown + self.names.len()
    }
}

fn names(path: &[u8]) -> Vec<&[u8]> {
    path.split(|&byte| byte == b'/').filter(|name| !name.is_empty() && name != b".").collect()
}

/// What stands between a mount's root and a group, if the group is below it.
pub(super) fn below<'a>(own: &'a [u8], root: &[u8]) -> Option<Below<'a>> {
    let (own, root) = (names(own), names(root));
    let alike = own.iter().zip(&root).take_while(|(one, other)| one == other).count();
    let unknown = &root[alike..];
    // What is left of the root leads further up from there, or to somewhere else. Below `..` there
    // is no way back.
    let up = unknown.iter().all(|name| name == b"..") && own[..alike].iter().all(|name| name == b"..");
    let down = own[alike..].iter().all(|name| name != b"..");
    (down && (unknown.is_empty() || up))
        .then(|| Below { unknown: unknown.len(), names: own[alike..].to_vec() })
}

/// The folders of a group and of its ancestors, from the group itself up to the mount's root.
/// `found` are the names of the groups whose names are not known; without them, what is below them
/// is left out.
pub(super) fn places(mount: &Mount, own: &[u8], below: &Below<'_>, found: Option<&[Vec<u8>]>) -> Vec<Place> {
    let unified = mount.hierarchy == super::mounts::Hierarchy::V2;
    let known = match found {
        Some(found) => found.iter().map(Vec::as_slice).chain(below.names.iter().copied()).collect(),
        None if below.unknown > 0 => Vec::new(),
        None => below.names.clone(),
    };
    let mut folder = mount.point.clone();
    while folder.last() == Some(&b'/') {
        folder.pop();
    }
    let mut places = Vec::with_capacity(known.len() + 1);
    for depth in 0..=known.len() {
        if let Some(name) = depth.checked_sub(1).and_then(|at| known.get(at)) {
            folder.push(b'/');
            folder.extend_from_slice(name);
        }
        let levels_up = below.depth() - depth;
        let group = Group { path: ancestor(own, levels_up), own: ancestor(own, 0), levels_up, unified };
        places.push(Place { folder: folder.clone(), group });
    }
    places.reverse();
    places
}

/// Returns the group that is `levels_up` levels above, as `/proc/self/cgroup` would write it.
fn ancestor(own: &[u8], levels_up: usize) -> String {
    let mut names = names(own);
    for _ in 0..levels_up {
        match names.last() {
            Some(name) if name != b".." => drop(names.pop()),
            _ => names.push(b".."),
        }
    }
    let text: String = names.iter().flat_map(|name| ["/".into(), String::from_utf8_lossy(name)]).collect();
    if text.is_empty() { "/".into() } else { text }
}

#[cfg(test)]
mod tests {
    use super::super::mounts::Hierarchy;
    use super::*;
    use proptest::prelude::*;

    fn between(own: &str, root: &str) -> Option<(usize, String)> {
        let below = below(own.as_bytes(), root.as_bytes())?;
        Some((below.unknown, String::from_utf8(below.names.join(&b'/')).expect("text")))
    }

    #[test]
    fn the_way_from_a_mounts_root_to_a_group() {
        for (own, root, way) in [
            ("/", "/", Some((0, ""))),
            ("/a/b", "/", Some((0, "a/b"))),
            ("/a/b", "/a", Some((0, "b"))),
            ("/docker/abc", "/docker/abc", Some((0, ""))),
            ("/", "/..", Some((1, ""))),
            ("/", "/../..", Some((2, ""))),
            ("/a", "/../..", Some((2, "a"))),
            ("/../x/y", "/..", Some((0, "x/y"))),
            ("/../x", "/../..", Some((1, "x"))),
            ("/../x", "/../x", Some((0, ""))),
            ("/a", "/b", None),
            ("/ab", "/a", None),
            ("/", "/a", None),
            ("/../x", "/", None),
            ("/../../x", "/..", None),
            ("/", "/../x", None),
            ("/a", "/a/..", None),
        ] {
            assert_eq!(between(own, root), way.map(|(unknown, way)| (unknown, way.into())), "{own} {root}");
        }
    }

    fn shown(own: &str, root: &str, found: Option<&[Vec<u8>]>) -> Vec<String> {
        let mount = Mount { root: root.into(), point: "/m".into(), hierarchy: Hierarchy::V2 };
        let below = below(own.as_bytes(), root.as_bytes()).expect("below");
        let places = places(&mount, own.as_bytes(), &below, found);
        let text = |it: &Place| format!("{}: {}", String::from_utf8_lossy(&it.folder), it.group);
        places.iter().map(text).collect()
    }

    #[test]
    fn every_ancestor_up_to_the_mounts_root_has_its_folder() {
        assert_eq!(shown("/", "/", None), ["/m: the group /"]);
        assert_eq!(
            shown("/a/b", "/", None),
            [
                "/m/a/b: the group /a/b",
                "/m/a: the parent group /a of /a/b",
                "/m: the group /, 2 levels above /a/b"
            ]
        );
        assert_eq!(shown("/a/b", "/a/b", None), ["/m: the group /a/b"]);
        assert_eq!(
            shown("/../x", "/..", None),
            ["/m/x: the group /../x", "/m: the parent group /.. of /../x"]
        );
    }

    #[test]
    fn above_a_namespace_names_have_to_be_found() {
        assert_eq!(shown("/a", "/../..", None), ["/m: the group /../.., 3 levels above /a"]);
        assert_eq!(
            shown("/a", "/..", Some(&[b"p".to_vec()])),
            [
                "/m/p/a: the group /a",
                "/m/p: the parent group / of /a",
                "/m: the group /.., 2 levels above /a"
            ]
        );
    }

    proptest! {
        #[test]
        fn every_path_is_below_a_root_or_not(own in "(/(\\.\\.|a|b)){0,5}", root in "(/(\\.\\.|a|b)){0,5}") {
            if let Some(below) = below(own.as_bytes(), root.as_bytes()) {
                let places = shown(&own, &root, None);
                prop_assert!(!places.is_empty() && places.len() <= below.depth() + 1);
                prop_assert!(places[places.len() - 1].starts_with("/m: "));
            }
        }

        #[test]
        fn a_group_is_below_its_ancestors(own in "(/[a-c]{1,2}){0,6}", up in 0..7_usize) {
            let names = names(own.as_bytes());
            let kept = names.len().saturating_sub(up);
            let root = names[..kept].iter().fold(Vec::new(), |path, name| [&path[..], b"/", name].concat());
            let below = below(own.as_bytes(), &root).expect("below an ancestor");
            prop_assert_eq!((below.unknown, below.names.as_slice()), (0, &names[kept..]));
        }
    }
}
