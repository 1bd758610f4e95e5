//! `--plots DIR`: each picture of an experiment as an SVG file.

use super::conduct::{self, Common, unwritable};
use command::failure::Failure;
use report::Report;
use report::chart::Chart;
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use workload::Error;
use workload::harness::Bench;

/// Runs an experiment as [`conduct::conduct`] does; `conclude` also returns the pictures, under
/// names for their files, which go to the folder.
pub(super) fn drawn(
    name: &str,
    common: &Common,
    folder: Option<&Path>,
    measure: impl FnOnce(&mut Bench) -> Result<(), Error>,
    conclude: impl FnOnce(&mut Report) -> Vec<(String, String)>,
) -> Result<u8, Failure> {
    prepare(folder)?;
    let mut pictures = Vec::new();
    let ended = conduct::conduct(name, common, measure, |report| pictures = conclude(report));
    write(folder, &pictures)?;
    ended
}

/// The texts of pictures.
pub(super) fn texts(charts: Vec<(String, Chart)>) -> Vec<(String, String)> {
    charts.into_iter().map(|(name, chart)| (name, chart.svg())).collect()
}

/// Makes the folder before the measurement, so that an unwritable folder is found before it.
fn prepare(folder: Option<&Path>) -> Result<(), Failure> {
    let Some(folder) = folder else { return Ok(()) };
    let tried = fs::create_dir_all(folder).and_then(|()| {
        let scratch = folder.join(".manx-bench");
        fs::write(&scratch, b"").and_then(|()| fs::remove_file(&scratch))
    });
    tried.map_err(|error| unwritable("--plots", folder, &error))
}

/// Writes NAME.svg of each picture, in place of earlier ones, and says so on standard error.
fn write(folder: Option<&Path>, pictures: &[(String, String)]) -> Result<(), Failure> {
    let Some(folder) = folder else { return Ok(()) };
    for (name, picture) in pictures {
        let path = folder.join(format!("{name}.svg"));
        fs::write(&path, picture).map_err(|error| unwritable("--plots", &path, &error))?;
    }
    let written: Vec<String> = pictures.iter().map(|(name, _)| format!("{name}.svg")).collect();
    let written = if written.is_empty() { "nothing to draw".into() } else { written.join(", ") };
    // An unread message is no error.
    let _ = writeln!(io::stderr(), "manx: --plots {}: {written}", folder.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use command::failure::USAGE;

    #[test]
    fn a_picture_is_a_file_and_a_folder_that_cannot_be_is_refused_first() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("a/b");
        let chart = Chart {
            title: "t".into(),
            name: "x".into(),
            logarithmic: true,
            label: |value| value.to_string(),
            panels: Vec::new(),
        };
        prepare(Some(&inner)).unwrap();
        write(Some(&inner), &texts(vec![("x".into(), chart)])).unwrap();
        let names: Vec<_> = fs::read_dir(&inner).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(names, ["x.svg"]);
        let file = inner.join("x.svg");
        let refused = prepare(Some(&file)).unwrap_err();
        assert_eq!(refused.code, USAGE);
        assert!(refused.to_string().contains("x.svg"));
        assert!(prepare(None).is_ok());
    }
}
