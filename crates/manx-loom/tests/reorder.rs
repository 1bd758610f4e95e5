//! The reorderable lock under loom: one stands by while others take the lock, for every order of steps.
//!
//! Time moves with each look at the clock here, so a window is a number of looks, and after so many the one that
//! stands by is in line. Loom reports an execution that does not end.

use loom::sync::Arc;
use loom::thread;
use manx_loom::cpu::{Class, set_class_of_this_thread};
use manx_loom::lock::{Asl, Cna, FutexMutex, Mcs, McsPark, RawLock, Reorderable, Shfl, Ticket};
use manx_loom::slo::set_window_ns_of_this_thread;
use platform::cell::UnsafeCell;

struct Guarded<L> {
    lock: Reorderable<L>,
    number: UnsafeCell<u32>,
}

// SAFETY: the number is used by holders of the lock only; loom reports it if that is not enough.
unsafe impl<L: RawLock> Sync for Guarded<L> {}

impl<L: RawLock> Guarded<L> {
    /// Stands by for this window, or does not.
    fn add(&self, window_ns: Option<u64>) {
        let held = match window_ns {
            Some(window_ns) => self.lock.lock_reorder(window_ns),
            None => self.lock.lock_immediately(),
        };
        // SAFETY: held.
        self.number.with_mut(|number| unsafe { *number += 1 });
        // SAFETY: just locked.
        unsafe { self.lock.unlock(held) };
    }
}

fn check(test: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.max_branches = 10_000;
    builder.check(test);
}

/// One stands by, for windows that are over before the lock is quiet and for one that is not, while the other takes the lock twice more. (Once
/// it has taken it the lock is in use, and so somebody stands by.)
fn one_stands_by<L: RawLock + 'static>() {
    for window_ns in [0, 1, 300, 12_000] {
        check(move || {
            let lock = Reorderable::over(L::new());
            let guarded = Arc::new(Guarded { lock, number: UnsafeCell::new(0) });
            guarded.add(None);
            let other = Arc::clone(&guarded);
            let other = thread::spawn(move || other.add(Some(window_ns)));
            guarded.add(None);
            guarded.add(None);
            other.join().unwrap();
            assert!(!guarded.lock.is_locked());
            // SAFETY: the other one has ended.
            assert_eq!(guarded.number.with(|number| unsafe { *number }), 4);
        });
    }
}

#[test]
fn over_the_ticket_lock() {
    one_stands_by::<Ticket>();
}

#[test]
fn over_the_mcs_lock() {
    one_stands_by::<Mcs>();
}

#[test]
fn over_the_mcs_lock_with_parking() {
    one_stands_by::<McsPark>();
}

#[test]
fn over_the_futex_mutex() {
    one_stands_by::<FutexMutex>();
}

#[test]
fn over_the_shuffle_lock() {
    one_stands_by::<Shfl>();
}

#[test]
fn over_the_numa_aware_lock() {
    one_stands_by::<Cna>();
}

/// Two stand by, for one window or for two, while this thread takes the lock: neither is lost, and they are not inside together.
fn two_stand_by<L: RawLock + 'static>(windows_ns: [u64; 2]) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.max_branches = 10_000;
    builder.check(move || {
        let lock = Reorderable::over(L::new());
        let guarded = Arc::new(Guarded { lock, number: UnsafeCell::new(0) });
        guarded.add(None);
        let others = windows_ns.map(|window_ns| {
            let other = Arc::clone(&guarded);
            thread::spawn(move || other.add(Some(window_ns)))
        });
        guarded.add(None);
        for other in others {
            other.join().unwrap();
        }
        assert!(!guarded.lock.is_locked());
        // SAFETY: the others have ended.
        assert_eq!(guarded.number.with(|number| unsafe { *number }), 4);
    });
}

#[test]
fn two_stand_by_for_the_same_window() {
    two_stand_by::<Mcs>([300, 300]);
    two_stand_by::<FutexMutex>([300, 300]);
}

#[test]
fn two_stand_by_for_different_windows() {
    two_stand_by::<McsPark>([1, 400]);
    two_stand_by::<Cna>([1, 400]);
}

