//! Locks of byte ranges of files that the kernel keeps, one owner an open file description.
//!
//! Two descriptions of one file exclude each other, within a process as well as between two: so
//! threads that want to exclude each other open the file once each. The kernel finds no deadlock
//! among them and gives a range to whichever waiter runs first. A description that is closed gives
//! back all its ranges.

use crate::file::File;
use crate::syscall::{check, syscall3};

impl File {
    /// Waits until `bytes` bytes from `offset` on are locked by this open file description alone
    /// (`F_OFD_SETLKW`); 0 bytes reach to the end, wherever that will be. What it holds already is
    /// no hindrance.
    ///
    /// # Errors
    /// The error number of `fcntl`: `EINVAL` for a range that does not fit into a file, `ENOLCK` if
    /// the kernel has no more.
    pub fn lock_range(&self, offset: u64, bytes: u64) -> Result<(), i32> {
        self.range(libc::F_OFD_SETLKW, libc::F_WRLCK, offset, bytes)
    }

    /// The same without waiting.
    ///
    /// # Errors
    /// As [`lock_range`](File::lock_range); `EAGAIN` if another description has a part of it.
    pub fn try_lock_range(&self, offset: u64, bytes: u64) -> Result<(), i32> {
        self.range(libc::F_OFD_SETLK, libc::F_WRLCK, offset, bytes)
    }

    /// Gives the range back, whether all of it was held or not.
    ///
    /// # Errors
    /// As [`lock_range`](File::lock_range).
    pub fn unlock_range(&self, offset: u64, bytes: u64) -> Result<(), i32> {
        self.range(libc::F_OFD_SETLK, libc::F_UNLCK, offset, bytes)
    }

    /// Whether a part of the range is locked by another open file description, of whatever process.
    ///
    /// # Errors
    /// As [`lock_range`](File::lock_range).
    pub fn is_range_locked(&self, offset: u64, bytes: u64) -> Result<bool, i32> {
        self.ask(libc::F_OFD_GETLK, libc::F_WRLCK, offset, bytes)
            .map(|lock| i32::from(lock.l_type) != libc::F_UNLCK)
    }

    fn range(&self, command: i32, kind: i32, offset: u64, bytes: u64) -> Result<(), i32> {
        self.ask(command, kind, offset, bytes).map(drop)
    }

    fn ask(&self, command: i32, kind: i32, offset: u64, bytes: u64) -> Result<libc::flock, i32> {
        let (Ok(start), Ok(length)) = (i64::try_from(offset), i64::try_from(bytes)) else {
            return Err(libc::EINVAL);
        };
        let mut lock = libc::flock {
            l_type: kind as libc::c_short,
            l_whence: libc::SEEK_SET as libc::c_short,
            l_start: start,
            l_len: length,
            // Must be zero: the owner is the description.
            l_pid: 0,
        };
        loop {
            // The kernel may write there, and the compiler has to know.
            let place = (&raw mut lock).expose_provenance();
            // SAFETY: the kernel reads, or answers by writing, one `struct flock`; on these
            // machines it is the C library's.
            let result =
                unsafe { syscall3(libc::SYS_fcntl, self.descriptor() as usize, command as usize, place) };
            match check(result) {
                Err(libc::EINTR) => {}
                other => return other.map(|_| lock),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_descriptions_of_a_file_exclude_each_other_where_they_overlap() {
        let path = std::env::temp_dir().join(format!("manx-file-lock-{}", std::process::id()));
        let path = std::ffi::CString::new(path.to_str().expect("utf-8")).expect("no zero");
        let one = File::create(&path).expect("created");
        let other = File::open_read_write(&path).expect("opened");
        crate::file::remove(&path).expect("removed");
        one.lock_range(10, 10).expect("locked");
        assert_eq!(other.try_lock_range(19, 1), Err(libc::EAGAIN));
        assert_eq!(other.try_lock_range(20, 5), Ok(()));
        assert_eq!(one.try_lock_range(0, 20), Ok(()), "its own ranges are in nobody's way");
        assert_eq!((one.is_range_locked(10, 10), one.is_range_locked(0, 0)), (Ok(false), Ok(true)));
        assert_eq!((other.is_range_locked(19, 1), other.is_range_locked(20, 9)), (Ok(true), Ok(false)));
        assert_eq!(one.try_lock_range(0, 0), Err(libc::EAGAIN), "to the end, so across the other's");
        one.unlock_range(0, 0).expect("unlocked");
        assert_eq!(other.lock_range(0, 0), Ok(()));
        assert_eq!(other.lock_range(u64::MAX, 1), Err(libc::EINVAL));
    }

    #[test]
    fn closing_gives_the_ranges_back() {
        let path = std::env::temp_dir().join(format!("manx-file-close-{}", std::process::id()));
        let path = std::ffi::CString::new(path.to_str().expect("utf-8")).expect("no zero");
        let one = File::create(&path).expect("created");
        let other = File::open_read_write(&path).expect("opened");
        crate::file::remove(&path).expect("removed");
        one.lock_range(0, 1).expect("locked");
        assert_eq!(other.try_lock_range(0, 1), Err(libc::EAGAIN));
        drop(one);
        assert_eq!(other.try_lock_range(0, 1), Ok(()));
    }
}
