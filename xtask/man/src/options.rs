//! The page of all options, `docs/options.md`, from the definitions that the commands parse by.
//!
//! Each command and subcommand is a section: its line, its usage, and a list of its arguments and
//! options with what the long help says of them. What stands behind the options in the help (such
//! as the environment, and the command's exit codes) follows as it is. The table of all exit codes
//! stands at the end, and not in the section of `manx`.
//!
//! The keys of `MANX_OPTIONS` come from the table of settings.

use clap::{Arg, Command};
use command::failure::{EXIT_CODES, exit_codes};
use preload_abi::options::Setting;
use preload_abi::options::{Options, SETTINGS};
use preload_abi::setting::{Form, Obeyed};

/// The columns that a paragraph is wrapped to.
const COLUMNS: usize = 100;

/// What stands above the first command.
const HEAD: &str = "\
# Options, environment and exit codes

This page is generated from the definitions of the command lines. After a change of one:
`MANX_BLESS=1 cargo test -p xtask-man`. `manx help run` and `manx help bench range` show the same in
a terminal, and `man manx-run` does where the manual pages are installed.
";

/// What stands above the table of keys.
const VARIABLES: &str = "
## Environment variables

| variable | meaning |
| --- | --- |
| `MANX=off` | the library changes nothing in any program that it is loaded into |
| `MANX_OPTIONS` | the settings, as `key=value` with commas between them; `manx run` writes it, and without `manx run` you do |
| `MANX_CORES` | which CPUs are fast and which are slow, as `--cores`; `measured` works with `manx run` only |
| `MANX_PRELOAD` | the path of `libmanx_preload.so`, if it lies neither beside `manx` nor in `../lib/manx`; `libmanx_requests.so` must lie beside it |
| `LD_PRELOAD` | where there is no `manx run`: the path of `libmanx_preload.so`, and with a latency target for requests that of `libmanx_requests.so` behind a colon |
| `XDG_CACHE_HOME` | the folder below which `manx/` keeps the loops that were found; `~/.cache` unless set |

A value of `MANX_OPTIONS` may hold any byte: write `%`, `,` and whatever is not printable ASCII as
`%XX`. In lists `+` separates, and a `+` in a name is `%2B`. The library ignores a key or value that
it does not understand, and `manx run` refuses it.

A key that both obey works in part where there is no `manx run`: no variables tell the program of
its CPUs, and the library for requests must be named. *Since* is the first version of the library
that knows the key; `manx run` refuses a library that is older than itself.

| key of `MANX_OPTIONS` | default | option | value | obeyed by | since |
| --- | --- | --- | --- | --- | --- |
";

/// The line of that table for a setting.
fn key(setting: &Setting) -> String {
    let Setting { name, formerly, form, since, .. } = *setting;
    let code = |text: &str| if text.is_empty() { String::new() } else { format!("`{text}`") };
    let mut default = String::new();
    (setting.write)(&Options::DEFAULT, &mut default).expect("writing to a String");
    let option = if setting.is_hidden { String::new() } else { code(&format!("--{}", setting.flag())) };
    let mut value = match form {
        Form::Word(words, _) if setting.is_hidden => {
            let words: Vec<_> = words.iter().map(|word| code(word.word)).collect();
            format!("for tests: {}", words.join(", "))
        }
        _ if !setting.unit.is_empty() => setting.unit.to_owned(),
        _ => form.in_options().to_owned(),
    };
    if !formerly.is_empty() {
        value.push_str(&format!("; the key may also be `{formerly}`"));
    }
    let by = match setting.obeyed_by {
        Obeyed::Library => "library",
        Obeyed::Launcher => "`manx run`",
        Obeyed::Both => "both",
    };
    format!("| `{name}` | {} | {option} | {value} | {by} | {since} |\n", code(&default))
}

/// Writes the page about these commands.
pub fn page(commands: impl IntoIterator<Item = Command>) -> String {
    let mut page = HEAD.to_owned();
    for mut command in commands {
        command.build();
        section(&command, &mut page);
    }
    page.push_str(VARIABLES);
    let carried = SETTINGS.iter().filter(|setting| !setting.key.is_empty() && !setting.is_launchers());
    page.extend(carried.map(key));
    page.push_str("\n## Exit codes\n\n| code | meaning |\n| --- | --- |\n");
    for (code, meaning) in EXIT_CODES {
        page.push_str(&format!("| {code} | {} |\n", meaning.replace('\n', " ")));
    }
    page
}

