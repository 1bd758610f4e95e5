//! The README and the page of `manx run` do not promise what the command does not take: the
//! settings file is given to `manx run --dry-run`, and every long option that they show behind
//! `manx` is looked up in that subcommand's help.

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
    for name in ["README.md", RUN] {
        for (subcommand, option) in options(&read(name)?) {
            let help = capture(Command::new(&manx).args([subcommand, "--help"]))?;
            if !help.contains(option) {
                return Err(format!("{name}: `manx {subcommand}` has no option `{option}`"));
            }
        }
    }
    Ok(())
}

fn read(name: &str) -> Result<String> {
    fs::read_to_string(root().join(name)).map_err(|error| format!("{name}: {error}"))
}

/// The first fenced block of a language.
fn block<'p>(page: &'p str, language: &str) -> Option<&'p str> {
    let (_, rest) = page.split_once(&format!("```{language}\n"))?;
    rest.split_once("```").map(|found| found.0)
}

/// Each `manx SUBCOMMAND --option` of lines that begin so, up to the `--` before a program.
fn options(page: &str) -> Vec<(&str, &str)> {
    let commands = page.lines().filter_map(|line| line.strip_prefix("manx "));
    commands
        .flat_map(|command| {
            let mut words = command.split_whitespace();
            let subcommand = words.next().unwrap_or_default();
            let words = words.take_while(|word| *word != "--" && *word != "#");
            let words = words.filter_map(|word| word.split('=').next()).filter(|word| word.starts_with("--"));
            words.map(move |word| (subcommand, word)).collect::<Vec<_>>()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "text\n```sh\nmanx run --stats=a.json --dry-run -- ./server --port 1  # --not\n\
                        manx stats 1 --watch # --json\n```\n`manx run --guard` in prose\n```toml\na = 1\n```\n";

    #[test]
    fn options_of_manx_are_found_and_those_of_the_program_are_not() {
        assert_eq!(options(PAGE), [("run", "--stats"), ("run", "--dry-run"), ("stats", "--watch")]);
    }

    #[test]
    fn the_block_of_a_language_is_found() {
        assert_eq!(block(PAGE, "toml"), Some("a = 1\n"));
        assert_eq!(block(PAGE, "json"), None);
    }
}
