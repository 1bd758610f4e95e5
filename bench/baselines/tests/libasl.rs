//! LibASL's printed lock and its epochs: windows against a model, and which thread overtakes which.

use baselines::lock::libasl_epoch::{self as epoch, Window};
use baselines::lock::{Libasl, LibaslBlocking, LibaslOver, WINDOW_NS_MAX};
use manx::cpu::{Class, set_class_of_this_thread};
use manx::lock::{Fifo, Mcs, RawLock};
use proptest::prelude::*;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use testing::until;

/// The rule in fractions of a nanosecond: halved when late, with 1 - P of the halved window as the
/// unit; the unit otherwise.
#[derive(Clone, Copy, Debug)]
struct Model {
    window_ns: f64,
    unit_ns: f64,
}

impl Model {
    fn after(self, late: bool, hundredths: u16) -> Model {
        if late {
            let window_ns = self.window_ns / 2.0;
            Model { window_ns, unit_ns: window_ns * (1.0 - f64::from(hundredths) / 1e4) }
        } else {
            Model { window_ns: (self.window_ns + self.unit_ns).min(WINDOW_NS_MAX as f64), ..self }
        }
    }
}

proptest! {
    /// A window loses less than 1 ns in each step, and is 1 ns longer in each step at most.
    #[test]
    fn windows_follow_the_model(
        epochs in prop::collection::vec((any::<bool>(), 5000..=9999_u16), 1..400),
    ) {
        let first = Window::FIRST.ns() as f64;
        let (mut window, mut model) = (Window::FIRST, Model { window_ns: first, unit_ns: first / 10.0 });
        for (at, (late, hundredths)) in epochs.into_iter().enumerate() {
            window = window.after(if late { 11 } else { 10 }, 10, hundredths);
            model = model.after(late, hundredths);
            let apart_ns = (window.ns() as f64 - model.window_ns).abs();
            prop_assert!(apart_ns <= 1.0 + at as f64, "{window:?}, {model:?}");
        }
    }
}

#[test]
fn a_window_is_where_it_was_after_as_many_epochs_as_the_percentile_allows_for_one_miss() {
    for (hundredths, epochs) in [(5000, 2), (9000, 10), (9900, 100), (9990, 1000)] {
        let late = Window::FIRST.after(2, 1, hundredths);
        let met = (0..epochs).fold(late, |window, _| window.after(1, 1, hundredths));
        assert_eq!(met.ns(), Window::FIRST.ns(), "{hundredths}");
    }
}

#[test]
fn a_window_of_nothing_grows_again() {
    let none = (0..100).fold(Window::FIRST, |window, _| window.after(2, 1, 9900));
    assert_eq!(none.ns(), 0);
    assert_eq!(none.after(1, 1, 9900).ns(), 1);
}

#[test]
fn the_innermost_epoch_has_the_window_and_the_outer_one_goes_on() {
    assert_eq!(epoch::window_ns(), None);
    epoch::start(1);
    epoch::start(2);
    // An epoch is late by the clock.
    let began_ns = platform::clock::now_ns();
    while platform::clock::now_ns() == began_ns {}
    epoch::end(2, 0, 9900);
    let late_ns = epoch::window_ns_of(2);
    assert!(late_ns < Window::FIRST.ns(), "it was late");
    assert_eq!(epoch::window_ns(), Some(Window::FIRST.ns()));
    epoch::start(2);
    assert_eq!(epoch::window_ns(), Some(late_ns));
    epoch::end(2, u64::MAX, 9900);
    epoch::end(1, u64::MAX, 9900);
    assert_eq!(epoch::window_ns(), None);
    assert!(epoch::window_ns_of(1) > Window::FIRST.ns());
}

fn unlock<L: RawLock>(lock: &L, held: L::Held) {
    // SAFETY: `held` comes from this lock, and is given back once.
    unsafe { lock.unlock(held) };
}

/// A little thread comes first and a big one second, and the big one is let in first.
#[test]
fn a_big_one_overtakes_a_little_one_that_stands_by() {
    let (lock, order, came) = (&Libasl::new(), &Mutex::new(Vec::new()), &AtomicBool::new(false));
    let held = lock.lock();
    let line = lock.beneath();
    thread::scope(|scope| {
        let alone = line.last_in_line();
        scope.spawn(move || {
            set_class_of_this_thread(Some(Class::Little));
            came.store(true, Ordering::Relaxed);
            let held = lock.lock_reorder(u64::MAX);
            order.lock().expect("no panic").push(Class::Little);
            unlock(lock, held);
        });
        until("the little thread", || came.load(Ordering::Relaxed));
        scope.spawn(move || {
            set_class_of_this_thread(Some(Class::Big));
            let held = lock.lock();
            order.lock().expect("no panic").push(Class::Big);
            unlock(lock, held);
        });
        // Only the big one ever stands in line.
        until("the big thread", || line.last_in_line() != alone);
        unlock(lock, held);
    });
    assert_eq!(*order.lock().expect("no panic"), [Class::Big, Class::Little]);
}

/// The lock is held until the little one stands in line, so its window has to end.
fn stands_in_line_after_its_window<const SLEEPS: bool>() {
    for window_ns in [0, 1, 10_000, 300_000] {
        let lock = &LibaslOver::<Mcs, SLEEPS>::new();
        let held = lock.lock();
        let alone = lock.beneath().last_in_line();
        thread::scope(|scope| {
            scope.spawn(move || unlock(lock, lock.lock_reorder(window_ns)));
            until("one more in line", || lock.beneath().last_in_line() != alone);
            unlock(lock, held);
        });
        assert!(!lock.is_locked());
    }
}

#[test]
fn one_that_stood_by_stands_in_line_when_the_window_is_over() {
    stands_in_line_after_its_window::<false>();
    stands_in_line_after_its_window::<true>();
}

#[test]
fn a_free_lock_is_taken_at_once_in_any_epoch() {
    set_class_of_this_thread(Some(Class::Little));
    let (one, other) = (Libasl::new(), LibaslBlocking::new());
    epoch::start(0);
    let held = one.lock();
    other.lock();
    epoch::end(0, 0, 9900);
    unlock(&one, held);
    unlock(&other, ());
}
