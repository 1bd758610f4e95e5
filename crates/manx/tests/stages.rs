//! What each policy does, in which order, how often, and where it stops growing.

use manx::wait::{
    Action, Adaptive, Backoff, Counts, Event, FixedSleep, Mutable, Policy, Spin, Waiter, Yield,
};
use proptest::prelude::*;
use std::time::Duration;

/// A policy that is quick to walk through.
const QUICK: Adaptive = Numbers { spins: 3, yields: 4, step_ns: 1_000, ceiling_ns: 3_000 }.policy();

/// The numbers of an adaptive policy.
#[derive(Clone, Copy, Debug)]
struct Numbers {
    spins: u32,
    yields: u32,
    step_ns: u64,
    ceiling_ns: u64,
}

impl Numbers {
    const fn policy(self) -> Adaptive {
        let policy = Adaptive::DEFAULT.spins(self.spins).yields(self.yields);
        policy.step(Duration::from_nanos(self.step_ns)).ceiling(Duration::from_nanos(self.ceiling_ns))
    }
}

fn waited<W: Waiter>(mut backoff: Backoff<W>, rounds: u32) -> Backoff<W> {
    for _ in 0..rounds {
        backoff.wait();
    }
    backoff
}

/// Rounds that spun, yielded, slept and parked.
fn counts<P: Policy>(policy: &P, rounds: u32) -> [u64; 4] {
    let counts = waited(policy.start(), rounds).counts();
    assert_eq!(counts.rounds(), u64::from(rounds));
    [counts.spins, counts.yields, counts.sleeps, counts.parks]
}

#[test]
fn nothing_is_done_when_the_condition_is_already_true() {
    let none = Counts::default();
    assert_eq!(Spin.until(|| true), none);
    assert_eq!(Yield.until(|| true), none);
    assert_eq!(FixedSleep::new(Duration::from_nanos(1)).until(|| true), none);
    assert_eq!(Adaptive::DEFAULT.until(|| true), none);
    let (event, mutable) = (Event::new(), Mutable::new());
    assert_eq!(event.until(|| true), none);
    assert_eq!(mutable.until(|| true), none);
    assert_eq!((event.parked(), mutable.parked(), mutable.spinners()), (0, 0, 0));
}

#[test]
fn each_simple_policy_does_one_thing() {
    assert_eq!(counts(&Spin, 5), [5, 0, 0, 0]);
    assert_eq!(counts(&FixedSleep::new(Duration::from_micros(1)), 3), [0, 0, 3, 0]);
    if !platform::thread::scheduling_class().yields_only_to_equals() {
        assert_eq!(counts(&Yield, 4), [0, 4, 0, 0]);
    }
}

#[test]
fn adaptive_spins_then_yields_then_sleeps() {
    let actions: Vec<Action> = (0..10).map(|round| QUICK.action(round)).collect();
    let sleep = |us| Action::Sleep(Duration::from_micros(us));
    assert_eq!(actions[..3], [Action::Spin; 3]);
    assert_eq!(actions[3..7], [Action::Yield; 4]);
    assert_eq!(actions[7..], [sleep(1), sleep(2), sleep(3)]);
    assert_eq!(QUICK.action(1_000), sleep(3), "the ceiling holds");
}

#[test]
fn a_wait_does_what_its_policy_says() {
    let so_far = |rounds| counts(&QUICK, rounds);
    assert_eq!(so_far(3), [3, 0, 0, 0]);
    assert_eq!(so_far(7), [3, 4, 0, 0]);
    assert_eq!(so_far(9), [3, 4, 2, 0]);
}

#[test]
fn the_defaults_are_wired_tigers() {
    let numbers = Numbers { spins: 10, yields: 1000, step_ns: 100_000, ceiling_ns: 1_000_000 };
    assert_eq!(numbers.policy(), Adaptive::default());
    assert_eq!(numbers.policy(), Adaptive::DEFAULT);
}

#[test]
fn numbers_at_their_limits_saturate() {
    let most = Adaptive::DEFAULT.spins(u32::MAX).yields(u32::MAX);
    assert_eq!(most.action(u32::MAX - 1), Action::Spin);
    assert_eq!(most.action(u32::MAX), Action::Yield);
    let least = Adaptive::DEFAULT.spins(0).yields(0).step(Duration::MAX).ceiling(Duration::MAX);
    assert_eq!(least.action(u32::MAX), Action::Sleep(Duration::from_nanos(u64::MAX)));
    let fine = least.step(Duration::from_nanos(1));
    assert_eq!(fine.action(u32::MAX), Action::Sleep(Duration::from_nanos(1 << 32)));
}

#[test]
fn a_limit_cuts_a_sleep_short_and_says_so() {
    const LIMIT: Duration = Duration::from_micros(1);
    // An hour's sleep, if the limit did not hold.
    let hour = FixedSleep::new(Duration::from_secs(3_600));
    assert!(!hour.until_for(LIMIT, || false));
    let mut looks = 0;
    assert!(hour.until_for(Duration::from_millis(1), || {
        looks += 1;
        looks == 2
    }));
    let event = Event::new();
    assert!(!event.until_for(LIMIT, || false));
    let mutable = Mutable::new();
    assert!(!mutable.until_for(LIMIT, || false));
    assert_eq!((event.parked(), mutable.parked(), mutable.spinners()), (0, 0, 0));
}

#[test]
fn a_waiter_that_gives_up_at_once_has_still_looked() {
    let mut looks = 0;
    assert!(!Spin.until_for(Duration::ZERO, || {
        looks += 1;
        false
    }));
    assert!(looks >= 1);
}

/// The policy, said in another way: one stage after the other, in numbers that cannot overflow.
fn model(numbers: Numbers, round: u32) -> Action {
    let (round, spins, yields) = (u128::from(round), u128::from(numbers.spins), u128::from(numbers.yields));
    if round < spins {
        Action::Spin
    } else if round < spins + yields {
        Action::Yield
    } else {
        let ns = (round - spins - yields + 1) * u128::from(numbers.step_ns);
        Action::Sleep(Duration::from_nanos(ns.min(u128::from(numbers.ceiling_ns)) as u64))
    }
}

fn policies() -> impl Strategy<Value = Numbers> {
    let number = || prop_oneof![0u32..20, any::<u32>(), Just(u32::MAX)];
    let time = || prop_oneof![0u64..2_000_000, any::<u64>(), Just(u64::MAX)];
    (number(), number(), time(), time()).prop_map(|(spins, yields, step_ns, ceiling_ns)| Numbers {
        spins,
        yields,
        step_ns,
        ceiling_ns,
    })
}

proptest! {
    #[test]
    fn action_follows_its_model(numbers in policies(), round in prop_oneof![0u32..60, any::<u32>(), Just(u32::MAX)]) {
        prop_assert_eq!(numbers.policy().action(round), model(numbers, round));
    }

    #[test]
    fn stages_follow_each_other_and_sleeps_never_shrink(numbers in policies(), round in 0..u32::MAX) {
        let stage = |round| match numbers.policy().action(round) {
            Action::Spin => (0, Duration::ZERO),
            Action::Yield => (1, Duration::ZERO),
            Action::Sleep(time) => (2, time),
            _ => (3, Duration::ZERO),
        };
        prop_assert!(stage(round) <= stage(round + 1));
        prop_assert!(stage(round).1 <= Duration::from_nanos(numbers.ceiling_ns));
        prop_assert!(stage(round).0 < 3);
    }
}
