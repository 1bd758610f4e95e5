//! Which part of the epochs is to end in time.

/// A percentile, with what the feedback derives from it.
///
/// ```
/// use manx::slo::Percentile;
///
/// assert_eq!(Percentile::new(9950).unwrap().to_string(), "p99.5");
/// assert_eq!(Percentile::P99, Percentile::new(9900).unwrap());
/// assert!(Percentile::new(10_000).is_none());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Percentile {
    /// In hundredths of a percent.
    hundredths: u16,
    /// How many epochs may miss for one epoch that is met.
    pub(super) ratio: f32,
    /// What the gain is multiplied by after an epoch that was met …
    pub(super) met: f32,
    /// … and after an epoch that missed. If the percentile is kept, both cancel out.
    pub(super) missed: f32,
}

/// How much the gain moves, in logarithms: it is multiplied by e^this and divided by it, in parts.
const RATE: f64 = 0.25;

impl Percentile {
    /// Half of the epochs.
    pub const P50: Percentile = Percentile::of(5000);
    /// Nine of ten.
    pub const P90: Percentile = Percentile::of(9000);
    /// 95 of a hundred.
    pub const P95: Percentile = Percentile::of(9500);
    /// 99 of a hundred.
    pub const P99: Percentile = Percentile::of(9900);
    /// 999 of a thousand.
    pub const P999: Percentile = Percentile::of(9990);
    /// 9,999 of ten thousand.
    pub const P9999: Percentile = Percentile::of(9999);

    /// A percentile in hundredths of a percent, from 5000 (p50) to 9999 (p99.99).
    pub const fn new(hundredths: u16) -> Option<Percentile> {
        // What most ask for is not worked out each time.
        match hundredths {
            5000 => Some(Percentile::P50),
            9000 => Some(Percentile::P90),
            9500 => Some(Percentile::P95),
            9900 => Some(Percentile::P99),
            9990 => Some(Percentile::P999),
            9999 => Some(Percentile::P9999),
            5001..9999 => Some(Percentile::of(hundredths)),
            _ => None,
        }
    }

    const fn of(hundredths: u16) -> Percentile {
        let part = hundredths as f64 / 10_000.0;
        Percentile {
            hundredths,
            ratio: ((1.0 - part) / part) as f32,
            met: exp(RATE * (1.0 - part)) as f32,
            missed: exp(-RATE * part) as f32,
        }
    }

    /// In hundredths of a percent.
    pub const fn hundredths(self) -> u16 {
        self.hundredths
    }
}

/// e^x for x between -1 and 1.
const fn exp(x: f64) -> f64 {
    let (mut sum, mut term, mut n) = (1.0, 1.0, 1.0);
    while n < 16.0 {
        term *= x / n;
        sum += term;
        n += 1.0;
    }
    sum
}

impl PartialEq for Percentile {
    fn eq(&self, other: &Percentile) -> bool {
        self.hundredths == other.hundredths
    }
}

impl Eq for Percentile {}

impl std::fmt::Display for Percentile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "p{}", f64::from(self.hundredths) / 100.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_is_no_percentile_is_refused() {
        for hundredths in [0, 4999, 10_000, u16::MAX] {
            assert!(Percentile::new(hundredths).is_none());
        }
        for hundredths in 5000..=9999 {
            let percentile = Percentile::new(hundredths).unwrap();
            assert_eq!(percentile.hundredths(), hundredths);
            // One miss and as many epochs met as go with it leave the gain where it was.
            let met = 1.0 / f64::from(percentile.ratio);
            let drift = f64::from(percentile.met).ln() * met + f64::from(percentile.missed).ln();
            assert!(drift.abs() < 0.01, "{percentile}: {drift}");
        }
    }
}
