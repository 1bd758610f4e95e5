//! Of the default lock's algorithm: what one thread can see of it.

use super::*;

#[test]
fn a_thread_whose_spins_do_not_pay_spins_seldom() {
    const LIMIT_NS: u64 = 2_500;
    let thread = Thread::new();
    let always = |thread: &Thread| (0..64).all(|chance| spins(thread, chance));
    let spin = |acquired, ns| spun(&thread, acquired, ns_to_ticks(ns), LIMIT_NS);
    for number in 0..1_000 {
        // A spin in vain is paid by the next one.
        spin(number % 2 == 1, LIMIT_NS);
        assert!(always(&thread), "after {number}");
    }
    (0..1_000).for_each(|number| spin(number % 3 == 2, 9 * LIMIT_NS));
    assert!(!always(&thread) && (0..64).any(|chance| spins(&thread, chance)), "some try again");
    spin(true, 100);
    spin(true, 100);
    assert!(always(&thread), "two that paid");
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

/// 16,383 waiters are starving, and are served before the next one has looked again.
#[test]
fn a_waiter_that_the_count_has_no_room_for_is_not_forgotten() {
    static WORD: AtomicU32 = AtomicU32::new(HELD);
    static SIDE: AtomicU32 = AtomicU32::new(STARVING);
    let waiter = std::thread::spawn(|| {
        let wait = Wait { window_ns: Some(1), trusting: true, ..Wait::default() };
        sleep(&WORD, &SIDE, &Thread::new(), &wait, 0)
    });
    testing::until("it sleeps", || WORD.load(Ordering::Relaxed) & SLEEPERS != 0);
    // Long enough for its window to be over, if it runs.
    std::thread::sleep(std::time::Duration::from_millis(10));
    SIDE.store(0, Ordering::Relaxed);
    release_slow(&WORD, &SIDE, &Thread::new());
    testing::until("it has the lock", || waiter.is_finished());
    assert_eq!(waiter.join().unwrap().map(|got| got.handed_off), Ok(false));
}
