//! Files by descriptor, without the C library: for code that runs inside somebody else's program.

use crate::syscall::{check, syscall0, syscall1, syscall2, syscall3, syscall4};
use core::ffi::CStr;
use core::mem::ManuallyDrop;

/// The error number of what cannot be had at this moment, such as a lock that somebody else has.
pub const NOT_NOW: i32 = libc::EAGAIN;

/// Descriptors from this number on are in the way of few programs: they take the lowest ones that
/// are free, and close all of them from a low one on.
const HIGH_DESCRIPTOR: usize = 500;

/// An open file; closed when dropped.
#[derive(Debug)]
pub struct File {
    descriptor: i32,
}

/// What the kernel says of an open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// The user who owns it.
    pub owner: u32,
    /// Its permission and type bits.
    pub mode: u32,
    /// Its device and number there: two files with the same are one.
    pub identity: (u64, u64),
    /// How many names it has; 0 once it is removed.
    pub names: u64,
    /// Its length.
    pub bytes: u64,
    /// When its content or its names last changed, in nanoseconds since 1970.
    pub changed_ns: u64,
}

impl Status {
    /// Whether it is an ordinary file: no folder, pipe or device.
    pub const fn is_ordinary(&self) -> bool {
        self.mode & libc::S_IFMT == libc::S_IFREG
    }

    /// Whether the user as whom this process acts owns it.
    pub fn is_own(&self) -> bool {
        self.owner == this_user()
    }
}

impl File {
    /// Opens a file for reading.
    ///
    /// # Errors
    /// The error number of `openat`.
    pub fn open(path: &CStr) -> Result<File, i32> {
        File::open_with(path, libc::O_RDONLY, 0)
    }

    /// Opens the file of this name in a folder for reading. A link in its place is not followed, a
    /// pipe not waited for.
    ///
    /// # Errors
    /// The error number of `openat`; `ELOOP` for a link.
    pub fn open_in(folder: &File, name: &CStr) -> Result<File, i32> {
        let flags = libc::O_RDONLY | libc::O_NOFOLLOW | libc::O_NONBLOCK;
        File::open_at(folder.descriptor, name, flags, 0)
    }

    /// Opens a file for reading and writing.
    ///
    /// # Errors
    /// The error number of `openat`.
    pub fn open_read_write(path: &CStr) -> Result<File, i32> {
        File::open_with(path, libc::O_RDWR, 0)
    }

    /// Makes a new, empty file in the place of whatever stood there, for its owner alone; a link in
    /// its place is not followed.
    ///
    /// # Errors
    /// The error number of `openat`.
    pub fn create(path: &CStr) -> Result<File, i32> {
        File::open_with(path, libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC | libc::O_NOFOLLOW, 0o600)
    }

    /// Opens a file to be shared by the processes of its owner, and makes it if it is not there,
    /// for its owner alone. A link in its place is not followed. Whose it is, and what, is the
    /// caller's to ask: see [`File::status`].
    ///
    /// # Errors
    /// The error number of `openat`; `ELOOP` for a link.
    pub fn open_or_create(path: &CStr) -> Result<File, i32> {
        let flags = libc::O_RDWR | libc::O_CREAT | libc::O_NOFOLLOW | libc::O_NONBLOCK;
        File::open_with(path, flags, 0o600)
    }

    /// Makes a new, empty file at a path that the user named: links are followed, and what others
    /// may do with the file is the user's file mode mask to say.
    ///
    /// # Errors
    /// The error number of `openat`.
    pub fn create_for_user(path: &CStr) -> Result<File, i32> {
        File::open_with(path, libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC, 0o666)
    }

    /// Makes a file that is in memory only and has no name; `label` is shown in lists of open
    /// files.
    ///
    /// # Errors
    /// The error number of `memfd_create`.
    pub fn in_memory(label: &CStr) -> Result<File, i32> {
        // SAFETY: the label ends with a zero; a new descriptor disturbs nothing.
        let result =
            unsafe { syscall2(libc::SYS_memfd_create, label.as_ptr().addr(), libc::MFD_CLOEXEC as usize) };
        check(result).map(|descriptor| File { descriptor: descriptor as i32 })
    }

