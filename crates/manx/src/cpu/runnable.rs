//! How many threads of the whole machine are *runnable* at this moment: they run, or wish to run.
//!
//! The number is the fourth field of `/proc/loadavg`, before the slash. The three fields before it
//! are averages of minutes. The fourth is no average: while the file is read, the kernel adds up
//! the lengths of all its run queues. So a program that keeps the file open learns in about a
//! microsecond whether more threads are runnable than there are CPUs.
//!
//! Properties of the number, measured on Linux 6.18 (`tests/cpu_pressure.rs` checks them):
//!
//! 1. It is of this moment: if five threads begin or cease to spin, the next read counts them, or
//!    counts them no more.
//! 2. It includes the caller, because the caller runs.
//! 3. It is the machine's: it includes threads of other groups and of other PID namespaces. A
//!    container reads the same number as its host, unless another program has put its own file in
//!    the place of this one (lxcfs does).
//! 4. It leaves out threads that cannot run: threads that sleep, wait for a disk, or are stopped,
//!    and threads that their group's quota throttles.
//! 5. It counts all threads alike, whatever their priority: a thread of nice 19 takes hardly any
//!    CPU from us, and counts as one all the same. So the number alone does not say that any thread
//!    waits; [`ThreadPressure`](super::ThreadPressure) does.

use super::text::{number, words};
use platform::file::File;
use std::ffi::CStr;

const PATH: &CStr = c"/proc/loadavg";
/// The longest such file: three averages, two counts and a process.
const BYTES_MAX: usize = 96;

/// A reader of the number of runnable threads, which keeps its file open. Reading costs about 1 µs.
///
/// ```
/// use manx::cpu::Runnable;
///
/// if let Some(runnable) = Runnable::open() {
///     let threads = runnable.threads().expect("the kernel's own file");
///     assert!(threads >= 1, "the caller runs");
/// }
/// ```
#[derive(Debug)]
pub struct Runnable {
    file: File,
}

impl Runnable {
    /// Opens the machine's file; `None` where `/proc` is missing or masked. Allocates nothing.
    pub fn open() -> Option<Runnable> {
        Some(Runnable { file: File::open(PATH).ok()? })
    }

    /// How many threads of the machine are runnable, the caller included; `None` if the file has
    /// another form. Makes one system call and allocates nothing.
    pub fn threads(&self) -> Option<u32> {
        threads_in(&self.file)
    }
}

fn threads_in(file: &File) -> Option<u32> {
    let mut text = [0; BYTES_MAX];
    let length = file.read_once_at(&mut text, 0).ok()?;
    parse(&text[..length])
}

fn parse(text: &[u8]) -> Option<u32> {
    let (running, all) = {
        let word = words(text).nth(3)?;
        let slash = word.iter().position(|&byte| byte == b'/')?;
        (number(&word[..slash])?, number(&word[slash + 1..])?)
    };
    // There cannot be more runnable threads than threads: such a file is not the kernel's.
    u32::try_from(running).ok().filter(|_| running <= all)
}

