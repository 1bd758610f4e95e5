//! What is in a folder, without the C library: for code that runs inside somebody else's program.
//!
//! The kernel writes the entries of a folder into a buffer, one behind the other: a number (8
//! bytes), a position (8), the entry's length (2), its kind (1), and its name with a zero behind
//! it.

use crate::file::File;
use crate::syscall::{check, syscall3};
use core::ffi::CStr;

/// Where an entry's length, kind and name are.
const LENGTH: usize = 16;
const KIND: usize = 18;
const NAME: usize = 19;

/// Calls `each` with the name of every folder in the folder at `path`, until it says that it has
/// seen enough (`false`).
///
/// ```
/// let mut names = Vec::new();
/// platform::folder::each_folder(c"/proc/self", |name| {
///     names.push(name.to_vec());
///     true
/// })?;
/// assert!(names.contains(&b"task".to_vec()) && !names.contains(&b"stat".to_vec()));
/// # Ok::<(), i32>(())
/// ```
///
/// # Errors
/// The error number of `openat` or `getdents64`.
pub fn each_folder(path: &CStr, mut each: impl FnMut(&[u8]) -> bool) -> Result<(), i32> {
    let file = File::open(path)?;
    let mut buffer = [0_u8; 4096];
    loop {
        // SAFETY: the kernel writes at most `buffer.len()` bytes to `buffer`.
        let read = unsafe {
            syscall3(
                libc::SYS_getdents64,
                file.descriptor() as usize,
                buffer.as_mut_ptr().addr(),
                buffer.len(),
            )
        };
        let length = check(read)?;
        let mut rest = &buffer[..length.min(buffer.len())];
        if rest.is_empty() {
            return Ok(());
        }
        while let Some((kind, name, behind)) = entry(rest) {
            rest = behind;
            // Some file systems do not say what an entry is; what is no folder turns out when it is
            // opened.
            let is_folder = matches!(kind, libc::DT_DIR | libc::DT_UNKNOWN);
            if is_folder && name != b"." && name != b".." && !each(name) {
                return Ok(());
            }
        }
    }
}

/// The first entry's kind and name, and the entries behind it.
fn entry(entries: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let length = usize::from(u16::from_ne_bytes(entries.get(LENGTH..KIND)?.try_into().ok()?));
    let (entry, behind) = entries.split_at_checked(length)?;
    let name = CStr::from_bytes_until_nul(entry.get(NAME..)?).ok()?;
    Some((entry[KIND], name.to_bytes(), behind))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn folders_are_listed_however_many() {
        let root = std::env::temp_dir().join(format!("manx-folder-{}", std::process::id()));
        let names: Vec<String> = (0..300).map(|number| format!("{number:0>40}")).collect();
        for name in &names {
            std::fs::create_dir_all(root.join(name)).expect("made");
        }
        std::fs::write(root.join("a file"), "").expect("written");
        let path = std::ffi::CString::new(root.as_os_str().as_bytes()).expect("no zero");
        let mut found = Vec::new();
        let listed = each_folder(&path, |name| {
            found.push(String::from_utf8_lossy(name).into_owned());
            true
        });
        let mut seen = 0;
        let stopped = each_folder(&path, |_| {
            seen += 1;
            seen < 7
        });
        std::fs::remove_dir_all(&root).expect("removed");
        found.sort();
        assert_eq!((listed, found), (Ok(()), names));
        assert_eq!((stopped, seen), (Ok(()), 7));
        assert_eq!(each_folder(&path, |_| true), Err(libc::ENOENT));
        assert_eq!(each_folder(c"/proc/self/stat", |_| true), Err(libc::ENOTDIR));
    }
}
