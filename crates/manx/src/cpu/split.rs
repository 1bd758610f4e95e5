//! From the speeds of cores to two classes.
//!
//! Speeds of equal cores differ: some bins boost higher than others, and firmware ranks its cores
//! by small steps so that the scheduler prefers the best of them. So a line is drawn only at a step
//! that no such difference reaches: [`STEP_PERCENT`], measured between neighbours, because a long
//! ranking of small steps is still one kind of core. Equal cores were seen to differ by up to 10 %
//! (two chiplets of one package), and big and little ones by 24 % at least.
//!
//! If there are more kinds than two (prime, big and little, or big, little and low power), the line
//! is drawn at the widest step, by ratio, so that those on one side of it have more in common than
//! those across it. Of steps of the same ratio it is the one between the slowest.

use std::fmt;

/// How much faster the slowest big core is than the fastest little one, at least, in percent of the
/// latter.
pub const STEP_PERCENT: u64 = 115;

/// Two speeds between which the line is drawn.
///
/// ```
/// use manx::cpu::{Classes, Source, Step};
///
/// let classes = Classes::from_speeds([(0, 1000), (1, 1010), (2, 520), (3, 500)]);
/// assert_eq!(classes.source(), Source::Measured(Step { big_min: 1000, little_max: 520 }));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The speed of the slowest big core.
    pub big_min: u64,
    /// The speed of the fastest little core.
    pub little_max: u64,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Step { big_min, little_max } = self;
        write!(f, "the slowest big core has {big_min}, the fastest little one {little_max}")
    }
}

/// The widest step between two speeds, if it is wide enough to make two classes. A speed of 0 is
/// none.
pub fn widest_step(speeds: impl Iterator<Item = u64>) -> Option<Step> {
    let mut speeds: Vec<u64> = speeds.filter(|&speed| speed > 0).collect();
    speeds.sort_unstable();
    let steps = speeds.windows(2).map(|pair| Step { big_min: pair[1], little_max: pair[0] });
    let wide = steps.filter(|step| {
        u128::from(step.big_min) * 100 >= u128::from(step.little_max) * u128::from(STEP_PERCENT)
    });
    wide.reduce(|widest, step| if is_wider(&step, &widest) { step } else { widest })
}

/// By ratio, exactly.
fn is_wider(one: &Step, other: &Step) -> bool {
    let product = |a: u64, b: u64| u128::from(a) * u128::from(b);
    product(one.big_min, other.little_max) > product(other.big_min, one.little_max)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(speeds: &[u64]) -> Option<(u64, u64)> {
        widest_step(speeds.iter().copied()).map(|step| (step.big_min, step.little_max))
    }

    #[test]
    fn equal_cores_are_of_one_class_however_they_boost() {
        assert_eq!(step(&[]), None);
        assert_eq!(step(&[1024]), None);
        assert_eq!(step(&[1024, 1024, 1024]), None);
        // Favoured cores, two chiplets, and a firmware's ranking from 166 to 231.
        assert_eq!(step(&[5_300_000, 5_000_000]), None);
        assert_eq!(step(&[5_750_000, 5_250_000, 5_250_000]), None);
        assert_eq!(step(&[166, 171, 176, 181, 186, 191, 196, 201, 206, 211, 216, 221, 226, 231]), None);
    }

    #[test]
    fn big_and_little_are_told_apart_in_any_order() {
        assert_eq!(step(&[446, 1024, 446, 1024]), Some((1024, 446)));
        assert_eq!(step(&[5_700_000, 4_600_000, 5_500_000]), Some((5_500_000, 4_600_000)));
        assert_eq!(step(&[115, 100]), Some((115, 100)));
        assert_eq!(step(&[114, 100]), None);
        assert_eq!(step(&[u64::MAX, 1]), Some((u64::MAX, 1)));
    }

    #[test]
    fn three_kinds_are_divided_at_the_widest_step() {
        assert_eq!(step(&[1024, 780, 325]), Some((780, 325)), "prime and big are big");
        assert_eq!(step(&[1024, 500, 400]), Some((1024, 500)), "little and low power are little");
        assert_eq!(step(&[1024, 512, 256]), Some((512, 256)), "the same ratio: the slowest are little");
    }

    #[test]
    fn a_speed_of_0_is_none() {
        assert_eq!(step(&[0, 1024, 1024]), None);
        assert_eq!(step(&[0, 0]), None);
    }
}
