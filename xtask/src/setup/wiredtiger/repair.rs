//! The four repairs of Andreoli and Cucinotta, "Inducing Huge Tail Latency on a MongoDB
//! deployment", section II-B, as a rule that changes the sources of WiredTiger 11.3.1.
//!
//! A thread that takes a snapshot, or looks for the oldest transaction, waits for each session that
//! is allocating a transaction id, with a PAUSE a round. In place of the PAUSE stands:
//!
//! | repair | in its place |
//! | --- | --- |
//! | adaptive | WiredTiger's own `__wt_spin_backoff`: ten rounds, then yields, then sleeps that grow to 1 ms |
//! | yield | a yield |
//! | sleep | a sleep of [`SLEEP_US`] |
//! | block | a sleep on a futex until the session says that it has its id |
//!
//! 1. Nothing is changed but functions whose whole text has the expected hash, so that the rule
//!    never changes what it was not made for.
//! 2. Within such a function lines are replaced, or followed by another line. Each is named by a
//!    text that stands in it and in no other line of the function.
//! 3. Either all files are changed or, if one of them is not as expected, none.
//!
//! *Block.* Each session's shared state gets a word. Its upper bits count the session's
//! allocations, and its thread alone changes them; its lowest bit says that threads sleep. A
//! waiter sets the bit, looks again at the flag `is_allocating`, and sleeps only while the word
//! is as it left it. The session's thread clears the flag, then exchanges the word for the next
//! count without the bit, and wakes all sleepers if the bit was set. Both change the word by one
//! atomic operation with acquire and release. If the waiter's is the later one, it sees the
//! cleared flag, or that of a later allocation, whose end changes the word once more. If it is
//! the earlier one, the exchange finds the bit, and a waiter that is not asleep yet finds another
//! word. So no wake-up is lost.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use crate::outcome::Result;

/// The fixed sleep in µs. With a thread's usual timer slack it takes twice as long.
const SLEEP_US: u32 = 50;

/// In the loop that waits.
const PAUSE: &str = "WT_PAUSE();";
/// The head of the loop over all sessions, around it.
const SESSIONS: &str = "for (i = 0, s = ";
/// Where the type of a session's shared state has its flag.
const FLAG: &str = "is_allocating;";
/// Where the flag is cleared.
const ALLOCATED: &str = "is_allocating, false);";

/// The two sides of *block*.
const BLOCK: &str = r"
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Manx: sleep until the session has ended the allocation that it is in, if it is in one. */
static inline void
manx_wait(struct __wt_txn_shared *s)
{
    uint32_t word = __atomic_fetch_or(&s->manx_word, 1, __ATOMIC_ACQ_REL) | 1;
    if (__atomic_load_n(&s->is_allocating, __ATOMIC_ACQUIRE))
        (void)syscall(SYS_futex, &s->manx_word, FUTEX_WAIT_PRIVATE, word, NULL, NULL, 0);
}

/* Manx: the session, whose thread calls this, has ended an allocation. */
static inline void
manx_wake(struct __wt_txn_shared *s)
{
    uint32_t next = (__atomic_load_n(&s->manx_word, __ATOMIC_RELAXED) | 1) + 1;
    if (__atomic_exchange_n(&s->manx_word, next, __ATOMIC_ACQ_REL) & 1)
        (void)syscall(SYS_futex, &s->manx_word, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}";

/// A repair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repair {
    /// Spin, then yield, then sleep
    Adaptive,
    /// Yield
    Yield,
    /// Sleep for a fixed time
    Sleep,
    /// Sleep until woken
    Block,
}

/// A change of one function, or of one type.
#[derive(Debug)]
struct Edit {
    /// The file, below the package's folder
    file: &'static str,
    /// The beginning of its first line; its last line is the next one that begins with a brace
    head: &'static str,
    /// [`hash`] of its lines
    hash: u64,
    changes: Vec<Change>,
    /// Text behind it
    behind: &'static str,
}

