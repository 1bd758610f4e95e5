//! The process that we are in: its id, what its environment says, and how to say something in it.
//!
//! Everything here allocates nothing and works before any constructor has run.

use core::ffi::{CStr, c_char};
use core::fmt;
use core::sync::atomic::{AtomicU32, Ordering};
use platform::file::{File, write_all};
use platform::syscall::{check, syscall0, syscall4};

/// The process id. Asked of the kernel each time: a forked child has another.
pub fn id() -> u32 {
    // SAFETY: only reads.
    check(unsafe { syscall0(libc::SYS_getpid) }).map_or(0, |id| id as u32)
}

/// How many threads there are, if `/proc` tells.
pub fn threads() -> Option<u64> {
    // The folder of threads has a name more for each of them than the 2 of any folder. To ask for
    // that costs a fraction of the long text that says it, too.
    let names = File::open(c"/proc/self/task").and_then(|folder| folder.status()).map(|status| status.names);
    names.ok().filter(|names| *names > 2).map(|names| names - 2).or_else(|| status(b"Threads:"))
}

/// The process whose memory this is. A child that shares its parent's memory (`vfork`, or `clone`
/// with `CLONE_VM`) finds another process's number here, and that process's threads run.
static OWNER: AtomicU32 = AtomicU32::new(0);

/// Notes that the memory is this process's own: at its start, and after `fork`.
pub fn owns_memory() {
    // Relaxed: there is one thread, and others see it as they see all that it did before.
    OWNER.store(id(), Ordering::Relaxed);
}

/// Whether the calling thread is the only thread that runs in this memory, as far as `/proc` tells.
pub fn is_alone() -> bool {
    OWNER.load(Ordering::Relaxed) == id() && threads() == Some(1)
}

/// How much of the process's memory is locked, in KiB, if `/proc` tells.
pub fn locked_kib() -> Option<u64> {
    status(b"VmLck:")
}

/// The first number behind this word in what the kernel says of the process.
fn status(word: &[u8]) -> Option<u64> {
    let file = File::open(c"/proc/self/status").ok()?;
    let mut text = [0; 4096];
    let length = file.read_once_at(&mut text, 0).ok()?;
    let line = text[..length].split(|&b| b == b'\n').find_map(|line| line.strip_prefix(word))?;
    let number = line.trim_ascii().split(|&b| b == b' ').next()?;
    core::str::from_utf8(number).ok()?.parse().ok()
}

unsafe extern "C" {
    static environ: *const *const c_char;
}

/// Whether the C library knows the environment yet. It learns of it in its own constructor, which
/// is the first; but a program may have functions that run before any constructor
/// (`DT_PREINIT_ARRAY`).
pub fn has_environment() -> bool {
    // SAFETY: a pointer of the C library's, which it sets while there is one thread, before it
    // calls others.
    unsafe { !environ.is_null() }
}

/// The value of an environment variable.
pub fn variable(name: &[u8]) -> Option<&'static [u8]> {
    // SAFETY: `environ` is null before the C library has begun; then it is a list that ends with a
    // null.
    unsafe {
        let mut entry = environ;
        while !entry.is_null() && !(*entry).is_null() {
            let text = CStr::from_ptr(*entry).to_bytes();
            if let Some(value) = text.strip_prefix(name).and_then(|rest| rest.strip_prefix(b"=")) {
                return Some(value);
            }
            entry = entry.wrapping_add(1);
        }
    }
    None
}

/// The program's path, as the kernel knows it; empty if it does not tell.
pub fn executable() -> Path {
    let mut path = Path::new();
    let (from, room) = (c"/proc/self/exe".as_ptr().addr(), path.bytes.as_mut_ptr().addr());
    let folder = libc::AT_FDCWD as isize as usize;
    // SAFETY: the kernel writes at most `Path::BYTES - 1` bytes to `path.bytes`; the last byte
    // stays zero.
    let result = unsafe { syscall4(libc::SYS_readlinkat, folder, from, room, Path::BYTES - 1) };
    path.length = check(result).unwrap_or(0);
    path
}

