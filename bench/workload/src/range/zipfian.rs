//! Keys as YCSB draws them: few of them often, most of them seldom.
//!
//! The key of rank r is drawn in proportion to 1 / (r + 1)^0.99, by the method of Gray and others,
//! "Quickly generating billion-record synthetic databases" (1994), which needs one number a draw.
//! YCSB scatters popular keys by a hash, by which some ranks fall on one key; here they are
//! scattered by a permutation, so every key has a rank of its own.

use super::request::Dice;

/// YCSB's constant.
const THETA: f64 = 0.99;

/// Draws keys below a number of them.
#[derive(Clone, Debug)]
pub(crate) struct Zipfian {
    items: u64,
    /// By which ranks are scattered: it has no divisor in common with `items`.
    step: u64,
    alpha: f64,
    zeta: f64,
    eta: f64,
}

impl Zipfian {
    /// Keys below `items`; takes time in proportion to it.
    ///
    /// # Panics
    /// If there are none.
    pub(crate) fn new(items: u64) -> Zipfian {
        assert!(items > 0, "no keys to draw from");
        let sum = |items: u64| (1..=items).map(|rank| (rank as f64).powf(-THETA)).sum::<f64>();
        let (zeta, zeta_two) = (sum(items), sum(2));
        // About the golden section of the keys, so that neighbours in rank are far apart.
        let golden = (items as f64 * 0.618_033_988_749_895) as u64;
        let step = (golden.max(1)..).find(|step| common_divisor(*step, items) == 1).unwrap_or(1);
        Zipfian {
            items,
            step,
            alpha: 1.0 / (1.0 - THETA),
            zeta,
            eta: (1.0 - (2.0 / items as f64).powf(1.0 - THETA)) / (1.0 - zeta_two / zeta),
        }
    }

    /// The next key.
    pub(crate) fn draw(&self, dice: &mut Dice) -> u64 {
        let rank = self.rank(dice.unit());
        (u128::from(rank) * u128::from(self.step) % u128::from(self.items)) as u64
    }

    /// The rank that a number from 0 up to 1 stands for.
    pub(crate) fn rank(&self, unit: f64) -> u64 {
        let part = unit * self.zeta;
        if part < 1.0 {
            return 0;
        }
        if part < 1.0 + 0.5f64.powf(THETA) {
            return 1.min(self.items - 1);
        }
        let rank = self.items as f64 * (self.eta * unit - self.eta + 1.0).powf(self.alpha);
        (rank as u64).min(self.items - 1)
    }
}

fn common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_drawn_as_often_as_the_distribution_says() {
        const ITEMS: u64 = 1000;
        const DRAWS: u64 = 400_000;
        let zipfian = Zipfian::new(ITEMS);
        let mut dice = Dice::of(7);
        let mut counts = vec![0u64; ITEMS as usize];
        (0..DRAWS).for_each(|_| counts[zipfian.rank(dice.unit()) as usize] += 1);
        let share = |ranks: std::ops::Range<usize>| counts[ranks].iter().sum::<u64>() as f64 / DRAWS as f64;
        let wanted = |ranks: std::ops::Range<usize>| {
            ranks.map(|rank| ((rank + 1) as f64).powf(-THETA)).sum::<f64>() / zipfian.zeta
        };
        // The first two are drawn exactly; the others by a curve through the sums, which the
        // method's authors show.
        for ranks in [0..1, 1..2] {
            assert!((share(ranks.clone()) / wanted(ranks.clone()) - 1.0).abs() < 0.02, "{ranks:?}");
        }
        for ranks in [2..10, 10..100, 100..1000] {
            assert!((share(ranks.clone()) / wanted(ranks.clone()) - 1.0).abs() < 0.08, "{ranks:?}");
        }
    }

    #[test]
    fn every_rank_has_a_key_of_its_own_and_neighbours_are_apart() {
        for items in [1, 2, 3, 10, 1000, 1024] {
            let zipfian = Zipfian::new(items);
            let key = |rank: u64| rank * zipfian.step % items;
            let mut keys: Vec<u64> = (0..items).map(key).collect();
            assert!(items < 10 || key(0).abs_diff(key(1)) > items / 4);
            keys.sort_unstable();
            assert!(keys.into_iter().eq(0..items), "{items}");
            let mut dice = Dice::of(1);
            assert!((0..1000).all(|_| zipfian.draw(&mut dice) < items), "{items}");
        }
    }
}
