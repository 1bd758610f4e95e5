//! For how long a thread has run, and for how long it wished to run and could not.
//!
//! `/proc/self/task/T/schedstat` has three numbers: nanoseconds on a CPU, nanoseconds in a run
//! queue, and how often the thread was given a CPU. The second one is what all else in this room
//! guesses at: it grows only while the thread is kept from running. What each number is worth,
//! found by trying on Linux 6.18:
//!
//! | number | grows |
//! | --- | --- |
//! | wait | by each wait when it is over, so a thread that reads its own number misses nothing. A thread that waits now shows nothing of that to others until it runs. Where its group was throttled, that is in it |
//! | run | at each tick of the scheduler (1 to 10 ms) and when the thread gives its CPU away. `platform::clock::thread_cpu_ns` is exact |
//! | slices | by one each time that the thread gets a CPU |
//!
//! A reading costs about 0.75 µs. A kernel without scheduler statistics has no such file, and some
//! sandboxes hide it.

use super::text::{number, words};
use platform::file::File;
use std::ffi::CString;
use std::path::Path;
use std::time::Duration;

/// The longest such file: three numbers of 64 bits.
const BYTES_MAX: usize = 64;

/// What the scheduler has done for a thread since it began.
///
/// ```
/// use manx::cpu::ThreadTimes;
/// use std::time::Duration;
///
/// let before = ThreadTimes::default();
/// let mut now = before;
/// (now.run_time, now.wait_time) = (Duration::from_micros(3), Duration::from_micros(1));
/// let passed = now.since(&before);
/// assert_eq!(passed.run_time, Duration::from_micros(3));
/// assert_eq!(passed.waiting(), 0.25);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ThreadTimes {
    /// How long it ran.
    pub run_time: Duration,
    /// How long it waited for a CPU.
    pub wait_time: Duration,
    /// How often it was given a CPU.
    pub slices: u64,
}

impl ThreadTimes {
    /// What has been added since an earlier reading.
    #[must_use]
    pub const fn since(&self, earlier: &ThreadTimes) -> ThreadTimes {
        ThreadTimes {
            run_time: self.run_time.saturating_sub(earlier.run_time),
            wait_time: self.wait_time.saturating_sub(earlier.wait_time),
            slices: self.slices.saturating_sub(earlier.slices),
        }
    }

    /// The part of the time in which it wished to run and waited, from 0 to 1; 0 if it never
    /// wished to run.
    pub fn waiting(&self) -> f64 {
        let wished = self.run_time.saturating_add(self.wait_time);
        if wished.is_zero() { 0.0 } else { self.wait_time.as_nanos() as f64 / wished.as_nanos() as f64 }
    }
}

/// A reader of a thread's times, which keeps its file open.
///
/// The file is that thread's, whichever thread reads it: a reader may be sent to another thread,
/// and a reader that a fork's child inherits still tells of the parent's thread. The times of a
/// thread that has ended are not to be had (`None`).
///
/// ```
/// use manx::cpu::ThreadPressure;
///
/// if let Some(own) = ThreadPressure::of_this_thread() {
///     let before = own.times().expect("the thread is there");
///     # std::thread::yield_now();
///     let waited = own.times().expect("the thread is there").since(&before).wait_time;
///     println!("waited for a CPU for {waited:?}");
/// }
/// ```
#[derive(Debug)]
pub struct ThreadPressure {
    file: File,
}

impl ThreadPressure {
    /// Opens the calling thread's file; `None` where there is none. Allocates nothing.
    pub fn of_this_thread() -> Option<ThreadPressure> {
        Some(ThreadPressure { file: File::open(c"/proc/thread-self/schedstat").ok()? })
    }