    fn open_with(path: &CStr, flags: i32, mode: u32) -> Result<File, i32> {
        File::open_at(libc::AT_FDCWD, path, flags, mode)
    }

    fn open_at(folder: i32, path: &CStr, flags: i32, mode: u32) -> Result<File, i32> {
        let flags = (flags | libc::O_CLOEXEC | libc::O_NOCTTY) as usize;
        let folder = folder as isize as usize;
        // SAFETY: the path ends with a zero; a new descriptor disturbs nothing.
        let result =
            unsafe { syscall4(libc::SYS_openat, folder, path.as_ptr().addr(), flags, mode as usize) };
        check(result).map(|descriptor| File { descriptor: descriptor as i32 })
    }

    /// The descriptor's number.
    pub fn descriptor(&self) -> i32 {
        self.descriptor
    }

    /// The file with this descriptor, which somebody else keeps open and closes, if anybody does.
    pub const fn borrowed(descriptor: i32) -> ManuallyDrop<File> {
        ManuallyDrop::new(File { descriptor })
    }

    /// The same file under a high number, out of the way of programs, or under its own if the
    /// kernel refuses; still closed when another program is executed.
    #[must_use]
    pub fn to_high_descriptor(self) -> File {
        let (from, how) = (self.descriptor as usize, libc::F_DUPFD_CLOEXEC as usize);
        // SAFETY: a new descriptor disturbs nothing.
        let result = unsafe { syscall3(libc::SYS_fcntl, from, how, HIGH_DESCRIPTOR) };
        check(result).map_or(self, |descriptor| File { descriptor: descriptor as i32 })
    }

    /// Leaves the file open; returns its descriptor's number.
    pub fn into_descriptor(self) -> i32 {
        ManuallyDrop::new(self).descriptor
    }

