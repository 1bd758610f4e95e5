//! Writes the manual pages of `manx`: `manx.1` and one for each subcommand, into the folder that is given.

use std::path::PathBuf;
use std::process::ExitCode;
use std::{env, fs};

fn main() -> ExitCode {
    let Some(folder) = env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("xtask-man: give the folder to write the pages into");
        return ExitCode::from(2);
    };
    let pages = fs::create_dir_all(&folder).and_then(|()| clap_mangen::generate_to(cli::command(), &folder));
    match pages {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask-man: {}: {error}", folder.display());
            ExitCode::FAILURE
        }
    }
}
