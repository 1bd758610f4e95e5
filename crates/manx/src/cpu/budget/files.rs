//! Files below a folder that looks like `/`: the machine's own, or one made up by a test.
//!
//! They are read without the C library, so that a program that has replaced `open` or `read` sees
//! nothing of it.

use platform::file::File;
use platform::folder;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The longest file that is read, in bytes: the list of mounts of a machine with many thousand of
/// them.
const BYTES_MAX: usize = 8 << 20;

/// So much is read by one call.
const PIECE: usize = 1024;

/// A folder that looks like `/`.
#[derive(Clone, Debug)]
pub(super) struct Files {
    /// Without the slash at its end, so it is empty for the machine's own.
    root: Vec<u8>,
}

impl Files {
    pub(super) fn new(root: &Path) -> Files {
        let mut root = root.as_os_str().as_bytes().to_vec();
        while root.last() == Some(&b'/') {
            root.pop();
        }
        Files { root }
    }

    /// Opens a file by its absolute path.
    ///
    /// # Errors
    /// The kernel's error number.
    pub(super) fn open(&self, path: &[u8]) -> Result<File, i32> {
        File::open(&self.path(path)?)
    }

    /// The whole file.
    ///
    /// # Errors
    /// The kernel's error number.
    pub(super) fn read(&self, path: &[u8]) -> Result<Vec<u8>, i32> {
        read_all(&self.open(path)?)
    }

    /// The whole of a file that the kernel writes in one piece, as it does those of groups: mostly
    /// by one call.
    ///
    /// # Errors
    /// The kernel's error number.
    pub(super) fn read_piece(&self, path: &[u8]) -> Result<Vec<u8>, i32> {
        read_piece(&self.open(path)?)
    }

    /// Whether there is such a file, readable or not.
    pub(super) fn exists(&self, path: &[u8]) -> bool {
        !matches!(self.open(path), Err(NOT_THERE | NO_FOLDER))
    }

    /// Calls `each` with the name of every folder in a folder, until it says that it has seen
    /// enough.
    ///
    /// # Errors
    /// The kernel's error number.
    pub(super) fn each_folder(&self, path: &[u8], each: impl FnMut(&[u8]) -> bool) -> Result<(), i32> {
        folder::each_folder(&self.path(path)?, each)
    }

    fn path(&self, path: &[u8]) -> Result<CString, i32> {
        // A zero is in no path, so a file with such a name is not there.
        CString::new([&self.root, path].concat()).map_err(|_| NOT_THERE)
    }
}

const NOT_PERMITTED: i32 = 1;
const NOT_THERE: i32 = 2;
const NO_ACCESS: i32 = 13;
const NO_DEVICE: i32 = 19;
const NO_FOLDER: i32 = 20;

/// Why a file was not read, in words.
pub(super) fn words(error: i32) -> String {
    match error {
        NOT_THERE | NO_FOLDER => "is not there".into(),
        NOT_PERMITTED | NO_ACCESS => "may not be read".into(),
        NO_DEVICE => "is gone".into(),
        other => format!("cannot be read (error {other})"),
    }
}

/// Whether this error says that there is no such file.
pub(super) fn is_missing(error: i32) -> bool {
    matches!(error, NOT_THERE | NO_FOLDER)
}

/// All that an open file has, if the kernel writes it in one piece.
pub(super) fn read_piece(file: &File) -> Result<Vec<u8>, i32> {
    let mut bytes = [0; PIECE];
    match file.read_once_at(&mut bytes, 0)? {
        // There may be more.
        PIECE => read_all(file),
        length => Ok(bytes[..length].to_vec()),
    }
}

/// All that an open file has.
pub(super) fn read_all(file: &File) -> Result<Vec<u8>, i32> {
    let mut bytes = vec![0; 4096];
    let mut length = 0;
    loop {
        length += file.read_at(&mut bytes[length..], length as u64)?;
        if length < bytes.len() || length >= BYTES_MAX {
            bytes.truncate(length);
            return Ok(bytes);
        }
        bytes.resize(length * 4, 0);
    }
}
