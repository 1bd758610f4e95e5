//! The README and the pages in `docs` do not promise what the command does not take: the settings
//! file is given to `manx run --dry-run`, and every option that they show behind `manx`, in a block
//! or within a sentence, is one of those that the subcommand's help defines.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use crate::outcome::Result;
use crate::process::capture;
use crate::workspace::{Workspace, root};

/// The page with the settings.
const RUN: &str = "docs/run.md";

/// Checks the pages against the built command.
///
/// # Errors
/// If it shows something that the command refuses.
pub fn check(workspace: &Workspace) -> Result {
    let manx = workspace.manx();
    let page = read(RUN)?;
    let settings = block(&page, "toml").ok_or_else(|| format!("{RUN}: it has no `toml` block"))?;
    let file = workspace.target.join("readme.toml");
    fs::write(&file, settings).map_err(|error| format!("{}: {error}", file.display()))?;
    let mut dry = Command::new(&manx);
    dry.args(["run", "--dry-run", "--config"]).arg(&file).args(["--", "true"]);
    print!("{}", capture(&mut dry)?);
    for name in pages()? {
        let page = read(&name)?;
        for (subcommand, option) in commands(&page).iter().flat_map(|command| options(command)) {
            let help = capture(Command::new(&manx).args(&subcommand).arg("--help"))?;
            if !defined(&help).contains(option) {
                return Err(format!("{name}: `manx {}` has no option `{option}`", subcommand.join(" ")));
            }
        }
    }
    Ok(())
}

/// The README and all pages of the folder `docs`.
fn pages() -> Result<Vec<String>> {
    let entries = fs::read_dir(root().join("docs")).map_err(|error| format!("docs: {error}"))?;
    let names = entries.flatten().map(|entry| format!("docs/{}", entry.file_name().display()));
    let mut pages: Vec<String> = names.filter(|name| name.ends_with(".md")).collect();
    pages.push("README.md".into());
    pages.sort();
    Ok(pages)
}

/// A page, by its path from the root.
///
/// # Errors
/// If it cannot be read.
pub fn read(name: &str) -> Result<String> {
    fs::read_to_string(root().join(name)).map_err(|error| format!("{name}: {error}"))
}

/// The first fenced block of a language.
pub fn block<'p>(page: &'p str, language: &str) -> Option<&'p str> {
    let (_, rest) = page.split_once(&format!("```{language}\n"))?;
    rest.split_once("```").map(|found| found.0)
}

/// What stands behind `manx` in each command of a page: in lines that begin so, after a prompt or
/// not, and in code within a sentence, which may go on in the next line.
fn commands(page: &str) -> Vec<String> {
    let (mut commands, mut prose, mut is_block) = (Vec::new(), String::new(), false);
    for line in page.lines() {
        if line.trim_start().starts_with("```") {
            is_block = !is_block;
        } else if is_block {
            let line = line.trim_start();
            let command = line.strip_prefix("$ ").unwrap_or(line).strip_prefix("manx ");
            commands.extend(command.map(str::to_owned));
        } else {
            prose.push_str(line);
            prose.push(' ');
        }
    }
    let spans = prose.split('`').skip(1).step_by(2);
    commands.extend(spans.filter_map(|span| span.strip_prefix("manx ")).map(str::to_owned));
    commands
}

/// The subcommand and each option of a command, up to the `--` before a program or to a comment.
/// The subcommand `bench` has subcommands of its own; `bench sim` has a machine and subcommands.
fn options(command: &str) -> Vec<(Vec<&str>, &str)> {
    let words: Vec<&str> = command.split_whitespace().collect();
    let depth = match words[..] {
        ["bench", "sim", ..] => 4,
        ["bench", ..] => 2,
        _ => 1,
    };
    let subcommand = words.iter().copied().take(depth).take_while(|word| !word.starts_with('-'));
    let subcommand: Vec<&str> = subcommand.collect();
    let own = words.iter().take_while(|word| !["--", "#", "|"].contains(*word));
    let options = own.filter(|word| word.starts_with('-')).filter_map(|word| word.split('=').next());
    options.map(|option| (subcommand.clone(), option)).collect()
}

/// The options that a help text defines: those at the beginning of a line, before two spaces. Text
/// may name others.
fn defined(help: &str) -> BTreeSet<&str> {
    let lines = help.lines().map(str::trim_start).filter(|line| line.starts_with('-'));
    let names = lines.filter_map(|line| line.split("  ").next());
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
    names
        .flat_map(|names| names.split(move |letter| !is_part(letter)))
        .filter(|name| name.starts_with('-'))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "text\n```sh\nmanx run --stats=a.json --dry-run -- ./server --port 1  # --not\n\
                        $ manx stats 1 --watch # --json\n```\n`manx run\n--guard` in prose, and `other --x`\n\
                        ```toml\na = 1\n```\n| `manx bench txn -q` |\n\
                        `manx bench sim m1 mutex --lock`\n";

    #[test]
    fn options_of_manx_are_found_and_those_of_the_program_are_not() {
        let commands = commands(PAGE);
        let found: Vec<(Vec<&str>, &str)> = commands.iter().flat_map(|command| options(command)).collect();
        let expected = [
            (vec!["run"], "--stats"),
            (vec!["run"], "--dry-run"),
            (vec!["stats"], "--watch"),
            (vec!["run"], "--guard"),
            (vec!["bench", "txn"], "-q"),
            (vec!["bench", "sim", "m1", "mutex"], "--lock"),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn an_option_is_one_that_the_help_defines_by_its_whole_name() {
        let help = "Usage: manx run [--old]\n\n  -q, --quick    As --slow\n      --stats[=<FILE>]\n          See --json\n  \
                    - a bullet\n";
        assert_eq!(defined(help), ["--quick", "--stats", "-", "-q"].into());
        assert!(!defined(help).contains("--stat"));
    }

    #[test]
    fn the_block_of_a_language_is_found() {
        assert_eq!(block(PAGE, "toml"), Some("a = 1\n"));
        assert_eq!(block(PAGE, "json"), None);
    }

    #[test]
    fn the_page_of_manx_run_is_one_of_the_pages() {
        let pages = pages().unwrap();
        assert!(pages.iter().any(|page| page == RUN) && pages.contains(&"README.md".to_owned()));
    }
}