    /// Opens the file of the thread of this process that has this thread id (`gettid`).
    ///
    /// ```
    /// use manx::cpu::ThreadPressure;
    ///
    /// # let id = platform::thread::id();
    /// let own = ThreadPressure::of(id);
    /// assert_eq!(own.is_some(), ThreadPressure::of_this_thread().is_some());
    /// assert!(ThreadPressure::of(u32::MAX).is_none(), "no such thread");
    /// ```
    pub fn of(thread: u32) -> Option<ThreadPressure> {
        ThreadPressure::of_below(Path::new("/"), thread)
    }

    /// Opens the file of the thread with this thread id below `root`, a folder that looks like `/`;
    /// `None` if it is missing.
    pub(super) fn of_below(root: &Path, thread: u32) -> Option<ThreadPressure> {
        let path = root.join(format!("proc/self/task/{thread}/schedstat"));
        let path = CString::new(path.into_os_string().into_encoded_bytes()).ok()?;
        Some(ThreadPressure { file: File::open(&path).ok()? })
    }

    /// The thread's times up to now; `None` if it has ended. One system call, nothing is allocated.
    pub fn times(&self) -> Option<ThreadTimes> {
        let mut text = [0; BYTES_MAX];
        let length = self.file.read_once_at(&mut text, 0).ok()?;
        parse(&text[..length])
    }
}

fn parse(text: &[u8]) -> Option<ThreadTimes> {
    let mut numbers = words(text).map(number);
    let mut next = || numbers.next().flatten();
    let (run_ns, wait_ns, slices) = (next()?, next()?, next()?);
    let (run_time, wait_time) = (Duration::from_nanos(run_ns), Duration::from_nanos(wait_ns));
    numbers.next().is_none().then_some(ThreadTimes { run_time, wait_time, slices })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const fn times(run_ns: u64, wait_ns: u64, slices: u64) -> ThreadTimes {
        let (run_time, wait_time) = (Duration::from_nanos(run_ns), Duration::from_nanos(wait_ns));
        ThreadTimes { run_time, wait_time, slices }
    }

    #[test]
    fn three_numbers_are_read_and_nothing_is_guessed() {
        assert_eq!(parse(b"172137 3796180 2\n"), Some(times(172_137, 3_796_180, 2)));
        for text in ["", "1 2", "1 2 3 4", "1 2 x", "-1 2 3", "1.0 2 3"] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn a_counter_that_went_back_is_no_time() {
        let (low, high) = (ThreadTimes::default(), times(5, 5, 5));
        assert_eq!(low.since(&high), low);
        assert_eq!(low.waiting(), 0.0);
        assert_eq!(times(u64::MAX, u64::MAX, 1).waiting(), 0.5);
        let longest = ThreadTimes { run_time: Duration::MAX, wait_time: Duration::MAX, slices: 1 };
        assert_eq!(longest.waiting(), 1.0);
    }

    #[test]
    fn another_folder_is_read() {
        let root = tempfile::tempdir().expect("a folder");
        assert!(ThreadPressure::of_below(root.path(), 7).is_none());
        let folder = root.path().join("proc/self/task/7");
        std::fs::create_dir_all(&folder).expect("made");
        std::fs::write(folder.join("schedstat"), "10 20 30\n").expect("written");
        let reader = ThreadPressure::of_below(root.path(), 7).expect("it is there");
        assert_eq!(reader.times(), Some(times(10, 20, 30)));
    }

    #[test]
    fn a_thread_that_has_ended_has_no_times() {
        let ended = std::thread::spawn(|| ThreadPressure::of(platform::thread::id())).join().expect("runs");
        // A thread is joined a moment before the kernel has forgotten it.
        while ended.as_ref().is_some_and(|reader| reader.times().is_some()) {
            platform::thread::yield_now();
        }
    }

    proptest! {
        #[test]
        fn written_times_are_read(run_ns: u64, wait_ns: u64, slices: u64) {
            let text = format!("{run_ns} {wait_ns} {slices}\n");
            prop_assert_eq!(parse(text.as_bytes()), Some(times(run_ns, wait_ns, slices)));
        }

        #[test]
        fn any_bytes_are_survived(text: Vec<u8>) {
            parse(&text);
        }
    }
}
