//! How many CPUs each member gets: max-min fair, by weight, and no member more than it can use.
//!
//! CPUs are water, and each member a vessel as wide as its weight and as high as it can use (its
//! demand or its cap, whichever is less) over its weight. Water is poured until the CPUs are spent
//! or all vessels are full: the members that need little get all they need, and the rest have the
//! same level. It is what Bertsekas and Gallager call max-min fair ("Data Networks", section
//! 6.5.2), with weights as in Demers, Keshav and Shenker ("Analysis and simulation of a fair
//! queueing algorithm", 1989).
//!
//! Everything is computed in integers, so that all members come to the same result from the same
//! numbers, to the last bit. A share is a fraction over the denominator that all have in common.
//!
//! Invariants:
//! 1. The shares add up to the CPUs or to what all can use, whichever is less.
//! 2. No member gets more than it can use; and a member that gets less has as much for each unit of
//!    weight as any other, or more.
//! 3. Whole shares add up to the CPUs, if all can use that many (a member that can use a part of a
//!    CPU can use it as a whole one). They are the shares rounded down or up: up for the largest
//!    remainders, and of the same ones for the first in order.
//!
//! What it does not know: which CPUs the members may run on. Two members that may use the same two
//! of eight CPUs have caps of 2 each, and if all want all there is, they are given more than these
//! two CPUs together.

/// A member that wants CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Claim {
    /// How many it can use, in hundredths.
    pub(super) limit: u32,
    /// How much it counts; 0 counts as 1.
    pub(super) weight: u8,
}

/// The part of the CPUs that a member of a registry gets: see
/// [`Member::share`](super::Member::share).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    cpus: f64,
    whole: u32,
}

impl Share {
    const fn new(cpus: f64, whole: u32) -> Share {
        Share { cpus, whole }
    }

    /// The share in CPUs, a fraction.
    pub fn cpus(&self) -> f64 {
        self.cpus
    }

    /// The share in whole CPUs. Each of these belongs to one member, so it may be 0 where members
    /// outnumber CPUs.
    pub fn whole(&self) -> u32 {
        self.whole
    }
}

/// The maximum number of members that CPUs are divided among; the members behind get nothing.
const CLAIMS_MAX: usize = 256;

/// The level of the water: a member has `of` hundredths for each `to` units of weight, unless it is
/// full.
#[derive(Clone, Copy)]
struct Level {
    of: u64,
    to: u64,
}

impl Level {
    /// Pours `cpus` hundredths.
    fn pour(cpus: u32, claims: &[Claim]) -> Level {
        // Each round fills the vessels that the level of the round before covers, and takes their
        // water and width away. The level never falls, so rounds end when no vessel is filled by
        // one, and there are at most as many as vessels.
        let mut full = [false; CLAIMS_MAX];
        let mut level = Level { of: u64::from(cpus), to: claims.iter().map(Claim::width).sum() };
        while level.to > 0 {
            let mut next = level;
            for (claim, full) in claims.iter().zip(&mut full) {
                if !*full && level.fills(claim) {
                    *full = true;
                    next.of -= u64::from(claim.limit);
                    next.to -= claim.width();
                }
            }
            if next.to == level.to {
                break;
            }
            level = next;
        }
        level
    }

    fn fills(&self, claim: &Claim) -> bool {
        self.to == 0 || u64::from(claim.limit) * self.to <= self.of * claim.width()
    }

    /// What a share is a fraction of: the number of units in a CPU.
    fn units(&self) -> u64 {
        100 * self.to.max(1)
    }

    /// A share in these units.
    fn share(&self, claim: &Claim) -> u64 {
        if self.fills(claim) { u64::from(claim.limit) * self.to.max(1) } else { self.of * claim.width() }
    }
}

impl Claim {
    fn width(&self) -> u64 {
        u64::from(self.weight.max(1))
    }
}

