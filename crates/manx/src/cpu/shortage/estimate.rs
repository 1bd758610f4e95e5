//! The rule by which waits in the run queue become the word: a smoothed share, and two thresholds.
//!
//! A *sample* is which part of the time since its last sample a thread has waited for a CPU. The
//! sampled threads are the threads that wait for locks and events; they are also the threads that
//! others wait for. So the mean of the samples estimates how likely it is that a thread that is
//! waited for does not run although it wishes to, which is all that a spinner needs to know.
//!
//! It is a part of *all* time, not of the time in which the thread wished to run. A server at half
//! load whose threads run for 100 µs every 10 ms may wait as long as it runs, but that is at the
//! beginning of each piece of work, when the thread holds nothing yet; and its sample is 1 %.
//!
//! | what the sampled threads do | mean of the samples |
//! | --- | --- |
//! | three that always wish to run, on two CPUs; or a quota that gives them two thirds | 33 % |
//! | two that signal each other, both on one CPU | 20 to 50 % |
//! | each has a CPU, beside a neighbour of nice 19 | 1 to 3 % |
//! | each has a CPU, and a daemon wakes up 1,000 times a second for 20 µs | 2 % |
//! | bursts: 1 % to 10 % of the time four threads wish to run on two CPUs | 0.5 % to 5 % |
//!
//! The mean is smoothed over about [`WEIGHT`] samples. It turns on above [`ON`] and off below
//! [`OFF`], and no single sample counts for more than [`SAMPLE_MAX`], so one long wait alone never
//! turns it on: `SAMPLE_MAX / WEIGHT < ON`.

/// All of the time. Shares are in units of 1/65536, so that they fit in a word and need no floating
/// point, which a trampoline may not touch.
pub(super) const ALL: u32 = 1 << 16;
/// Above this mean the process is short of CPUs …
pub(super) const ON: u32 = ALL / 8;
/// … and below this one it is so no longer.
pub(super) const OFF: u32 = ALL / 16;
/// What a sample counts for at most.
const SAMPLE_MAX: u32 = ALL * 2 / 5;
/// A sample moves the mean by this part of its distance.
const WEIGHT: u32 = 4;

const _: () = assert!(SAMPLE_MAX / WEIGHT < ON && OFF < ON);

/// Which part of `wall_ns` a wait of `wait_ns` is.
pub(super) const fn share(wait_ns: u64, wall_ns: u64) -> u32 {
    if wall_ns == 0 || wait_ns >= wall_ns {
        return if wait_ns == 0 { 0 } else { ALL };
    }
    // Less than ALL, because the wait is the shorter one.
    ((wait_ns as u128 * ALL as u128) / wall_ns as u128) as u32
}

/// The mean after one more sample.
pub(super) const fn smooth(mean: u32, sample: u32) -> u32 {
    let sample = if sample < SAMPLE_MAX { sample } else { SAMPLE_MAX };
    let mean = if mean < ALL { mean } else { ALL };
    if sample > mean {
        mean + (sample - mean).div_ceil(WEIGHT)
    } else {
        mean - (mean - sample).div_ceil(WEIGHT)
    }
}

/// What the word is to be, that was `short`, with this mean.
pub(super) const fn verdict(short: bool, mean: u32) -> bool {
    if short { mean >= OFF } else { mean > ON }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const fn percent(percent: u32) -> u32 {
        ALL / 100 * percent
    }

    /// After how many samples that are all alike the word changes from `short`, if it does.
    fn samples_until_change(short: bool, begin: u32, sample: u32) -> Option<usize> {
        let mut mean = begin;
        (1..1_000).find(|_| {
            mean = smooth(mean, sample);
            verdict(short, mean) != short
        })
    }

    #[test]
    fn a_lasting_shortage_is_seen_soon_and_its_end_too() {
        assert_eq!(samples_until_change(false, 0, percent(50)), Some(2));
        assert_eq!(samples_until_change(false, 0, percent(33)), Some(2));
        assert_eq!(samples_until_change(false, 0, percent(20)), Some(4));
        assert_eq!(samples_until_change(true, SAMPLE_MAX, 0), Some(7));
        assert_eq!(samples_until_change(true, ON, 0), Some(3));
    }

    #[test]
    fn samples_between_the_two_limits_change_nothing() {
        for sample in [percent(7), percent(9), percent(12)] {
            assert_eq!(samples_until_change(false, 0, sample), None);
            assert_eq!(samples_until_change(true, SAMPLE_MAX, sample), None);
        }
    }

    #[test]
    fn short_bursts_and_single_waits_never_turn_it_on() {
        for sample in [0, percent(1), percent(5)] {
            assert_eq!(samples_until_change(false, 0, sample), None);
        }
        // A thread that waited all the time, once in ten samples.
        let mut mean = 0;
        for round in 0..1_000 {
            mean = smooth(mean, if round % 10 == 0 { ALL } else { percent(1) });
            assert!(!verdict(false, mean), "round {round}");
        }
    }

    #[test]
    fn shares_are_what_they_say() {
        assert_eq!([share(0, 0), share(0, 9), share(9, 0), share(9, 9), share(10, 9)], [0, 0, ALL, ALL, ALL]);
        assert_eq!([share(1, 2), share(1, 65_536), share(u64::MAX - 1, u64::MAX)], [ALL / 2, 1, ALL - 1]);
    }

    proptest! {
        #[test]
        fn a_mean_stays_between_itself_and_the_sample(mean in 0..=ALL, sample: u32) {
            let (after, sample) = (smooth(mean, sample), sample.min(SAMPLE_MAX));
            prop_assert!((mean.min(sample)..=mean.max(sample)).contains(&after));
            prop_assert!(after != mean || mean == sample, "it always moves");
        }
    }
}
