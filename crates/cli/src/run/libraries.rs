//! Which libraries a program will load when it starts, found as the loader finds them.
//!
//! The order is ld.so(8)'s: `DT_RPATH`, `LD_LIBRARY_PATH`, `DT_RUNPATH`, then the system's folders.
//! Its cache is not read, but the configuration that the cache is made from is. What a program
//! opens later with `dlopen` cannot be known before it runs.

use super::elf::{Elf, Machine};
use std::collections::{BTreeSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// The folder below `lib` where Debian keeps this machine's libraries.
const TRIPLET: &str = if cfg!(target_arch = "aarch64") { "aarch64-linux-gnu" } else { "x86_64-linux-gnu" };
/// The loader's configuration.
const CONFIGURATION: &str = "/etc/ld.so.conf";
/// How deep the configuration may include itself.
const INCLUDE_DEPTH_MAX: usize = 8;

/// What a program loads.
#[derive(Debug, Default)]
pub struct Libraries {
    /// The files: the program first, then its libraries in the order in which they are asked for.
    pub files: Vec<PathBuf>,
    /// The names of those that were not found.
    pub missing: Vec<String>,
}

/// Finds what `program` loads. `preloaded` is its `LD_PRELOAD`.
pub fn find(program: &Path, elf: &Elf, preloaded: &OsStr) -> Libraries {
    let system = system_folders();
    let library_path = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let inherited: Vec<PathBuf> = elf.rpath.iter().map(|folder| expand(folder, program)).collect();
    let mut libraries = Libraries { files: vec![program.to_owned()], missing: Vec::new() };
    let mut met = BTreeSet::new();
    let mut waiting: VecDeque<(String, PathBuf, Elf)> = VecDeque::new();
    let enqueue = |waiting: &mut VecDeque<_>, names: &[String], path: &Path, elf: &Elf| {
        waiting.extend(names.iter().map(|name| (name.clone(), path.to_owned(), elf.clone())));
    };
    let first: Vec<String> = preloaded
        .as_bytes()
        .split(|b| b" :".contains(b))
        .filter(|entry| !entry.is_empty())
        .map(|entry| String::from_utf8_lossy(entry).into_owned())
        .collect();
    enqueue(&mut waiting, &first, program, elf);
    enqueue(&mut waiting, &elf.needed, program, elf);

    while let Some((name, requester, requesters_elf)) = waiting.pop_front() {
        let file_name = name.rsplit('/').next().unwrap_or(&name).to_owned();
        if !met.insert(file_name) {
            continue;
        }
        let own = |folders: &[String]| -> Vec<PathBuf> {
            folders.iter().map(|folder| expand(folder, &requester)).collect()
        };
        let folders: Vec<PathBuf> = if name.contains('/') {
            vec![PathBuf::new()]
        } else {
            let before = if requesters_elf.runpath.is_empty() { own(&requesters_elf.rpath) } else { vec![] };
            let from_environment =
                std::env::split_paths(&library_path).filter(|folder| !folder.as_os_str().is_empty());
            before
                .into_iter()
                .chain(inherited.iter().cloned())
                .chain(from_environment)
                .chain(own(&requesters_elf.runpath))
                .chain(system.iter().cloned())
                .collect()
        };
        let found = folders.iter().map(|folder| folder.join(expand(&name, &requester))).find_map(|file| {
            let elf = Elf::read(&file).ok()??;
            (elf.machine == Machine::Ours).then_some((file, elf))
        });
        match found {
            Some((file, elf)) => {
                enqueue(&mut waiting, &elf.needed, &file, &elf);
                libraries.files.push(file);
            }
            None => libraries.missing.push(name),
        }
    }
    libraries
}

/// Replaces the loader's tokens in `text`, a part of the file `of`.
fn expand(text: &str, of: &Path) -> PathBuf {
    let folder = of.canonicalize().unwrap_or_else(|_| of.to_owned());
    let origin = folder.parent().unwrap_or(Path::new("/")).to_string_lossy().into_owned();
    let lib =
        if Path::new("/lib").join(TRIPLET).is_dir() { format!("lib/{TRIPLET}") } else { "lib64".into() };
    let platform = TRIPLET.split('-').next().unwrap_or_default();
    let mut expanded = text.to_owned();
    for (token, value) in [("ORIGIN", &*origin), ("LIB", &*lib), ("PLATFORM", platform)] {
        expanded = expanded.replace(&format!("${{{token}}}"), value).replace(&format!("${token}"), value);
    }
    expanded.into()
}

fn system_folders() -> Vec<PathBuf> {
    let mut folders = Vec::new();
    configured(Path::new(CONFIGURATION), 0, &mut folders);
    for base in ["/lib", "/usr/lib"] {
        folders.push(Path::new(base).join(TRIPLET));
        folders.push(format!("{base}64").into());
        folders.push(base.into());
    }
    folders
}

/// Adds the folders that the loader's configuration names.
fn configured(file: &Path, depth: usize, folders: &mut Vec<PathBuf>) {
    let Ok(text) = std::fs::read_to_string(file) else { return };
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default().trim();
        match line.strip_prefix("include").filter(|rest| rest.starts_with([' ', '\t'])) {
            Some(patterns) if depth < INCLUDE_DEPTH_MAX => {
                for pattern in patterns.split_whitespace() {
                    let pattern = file.parent().unwrap_or(Path::new("/")).join(pattern);
                    matching(&pattern).iter().for_each(|file| configured(file, depth + 1, folders));
                }
            }
            Some(_) => {}
            None if line.starts_with('/') => folders.push(line.into()),
            None => {}
        }
    }
}

