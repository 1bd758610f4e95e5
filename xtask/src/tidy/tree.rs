//! The files that tidy looks at: what git tracks or would track. Without git (a source archive),
//! all that lies below the root but hidden folders and `target`.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::outcome::Result;
use crate::process::capture;

/// The files, in the order of their paths.
pub struct Tree {
    /// Every file.
    pub files: Vec<File>,
    /// Every folder that holds one, however deep.
    folders: Vec<String>,
}

/// A file.
pub struct File {
    /// Its path from the root, with slashes.
    pub path: String,
    /// What it holds, if that is text.
    pub text: Option<String>,
}

impl File {
    /// What the name ends in, without the dot.
    pub fn extension(&self) -> &str {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        name.rsplit_once('.').map_or("", |(_, extension)| extension)
    }

    /// The lines, with their numbers from 1.
    pub fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.as_deref().unwrap_or_default().lines().enumerate().map(|(index, line)| (index + 1, line))
    }
}

impl Tree {
    /// Reads the tree below `root`.
    ///
    /// # Errors
    /// If a folder or file cannot be read.
    pub fn load(root: &Path) -> Result<Tree> {
        let mut paths = tracked(root).map_or_else(|_| walk(root, ""), Ok)?;
        paths.sort();
        paths.dedup();
        let files = paths.into_iter().filter_map(|path| read(root, path)).collect::<Result<Vec<_>>>()?;
        Ok(Tree::of(files))
    }

    /// A tree of these files.
    pub fn of(files: Vec<File>) -> Tree {
        let mut folders: Vec<String> = Vec::new();
        for file in &files {
            let ends = file.path.match_indices('/').map(|(end, _)| file.path[..end].to_string());
            folders.extend(ends);
        }
        folders.sort();
        folders.dedup();
        Tree { files, folders }
    }

    /// The file at a path from the root.
    pub fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// Whether there is a file or folder at this path; the root is the empty path.
    pub fn has(&self, path: &str) -> bool {
        path.is_empty() || self.file(path).is_some() || self.folders.iter().any(|folder| folder == path)
    }
}

fn tracked(root: &Path) -> Result<Vec<String>> {
    let mut git = Command::new("git");
    git.current_dir(root).args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    Ok(capture(&mut git)?.split('\0').filter(|path| !path.is_empty()).map(String::from).collect())
}

fn walk(root: &Path, folder: &str) -> Result<Vec<String>> {
    let place = root.join(folder);
    let entries = fs::read_dir(&place).map_err(|error| format!("{}: {error}", place.display()))?;
    let mut paths = Vec::new();
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
        if !entry.path().is_dir() {
            paths.push(path);
        } else if ![".git", "target"].contains(&&*name) {
            paths.extend(walk(root, &path)?);
        }
    }
    Ok(paths)
}

/// Reads one file; none if it is tracked but no longer there, or a link.
fn read(root: &Path, path: String) -> Option<Result<File>> {
    let place = root.join(&path);
    if !place.symlink_metadata().is_ok_and(|data| data.is_file()) {
        return None;
    }
    Some(match fs::read(&place) {
        Ok(bytes) => Ok(File { path, text: String::from_utf8(bytes).ok() }),
        Err(error) => Err(format!("{}: {error}", place.display())),
    })
}

/// A file made up for a test.
#[cfg(test)]
pub fn made_up(path: &str, text: &str) -> File {
    File { path: path.into(), text: Some(text.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_without_git_is_walked() {
        let root = tempfile::tempdir().unwrap();
        for path in ["README.md", "crates/a/src/lib.rs", "target/debug/a", "crates/a/data.bin"] {
            fs::create_dir_all(root.path().join(path).parent().unwrap()).unwrap();
            fs::write(
                root.path().join(path),
                if path.ends_with("bin") { &[0xff, 0xfe] } else { "text".as_bytes() },
            )
            .unwrap();
        }
        // The temporary folder may itself lie in somebody's git repository, so git is not asked.
        let mut paths = walk(root.path(), "").unwrap();
        paths.sort();
        assert_eq!(paths, ["README.md", "crates/a/data.bin", "crates/a/src/lib.rs"]);
        assert_eq!(read(root.path(), "crates/a/data.bin".into()).unwrap().unwrap().text, None);
        assert!(read(root.path(), "gone".into()).is_none());
    }

    #[test]
    fn folders_are_known_by_their_files() {
        let tree = Tree::of(vec![made_up("crates/a/src/lib.rs", "")]);
        assert!(tree.has("crates/a/src") && tree.has("crates") && tree.has(""));
        assert!(!tree.has("crates/b") && !tree.has("crates/a/s"));
    }

    #[test]
    fn an_extension_is_that_of_the_name() {
        assert_eq!(made_up(".cargo/run", "").extension(), "");
        assert_eq!(made_up("a.b/c.tar.gz", "").extension(), "gz");
    }
}
