//! Of the default lock's algorithm: what one thread can see of it.

use super::super::spinning::{HOPELESS, HOPELESS_SHORT_OF_CPUS};
use super::*;

#[test]
fn a_thread_that_spun_in_vain_for_long_does_not_spin() {
    let thread = Thread::new();
    for (short, most) in [(true, HOPELESS_SHORT_OF_CPUS), (false, HOPELESS)] {
        for failures in 0..2 * most {
            let spin: Vec<bool> = (0..64).map(|chance| spins(thread.failed_spins(), short, chance)).collect();
            assert_eq!(spin.contains(&false), failures >= most, "after {failures}");
            assert!(spin.contains(&true), "some try again");
            thread.spun(false);
        }
        thread.spun(true);
        assert!(spins(thread.failed_spins(), short, 1));
    }
}

#[test]
fn one_look_takes_a_free_lock_only() {
    let word = AtomicU32::new(0);
    assert!(look(&word, 2));
    assert!(!look(&word, 1));
    assert_eq!(word.load(Ordering::Relaxed), 2);
}

#[test]
fn a_window_is_kept_to_three_digits() {
    assert_eq!(window_ns(0), WINDOW_NS);
    for window in [5, 6, 7, 8, 9, 1000, 1_000_000, 1_048_576, 3_000_000_000, WINDOW_NS_MAX] {
        let kept = window_ns(with_window_ns(window));
        assert!((window..=window + window / 4).contains(&kept), "{window} became {kept}");
    }
    assert_eq!(window_ns(with_window_ns(0)), 5);
    assert_eq!(window_ns(with_window_ns(UNBOUNDED_NS)), UNBOUNDED_NS);
    assert_eq!(with_window_ns(1_000_000) & 0xff_ffff, 0, "nothing else is touched");
}

#[test]
fn an_epochs_window_stands_in_for_the_default_one_only() {
    assert_eq!(window_in_epoch(0x00ff_ffff, Some(2_000_000)), Some(2_000_000));
    assert_eq!(window_in_epoch(0, Some(0)), Some(EPOCH_WINDOW_NS_MIN));
    assert_eq!(window_in_epoch(0, None), None);
    assert_eq!(window_in_epoch(with_window_ns(10), Some(2_000_000)), None);
}