/// The files that `pattern` names, in order; its last part may hold one `*`, as everybody's does.
fn matching(pattern: &Path) -> Vec<PathBuf> {
    let Some(name) = pattern.file_name().and_then(OsStr::to_str) else { return Vec::new() };
    let Some((start, end)) = name.split_once('*') else { return vec![pattern.to_owned()] };
    let folder = pattern.parent().unwrap_or(Path::new("/"));
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let fits = |name: &OsString| {
        let name = name.as_bytes();
        name.len() >= start.len() + end.len()
            && name.starts_with(start.as_bytes())
            && name.ends_with(end.as_bytes())
    };
    let mut files: Vec<PathBuf> =
        entries.flatten().filter(|entry| fits(&entry.file_name())).map(|entry| entry.path()).collect();
    files.sort();
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_c_library_is_found() {
        let me = std::env::current_exe().expect("this program's path");
        let elf = Elf::read(&me).expect("readable").expect("an ELF file");
        let found = find(&me, &elf, OsStr::new(""));
        assert_eq!(found.files[0], me);
        let names: Vec<_> = found.files.iter().filter_map(|file| file.file_name()?.to_str()).collect();
        assert!(names.contains(&"libc.so.6") && found.missing.is_empty(), "{found:?}");
    }

    #[test]
    fn what_is_not_there_is_named_and_nothing_is_met_twice() {
        let me = std::env::current_exe().expect("this program's path");
        let mut elf = Elf::read(&me).expect("readable").expect("an ELF file");
        elf.needed = vec!["libc.so.6".into(), "libnonsense.so.1".into(), "libc.so.6".into()];
        let found = find(&me, &elf, OsStr::new("/nonsense/other.so libnonsense.so.1"));
        assert_eq!(found.missing, ["/nonsense/other.so", "libnonsense.so.1"]);
        assert_eq!(found.files.iter().filter(|file| file.ends_with("libc.so.6")).count(), 1);
    }

    #[test]
    fn tokens_are_expanded() {
        let expanded = |text| expand(text, Path::new("/opt/app/bin/program"));
        assert_eq!(expanded("$ORIGIN/../lib"), Path::new("/opt/app/bin/../lib"));
        assert_eq!(expanded("${ORIGIN}/x"), Path::new("/opt/app/bin/x"));
        assert_eq!(expanded("/plain"), Path::new("/plain"));
    }

    #[test]
    fn the_configuration_is_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("written");
        std::fs::create_dir(folder.path().join("d")).expect("made");
        write("conf", "# first\ninclude d/*.conf\n/opt/lib # last\nincluded\n");
        write("d/b.conf", "/b\ninclude ../conf\n");
        write("d/a.conf", "/a\n");
        write("d/a.other", "/other\n");
        let mut folders = Vec::new();
        configured(&folder.path().join("conf"), INCLUDE_DEPTH_MAX - 1, &mut folders);
        assert_eq!(folders, ["/a", "/b", "/opt/lib"].map(PathBuf::from));
    }
}
