//! The settings of `manx run`, put together from all places that may set them.
//!
//! The nearest to the command wins: its flags, then the file that `--config` names, then
//! `MANX_OPTIONS` (which an outer `manx run` or a container may have set), then the defaults. Each
//! place is read as a string of the form of `MANX_OPTIONS`, in which the last of two pairs counts,
//! so they are put together by writing one behind the other.

use super::{config, forms};
use clap::{Arg, ArgAction, ArgMatches, Command};
use command::failure::{Failure, USAGE};
use command::search;
use manx::cpu::{Classes, MEASURED};
use preload_abi::filter::Entries;
use preload_abi::options::{Options, SETTINGS, Setting, Stats};
use preload_abi::setting::Form;
use preload_abi::slo::SLOS_MAX;
use preload_abi::{CORES_VARIABLE, OPTIONS_VARIABLE};
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// What the flags say that the table of settings makes.
#[derive(Debug)]
pub struct Flags(String);

impl clap::Args for Flags {
    fn augment_args(command: Command) -> Command {
        command.args(SETTINGS.iter().filter(|setting| !setting.key.is_empty()).map(flag))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Flags::augment_args(command)
    }
}

impl clap::FromArgMatches for Flags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Flags, clap::Error> {
        let mut text = String::new();
        for setting in SETTINGS.iter().filter(|setting| !setting.key.is_empty()) {
            if matches!(setting.form, Form::Switch) {
                if matches.get_flag(setting.key) {
                    config::push(
                        &mut text,
                        setting,
                        if setting.flag() == setting.key { "on" } else { "off" },
                    );
                }
            } else if let Some(values) = matches.get_many::<String>(setting.key) {
                config::push(&mut text, setting, &values.map(String::as_str).collect::<Vec<_>>().join("+"));
            }
        }
        Ok(Flags(text))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Flags::from_arg_matches(matches)?;
        Ok(())
    }
}