/// A big one and a little one whose epoch has this window; each takes the lock twice.
fn in_an_epoch<L: RawLock + 'static>() {
    for window_ns in [Some(0), Some(300), Some(12_000), None] {
        check(move || {
            let lock = Asl::over(L::new());
            lock.set_window_ns_max(Some(12_000));
            let shared = Arc::new((lock, Cell(UnsafeCell::new(0))));
            let add = |(lock, number): &(Asl<L>, Cell)| {
                let held = lock.lock();
                // SAFETY: held.
                number.0.with_mut(|number| unsafe { *number += 1 });
                // SAFETY: just locked.
                unsafe { lock.unlock(held) };
            };
            add(&shared);
            let other = thread::spawn({
                let shared = Arc::clone(&shared);
                move || {
                    set_class_of_this_thread(Some(Class::Little));
                    set_window_ns_of_this_thread(window_ns);
                    add(&shared);
                    add(&shared);
                }
            });
            add(&shared);
            add(&shared);
            other.join().unwrap();
            assert!(!shared.0.is_locked());
            // SAFETY: the other one has ended.
            assert_eq!(shared.1.0.with(|number| unsafe { *number }), 5);
        });
    }
}

/// A number that is used by holders of a lock.
struct Cell(UnsafeCell<u32>);
// SAFETY: as said; loom reports it if that is not enough.
unsafe impl Sync for Cell {}

#[test]
fn in_an_epoch_over_the_mcs_lock() {
    in_an_epoch::<Mcs>();
}

#[test]
fn in_an_epoch_over_the_futex_mutex() {
    in_an_epoch::<FutexMutex>();
}

/// A lock that is never free, and notes when somebody comes to stand in line.
struct Occupied(std::sync::atomic::AtomicU64);

// SAFETY: nothing is protected.
unsafe impl RawLock for Occupied {
    type Held = ();
    const NAME: &'static str = "occupied";

    fn new() -> Self {
        Occupied(std::sync::atomic::AtomicU64::new(0))
    }

    fn lock(&self) {
        self.0.store(platform::clock::now_ns(), std::sync::atomic::Ordering::Relaxed);
    }

    fn try_lock(&self) -> Option<()> {
        None
    }

    unsafe fn unlock(&self, (): ()) {}

    fn is_locked(&self) -> bool {
        true
    }
}

/// Time is counted here, so the bound is exact: whoever stands by is in line when its window is over, and a few
/// looks at the clock later.
#[test]
fn who_stands_by_is_in_line_at_the_end_of_its_window_to_the_look() {
    const LOOKS_NS: u64 = 100;
    for window_ns in [0, 1, 300, 20_000, 69_999, 70_001, 1_000_000, 99_999_999, u64::MAX] {
        let mut builder = loom::model::Builder::new();
        builder.max_branches = 100_000;
        builder.check(move || {
            let lock = Reorderable::<Occupied>::new();
            // Somebody has passed, so the lock is in use.
            lock.lock_immediately();
            let began_ns = platform::clock::now_ns();
            lock.lock_reorder(window_ns);
            let waited_ns = lock.beneath().0.load(std::sync::atomic::Ordering::Relaxed) - began_ns;
            let window_ns = window_ns.min(manx_loom::slo::WINDOW_NS_MAX);
            assert!((window_ns..=window_ns + LOOKS_NS).contains(&waited_ns), "{waited_ns} of {window_ns}");
        });
    }
}

/// The holder gives the lock back only once the little one stands in line: if its window did not end, this would not.
#[test]
fn a_little_one_is_in_line_after_its_window() {
    use manx_loom::lock::Fifo;
    check(|| {
        let lock = Arc::new(Asl::over(Ticket::new()));
        lock.set_window_ns_max(Some(300));
        lock.lock();
        let before = lock.reorderable().beneath().last_in_line();
        let other = thread::spawn({
            let lock = Arc::clone(&lock);
            move || {
                set_class_of_this_thread(Some(Class::Little));
                lock.lock();
                // SAFETY: just locked.
                unsafe { lock.unlock(()) };
            }
        });
        while lock.reorderable().beneath().last_in_line() == before {
            platform::thread::yield_now();
        }
        // SAFETY: locked above.
        unsafe { lock.unlock(()) };
        other.join().unwrap();
        assert!(!lock.is_locked());
    });
}
