//! Random numbers, all from one seed (SplitMix64, Steele, Lea and Flood 2014).

/// A source of random numbers.
#[derive(Clone, Debug)]
pub struct Chance(u64);

impl Chance {
    /// The numbers of a seed.
    pub fn new(seed: u64) -> Chance {
        Chance(seed)
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A number from 0 to 1, without 1.
    pub fn unit(&mut self) -> f64 {
        (self.number() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A number below `end`, which is above 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.number() % end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_the_paper() {
        let mut chance = Chance::new(1_234_567);
        assert_eq!(
            [chance.number(), chance.number()],
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]
        );
        assert!((0..1000).all(|_| (0.0..1.0).contains(&chance.unit()) && chance.below(7) < 7));
    }
}
