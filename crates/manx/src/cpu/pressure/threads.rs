//! What all threads of the process have run and waited for a CPU.
//!
//! The kernel sums this up only for readers with privileges, so each thread is asked. A sum of its
//! own would lose all that an ended thread has waited, and fall; so the threads are kept apart, and
//! compared one by one.

use super::sources::in_root;
use crate::cpu::text::number;
use crate::cpu::{ThreadPressure, ThreadTimes};
use platform::folder::each_folder;
use std::ffi::CString;
use std::path::Path;

/// The times of the threads that a process had at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadsTimes {
    /// By thread number, in rising order.
    each: Vec<(u32, ThreadTimes)>,
}

impl ThreadsTimes {
    /// How many threads there were.
    pub fn count(&self) -> usize {
        self.each.len()
    }

    /// The sum over the threads.
    pub fn sum(&self) -> ThreadTimes {
        self.each.iter().fold(ThreadTimes::default(), |sum, (_, times)| add(&sum, times))
    }

    /// How long these threads have run and waited since an earlier reading. Of a thread that was
    /// not there yet, all its time counts.
    #[must_use]
    pub fn since(&self, earlier: &ThreadsTimes) -> ThreadTimes {
        let before = |thread: u32| {
            let at = earlier.each.binary_search_by_key(&thread, |it| it.0).ok()?;
            Some(earlier.each[at].1)
        };
        self.each.iter().fold(ThreadTimes::default(), |sum, (thread, times)| {
            // A thread that has run less than one of its number had is another one.
            let before =
                before(*thread).filter(|before| before.run_time <= times.run_time).unwrap_or_default();
            add(&sum, &times.since(&before))
        })
    }
}

impl FromIterator<(u32, ThreadTimes)> for ThreadsTimes {
    fn from_iter<I: IntoIterator<Item = (u32, ThreadTimes)>>(threads: I) -> ThreadsTimes {
        let mut each: Vec<_> = threads.into_iter().collect();
        each.sort_unstable_by_key(|it| it.0);
        each.dedup_by_key(|it| it.0);
        ThreadsTimes { each }
    }
}

fn add(one: &ThreadTimes, other: &ThreadTimes) -> ThreadTimes {
    ThreadTimes {
        run_time: one.run_time.saturating_add(other.run_time),
        wait_time: one.wait_time.saturating_add(other.wait_time),
        slices: one.slices.saturating_add(other.slices),
    }
}

/// The times of all threads below `root`; `None` if none tells.
pub(super) fn read(root: &Path) -> Option<ThreadsTimes> {
    // Where the kernel does not tell, it tells of no thread, and there may be thousands of threads.
    in_root(root, "proc/self/schedstat")?;
    let folder = CString::new(root.join("proc/self/task").into_os_string().into_encoded_bytes()).ok()?;
    let mut threads = Vec::new();
    each_folder(&folder, |name| {
        let thread = number(name).and_then(|thread| u32::try_from(thread).ok());
        // A thread that has ended meanwhile is left out.
        let times = thread.and_then(|thread| ThreadPressure::of_below(root, thread)?.times());
        threads.extend(thread.zip(times));
        true
    })
    .ok()?;
    (!threads.is_empty()).then(|| threads.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;

    const fn times(run_ns: u64, wait_ns: u64, slices: u64) -> ThreadTimes {
        let (run_time, wait_time) = (Duration::from_nanos(run_ns), Duration::from_nanos(wait_ns));
        ThreadTimes { run_time, wait_time, slices }
    }

    #[test]
    fn threads_are_compared_one_by_one() {
        let before: ThreadsTimes =
            [(9, times(1_000, 900, 9)), (3, times(100, 50, 1)), (5, times(500, 5, 5))].into_iter().collect();
        // 3 went on, 5 ended, 7 began, and 9 is another thread of the same number.
        let now: ThreadsTimes =
            [(3, times(150, 70, 2)), (7, times(10, 20, 30)), (9, times(1, 2, 3))].into_iter().collect();
        assert_eq!(now.since(&before), times(50 + 10 + 1, 20 + 20 + 2, 1 + 30 + 3));
        assert_eq!((before.count(), before.sum()), (3, times(1_600, 955, 15)));
        assert_eq!(ThreadsTimes::default().since(&before), ThreadTimes::default());
    }

    #[test]
    fn a_folder_of_threads_is_read() {
        let root = tempfile::tempdir().expect("a folder");
        assert_eq!(read(root.path()), None);
        let put = |path: &str, text: &str| {
            let path = root.path().join("proc/self").join(path);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            std::fs::write(path, text).expect("written");
        };
        put("schedstat", "1 2 3\n");
        put("task/12/schedstat", "10 20 30\n");
        put("task/7/schedstat", "1 2 3\n");
        put("task/8/schedstat", "nonsense\n");
        put("task/9/other", "");
        let threads = read(root.path()).expect("threads");
        assert_eq!(threads.each, [(7, times(1, 2, 3)), (12, times(10, 20, 30))]);
    }

    proptest! {
        #[test]
        fn nothing_is_lost_between_readings(
            before in proptest::collection::btree_map(0..20_u32, 0..1_000_u64, 0..20),
            added in proptest::collection::vec(0..1_000_u64, 20),
        ) {
            let all = |times: &dyn Fn(u32) -> u64| {
                (0..20).map(|thread| (thread, self::times(times(thread), times(thread), 0))).collect::<ThreadsTimes>()
            };
            let began = |thread: u32| before.get(&thread).copied().unwrap_or(0);
            let now = all(&|thread| began(thread) + added[thread as usize]);
            let since = now.since(&all(&began));
            prop_assert_eq!(since.wait_time, Duration::from_nanos(added.iter().sum()));
            prop_assert_eq!(since.run_time, since.wait_time);
        }
    }
}
