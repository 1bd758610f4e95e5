//! `--plots DIR`: each picture of an experiment as an SVG and a PNG file.

use command::failure::{BROKEN, Failure, USAGE, reason};
use report::chart::Picture;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

/// Makes the folder first, so that nobody measures for an hour and then cannot write.
pub(super) fn prepare(folder: Option<&Path>) -> Result<(), Failure> {
    let Some(folder) = folder else { return Ok(()) };
    let tried = fs::create_dir_all(folder).and_then(|()| {
        let scratch = folder.join(".manx-bench");
        fs::write(&scratch, b"").and_then(|()| fs::remove_file(&scratch))
    });
    tried.map_err(|error| unwritable(folder, &error))
}

/// Writes NAME.svg and NAME.png of each picture, in place of earlier ones, and says so on standard
/// error.
pub(super) fn write<P: Picture>(folder: Option<&Path>, charts: &[(String, P)]) -> Result<(), Failure> {
    let Some(folder) = folder else { return Ok(()) };
    let mut written = Vec::new();
    for (name, chart) in charts {
        let png = chart.png().map_err(|why| {
            Failure::new(BROKEN, format!("--plots: {name}.png: {why}"), "its SVG file may do instead")
        });
        for (ending, bytes) in [("svg", Ok(chart.svg().into_bytes())), ("png", png)] {
            let path = folder.join(format!("{name}.{ending}"));
            fs::write(&path, bytes?).map_err(|error| unwritable(&path, &error))?;
        }
        written.push(format!("{name}.svg, {name}.png"));
    }
    let written = if written.is_empty() { "nothing to draw".into() } else { written.join(", ") };
    // That nobody reads it is no error.
    let _ = writeln!(io::stderr(), "manx: --plots {}: {written}", folder.display());
    Ok(())
}

fn unwritable(path: &Path, error: &io::Error) -> Failure {
    Failure::new(
        USAGE,
        format!("--plots {}: {}", path.display(), reason(error)),
        "name a folder that can be written",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use report::chart::Chart;

    #[test]
    fn a_picture_is_two_files_and_a_folder_that_cannot_be_is_refused_first() {
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
        write(Some(&inner), &[("x".into(), chart)]).unwrap();
        let mut names: Vec<_> = fs::read_dir(&inner).unwrap().map(|e| e.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["x.png", "x.svg"]);
        let file = inner.join("x.svg");
        let refused = prepare(Some(&file)).unwrap_err();
        assert_eq!(refused.code, USAGE);
        assert!(refused.to_string().contains("x.svg"));
        assert!(prepare(None).is_ok());
    }
}
