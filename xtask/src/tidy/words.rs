//! Words that have no place in what is finished: marks of work left undone, tests that do not run,
//! and paths of somebody's machine.

use super::finding::Finding;
use super::tree::File;

/// A word, or a piece of text, and what to do about it.
struct Banned {
    text: &'static str,
    /// It counts only where no letter, digit or underscore stands before or behind it.
    whole: bool,
    remedy: &'static str,
}

const fn word(text: &'static str, remedy: &'static str) -> Banned {
    Banned { text, whole: true, remedy }
}

const fn piece(text: &'static str, remedy: &'static str) -> Banned {
    Banned { text, whole: false, remedy }
}

const FINISH: &str = "finish it, or take it out and say in the changelog what is not there";
const SPEAK: &str = "say it in a result or an error, or take it out";
const RUN: &str = "let it run, or say at run time why it cannot run here";
const OWN: &str = "use a path below the root, or a temporary folder";

/// Written in two halves, so that this file does not find itself.
const BANNED: [Banned; 12] = [
    word(concat!("TO", "DO"), FINISH),
    word(concat!("FIX", "ME"), FINISH),
    word(concat!("XX", "X"), FINISH),
    piece(concat!("to", "do!("), FINISH),
    piece(concat!("unimple", "mented!("), FINISH),
    piece(concat!("db", "g!("), SPEAK),
    piece(concat!("#[ign", "ore"), RUN),
    piece(concat!("```ign", "ore"), RUN),
    piece(concat!("/wo", "rk/"), OWN),
    piece(concat!("/ho", "me/"), OWN),
    piece(concat!("/ro", "ot/"), OWN),
    piece(concat!("/Us", "ers/"), OWN),
];

/// Finds banned words.
pub fn check(file: &File) -> Vec<Finding> {
    if file.path == "Cargo.lock" {
        return Vec::new();
    }
    let on_line = |(number, line): (usize, &str)| {
        let here = BANNED.iter().filter(|banned| banned.is_in(line));
        here.map(|banned| Finding::new(&file.path, number, format!("`{}`", banned.text), banned.remedy))
            .collect::<Vec<_>>()
    };
    file.lines().flat_map(on_line).chain(file.lines().filter_map(|line| riddle(file, line))).collect()
}

/// A sentence that begins with a question word in place of its subject, in a comment or in
/// Markdown.
fn riddle(file: &File, (number, line): (usize, &str)) -> Option<Finding> {
    let prose = match file.extension() {
        "md" => line.trim_start(),
        "rs" | "c" | "h" | "cpp" | "hpp" => {
            line.trim_start().strip_prefix("//")?.trim_start_matches(['/', '!'])
        }
        _ => return None,
    };
    let is_one = |word: &str| {
        let begins = prose.trim_start().strip_prefix(word).is_some_and(|rest| rest.starts_with(' '));
        begins || prose.contains(&format!(". {word} "))
    };
    let word = ["Who", "Whoever", "Whom"].into_iter().find(|word| is_one(word))?;
    let what = format!("a sentence that begins with `{word}`");
    Some(Finding::new(&file.path, number, what, "name the subject: the waiter, the holder, a caller"))
}

impl Banned {
    fn is_in(&self, line: &str) -> bool {
        let inside = |character: Option<char>| character.is_some_and(|c| c.is_alphanumeric() || c == '_');
        line.match_indices(self.text).any(|(start, text)| {
            let before = line[..start].chars().next_back();
            let behind = line[start + text.len()..].chars().next();
            !self.whole || !(inside(before) || inside(behind))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tree::made_up;
    use super::*;

    #[test]
    fn each_banned_word_is_found_with_its_line() {
        for banned in &BANNED {
            let found = check(&made_up("a.rs", &format!("//! A.\nlet a = 1; // {}x\n", banned.text)));
            let expected = usize::from(!banned.whole);
            assert_eq!(found.len(), expected, "{} as part of a word", banned.text);
            let found = check(&made_up("a.rs", &format!("//! A.\nlet a = 1; // {} x\n", banned.text)));
            assert_eq!((found.len(), found[0].line), (1, 2), "{}", banned.text);
        }
    }

    #[test]
    fn a_sentence_names_its_subject() {
        let found = |path, text: &str| check(&made_up(path, text)).len();
        assert_eq!(
            found("a.rs", "//! Whoever waits sleeps.\nlet a = 1;\n    // It runs. Who waits sleeps.\n"),
            2
        );
        assert_eq!(
            found("a.rs", "let a = \"x. Who knows\";\n//! The waiter who sleeps. Whose turn it is.\n"),
            0
        );
        assert_eq!(found("a.md", "Who waits sleeps.\n"), 1);
        assert_eq!(found("a.toml", "# Who waits sleeps.\n"), 0);
    }

    #[test]
    fn two_on_a_line_are_two() {
        let line = format!("{} {}", BANNED[0].text, BANNED[1].text);
        assert_eq!(check(&made_up("a.md", &line)).len(), 2);
    }

    #[test]
    fn clean_text_and_the_lock_file_pass() {
        assert!(check(&made_up("a.rs", "//! A lock; see network/address and mastodon.\n")).is_empty());
        assert!(check(&made_up("Cargo.lock", BANNED[0].text)).is_empty());
    }
}