/// A change at the one line that contains a text.
#[derive(Clone, Debug)]
enum Change {
    /// The line is replaced
    Instead { at: &'static str, line: String },
    /// A line follows
    After { at: &'static str, line: String },
}

impl Repair {
    /// All of them.
    pub const ALL: [Repair; 4] = [Repair::Adaptive, Repair::Yield, Repair::Sleep, Repair::Block];

    /// The folder of the library.
    pub fn folder(self) -> &'static str {
        match self {
            Repair::Adaptive => "repaired-adaptive",
            Repair::Yield => "repaired-yield",
            Repair::Sleep => "repaired-sleep",
            Repair::Block => "repaired-block",
        }
    }

    /// Changes the sources in a folder. Returns the files that it changed, with the text that each
    /// had before.
    ///
    /// # Errors
    /// If they are not those that the repair is for, or cannot be read or written.
    pub fn apply(self, sources: &Path) -> Result<Vec<(PathBuf, String)>> {
        apply(&self.edits(), sources)
    }

    /// The change, as text: when this differs, the libraries are built anew.
    pub fn describe(self) -> String {
        format!("{:?}", self.edits())
    }

    fn edits(self) -> Vec<Edit> {
        let wait = match self {
            Repair::Adaptive => "__wt_spin_backoff(&manx_rounds, &manx_sleep_us);".to_owned(),
            Repair::Yield => "__wt_yield();".to_owned(),
            Repair::Sleep => format!("__wt_sleep(0, {SLEEP_US});"),
            Repair::Block => "manx_wait(s);".to_owned(),
        };
        let mut changes = vec![Change::Instead { at: PAUSE, line: wait }];
        if self == Repair::Adaptive {
            // Each session that is waited for is another wait.
            let line = "uint64_t manx_rounds = 0, manx_sleep_us = 0;".into();
            changes.push(Change::After { at: SESSIONS, line });
        }
        let scan =
            |head, hash| Edit { file: "src/txn/txn.c", head, hash, changes: changes.clone(), behind: "" };
        let mut edits = vec![
            scan("__txn_get_snapshot_int(", 0x9cd5_f694_51e3_8b97),
            scan("__txn_oldest_scan(", 0xed31_16bf_fc7e_6e5c),
        ];
        if self == Repair::Block {
            edits.push(Edit {
                file: "src/include/txn.h",
                head: "struct __wt_txn_shared {",
                hash: 0x11e9_e86c_a4a4_2d62,
                changes: vec![Change::After { at: FLAG, line: "uint32_t manx_word;".into() }],
                behind: BLOCK,
            });
            edits.push(Edit {
                file: "src/include/txn_inline.h",
                head: "__wt_txn_id_alloc(",
                hash: 0x9893_a9de_7871_bb62,
                changes: vec![Change::After { at: ALLOCATED, line: "manx_wake(txn_shared);".into() }],
                behind: "",
            });
        }
        edits
    }
}

fn apply(edits: &[Edit], sources: &Path) -> Result<Vec<(PathBuf, String)>> {
    let (mut before, mut changed) = (Vec::new(), BTreeMap::new());
    for edit in edits {
        let path = sources.join(edit.file);
        let text = match changed.remove(&path) {
            Some(text) => text,
            None => {
                let text = fs::read_to_string(&path).map_err(|why| format!("{}: {why}", path.display()))?;
                before.push((path.clone(), text.clone()));
                text
            }
        };
        changed.insert(path, edit.apply(&text)?);
    }
    for (path, text) in changed {
        fs::write(&path, text).map_err(|why| format!("{}: {why}", path.display()))?;
    }
    Ok(before)
}

impl Edit {
    /// The text of the file after the change.
    fn apply(&self, text: &str) -> Result<String> {
        let Edit { file, head, .. } = self;
        let name = head.trim_end_matches(['(', '{', ' ']);
        let refused = |why: &str| {
            Err(format!(
                "{file}: `{name}` {why}, so this is not the WiredTiger that the repair is for: see \
                 xtask/src/setup/wiredtiger/repair.rs"
            ))
        };
        let lines: Vec<&str> = text.lines().collect();
        let heads: Vec<usize> = (0..lines.len()).filter(|&at| lines[at].starts_with(head)).collect();
        let &[begin] = &heads[..] else {
            return refused(&format!("is there {} times and not once", heads.len()));
        };
        let Some(length) = lines[begin..].iter().position(|line| line.starts_with('}')) else {
            return refused("has no end");
        };
        let end = begin + length + 1;
        let found = hash(&lines[begin..end]);
        if found != self.hash {
            return refused(&format!("has the hash {found:#x} and not {:#x}", self.hash));
        }
        let mut function: Vec<String> = lines[begin..end].iter().map(|&line| line.into()).collect();
        for change in &self.changes {
            let (Change::Instead { at, line } | Change::After { at, line }) = change;
            let places: Vec<usize> = (0..function.len()).filter(|&n| function[n].contains(at)).collect();
            let &[place] = &places[..] else {
                return refused(&format!("has {} lines with `{at}` and not one", places.len()));
            };
            let indent: String = function[place].chars().take_while(|c| c.is_whitespace()).collect();
            match change {
                Change::Instead { .. } => function[place] = format!("{indent}{line}"),
                Change::After { .. } => function.insert(place + 1, format!("{indent}{line}")),
            }
        }
        let mut all = String::new();
        let function = function.iter().map(String::as_str);
        let behind = self.behind.lines();
        for line in
            lines[..begin].iter().copied().chain(function).chain(behind).chain(lines[end..].iter().copied())
        {
            // Writing to a string cannot fail.
            let _ = writeln!(all, "{line}");
        }
        Ok(all)
    }
}

/// FNV-1a of the lines, each with its end.
fn hash(lines: &[&str]) -> u64 {
    let bytes = lines.iter().flat_map(|line| line.bytes().chain([b'\n']));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "\
/* A file. */
static int
waits(int *flag)
{
    for (i = 0, s = flag; i < 1; i++) {
        while (*s)
            WT_PAUSE();
    }
}

static void
other(void)
{
    WT_PAUSE();
}
";

    fn edit(hash: u64, changes: Vec<Change>) -> Edit {
        Edit { file: "a.c", head: "waits(", hash, changes, behind: "\n/* Behind. */" }
    }

    fn changes() -> Vec<Change> {
        vec![
            Change::Instead { at: PAUSE, line: "sleep();".into() },
            Change::After { at: SESSIONS, line: "int rounds = 0;".into() },
        ]
    }

    /// The hash of the function in [`SOURCE`].
    fn known() -> u64 {
        hash(&SOURCE.lines().collect::<Vec<_>>()[2..9])
    }

    #[test]
    fn one_function_is_changed_and_nothing_else() {
        let expected = SOURCE
            .replacen("            WT_PAUSE();", "            sleep();", 1)
            .replace("i++) {\n", "i++) {\n    int rounds = 0;\n")
            .replacen("}\n\nstatic", "}\n\n/* Behind. */\n\nstatic", 1);
        assert_eq!(edit(known(), changes()).apply(SOURCE).unwrap(), expected);
    }

    #[test]
    fn a_changed_source_is_refused_with_its_name() {
        let refusal = |text: &str| edit(known(), changes()).apply(text).unwrap_err();
        for (text, words) in [
            (SOURCE.replace("i < 1", "i < 2"), "has the hash 0x"),
            (SOURCE.replace("waits", "rests"), "is there 0 times"),
            (format!("{SOURCE}{SOURCE}"), "is there 2 times"),
            (SOURCE.replace("\n}", "\n }"), "has no end"),
        ] {
            let refusal = refusal(&text);
            assert!(refusal.contains(words), "{refusal}");
            assert!(refusal.starts_with("a.c: `waits` ") && refusal.contains("repair.rs"), "{refusal}");
        }
        let nowhere = vec![Change::After { at: "no such text", line: String::new() }];
        let refusal = edit(known(), nowhere).apply(SOURCE).unwrap_err();
        assert!(refusal.contains("has 0 lines with `no such text`"), "{refusal}");
    }

    #[test]
    fn no_file_is_changed_if_one_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a.c"), SOURCE).unwrap();
        let second = Edit { head: "other(", ..edit(1, Vec::new()) };
        assert!(apply(&[edit(known(), changes()), second], folder.path()).is_err());
        assert_eq!(fs::read_to_string(folder.path().join("a.c")).unwrap(), SOURCE);
        let before = apply(&[edit(known(), changes())], folder.path()).unwrap();
        assert_eq!(before, [(folder.path().join("a.c"), SOURCE.to_owned())]);
        assert_ne!(fs::read_to_string(folder.path().join("a.c")).unwrap(), SOURCE);
        let missing = Repair::Yield.apply(folder.path()).unwrap_err();
        assert!(missing.contains("txn.c"), "{missing}");
    }

    #[test]
    fn each_repair_waits_in_its_own_way_at_both_loops() {
        let mut texts: Vec<String> = Repair::ALL.map(Repair::describe).into();
        for repair in Repair::ALL {
            let loops = repair.edits().into_iter().filter(|edit| edit.file.ends_with("txn.c"));
            assert_eq!(loops.count(), 2, "{repair:?}");
        }
        texts.sort();
        texts.dedup();
        assert_eq!(texts.len(), Repair::ALL.len());
    }
}
