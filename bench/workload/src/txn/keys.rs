//! Which record an operation is about, and under which key that lies.
//!
//! Records are numbered from 1 on. Popular ones are scattered over the numbers by a hash, as YCSB's
//! scrambled zipfian distribution does it; the latest are the last ones that were inserted, the
//! last one most of all. A key is eight bytes in which the number is scattered by a function that
//! has an inverse: so neighbours in the order of keys were not inserted one after the other, as
//! with YCSB's hashed keys, and no two numbers have one key. The drivers in C draw in the same way
//! (`engines/ycsb.h`).
//!
//! YCSB computes the constants of the latest distribution anew whenever a record is inserted; here
//! they stay those of the records that were loaded. The inserts of a run are few beside these.

use crate::range::request::Dice;
use crate::range::zipfian::Zipfian;

/// How records are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Each as often as any other.
    Uniform,
    /// Few of them often.
    Zipfian,
    /// The records that were inserted last.
    Latest,
}

impl Kind {
    /// All of them, and by which the user names them.
    pub const ALL: [(&'static str, Kind); 3] =
        [("uniform", Kind::Uniform), ("zipfian", Kind::Zipfian), ("latest", Kind::Latest)];

    /// By which the user names it.
    pub fn name(self) -> &'static str {
        Kind::ALL.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }
}

/// Draws records.
#[derive(Clone, Debug)]
pub struct Keys {
    kind: Kind,
    records: u64,
    zipfian: Zipfian,
}

impl Keys {
    /// Makes keys for `records` loaded records.
    ///
    /// # Panics
    /// If there are none.
    pub fn new(kind: Kind, records: u64) -> Keys {
        Keys { kind, records, zipfian: Zipfian::new(records) }
    }

    /// Draws the number of a record. There are `there` records: not less than were loaded.
    pub(crate) fn draw(&self, dice: &mut Dice, there: u64) -> u64 {
        match self.kind {
            Kind::Uniform => 1 + dice.below(self.records as usize) as u64,
            Kind::Zipfian => 1 + mix(self.zipfian.rank(dice.unit())) % self.records,
            Kind::Latest => there - self.zipfian.rank(dice.unit()),
        }
    }
}

/// The key of a record.
pub fn key(number: u64) -> [u8; 8] {
    mix(number).to_be_bytes()
}

/// Steele, Lea and Flood's: each step has an inverse.
pub(crate) fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const RECORDS: u64 = 1000;
    const DRAWS: u64 = 400_000;

    fn counts(kind: Kind, there: u64) -> Vec<u64> {
        let (keys, mut dice) = (Keys::new(kind, RECORDS), Dice::of(3));
        let mut counts = vec![0; there as usize + 1];
        (0..DRAWS).for_each(|_| counts[keys.draw(&mut dice, there) as usize] += 1);
        assert_eq!(counts[0], 0, "records are numbered from 1 on");
        counts
    }

    /// The chance of a rank, by the definition.
    fn chance(rank: u64) -> f64 {
        let weight = |rank: u64| ((rank + 1) as f64).powf(-0.99);
        weight(rank) / (0..RECORDS).map(weight).sum::<f64>()
    }

    fn near(found: u64, wanted: f64, relative: f64) {
        let found = found as f64 / DRAWS as f64;
        assert!((found / wanted - 1.0).abs() < relative, "{found} instead of {wanted}");
    }

    #[test]
    fn uniform_ones_are_alike() {
        let counts = counts(Kind::Uniform, RECORDS);
        for hundred in counts[1..].chunks(100) {
            near(hundred.iter().sum(), 0.1, 0.03);
        }
    }

    #[test]
    fn popular_ones_are_drawn_as_the_distribution_says_and_scattered() {
        let counts = counts(Kind::Zipfian, RECORDS);
        // Several ranks may fall on one number; ranks that share it add up.
        let mut wanted = vec![0.0; RECORDS as usize + 1];
        (0..RECORDS).for_each(|rank| wanted[1 + (mix(rank) % RECORDS) as usize] += chance(rank));
        for rank in [0, 1] {
            let number = 1 + (mix(rank) % RECORDS) as usize;
            near(counts[number], wanted[number], 0.03);
        }
        let mut popular: Vec<usize> = (1..=RECORDS as usize).collect();
        popular.sort_by(|a, b| wanted[*b].total_cmp(&wanted[*a]));
        let of = |numbers: &[usize]| {
            (numbers.iter().map(|n| counts[*n]).sum::<u64>(), numbers.iter().map(|n| wanted[*n]).sum::<f64>())
        };
        for part in [&popular[2..10], &popular[10..100], &popular[100..500]] {
            let (found, wanted) = of(part);
            near(found, wanted, 0.1);
        }
        let first: BTreeSet<bool> = popular[..20].iter().map(|n| *n > RECORDS as usize / 2).collect();
        assert_eq!(first.len(), 2, "the popular ones lie on one side");
    }

    #[test]
    fn the_last_ones_are_drawn_most_often_also_after_inserts() {
        let counts = counts(Kind::Latest, RECORDS + 500);
        for rank in [0, 1] {
            near(counts[(RECORDS + 500 - rank) as usize], chance(rank), 0.03);
        }
        assert!(counts[..=500].iter().all(|count| *count == 0), "more ranks than were loaded");
    }

    #[test]
    fn keys_are_all_different_and_not_in_the_order_of_numbers() {
        let keys: Vec<[u8; 8]> = (1..=RECORDS).map(key).collect();
        assert_eq!(keys.iter().collect::<BTreeSet<_>>().len(), RECORDS as usize);
        let ascending = keys.windows(2).filter(|pair| pair[0] < pair[1]).count();
        assert!((400..600).contains(&ascending), "{ascending}");
        // As the drivers in C have it, so that what a record is called does not differ.
        assert_eq!(key(1), 0x5692_161d_100b_05e5_u64.to_be_bytes());
    }
}