/// A command and, behind it, its subcommands. A subcommand that is a program of its own has its
/// section there.
fn section(command: &Command, page: &mut String) {
    let name = command.get_bin_name().unwrap_or(command.get_name());
    page.truncate(page.trim_end().len());
    page.push_str(&format!("\n\n## `{name}`\n\n"));
    paragraph("", &command.get_about().map(ToString::to_string).unwrap_or_default(), page);
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").lines().map(str::trim).collect::<Vec<_>>().join("\n");
    page.push_str(&format!("\n```text\n{usage}\n```\n\n"));
    let listed = |arg: &&Arg| !arg.is_hide_set() && !["help", "version"].contains(&arg.get_id().as_str());
    for arg in command.get_arguments().filter(listed) {
        argument(arg, page);
    }
    let behind = command.get_after_long_help().or(command.get_after_help());
    let behind = behind.map(ToString::to_string).unwrap_or_default().replace(&exit_codes(&EXIT_CODES), "");
    if !behind.trim().is_empty() {
        page.push_str(&format!("\n```text\n{}\n```\n", behind.trim()));
    }
    for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help" && !elsewhere(command, sub)) {
        section(sub, page);
    }
}

/// Whether `manx` only passes this subcommand on.
fn elsewhere(command: &Command, sub: &Command) -> bool {
    command.get_name() == "manx" && cli::external::ALL.iter().any(|other| other.name == sub.get_name())
}

/// An argument or option, as an item of a list.
fn argument(arg: &Arg, page: &mut String) {
    let help = arg.get_long_help().or(arg.get_help()).map(ToString::to_string).unwrap_or_default();
    let mut paragraphs = help.split("\n\n");
    let default: Vec<_> = arg.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    let default = if default.is_empty() || !arg.get_action().takes_values() {
        String::new()
    } else {
        format!(" [default: {}]", default.join(" "))
    };
    let first = paragraphs.next().unwrap_or_default();
    let words = arg.to_string().replace("...", "");
    let short = arg.get_short().map(|short| format!("`-{short}`, ")).unwrap_or_default();
    paragraph("- ", &format!("{short}`{words}`: {}{default}", text(first)), page);
    for more in paragraphs {
        page.push('\n');
        paragraph("  ", &text(more), page);
    }
    if !arg.get_action().takes_values() {
        return;
    }
    for value in arg.get_possible_values().iter().filter(|value| !value.is_hide_set()) {
        let help = value.get_help().map(|help| format!(": {}", text(&help.to_string()))).unwrap_or_default();
        paragraph("  - ", &format!("`{}`{help}", value.get_name()), page);
    }
}

/// Help as Markdown: outside code quotes, what Markdown would read as its own is escaped.
fn text(help: &str) -> String {
    let parts = help.split('`').enumerate().map(|(index, part)| match index % 2 {
        0 => part.replace('<', "\\<").replace('*', "\\*"),
        _ => format!("`{part}`"),
    });
    parts.collect()
}

/// Writes a paragraph behind `lead`, wrapped; the lines that follow are indented as deep.
fn paragraph(lead: &str, text: &str, page: &mut String) {
    let mut line = lead.to_owned();
    for word in text.split_whitespace() {
        if line.trim_end() != lead.trim_end() && !line.trim().is_empty() {
            if line.chars().count() + 1 + word.chars().count() > COLUMNS {
                page.push_str(&line);
                page.push('\n');
                line = " ".repeat(lead.len());
            } else {
                line.push(' ');
            }
        }
        line.push_str(word);
    }
    page.push_str(&line);
    page.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{env, fs};

    #[test]
    fn the_page_is_what_the_definitions_say() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/options.md");
        let page = page(crate::commands());
        if env::var_os("MANX_BLESS").is_some() {
            fs::write(file, &page).unwrap();
        }
        let found = fs::read_to_string(file).unwrap_or_default();
        let differs = found.lines().zip(page.lines()).find(|(found, expected)| found != expected);
        assert!(
            found == page,
            "docs/options.md is not what the definitions say: MANX_BLESS=1 cargo test -p xtask-man\n\
             it has and should have: {differs:?}"
        );
    }

    #[test]
    fn long_paragraphs_are_wrapped_below_their_lead() {
        let mut page = String::new();
        paragraph("- ", &"word ".repeat(25), &mut page);
        let lines: Vec<_> = page.lines().collect();
        assert_eq!(lines.len(), 2);
        assert!(lines[0].len() <= COLUMNS && lines[1].starts_with("  word"), "{page}");
    }
}
