//! A process that stays beside the program must not be noticed by it: it leaves everything that the
//! launcher shares with it.

use std::io;
use std::os::fd::RawFd;

/// Closes all descriptors but the kept one, opens `/dev/null` in place of the standard ones, and
/// leaves the folder. Returns a descriptor for the kept one that goes on over `exec`, and is no
/// standard one, which the kept one may be if the launcher was started without some of these.
///
/// # Errors
/// There are no descriptors left, or there is no `/dev/null`.
pub fn leave_program(kept: RawFd) -> io::Result<RawFd> {
    // SAFETY: a new descriptor disturbs nothing.
    let kept = unsafe { libc::fcntl(kept, libc::F_DUPFD, 3) };
    if kept < 0 {
        return Err(io::Error::last_os_error());
    }
    let open: Vec<RawFd> = std::fs::read_dir("/proc/self/fd")?
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    for descriptor in open.into_iter().filter(|descriptor| *descriptor > 2 && *descriptor != kept) {
        // SAFETY: this process uses none of them. The list's own descriptor is closed already, and
        // closing it again does nothing.
        unsafe { libc::close(descriptor) };
    }
    // SAFETY: paths end with a zero, and the descriptors are this process's.
    unsafe {
        let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
        if null < 0 {
            return Err(io::Error::last_os_error());
        }
        for standard in 0..=2 {
            libc::dup2(null, standard);
        }
        if null > 2 {
            libc::close(null);
        }
        libc::chdir(c"/".as_ptr());
    }
    Ok(kept)
}
