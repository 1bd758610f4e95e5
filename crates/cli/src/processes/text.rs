//! The text files of `/proc`, and names that other programs chose.

use std::fmt::Write as _;

/// What `/proc/PID/stat` says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// The name, without control characters
    pub name: String,
    /// Whether it is a thread of the kernel
    pub is_kernel: bool,
    /// How many threads there are
    pub threads: u32,
}

/// `PF_KTHREAD` of the kernel's `sched.h`.
const KERNEL_THREAD: u64 = 0x0020_0000;

impl Stat {
    /// Reads it. The name is in brackets and may itself have some.
    pub fn parse(text: &[u8]) -> Option<Stat> {
        let (begin, end) = (text.iter().position(|&b| b == b'(')?, text.iter().rposition(|&b| b == b')')?);
        let rest = str::from_utf8(text.get(end + 1..)?).ok()?;
        // The first word behind the name is field 3 of proc(5).
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        Some(Stat {
            name: shown(text.get(begin + 1..end)?),
            is_kernel: field(9)? & KERNEL_THREAD != 0,
            threads: field(20)?.try_into().ok()?,
        })
    }
}

/// A name as a terminal may show it: control characters are escaped, so that no program can move
/// the cursor by its name, and so are marks that change the direction of the text.
pub fn shown(bytes: &[u8]) -> String {
    let mut out = String::new();
    for c in String::from_utf8_lossy(bytes).chars() {
        let turns = matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        match c {
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() || turns => write!(out, "{}", c.escape_unicode()).expect("a String"),
            c => out.push(c),
        }
    }
    out
}

/// A command line of `/proc/PID/cmdline`, with spaces between the arguments, of at most `most`
/// bytes.
pub fn command_line(bytes: &[u8], most: usize) -> String {
    let end = bytes.iter().rposition(|&b| b != 0).map_or(0, |last| last + 1).min(most);
    let spaced: Vec<u8> = bytes[..end].iter().map(|&b| if b == 0 { b' ' } else { b }).collect();
    shown(&spaced)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_name_with_brackets_and_spaces_is_read() {
        let fields = "S 1 2 3 0 -1 4194304 5 6 7 8 30 12 0 0 20 0 9 0 100 0 0";
        let stat = Stat::parse(format!("7 (a) b (c) {fields}\n").as_bytes());
        let expected = Stat { name: "a) b (c".into(), is_kernel: false, threads: 9 };
        assert_eq!(stat, Some(expected));
        let kernel = fields.replace("4194304", "69238880");
        assert!(Stat::parse(format!("7 (k) {kernel}").as_bytes()).expect("read").is_kernel);
        assert_eq!(Stat::parse(b"7 (short) S 1"), None);
    }

    #[test]
    fn this_process_is_read() {
        let stat = Stat::parse(&std::fs::read("/proc/self/stat").expect("there")).expect("read");
        assert!(stat.threads >= 1 && !stat.is_kernel && !stat.name.is_empty(), "{stat:?}");
    }

    #[test]
    fn arguments_have_spaces_between_them() {
        assert_eq!(command_line(b"python3\0-c\0print(1)\n\0\0", 99), "python3 -c print(1)\\n");
        assert_eq!(command_line(b"abcdef", 3), "abc");
        assert_eq!(command_line(b"", 3), "");
    }

    proptest! {
        #[test]
        fn no_name_reaches_a_terminal_as_control_sequence(bytes: Vec<u8>) {
            prop_assert!(!shown(&bytes).chars().any(char::is_control));
        }

        #[test]
        fn any_text_is_survived(text: Vec<u8>) {
            let _ = Stat::parse(&text);
        }
    }
}
