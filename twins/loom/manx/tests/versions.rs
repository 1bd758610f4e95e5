//! How versions leave a list that others walk, under loom; and that what an active snapshot needs
//! stays.

mod common;

use common::{check, check_no_more};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;
use manx_loom::txn::coordinator::{Coordinator, Readers};
use manx_loom::txn::link::Link;
use std::ptr::null_mut;

const VERSIONS: usize = 4;

/// A list of versions 0, 1, 2 and 3, the newest first. What leaves it is noted, and stays until the
/// end, as it does while a thread reads.
struct List {
    /// Boxed, so that they have addresses.
    #[expect(clippy::vec_box, reason = "links lead to the versions' addresses")]
    versions: Vec<Box<Version>>,
    retired: Vec<AtomicBool>,
}

struct Version {
    number: usize,
    next: Link<Version>,
}

impl List {
    fn new() -> Arc<List> {
        let mut versions = Vec::new();
        let mut behind = null_mut();
        for number in (0..VERSIONS).rev() {
            let version = Box::new(Version { number, next: Link::new(behind) });
            behind = (&raw const *version).cast_mut();
            versions.insert(0, version);
        }
        Arc::new(List { versions, retired: (0..VERSIONS).map(|_| AtomicBool::new(false)).collect() })
    }

    fn at(&self, number: usize) -> &Version {
        &self.versions[number]
    }

    fn retire(&self, number: usize) {
        assert!(!self.retired[number].swap(true, Ordering::Relaxed), "{number} is freed twice");
    }

    /// The numbers from this version on.
    fn from(&self, number: usize) -> Vec<usize> {
        let mut seen = vec![number];
        let mut at = self.at(number).next.follow();
        // SAFETY: they live as long as the list.
        while let Some(version) = unsafe { at.as_ref() } {
            seen.push(version.number);
            at = version.next.follow();
        }
        seen
    }

    /// Unlinks a version, which is behind this one unless it was cut off.
    fn unlink(&self, before: usize, number: usize) -> bool {
        let this = self.at(number);
        if self.at(before).next.unlink((&raw const *this).cast_mut(), &this.next) {
            self.retire(number);
            return true;
        }
        false
    }

    /// Cuts off what is behind a version. Returns whether it was not just being unlinked.
    fn cut(&self, number: usize) -> bool {
        let Some(mut behind) = self.at(number).next.cut() else { return false };
        // SAFETY: as above.
        while let Some(version) = unsafe { behind.as_ref() } {
            self.retire(version.number);
            behind = version.next.take();
        }
        true
    }

    /// What is in the list is not freed, and all others are.
    fn check(&self) -> Vec<usize> {
        let left = self.from(0);
        for number in 0..VERSIONS {
            let is_retired = self.retired[number].load(Ordering::Relaxed);
            assert_eq!(is_retired, !left.contains(&number), "{number}: {left:?}");
        }
        left
    }
}

/// A reader comes past what is unlinked to what is not.
#[test]
fn a_reader_finds_what_is_behind_a_version_that_leaves() {
    check(3, || {
        let list = List::new();
        let its = list.clone();
        let thread = thread::spawn(move || {
            assert!(its.unlink(0, 1));
            assert!(its.unlink(0, 2));
        });
        let seen = list.from(0);
        assert!(seen.first() == Some(&0) && seen.last() == Some(&3) && seen.is_sorted(), "{seen:?}");
        thread.join().unwrap();
        assert_eq!(list.check(), [0, 3]);
    });
}

/// One unlinks, and others cut off: behind the version before, the version itself, and the next
/// one.
#[test]
fn a_version_that_is_unlinked_and_cut_off_is_freed_once() {
    for at in 0..3 {
        check(3, move || {
            let list = List::new();
            let its = list.clone();
            let thread = thread::spawn(move || its.cut(at));
            let unlinked = list.unlink(0, 1);
            let cut = thread.join().unwrap();
            let left = list.check();
            assert!(!unlinked || !left.contains(&1), "it is gone");
            assert!(cut || at == 1 && unlinked, "only a version that is unlinked refuses");
            if cut {
                // Nothing behind a cut is left; what was unlinked before it is not in it.
                assert!(left.iter().all(|number| *number <= at), "{left:?}");
            }
        });
    }
}

/// Two cut off at different versions while one unlinks.
#[test]
fn two_that_cut_and_one_that_unlinks() {
    check_no_more(2, || {
        let list = List::new();
        let (one, two) = (list.clone(), list.clone());
        let threads = [thread::spawn(move || one.cut(0)), thread::spawn(move || two.cut(2))];
        list.unlink(1, 2);
        let cuts = threads.map(|thread| thread.join().unwrap());
        assert!(cuts[0], "nothing unlinks the first one");
        assert_eq!(list.check(), [0]);
    });
}

/// One version, then another one; a reader takes a snapshot meanwhile. The first version goes only
/// if the reader, and each later one, sees the second, or not even the first.
#[test]
fn what_a_snapshot_needs_is_needed() {
    check(2, || {
        let coordinator = Coordinator::new(3);
        let mut writer = coordinator.session().unwrap();
        let mut reader = coordinator.session().unwrap();
        let mut readers = Readers::new(coordinator.session().unwrap());
        let gone = Arc::new(AtomicBool::new(false));
        let first = writer.allocate();
        writer.end();
        let its = gone.clone();
        let thread = thread::spawn(move || {
            let second = writer.allocate();
            writer.end();
            // What is not known leaves all as it was.
            readers.look();
            if readers.all_see_later(second) && readers.need(first, second).is_none() {
                its.store(true, Ordering::Release);
            }
            second
        });
        for _ in 0..2 {
            let seen = reader.snapshot().clone();
            let is_gone = gone.load(Ordering::Acquire);
            // Ids are given in order: the second is the only one that comes.
            if is_gone {
                assert!(!seen.sees(first) || seen.sees(first + 1), "{seen:?} needs the first one");
            }
        }
        let second = thread.join().unwrap();
        assert_eq!(second, first + 1, "no helper took one");
    });
}
