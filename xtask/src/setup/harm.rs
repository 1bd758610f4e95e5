//! `cargo xtask setup harm`: the programs of `manx bench harm`.
//!
//! The suite itself says what each row needs and which Debian packages have it, so no list is kept
//! here. Python packages have exact versions and hashes, and go to `target/harm/env`. No test needs
//! any of it, and the benchmark leaves out what is missing.

use super::{Need, Sign, announce_and_install, packages, victims};
use crate::outcome::Result;
use crate::workspace::{Workspace, root};

const SUITE: &str = include_str!("../../../bench/workload/harm/suite.toml");

/// Sets up what can be.
///
/// # Errors
/// None that the rest could not go on without: what is left out is printed.
pub fn run() -> Result {
    let needs = needs();
    let missing = || needs.iter().filter(|need| !need.sign.is_there()).collect::<Vec<&Need>>();
    if !missing().is_empty() {
        announce_and_install(&missing());
    }
    if !missing().is_empty() {
        println!("setup: left out; install by hand: apt-get install {}", packages(&missing()).join(" "));
    }
    let env = Workspace::load()?.target.join("harm/env");
    match victims::install_into(&env, &root().join("bench/workload/harm/requirements.txt")) {
        Ok(_) => println!("setup: the Python packages are in {}", env.display()),
        Err(why) => println!("setup: left out: polars, duckdb and Intel's OpenMP: {why}"),
    }
    Ok(())
}

/// What the rows need. A package of headers is looked for by its name, any other one by the row's
/// programs: somebody may have installed them by hand.
fn needs() -> Vec<Need> {
    let rows = SUITE.split("[[row]]").skip(1);
    rows.flat_map(|row| {
        let programs: Vec<&str> = value(row, "needs = ").split('"').skip(1).step_by(2).collect();
        let listed = value(row, "get = ").trim_matches('"').strip_prefix("apt-get install ");
        let listed = listed.into_iter().flat_map(str::split_whitespace);
        listed.map(move |package| Need {
            sign: match package.ends_with("-dev") {
                true => Sign::Package(package),
                false => Sign::Programs(programs.clone()),
            },
            package,
            purpose: "a row of `manx bench harm`",
            demo: false,
        })
    })
    .collect()
}

/// The rest of the line of a row that begins like this.
fn value(row: &'static str, start: &str) -> &'static str {
    row.lines().find_map(|line| line.strip_prefix(start)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_packages_of_all_rows_are_known() {
        let needs = needs();
        let packages = packages(&needs.iter().collect::<Vec<_>>());
        assert!(packages.len() >= 20, "{packages:?}");
        for known in ["stress-ng", "libomp-dev", "linux-perf", "x264", "default-jdk-headless", "wrk"] {
            assert!(packages.contains(&known), "{known}: {packages:?}");
        }
        let headers = needs.iter().find(|need| need.package == "libomp-dev").unwrap();
        assert!(matches!(headers.sign, Sign::Package("libomp-dev")));
        let lbzip2 = needs.iter().find(|need| need.package == "lbzip2").unwrap();
        assert!(matches!(&lbzip2.sign, Sign::Programs(names) if names.contains(&"lbzip2")));
    }
}
