//! The control groups to which a process belongs: the lines of `/proc/thread-self/cgroup`, or
//! `/proc/self/cgroup`.
//!
//! ```text
//! 4:cpu,cpuacct:/docker/abc      version 1: number, controllers, group
//! 1:name=systemd:/
//! 0::/user.slice/a:b             the unified hierarchy has no controllers here
//! ```
//!
//! The group is a path below the root of the reader's cgroup namespace. The path of a group outside
//! of that root begins with `/..`. A path may hold colons, spaces and backslashes; nothing is
//! escaped. Only a line end cannot be in the name of a group.

use super::mounts::has_word;

/// A process' group in one hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Membership {
    /// The controllers of a hierarchy of version 1; nothing for the unified one.
    controllers: Vec<u8>,
    /// The path of the group.
    pub(crate) path: Vec<u8>,
}

impl Membership {
    /// Whether this is the unified hierarchy.
    pub(crate) fn is_unified(&self) -> bool {
        self.controllers.is_empty()
    }

    /// Whether this is the version 1 hierarchy of a controller.
    pub(crate) fn controls(&self, controller: &str) -> bool {
        has_word(&self.controllers, controller)
    }
}

/// A process' groups. Lines that make no sense are left out.
pub(crate) fn parse(text: &[u8]) -> Vec<Membership> {
    text.split(|&byte| byte == b'\n').filter_map(line).collect()
}

/// The group of one line; `None` if the line makes no sense.
fn line(line: &[u8]) -> Option<Membership> {
    let mut parts = line.splitn(3, |&byte| byte == b':');
    let number = parts.next()?;
    let controllers = parts.next()?.to_vec();
    let path = parts.next()?.to_vec();
    // A hierarchy of version 1 has controllers or a name in this field. A line with neither would
    // be taken for the unified hierarchy, whose number is 0.
    let makes_sense = number == b"0" || !controllers.is_empty();
    (makes_sense && path.first() == Some(&b'/')).then_some(Membership { controllers, path })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn each_line_is_a_hierarchy_and_its_group() {
        let text = b"5:cpu,cpuacct:/a/b\n4:cpuset:/\n1:name=systemd:/x:y z\\w\n0::/user.slice/a:b\n";
        let found = parse(text);
        let paths: Vec<_> = found.iter().map(|it| String::from_utf8_lossy(&it.path).into_owned()).collect();
        assert_eq!(paths, ["/a/b", "/", "/x:y z\\w", "/user.slice/a:b"]);
        assert!(found[0].controls("cpu") && found[0].controls("cpuacct") && !found[0].controls("cpuset"));
        assert!(found[1].controls("cpuset") && !found[1].controls("cpu"));
        assert!(!found[2].is_unified() && found[3].is_unified());
    }

    #[test]
    fn lines_that_make_no_sense_are_left_out() {
        for text in ["", "\n", "0", "0:", "0::", "0::a", "7::/a", "x:y"] {
            assert_eq!(parse(text.as_bytes()), [], "{text:?}");
        }
    }

    #[test]
    fn a_controller_is_a_whole_word() {
        let found = parse(b"3:cpuset,cpuacct:/a\n2:name=cpu:/b\n");
        assert!(found.iter().all(|it| !it.controls("cpu")));
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text: Vec<u8>, words in "[0-9:/,a-c\n]{0,100}") {
            parse(&text);
            parse(words.as_bytes());
        }

        #[test]
        fn every_path_is_read_back(name: Vec<u8>) {
            let name: Vec<u8> = name.into_iter().filter(|&byte| byte != b'\n').collect();
            let path = [b"/", &name[..]].concat();
            for controllers in [&b""[..], b"cpu,cpuacct"] {
                let found = parse(&[b"0:", controllers, b":", &path[..], b"\n1:name=x:/y\n"].concat());
                prop_assert_eq!(&found[0], &Membership { controllers: controllers.to_vec(), path: path.clone() });
                prop_assert_eq!(found.len(), 2);
            }
        }
    }
}