/// The last part of a path.
pub fn file_name(path: &[u8]) -> &[u8] {
    path.rsplit(|&b| b == b'/').next().unwrap_or_default()
}

/// A path, without allocation. Ends with a zero byte.
#[derive(Clone, Copy)]
pub struct Path {
    bytes: [u8; Path::BYTES],
    length: usize,
}

impl Path {
    /// Room for a path, as the kernel limits them.
    pub const BYTES: usize = 4096;

    /// The empty path.
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Path {
        Path { bytes: [0; Path::BYTES], length: 0 }
    }

    /// The path without its ending zero.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// The path for the kernel.
    pub fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or(c"")
    }

    /// Adds bytes at the end, if there is room.
    pub fn push(&mut self, more: &[u8]) -> Option<()> {
        let room = self.bytes.get_mut(self.length..Path::BYTES - 1)?.get_mut(..more.len())?;
        room.copy_from_slice(more);
        self.length += more.len();
        Some(())
    }
}

impl fmt::Write for Path {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push(text.as_bytes()).ok_or(fmt::Error)
    }
}

/// Text written into the caller's array; what does not fit is cut off.
pub struct Text<'a> {
    /// The array.
    pub room: &'a mut [u8],
    /// How much of it is used.
    pub length: usize,
}

impl fmt::Write for Text<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = &mut self.room[self.length..];
        let length = text.len().min(room.len());
        room[..length].copy_from_slice(&text.as_bytes()[..length]);
        self.length += length;
        Ok(())
    }
}

/// A descriptor to write text to, some hundred bytes at a time.
pub struct Output {
    descriptor: i32,
    room: [u8; 1024],
    length: usize,
}

impl Output {
    /// Output to a descriptor; the last of it is written when this is dropped.
    pub fn new(descriptor: i32) -> Output {
        Output { descriptor, room: [0; 1024], length: 0 }
    }

    fn flush(&mut self) {
        write_all(self.descriptor, &self.room[..self.length]);
        self.length = 0;
    }
}

impl fmt::Write for Output {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for part in text.as_bytes().chunks(self.room.len()) {
            if self.length + part.len() > self.room.len() {
                self.flush();
            }
            self.room[self.length..self.length + part.len()].copy_from_slice(part);
            self.length += part.len();
        }
        Ok(())
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        self.flush();
    }
}

/// Says something on standard error, if it was asked for.
pub fn say(asked: bool, what: fmt::Arguments<'_>) {
    if asked {
        let _ = fmt::Write::write_fmt(&mut Output::new(2), format_args!("manx: {what}\n"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::fmt::Write;

    #[test]
    fn knows_the_process() {
        assert_eq!(id(), std::process::id());
        assert!(threads().expect("/proc") >= 2, "the test runner and this test");
        // Tests come and go.
        testing::eventually("the same by both ways", || (threads() == status(b"Threads:")).then_some(()));
        assert!(locked_kib().is_some());
        assert_eq!(
            executable().bytes(),
            std::env::current_exe().expect("a path").as_os_str().as_encoded_bytes()
        );
        assert_eq!(variable(b"PATH").map(<[u8]>::to_vec), std::env::var("PATH").ok().map(String::into_bytes));
        assert_eq!(variable(b"NO_SUCH_VARIABLE_ANYWHERE"), None);
    }

    #[test]
    fn text_and_paths_keep_to_their_room() {
        let mut room = [0; 5];
        let mut text = Text { room: &mut room, length: 0 };
        write!(text, "abc{}", 12345).expect("cut off, not an error");
        assert_eq!(&room, b"abc12");
        let mut path = Path::new();
        assert_eq!(path.push(&[b'x'; Path::BYTES - 1]), Some(()));
        assert_eq!(path.push(b"y"), None);
        assert_eq!(path.as_c_str().to_bytes().len(), Path::BYTES - 1);
    }
}