platform::os_only! {
    use std::ffi::CString;
    use std::path::Path;

    impl Runnable {
        /// Opens `proc/loadavg` below `root`, a folder that looks like `/`; `None` if it is
        /// missing.
        pub(super) fn open_below(root: &Path) -> Option<Runnable> {
            let path = CString::new(root.join("proc/loadavg").into_os_string().into_encoded_bytes()).ok()?;
            Some(Runnable { file: File::open(&path).ok()? })
        }
    }

    use platform::atomic::{AtomicI32, Ordering};

    /// No file has been opened yet.
    const NOT_OPEN: i32 = -1;
    /// There is no such file.
    const NOWHERE: i32 = -2;

    /// The process's descriptor of the file. It stays open until the process ends; a child of a
    /// fork reads the same file by it.
    static DESCRIPTOR: AtomicI32 = AtomicI32::new(NOT_OPEN);

    /// How many threads of the whole machine are runnable at this moment, the caller included;
    /// `None` where `/proc` does not tell. A call costs about 1 µs. The first call costs a little
    /// more, because it opens the file, which then stays open. Allocates nothing.
    ///
    /// ```
    /// let cpus = std::thread::available_parallelism()?.get();
    /// if manx::cpu::runnable().is_some_and(|threads| threads as usize > cpus) {
    ///     println!("some thread waits for a CPU");
    /// }
    /// # assert_ne!(manx::cpu::runnable(), Some(0), "the caller runs");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn runnable() -> Option<u32> {
        // Relaxed: the descriptor names something of the kernel's, and no memory comes with it.
        match DESCRIPTOR.load(Ordering::Relaxed) {
            NOWHERE => None,
            NOT_OPEN => open(NOT_OPEN),
            // If the read fails, other code has closed all descriptors that it did not know. The
            // number may be another file's by now, so this function must not close it.
            known => threads_in(&File::borrowed(known)).or_else(|| open(known)),
        }
    }

    /// Opens the file, reads it, and puts its descriptor in the place of `before`.
    #[cold]
    fn open(before: i32) -> Option<u32> {
        let opened = File::open(PATH).ok().and_then(|file| threads_in(&file).map(|threads| (file, threads)));
        let Some((file, threads)) = opened else {
            // A file that cannot be read the first time never can.
            let _ = DESCRIPTOR.compare_exchange(before, NOWHERE, Ordering::Relaxed, Ordering::Relaxed);
            return None;
        };
        // If several threads open the file at the same time, the first keeps its descriptor; the
        // others close theirs.
        let ours = file.descriptor();
        if DESCRIPTOR.compare_exchange(before, ours, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            file.into_descriptor();
        }
        Some(threads)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_the_count_of_runnable_threads_is_parsed() {
        assert_eq!(parse(b"0.38 0.90 1.85 4/110 24809\n"), Some(4));
        assert_eq!(parse(b"0.00 0.00 0.00 0/1 1"), Some(0));
        for text in [
            "",
            "0.38 0.90 1.85",
            "1 2 3 4",
            "1 2 3 4/",
            "1 2 3 /4",
            "1 2 3 5/4 9",
            "1 2 3 -1/4",
            "a b c d/e f",
        ] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn the_file_below_another_root_is_read_if_it_is_there() {
        let root = tempfile::tempdir().expect("a folder");
        assert!(Runnable::open_below(root.path()).is_none());
        std::fs::create_dir(root.path().join("proc")).expect("made");
        std::fs::write(root.path().join("proc/loadavg"), "1.0 2.0 3.0 17/200 5\n").expect("written");
        let reader = Runnable::open_below(root.path()).expect("it is there");
        assert_eq!(reader.threads(), Some(17));
        std::fs::write(root.path().join("proc/loadavg"), "nothing of the kind\n").expect("written");
        assert_eq!(reader.threads(), None);
    }

    #[test]
    fn a_descriptor_that_was_closed_is_opened_anew() {
        assert!(runnable().is_some_and(|threads| threads >= 1));
        // The descriptor of another file: as if other code had closed ours, and opened a file.
        let root = tempfile::tempfile().expect("a file");
        let other = std::os::fd::AsRawFd::as_raw_fd(&root);
        let before = DESCRIPTOR.swap(other, Ordering::Relaxed);
        assert!(runnable().is_some_and(|threads| threads >= 1));
        assert!(![other, NOWHERE, NOT_OPEN].contains(&DESCRIPTOR.load(Ordering::Relaxed)));
        DESCRIPTOR.store(before, Ordering::Relaxed);
    }

    proptest! {
        #[test]
        fn the_written_number_is_read(running in 0..100_000_u32, others in 0..100_000_u32, load in 0.0..1000.0) {
            let all = running + others;
            let text = format!("{load:.2} {load:.2} {load:.2} {running}/{all} 99\n");
            prop_assert_eq!(parse(text.as_bytes()), Some(running));
        }

        #[test]
        fn no_bytes_make_the_parser_panic(text: Vec<u8>) {
            parse(&text);
        }
    }
}
