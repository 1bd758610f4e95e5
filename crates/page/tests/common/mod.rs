//! Results of each kind, and their pages.

use page::{Named, Options};
use std::path::{Path, PathBuf};

/// The results in `results`.
pub const RESULTS: [&str; 6] =
    ["bench.json", "profile.json", "doctor.json", "doctors.json", "cured.json", "stats.json"];

/// A file of this folder.
pub fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name)
}

/// The text of a result.
pub fn result(name: &str) -> String {
    let path = file("results").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The page of texts that are results, or why there is none.
pub fn page_of(results: &[(&str, &str)], options: &Options) -> Result<String, String> {
    let read = |(name, text): &(&str, &str)| Named::read(name, text).map_err(|fault| fault.what);
    let results: Vec<Named> = results.iter().map(read).collect::<Result<_, _>>()?;
    page::page(&results, options).map_err(|fault| fault.what)
}
