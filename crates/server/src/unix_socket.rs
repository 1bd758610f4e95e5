//! A socket in the file system, for clients on the same machine.
//!
//! Its file is there from before the server listens until it accepts no more clients. A file that a
//! server has left, because it was killed, is a socket to which nothing can be connected: it is
//! replaced. Any other file is left alone, and the server does not start.
//!
//! Invariants:
//! 1. The file has its permissions before the server listens, so no other client is ever accepted.
//! 2. Only the file that this server has made is removed at the end: another one may have been put
//!    in its place.

use socket2::{Domain, SockAddr, Socket, Type};
use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// How many clients may wait to be accepted, as in Redis.
const BACKLOG: i32 = 511;

/// A socket that listens; its file is removed when it is dropped.
#[derive(Debug)]
pub(crate) struct UnixSocket {
    pub(crate) socket: Socket,
    pub(crate) path: PathBuf,
    /// The file's device and number.
    file: (u64, u64),
}

impl UnixSocket {
    /// Listens at this path. The file has these permissions, or those that the process gives to
    /// each file.
    ///
    /// # Errors
    /// There is something else already, or the system's.
    pub(crate) fn listen(path: &Path, permissions: Option<u32>) -> io::Result<UnixSocket> {
        let address = SockAddr::unix(path)?;
        remove_stale(path, &address)?;
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        socket.bind(&address)?;
        let about = fs::symlink_metadata(path)?;
        let listening = UnixSocket { socket, path: path.into(), file: (about.dev(), about.ino()) };
        if let Some(mode) = permissions {
            // Invariant 1.
            fs::set_permissions(path, Permissions::from_mode(mode))?;
        }
        listening.socket.listen(BACKLOG)?;
        listening.socket.set_nonblocking(true)?;
        Ok(listening)
    }
}

impl Drop for UnixSocket {
    fn drop(&mut self) {
        // Invariant 2.
        let is_ours =
            fs::symlink_metadata(&self.path).is_ok_and(|about| (about.dev(), about.ino()) == self.file);
        if is_ours {
            // What cannot be removed is replaced by the next server.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Removes a socket to which no server listens.
fn remove_stale(path: &Path, address: &SockAddr) -> io::Result<()> {
    let about = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        about => about?,
    };
    if !about.file_type().is_socket() {
        return Err(io::Error::new(ErrorKind::AlreadyExists, "a file that is no socket is there"));
    }
    let probe = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    // A server whose queue is full is one.
    probe.set_nonblocking(true)?;
    match probe.connect(address) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => fs::remove_file(path),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Err(error),
        _ => Err(io::Error::new(ErrorKind::AddrInUse, "another server listens there")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::{UnixListener, UnixStream};

    #[test]
    fn the_file_is_there_as_long_as_the_socket() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        for mode in [0o600, 0o777] {
            let listening = UnixSocket::listen(&path, Some(mode)).unwrap();
            assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, mode);
            UnixStream::connect(&path).unwrap();
            drop(listening);
            assert!(!path.exists());
        }
    }

    #[test]
    fn a_file_that_a_server_has_left_is_replaced_and_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let listening = UnixSocket::listen(&path, None).unwrap();
        let second = UnixSocket::listen(&path, None).unwrap_err();
        assert_eq!(second.kind(), ErrorKind::AddrInUse);
        assert!(path.exists());
        // Another server's file is not removed.
        fs::remove_file(&path).unwrap();
        let other = UnixListener::bind(&path).unwrap();
        drop(listening);
        assert!(path.exists());
        drop(other);
        fs::remove_file(&path).unwrap();
        fs::write(&path, "text").unwrap();
        assert_eq!(UnixSocket::listen(&path, None).unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).unwrap(), b"text");
        let long = folder.path().join("x".repeat(200));
        assert_eq!(UnixSocket::listen(&long, None).unwrap_err().kind(), ErrorKind::InvalidInput);
    }
}
