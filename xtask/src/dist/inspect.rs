//! What must not leave this machine: a file that needs a newer C library than it may, and the name
//! of a folder that exists here only.

use std::fs;
use std::path::{Path, PathBuf};

use crate::glibc::{OLDEST, is_newer, versions};
use crate::outcome::Result;
use crate::process::root;
use crate::workspace::cargo_home;

/// Looks at all files below a folder.
///
/// # Errors
/// All that is wrong, a line each.
pub fn check(folder: &Path) -> Result {
    let machine: Vec<String> = [Some(root().to_owned()), cargo_home()]
        .into_iter()
        .flatten()
        .map(|path| path.display().to_string())
        .collect();
    let files = files(folder)?;
    let mut wrong = Vec::new();
    for file in &files {
        let bytes = fs::read(file).map_err(|error| format!("{}: {error}", file.display()))?;
        wrong
            .extend(findings(&bytes, &machine).into_iter().map(|what| format!("{}: {what}", file.display())));
    }
    println!("looked at {} files of {}", files.len(), folder.display());
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(format!("files that may not be packed:\n{}", wrong.join("\n")))
    }
}

/// What is wrong with a file. `machine` has the folders that no file may name.
fn findings(bytes: &[u8], machine: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    if bytes.starts_with(&object::elf::ELFMAG) {
        let (major, minor) = OLDEST;
        match versions(bytes) {
            Ok(versions) => {
                found.extend(versions.iter().filter(|version| is_newer(version)).map(|version| {
                    format!("needs {version}, newer than GLIBC_{major}.{minor}: see `objdump -T`")
                }))
            }
            Err(error) => found.push(format!("cannot be read: {error}")),
        }
    }
    let names = |folder: &&String| bytes.windows(folder.len()).any(|window| window == folder.as_bytes());
    found.extend(
        machine.iter().filter(names).map(|folder| format!("names {folder}, a folder of this machine")),
    );
    found
}

/// All files below a folder, in the order of their names; links are not followed.
pub fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        for entry in entries.flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                Ok(kind) if kind.is_file() => files.push(entry.path()),
                _ => {}
            }
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::super::place::write;
    use super::*;
    use crate::glibc::tests::caller_of;

    #[test]
    fn folders_of_this_machine_are_found() {
        let machine = ["/opt/me/manx".to_owned(), "/opt/me/.cargo".to_owned()];
        assert_eq!(findings(b"at /cargo/registry/src/a.rs:1", &machine), Vec::<String>::new());
        let found = findings(b"at /opt/me/.cargo/registry/src/a.rs:1", &machine);
        assert_eq!(found, ["names /opt/me/.cargo, a folder of this machine"]);
    }

    #[test]
    fn a_file_that_needs_a_newer_c_library_is_not_packed() {
        let folder = tempfile::tempdir().unwrap();
        let library = folder.path().join("liba.so");
        fs::write(&library, caller_of("older")).unwrap();
        assert_eq!(check(folder.path()), Ok(()));
        fs::write(&library, caller_of("newer")).unwrap();
        let why = check(folder.path()).unwrap_err();
        assert!(why.contains("liba.so: needs GLIBC_2.38, newer than GLIBC_2.31"), "{why}");
    }

    #[test]
    fn a_damaged_elf_file_is_found() {
        assert!(findings(b"\x7fELF and no more", &[])[0].starts_with("cannot be read"));
    }

    #[test]
    fn all_files_of_a_folder_are_looked_at() {
        let folder = tempfile::tempdir().unwrap();
        write(&folder.path().join("a/b/c"), "").unwrap();
        write(&folder.path().join("a/d"), &root().display().to_string()).unwrap();
        assert_eq!(files(folder.path()).unwrap().len(), 2);
        let why = check(folder.path()).unwrap_err();
        assert!(why.contains("a/d: names") && why.lines().count() == 2, "{why}");
    }
}