/// The flag of a setting.
fn flag(setting: &'static Setting) -> Arg {
    let paragraphs = setting.help.split("\n\n");
    let mut paragraphs: Vec<_> =
        paragraphs.map(|text| text.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    if matches!(setting.form, Form::Word(..) | Form::Number | Form::Microseconds | Form::Cpus) {
        write!(paragraphs[0], " [default: {}]", forms::default(setting)).expect("writing to a String");
    }
    let mut arg = Arg::new(setting.key).long(setting.flag()).help(paragraphs[0].clone());
    if paragraphs.len() > 1 {
        arg = arg.long_help(paragraphs.join("\n\n"));
    }
    if let Some(letter) = setting.letter {
        arg = arg.short(letter);
    }
    if let Some(section) = setting.section {
        arg = arg.help_heading(section.heading);
    }
    arg = arg.hide(setting.is_hidden);
    if matches!(setting.form, Form::Switch) {
        return arg.action(ArgAction::SetTrue);
    }
    arg = arg.value_name(setting.value).value_parser(forms::parser(setting.form));
    match setting.form {
        Form::Slos => arg.action(ArgAction::Append),
        Form::Words(..) | Form::Entries => arg.action(ArgAction::Append).value_delimiter(','),
        Form::Stats => arg.num_args(0..=1).require_equals(true).default_missing_value("stderr"),
        _ => arg,
    }
}

/// Puts the settings together: as a string that [`Options::parse_all`] reads.
///
/// # Errors
/// With code 2 if `MANX_OPTIONS` or the configuration file cannot be understood, or statistics
/// cannot go where they should.
pub fn gather(flags: &Flags, file: Option<&Path>) -> Result<String, Failure> {
    let environment = std::env::var_os(OPTIONS_VARIABLE).unwrap_or_default();
    let mut text = from_environment(environment.as_bytes())?;
    if let Some(file) = file {
        text += &config::read(file)?;
    }
    text += &flags.0;
    if let Some(rejected) = Options::parse_all(text.as_bytes()).rejected {
        return Err(refusal(&String::from_utf8_lossy(rejected)));
    }
    if Options::parse_all(text.as_bytes()).poll.has_whole() {
        return Err(Failure::new(
            USAGE,
            "--poll: a library or a program is named, and no function of it",
            "write LIBRARY:FUNCTION or LIBRARY:0xOFFSET, as in libucp.so*:ucp_worker_progress",
        ));
    }
    if Options::parse_all(text.as_bytes()).cores.is_empty() {
        let classes = Classes::from_environment().map_err(|error| {
            let help = "correct it, or unset the variable and use --cores: see `manx run --help`";
            Failure::new(USAGE, format!("{CORES_VARIABLE}: {error}"), help)
        })?;
        // The program gets the measured classes, because it should not measure in its own process.
        let to_measure = std::env::var_os(CORES_VARIABLE).is_some_and(|text| text == MEASURED);
        if let Some(measured) = classes.filter(|_| to_measure) {
            text += &format!(",cores={}", forms::encoded(measured.to_string().as_bytes()));
        }
    }
    if let Stats::File(path) = Options::parse_all(text.as_bytes()).stats {
        check_destination(Path::new(&forms::decoded(path).unwrap_or_default()))?;
    }
    Ok(with_pid(text, std::process::id()))
}

/// What `MANX_OPTIONS` says, with the absolute path of the file for statistics.
fn from_environment(text: &[u8]) -> Result<String, Failure> {
    let mut options = Options::parse(text);
    let not_understood = |what: &[u8]| {
        Failure::new(
            USAGE,
            format!("{OPTIONS_VARIABLE}: `{}` is not understood", String::from_utf8_lossy(what)),
            "correct it, or unset the variable and use the flags: see `manx run --help`",
        )
    };
    if let Some(rejected) = options.rejected {
        return Err(not_understood(rejected));
    }
    let absolute;
    if let Stats::File(encoded) = options.stats {
        let path = forms::decoded(encoded).ok_or_else(|| not_understood(encoded))?;
        absolute = forms::encoded(forms::absolute(path.into()).as_os_str().as_bytes());
        options.stats = Stats::File(absolute.as_bytes());
    }
    Ok(options.to_string())
}

/// Says the process that the launcher becomes. If the file for statistics is still that of an outer
/// `manx run`, the outer process alone writes to the file itself.
fn with_pid(text: String, pid: u32) -> String {
    let options = Options::parse_all(text.as_bytes());
    match options.stats {
        Stats::File(_) if options.pid != 0 => text,
        _ => format!("{text},pid={pid}"),
    }
}

/// The refusal of a list whose entries are fine one by one: it is too long.
fn refusal(pair: &str) -> Failure {
    let (name, list) = pair.split_once('=').unwrap_or((pair, ""));
    let flag = SETTINGS.iter().find(|setting| setting.name == name).map_or("", |setting| setting.flag());
    match Entries::try_from(list.as_bytes()) {
        Err(fault) if name != "slo" => {
            Failure::new(USAGE, format!("--{flag}: {fault}"), "name fewer, or several at once by a `*`")
        }
        _ => {
            let count = list.split('+').count();
            let what = format!("--{flag}: {count} targets, of {SLOS_MAX} that there may be");
            Failure::new(USAGE, what, "leave out those that the program itself says")
        }
    }
}

/// Refuses a file for statistics that could not be written when the program ends, since it is too
/// late then.
fn check_destination(path: &Path) -> Result<(), Failure> {
    let refuse = |why: &str, help: &str| {
        Err(Failure::new(USAGE, format!("statistics cannot go to {}: {why}", path.display()), help))
    };
    let folder = path.parent().unwrap_or(Path::new("/"));
    if path.is_dir() {
        refuse("it is a folder", "name a file in it")
    } else if path.exists() && !path.is_file() {
        refuse("it is no regular file", "name one; `--stats` alone writes to standard error")
    } else if !folder.is_dir() {
        refuse("there is no such folder", "create the folder first")
    } else if !search::access(folder, libc::W_OK | libc::X_OK) {
        refuse("you may not write to its folder", "name a file elsewhere")
    } else if path.exists() && !search::access(path, libc::W_OK) {
        refuse("you may not write to it", "name another file")
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
