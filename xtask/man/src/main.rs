//! Writes the manual pages of Manx's commands: `manx.1` and one for each subcommand, into the
//! folder that is given. Folders in it, `bash`, `zsh` and `fish`, get the completions of these
//! shells, a file for each command.
//!
//! The page of a subcommand that is a program of its own is that program's: it is written last. The
//! same definitions make the page `docs/options.md` (`options.rs`), which a test compares.

#[cfg(test)]
mod options;

use clap_complete::Shell;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs, io};

fn main() -> ExitCode {
    let Some(folder) = env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("xtask-man: give the folder to write the pages and completions into");
        return ExitCode::from(2);
    };
    match write(&folder) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask-man: {}: {error}", folder.display());
            ExitCode::FAILURE
        }
    }
}

fn write(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    commands().into_iter().try_for_each(|command| clap_mangen::generate_to(command, folder))?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        let folder = folder.join(shell.to_string());
        fs::create_dir_all(&folder)?;
        for mut command in commands() {
            let name = command.get_name().to_owned();
            clap_complete::generate_to(shell, &mut command, name, &folder)?;
        }
    }
    Ok(())
}

/// The definitions of all command lines.
fn commands() -> [clap::Command; 2] {
    [cli::command(), manx_bench::command()]
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_lines_of_manx_about_other_programs_are_their_own() {
        let bench = manx_bench::command();
        let profile = bench.find_subcommand("profile").expect("manx-bench has it").clone();
        let programs = [("profile", profile), ("bench", bench)];
        assert_eq!(programs.len(), cli::external::ALL.len());
        for (name, program) in programs {
            let elsewhere = cli::external::ALL.iter().find(|elsewhere| elsewhere.name == name).unwrap();
            assert_eq!(program.get_about().unwrap().to_string(), elsewhere.about, "{name}");
        }
    }
}
