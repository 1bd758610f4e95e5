//! Where the hierarchies of groups are mounted: the lines of `/proc/self/mountinfo` that are about
//! cgroups.
//!
//! ```text
//! 32 31 0:29 /docker/abc /sys/fs/cgroup/cpu,cpuacct ro,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
//!            root        point                      options     optional   type   source options of the hierarchy
//! ```
//!
//! The *root* is the group that the mount shows at its point: `/` for the whole hierarchy, another
//! group for a bind mount, and `/..` and so on if it is above the root of the reader's cgroup
//! namespace. The kernel writes spaces, tabs, line ends and backslashes in paths as three octal
//! digits. Controllers are whole words between commas: `cpuset` is not `cpu`.

/// A hierarchy of groups that is mounted somewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mount {
    /// The group that stands at the point.
    pub(super) root: Vec<u8>,
    /// Where.
    pub(super) point: Vec<u8>,
    /// Which hierarchy.
    pub(super) hierarchy: Hierarchy,
}

/// Which hierarchy a mount shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Hierarchy {
    /// A hierarchy of version 1, with its options, controllers among them.
    V1(Vec<u8>),
    /// The unified one.
    V2,
}

impl Hierarchy {
    /// Whether this is the version 1 hierarchy of a controller.
    pub(super) fn controls(&self, controller: &str) -> bool {
        matches!(self, Hierarchy::V1(words) if has_word(words, controller))
    }
}

/// Whether a word is in a list with commas.
pub(super) fn has_word(list: &[u8], word: &str) -> bool {
    list.split(|&byte| byte == b',').any(|it| it == word.as_bytes())
}

/// The mounts of cgroups, in the kernel's order. Lines that make no sense are left out.
pub(super) fn parse(text: &[u8]) -> Vec<Mount> {
    text.split(|&byte| byte == b'\n').filter_map(line).collect()
}

fn line(line: &[u8]) -> Option<Mount> {
    let mut words = line.split(|&byte| byte == b' ');
    let root = unescape(words.nth(3)?);
    let point = unescape(words.next()?);
    // Behind the mount's options come optional words, as many as there are, up to a hyphen.
    let mut words = words.skip(1).skip_while(|&word| word != b"-").skip(1);
    let kind = words.next()?;
    let options = words.nth(1).unwrap_or_default();
    let hierarchy = match kind {
        b"cgroup" => Hierarchy::V1(options.trim_ascii().to_vec()),
        b"cgroup2" => Hierarchy::V2,
        _ => return None,
    };
    (root.first() == Some(&b'/') && point.first() == Some(&b'/')).then_some(Mount { root, point, hierarchy })
}

/// Three octal digits behind a backslash are a byte.
fn unescape(word: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(word.len());
    let mut rest = word;
    while let [first, others @ ..] = rest {
        rest = others;
        bytes.push(match others {
            [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', behind @ ..] if *first == b'\\' => {
                rest = behind;
                (a - b'0') << 6 | (b - b'0') << 3 | (c - b'0')
            }
            _ => *first,
        });
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn mount(root: &str, point: &str, hierarchy: Hierarchy) -> Mount {
        Mount { root: root.into(), point: point.into(), hierarchy }
    }

    #[test]
    fn cgroups_are_found_among_the_mounts() {
        let text = b"\
22 1 0:21 / /sys rw - sysfs sysfs rw
32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
33 31 0:30 /docker/abc /sys/fs/cgroup/cpu,cpuacct ro shared:9 master:3 - cgroup cgroup rw,cpu,cpuacct
41 31 0:38 /../.. /sys/fs/cgroup/unified rw shared:4 - cgroup2 none rw,nsdelegate
42 31 0:40 / /a\\040b\\011\\134c rw - cgroup2 cgroup2 rw
";
        let found = parse(text);
        assert_eq!(
            found,
            [
                mount("/", "/sys/fs/cgroup/cpu", Hierarchy::V1(b"rw,cpu".to_vec())),
                mount("/docker/abc", "/sys/fs/cgroup/cpu,cpuacct", Hierarchy::V1(b"rw,cpu,cpuacct".to_vec())),
                mount("/../..", "/sys/fs/cgroup/unified", Hierarchy::V2),
                mount("/", "/a b\t\\c", Hierarchy::V2),
            ]
        );
        assert!(found[1].hierarchy.controls("cpu") && found[1].hierarchy.controls("cpuacct"));
        assert!(!found[2].hierarchy.controls("cpu"));
    }

    #[test]
    fn a_controller_is_a_whole_word() {
        for (options, controls) in [
            ("rw,cpu", true),
            ("rw,cpu,cpuacct", true),
            ("rw,cpuacct,cpu", true),
            ("cpu", true),
            ("rw,cpuacct", false),
            ("rw,cpuset", false),
            ("rw,xcpu", false),
            ("rw,name=cpu", false),
            ("", false),
        ] {
            assert_eq!(Hierarchy::V1(options.into()).controls("cpu"), controls, "{options:?}");
        }
    }

    #[test]
    fn lines_that_make_no_sense_are_left_out() {
        for text in [
            "",
            "\n\n",
            "1 2 3",
            "1 2 3 / /p rw",
            "1 2 3 / /p rw - ",
            "1 2 3 r /p rw - cgroup2 c rw",
            " - cgroup2",
        ] {
            assert_eq!(parse(text.as_bytes()), [], "{text:?}");
        }
        // No options behind the source: the unified hierarchy needs none.
        assert_eq!(parse(b"1 2 3 / /p rw - cgroup2"), [mount("/", "/p", Hierarchy::V2)]);
    }

    #[test]
    fn text_that_only_looks_like_an_escape_stays() {
        for (word, text) in
            [("\\04", "\\04"), ("\\049", "\\049"), ("\\400", "\\400"), ("\\", "\\"), ("\\\\040", "\\ ")]
        {
            assert_eq!(unescape(word.as_bytes()), text.as_bytes(), "{word:?}");
        }
    }

    /// As the kernel writes a path there.
    fn escape(path: &[u8]) -> Vec<u8> {
        let escaped = |&byte: &u8| match byte {
            b' ' | b'\t' | b'\n' | b'\\' => format!("\\{byte:03o}").into_bytes(),
            _ => vec![byte],
        };
        path.iter().flat_map(escaped).collect()
    }

    proptest! {
        #[test]
        fn no_text_is_too_much(text: Vec<u8>, words in "[-/ ,:a-c0-9\\\\\n]{0,200}") {
            parse(&text);
            parse(words.as_bytes());
            parse(&[b"1 2 0:3 / /m rw - cgroup cgroup ", &text[..]].concat());
        }

        #[test]
        fn every_path_is_read_back(root: Vec<u8>, point: Vec<u8>, optional in 0..3_usize) {
            let [root, point] = [root, point].map(|path| [b"/", &path[..]].concat());
            let optional = b"shared:1 ".repeat(optional);
            let line = [b"1 2 0:3 ", &escape(&root)[..], b" ", &escape(&point), b" rw ", &optional, b"- cgroup2 c rw\n"];
            prop_assert_eq!(parse(&line.concat()), [Mount { root, point, hierarchy: Hierarchy::V2 }]);
        }
    }
}