/// What the claim at `own` gets of `cpus` hundredths of a CPU.
pub(super) fn divide(cpus: u32, claims: &[Claim], own: usize) -> Share {
    let claims = &claims[..claims.len().min(CLAIMS_MAX)];
    let Some(claim) = claims.get(own) else { return Share::new(0.0, 0) };
    let level = Level::pour(cpus, claims);
    let units = level.units();
    let share = level.share(claim);
    let (whole, rest) = (share / units, share % units);
    let cpus_each = share as f64 / units as f64;
    if rest == 0 {
        return Share::new(cpus_each, whole as u32);
    }
    // What is left of the whole CPUs when all are rounded down, and how many have more of a claim
    // to it. Members that have the same share as the one before them, as most do, need no division.
    let (mut of_all, mut before) = (0, 0);
    let mut last = (share, whole, rest);
    for (at, claim) in claims.iter().enumerate() {
        let its = level.share(claim);
        if its != last.0 {
            last = (its, its / units, its % units);
        }
        of_all += last.1;
        before += u64::from(last.2 > rest || last.2 == rest && at < own);
    }
    let left = (u64::from(cpus) / 100).saturating_sub(of_all);
    Share::new(cpus_each, whole as u32 + u32::from(before < left))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn claims() -> impl Strategy<Value = Vec<Claim>> {
        let claim = (prop_oneof![0u32..50, 0u32..2_000, Just(1_048_575)], 0u8..=255);
        let equal = (0u32..400).prop_map(|limit| (limit, 1u8));
        prop_oneof![
            prop::collection::vec(claim, 1..40),
            prop::collection::vec(equal, 1..12),
            prop::collection::vec((Just(800u32), Just(1u8)), 1..CLAIMS_MAX),
        ]
        .prop_map(|claims| claims.into_iter().map(|(limit, weight)| Claim { limit, weight }).collect())
    }

    fn all(cpus: u32, claims: &[Claim]) -> Vec<Share> {
        (0..claims.len()).map(|at| divide(cpus, claims, at)).collect()
    }

    proptest! {
        #[test]
        fn shares_add_up_and_nobody_gets_more_than_it_can_use(cpus in 0u32..20_000, claims in claims()) {
            let shares = all(cpus, &claims);
            let wanted: u64 = claims.iter().map(|claim| u64::from(claim.limit)).sum();
            let sum: f64 = shares.iter().map(Share::cpus).sum();
            prop_assert!((sum - wanted.min(u64::from(cpus)) as f64 / 100.0).abs() < 1e-6, "{sum}");
            for (share, claim) in shares.iter().zip(&claims) {
                prop_assert!(share.cpus() <= f64::from(claim.limit) / 100.0);
                prop_assert!(f64::from(share.whole()) < share.cpus() + 1.0 && f64::from(share.whole()) > share.cpus() - 1.0);
            }
            let whole: u64 = shares.iter().map(|share| u64::from(share.whole())).sum();
            let could: u64 = claims.iter().map(|claim| u64::from(claim.limit.div_ceil(100))).sum();
            if wanted >= u64::from(cpus) {
                prop_assert_eq!(whole, u64::from(cpus / 100));
            } else {
                prop_assert_eq!(whole, could.min(u64::from(cpus / 100)));
            }
        }

        #[test]
        fn a_member_below_its_limit_gets_its_full_weight(cpus in 1u32..20_000, claims in claims()) {
            let shares = all(cpus, &claims);
            let levels: Vec<f64> = shares.iter().zip(&claims).map(|(share, claim)| share.cpus() / claim.width() as f64).collect();
            let highest = levels.iter().copied().fold(0.0, f64::max);
            for ((share, claim), level) in shares.iter().zip(&claims).zip(&levels) {
                let full = share.cpus() >= f64::from(claim.limit) / 100.0 - 1e-9;
                prop_assert!(full || *level >= highest - 1e-9);
            }
        }

        #[test]
        fn more_cpus_are_no_loss_and_another_ones_hunger_no_gain(
            cpus in 0u32..10_000, more in 0u32..500, hunger in 0u32..1_000, claims in claims(), other in any::<prop::sample::Index>()
        ) {
            let shares = all(cpus, &claims);
            let richer = all(cpus + more, &claims);
            for (share, richer) in shares.iter().zip(&richer) {
                prop_assert!(richer.cpus() >= share.cpus() - 1e-9);
            }
            let other = other.index(claims.len());
            let mut hungrier = claims.clone();
            hungrier[other].limit = (hungrier[other].limit + hunger).min(1_048_575);
            for (at, (share, now)) in shares.iter().zip(all(cpus, &hungrier)).enumerate() {
                if at == other {
                    prop_assert!(now.cpus() >= share.cpus() - 1e-9);
                } else {
                    prop_assert!(now.cpus() <= share.cpus() + 1e-9);
                }
            }
        }

        #[test]
        fn equals_get_the_same_and_the_first_of_them_the_odd_cpu(cpus in 0u32..40, members in 1usize..20) {
            let claims = vec![Claim { limit: 100_000, weight: 3 }; members];
            let shares = all(cpus * 100, &claims);
            prop_assert!(shares.iter().all(|share| share.cpus() == shares[0].cpus()));
            prop_assert!(shares.windows(2).all(|pair| pair[0].whole() >= pair[1].whole()));
        }
    }

    #[test]
    fn a_member_that_wants_little_gets_it_and_the_others_divide_the_rest() {
        // Three on two CPUs: one wants half a CPU, the others all there is.
        let claims = [50, 200, 200].map(|limit| Claim { limit, weight: 1 });
        assert_eq!(all(200, &claims), [Share::new(0.5, 0), Share::new(0.75, 1), Share::new(0.75, 1)]);
    }

    #[test]
    fn a_place_that_is_not_there_gets_nothing() {
        assert_eq!(divide(400, &[], 0), Share::new(0.0, 0));
        assert_eq!(divide(400, &[Claim { limit: 1, weight: 1 }], 1), Share::new(0.0, 0));
    }

    #[test]
    fn weights_divide_and_what_the_heavy_cannot_use_goes_to_the_light() {
        let claims = [Claim { limit: 800, weight: 3 }, Claim { limit: 800, weight: 1 }];
        assert_eq!(all(400, &claims), [Share::new(3.0, 3), Share::new(1.0, 1)]);
        let claims = [Claim { limit: 150, weight: 3 }, Claim { limit: 800, weight: 1 }];
        assert_eq!(all(400, &claims), [Share::new(1.5, 2), Share::new(2.5, 2)]);
    }
}