    /// Reads at `offset` until `into` is full or the file ends; returns how many bytes were read.
    ///
    /// # Errors
    /// The error number of `pread64`.
    pub fn read_at(&self, into: &mut [u8], offset: u64) -> Result<usize, i32> {
        let mut done = 0;
        while done < into.len() {
            let rest = &mut into[done..];
            // SAFETY: the kernel writes at most `rest.len()` bytes to `rest`.
            let result = unsafe {
                syscall4(
                    libc::SYS_pread64,
                    self.descriptor as usize,
                    rest.as_mut_ptr().addr(),
                    rest.len(),
                    offset as usize + done,
                )
            };
            match check(result) {
                Ok(0) => break,
                Ok(bytes) => done += bytes,
                Err(libc::EINTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    /// Reads at `offset` with one call, which may return less than there is; returns how many bytes
    /// were read.
    ///
    /// For the small files that the kernel makes up while they are read: it hands out all of such a
    /// file at once, and [`File::read_at`] would have it made up a second time to learn that it
    /// ends.
    ///
    /// # Errors
    /// The error number of `pread64`.
    pub fn read_once_at(&self, into: &mut [u8], offset: u64) -> Result<usize, i32> {
        loop {
            // SAFETY: the kernel writes at most `into.len()` bytes to `into`.
            let result = unsafe {
                syscall4(
                    libc::SYS_pread64,
                    self.descriptor as usize,
                    into.as_mut_ptr().addr(),
                    into.len(),
                    offset as usize,
                )
            };
            match check(result) {
                Err(libc::EINTR) => {}
                other => return other,
            }
        }
    }

    /// Writes all of `bytes` at `offset`.
    ///
    /// # Errors
    /// The error number of `pwrite64`, or `EIO` if the file takes no more.
    pub fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), i32> {
        let mut done = 0;
        while done < bytes.len() {
            let rest = &bytes[done..];
            // SAFETY: the kernel reads at most `rest.len()` bytes from `rest`. What this does to
            // the process if the file is /proc/self/mem is its caller's concern: see `write_text`.
            let result = unsafe {
                syscall4(
                    libc::SYS_pwrite64,
                    self.descriptor as usize,
                    rest.as_ptr().addr(),
                    rest.len(),
                    offset as usize + done,
                )
            };
            match check(result) {
                Ok(0) => return Err(libc::EIO),
                Ok(bytes) => done += bytes,
                Err(libc::EINTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Makes the file `bytes` bytes long; what is new reads as zeroes.
    ///
    /// # Errors
    /// The error number of `ftruncate`.
    pub fn set_length(&self, bytes: usize) -> Result<(), i32> {
        // SAFETY: takes no pointer.
        check(unsafe { syscall2(libc::SYS_ftruncate, self.descriptor as usize, bytes) }).map(drop)
    }

    /// Makes the file `bytes` bytes long and reserves them, so that a mapping of the file finds
    /// room for each of its pages; what is new reads as zeroes.
    ///
    /// # Errors
    /// The error number of `fallocate`, or of writing where the file system cannot reserve.
    pub fn reserve(&self, bytes: usize) -> Result<(), i32> {
        const PART: [u8; 4096] = [0; 4096];
        // SAFETY: takes no pointer.
        let result = unsafe { syscall4(libc::SYS_fallocate, self.descriptor as usize, 0, 0, bytes) };
        match check(result) {
            Err(libc::EOPNOTSUPP | libc::ENOSYS) => (0..bytes)
                .step_by(PART.len())
                .try_for_each(|at| self.write_at(&PART[..PART.len().min(bytes - at)], at as u64)),
            other => other.map(drop),
        }
    }

    /// The kernel's number of the file system that the file is on, such as `TMPFS_MAGIC`.
    ///
    /// # Errors
    /// The error number of `fstatfs`.
    pub fn file_system(&self) -> Result<i64, i32> {
        let mut status = core::mem::MaybeUninit::<libc::statfs>::zeroed();
        let place = status.as_mut_ptr().addr();
        // SAFETY: the kernel's `struct statfs` is the C library's on these machines; zeroes are
        // valid.
        let status = unsafe {
            check(syscall2(libc::SYS_fstatfs, self.descriptor as usize, place))?;
            status.assume_init()
        };
        Ok(status.f_type)
    }

    /// Returns the owner of the file (user id), and its permission and type bits.
    ///
    /// # Errors
    /// The error number of `fstat`.
    pub fn owner_and_mode(&self) -> Result<(u32, u32), i32> {
        self.status().map(|status| (status.owner, status.mode))
    }

    /// What the kernel says of the file.
    ///
    /// # Errors
    /// The error number of `fstat`.
    #[allow(clippy::useless_conversion, reason = "the number of names is a u32 on aarch64")]
    pub fn status(&self) -> Result<Status, i32> {
        let mut status = core::mem::MaybeUninit::<libc::stat>::zeroed();
        let place = status.as_mut_ptr().addr();
        // SAFETY: the kernel's `struct stat` is the C library's on these machines; zeroes are
        // valid.
        let status = unsafe {
            check(syscall2(libc::SYS_fstat, self.descriptor as usize, place))?;
            status.assume_init()
        };
        Ok(Status {
            owner: status.st_uid,
            mode: status.st_mode,
            identity: (status.st_dev, status.st_ino),
            names: status.st_nlink.into(),
            bytes: status.st_size as u64,
            changed_ns: (status.st_ctime as u64)
                .wrapping_mul(1_000_000_000)
                .wrapping_add(status.st_ctime_nsec as u64),
        })
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // SAFETY: the descriptor is ours.
        let _ = unsafe { syscall1(libc::SYS_close, self.descriptor as usize) };
    }
}

/// Writes all of `bytes` to a descriptor that this process was given, such as standard error; gives
/// up without a word at the first error.
pub fn write_all(descriptor: i32, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        // SAFETY: the kernel reads at most `bytes.len()` bytes from `bytes`.
        let result =
            unsafe { syscall3(libc::SYS_write, descriptor as usize, bytes.as_ptr().addr(), bytes.len()) };
        match check(result) {
            Ok(0) => return,
            Ok(written) => bytes = &bytes[written..],
            Err(libc::EINTR) => {}
            Err(_) => return,
        }
    }
}

/// The user as whom this process acts: the owner of the files that it makes.
pub fn this_user() -> u32 {
    // SAFETY: only reads.
    check(unsafe { syscall0(libc::SYS_geteuid) }).map_or(0, |user| user as u32)
}

/// Makes a folder for its owner alone; one that is there already is no error.
///
/// # Errors
/// The error number of `mkdirat`.
pub fn make_folder(path: &CStr) -> Result<(), i32> {
    let folder = libc::AT_FDCWD as isize as usize;
    // SAFETY: the path ends with a zero.
    match check(unsafe { syscall3(libc::SYS_mkdirat, folder, path.as_ptr().addr(), 0o700) }) {
        Ok(_) | Err(libc::EEXIST) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Gives the file at `from` the name `to`, in the place of any file that has it, in one step.
///
/// # Errors
/// The error number of `renameat`.
pub fn rename(from: &CStr, to: &CStr) -> Result<(), i32> {
    let folder = libc::AT_FDCWD as isize as usize;
    // SAFETY: both paths end with a zero; the file system may be changed.
    check(unsafe { syscall4(libc::SYS_renameat, folder, from.as_ptr().addr(), folder, to.as_ptr().addr()) })
        .map(|_| ())
}

/// Removes a file's name.
///
/// # Errors
/// The error number of `unlinkat`.
pub fn remove(path: &CStr) -> Result<(), i32> {
    let folder = libc::AT_FDCWD as isize as usize;
    // SAFETY: the path ends with a zero.
    check(unsafe { syscall3(libc::SYS_unlinkat, folder, path.as_ptr().addr(), 0) }).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(name: &str) -> std::ffi::CString {
        let path = std::env::temp_dir().join(format!("manx-file-{}-{name}", std::process::id()));
        std::ffi::CString::new(path.to_str().expect("utf-8")).expect("no zero")
    }

    #[test]
    fn written_bytes_are_read_and_a_read_ends_at_the_end_of_the_file() {
        let path = path("rw");
        let file = File::create(&path).expect("created");
        file.write_at(b"manx", 4).expect("written");
        file.set_length(16).expect("longer");
        let mut bytes = [1; 32];
        assert_eq!(file.read_at(&mut bytes, 0), Ok(16));
        assert_eq!(&bytes[..16], b"\0\0\0\0manx\0\0\0\0\0\0\0\0");
        let descriptor = file.into_descriptor();
        let file = File::borrowed(descriptor);
        assert_eq!((file.read_once_at(&mut bytes[..4], 4), &bytes[..4]), (Ok(4), &b"manx"[..]));
        let (owner, mode) = file.owner_and_mode().expect("status");
        // SAFETY: geteuid only reads.
        assert_eq!((owner, mode & 0o777), (unsafe { libc::geteuid() }, 0o600));
        drop(ManuallyDrop::into_inner(file));
        assert_eq!(File::borrowed(descriptor).owner_and_mode(), Err(libc::EBADF));
        assert_eq!(remove(&path), Ok(()));
        assert_eq!(File::open(&path).map(drop), Err(libc::ENOENT));
    }

    #[test]
    fn a_link_is_not_followed_when_creating_or_in_a_folder() {
        let (path, target) = (path("link"), path("target"));
        std::os::unix::fs::symlink(target.to_str().unwrap(), path.to_str().unwrap()).expect("a link");
        assert_eq!(File::create(&path).map(drop), Err(libc::ELOOP));
        let folder = std::ffi::CString::new(std::env::temp_dir().to_str().expect("utf-8")).expect("no zero");
        let folder = File::open(&folder).expect("a folder");
        let name = path.to_bytes().rsplit(|&b| b == b'/').next().expect("a name").to_vec();
        let name = std::ffi::CString::new(name).expect("no zero");
        assert_eq!(File::open_in(&folder, &name).map(drop), Err(libc::ELOOP));
        assert_eq!(File::open_in(&folder, c"no such file of manx").map(drop), Err(libc::ENOENT));
        remove(&path).expect("removed");
    }
}
