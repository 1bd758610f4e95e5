//! In which order the versions of a round run: drawn at random, anew for each round.
//!
//! A fixed order, and also one that rotates, lets the same version always follow the same other
//! one: whatever that leaves behind (a warm cache, a CPU that is hot, a timer of the machine with
//! the period of a round) then falls on one version only, and no number of rounds averages it out.
//! Drawn orders turn it into noise, which the interval shows. The draw is the shuffle of Fisher and
//! Yates; its seed is in the report.

/// Draws the orders of rounds.
#[derive(Clone, Debug)]
pub struct Order(fastrand::Rng);

impl Order {
    /// The same seed gives the same orders.
    pub fn new(seed: u64) -> Order {
        Order(fastrand::Rng::with_seed(seed))
    }

    /// The next round's: each of the indices below `versions` once.
    ///
    /// ```
    /// let mut drawn = report::Order::new(1).draw(3);
    /// drawn.sort();
    /// assert_eq!(drawn, [0, 1, 2]);
    /// ```
    pub fn draw(&mut self, versions: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..versions).collect();
        self.0.shuffle(&mut order);
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_round_has_each_version_once_and_each_version_is_first_about_equally_often() {
        const ROUNDS: usize = 4000;
        for versions in [1, 2, 5] {
            let (mut order, mut first) = (Order::new(7), vec![0_usize; versions]);
            for _ in 0..ROUNDS {
                let drawn = order.draw(versions);
                first[drawn[0]] += 1;
                let mut sorted = drawn;
                sorted.sort_unstable();
                assert_eq!(sorted, (0..versions).collect::<Vec<_>>());
            }
            let even = ROUNDS / versions;
            // Six standard errors of the number of draws.
            let slack = (6.0 * (even as f64).sqrt()) as usize;
            assert!(first.iter().all(|&count| count.abs_diff(even) <= slack), "{first:?}");
        }
    }
}
