//! What each policy does, in which order, how often, and where it stops growing.

use manx::wait::{
    Action, Adaptive, Backoff, Counts, Event, FixedSleep, Meter, Mutable, Policy, Spin, Waiter, Yield,
};
use proptest::prelude::*;

/// A policy that is quick to walk through.
const QUICK: Adaptive = Adaptive { spins: 3, yields: 4, step_ns: 1_000, ceiling_ns: 3_000 };

fn waited<W: Waiter, M: Meter>(mut backoff: Backoff<W, M>, rounds: u32) -> Backoff<W, M> {
    for _ in 0..rounds {
        backoff.wait();
    }
    backoff
}

fn counts<P: Policy>(policy: &P, rounds: u32) -> Counts {
    waited(policy.start(), rounds).counts()
}

#[test]
fn nothing_is_done_when_the_condition_is_already_true() {
    let none = Counts::default();
    assert_eq!(Spin.until(|| true), none);
    assert_eq!(Yield.until(|| true), none);
    assert_eq!(FixedSleep::new(1).until(|| true), none);
    assert_eq!(Adaptive::DEFAULT.until(|| true), none);
    let (event, mutable) = (Event::new(), Mutable::new());
    assert_eq!(event.until(|| true), none);
    assert_eq!(mutable.until(|| true), none);
    assert_eq!((event.parked(), mutable.parked(), mutable.spinners()), (0, 0, 0));
}

#[test]
fn each_simple_policy_does_one_thing() {
    assert_eq!(counts(&Spin, 5), Counts { spins: 5, ..Counts::default() });
    assert_eq!(counts(&FixedSleep::new(1_000), 3), Counts { sleeps: 3, ..Counts::default() });
    if !platform::thread::scheduling_class().yields_only_to_equals() {
        assert_eq!(counts(&Yield, 4), Counts { yields: 4, ..Counts::default() });
    }
}

#[test]
fn adaptive_spins_then_yields_then_sleeps() {
    let actions: Vec<Action> = (0..10).map(|round| QUICK.action(round)).collect();
    let sleep = |ns| Action::Sleep { ns };
    assert_eq!(actions[..3], [Action::Spin; 3]);
    assert_eq!(actions[3..7], [Action::Yield; 4]);
    assert_eq!(actions[7..], [sleep(1_000), sleep(2_000), sleep(3_000)]);
    assert_eq!(QUICK.action(1_000), sleep(3_000), "the ceiling holds");
}

#[test]
fn a_wait_does_what_its_policy_says() {
    let so_far = |rounds| counts(&QUICK, rounds);
    assert_eq!(so_far(3), Counts { spins: 3, ..Counts::default() });
    assert_eq!(so_far(7), Counts { spins: 3, yields: 4, ..Counts::default() });
    assert_eq!(so_far(9), Counts { spins: 3, yields: 4, sleeps: 2, parks: 0 });
    assert_eq!(so_far(9).rounds(), 9);
}

#[test]
fn the_defaults_are_wired_tigers() {
    let Adaptive { spins, yields, step_ns, ceiling_ns } = Adaptive::default();
    assert_eq!((spins, yields, step_ns, ceiling_ns), (10, 1000, 100_000, 1_000_000));
    let settable = Adaptive::DEFAULT.spins(1).yields(2).step_ns(3).ceiling_ns(4);
    assert_eq!(settable, Adaptive { spins: 1, yields: 2, step_ns: 3, ceiling_ns: 4 });
}

#[test]
fn numbers_at_their_limits_saturate() {
    let most = Adaptive { spins: u32::MAX, yields: u32::MAX, step_ns: u64::MAX, ceiling_ns: u64::MAX };
    assert_eq!(most.action(u32::MAX - 1), Action::Spin);
    assert_eq!(most.action(u32::MAX), Action::Yield);
    let least = Adaptive { spins: 0, yields: 0, step_ns: u64::MAX, ceiling_ns: u64::MAX };
    assert_eq!(least.action(u32::MAX), Action::Sleep { ns: u64::MAX });
    let fine = Adaptive { spins: 0, yields: 0, step_ns: 1, ceiling_ns: u64::MAX };
    assert_eq!(fine.action(u32::MAX), Action::Sleep { ns: 1 << 32 });
}

#[test]
fn a_timed_wait_knows_where_its_time_went() {
    let untouched = QUICK.start().timed();
    assert_eq!(untouched.times(), manx::wait::Times::default());
    let backoff = waited(QUICK.start().timed(), 9);
    let times = backoff.times();
    assert_eq!(backoff.counts().rounds(), 9);
    assert!(times.sleeping_ns >= 3_000, "two sleeps of 1 and 2 µs: {times:?}");
    assert!(times.spinning_ns + times.yielding_ns + times.sleeping_ns <= times.total_ns, "{times:?}");
}

#[test]
fn a_limit_cuts_a_sleep_short_and_says_so() {
    // An hour's sleep, if the limit did not hold.
    let hour = FixedSleep::new(3_600_000_000_000);
    assert!(!hour.until_for(1_000, || false));
    let mut looks = 0;
    assert!(hour.until_for(1_000_000, || {
        looks += 1;
        looks == 2
    }));
    let event = Event::new();
    assert!(!event.until_for(1_000, || false));
    let mutable = Mutable::new();
    assert!(!mutable.until_for(1_000, || false));
    assert_eq!((event.parked(), mutable.parked(), mutable.spinners()), (0, 0, 0));
}

#[test]
fn who_gives_up_at_once_has_still_looked() {
    let mut looks = 0;
    assert!(!Spin.until_for(0, || {
        looks += 1;
        false
    }));
    assert!(looks >= 1);
}

/// The policy, said in another way: one stage after the other, in numbers that cannot overflow.
fn model(policy: Adaptive, round: u32) -> Action {
    let (round, spins, yields) = (u128::from(round), u128::from(policy.spins), u128::from(policy.yields));
    if round < spins {
        Action::Spin
    } else if round < spins + yields {
        Action::Yield
    } else {
        let ns = (round - spins - yields + 1) * u128::from(policy.step_ns);
        Action::Sleep { ns: ns.min(u128::from(policy.ceiling_ns)) as u64 }
    }
}

fn policies() -> impl Strategy<Value = Adaptive> {
    let number = || prop_oneof![0u32..20, any::<u32>(), Just(u32::MAX)];
    let time = || prop_oneof![0u64..2_000_000, any::<u64>(), Just(u64::MAX)];
    (number(), number(), time(), time()).prop_map(|(spins, yields, step_ns, ceiling_ns)| Adaptive {
        spins,
        yields,
        step_ns,
        ceiling_ns,
    })
}

proptest! {
    #[test]
    fn action_follows_its_model(policy in policies(), round in prop_oneof![0u32..60, any::<u32>(), Just(u32::MAX)]) {
        prop_assert_eq!(policy.action(round), model(policy, round));
    }

    #[test]
    fn stages_follow_each_other_and_sleeps_never_shrink(policy in policies(), round in 0..u32::MAX) {
        let stage = |round| match policy.action(round) {
            Action::Spin => (0, 0),
            Action::Yield => (1, 0),
            Action::Sleep { ns } => (2, ns),
            Action::Park => (3, 0),
        };
        prop_assert!(stage(round) <= stage(round + 1));
        prop_assert!(stage(round).1 <= policy.ceiling_ns);
        prop_assert!(stage(round).0 < 3);
    }
}
