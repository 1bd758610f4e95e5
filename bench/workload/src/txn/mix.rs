//! YCSB's workloads, and the update workload of Andreoli and Cucinotta: which operations, on which
//! keys.
//!
//! | name | operations | keys |
//! | --- | --- | --- |
//! | `a` | half reads, half updates | zipfian |
//! | `b` | 95 % reads, 5 % updates | zipfian |
//! | `c` | reads | zipfian |
//! | `d` | 95 % reads, 5 % inserts | the latest |
//! | `e` | 95 % scans of 1 to 100 records, 5 % inserts | zipfian |
//! | `f` | half reads, half changes | zipfian |
//! | `change` | changes | uniform |
//! | `put` | updates | uniform |
//!
//! An *update* puts a value without reading it, a *change* reads the record and puts it back one
//! version later. The drivers in C have the same table (`engines/ycsb.h`), but for `put`, which is
//! measured of Manx's store and what is beneath it alone.

use super::keys::Kind;

/// What a transaction does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Gets a record.
    Read,
    /// Puts a record that is there.
    Update,
    /// Puts a record that is not there.
    Insert,
    /// Gets a record and puts it back, one version later.
    Change,
    /// Gets some records, one after the other in the order of their keys.
    Scan,
}

/// Operations by their shares.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mix {
    /// By which it is chosen
    pub name: &'static str,
    /// Shares that add up to 1
    pub shares: &'static [(Operation, f64)],
    /// How keys are drawn
    pub keys: Kind,
}

/// All of them.
pub const MIXES: [Mix; 8] = {
    use Operation::{Change, Insert, Read, Scan, Update};
    const fn mix(name: &'static str, shares: &'static [(Operation, f64)], keys: Kind) -> Mix {
        Mix { name, shares, keys }
    }
    [
        mix("a", &[(Read, 0.5), (Update, 0.5)], Kind::Zipfian),
        mix("b", &[(Read, 0.95), (Update, 0.05)], Kind::Zipfian),
        mix("c", &[(Read, 1.0)], Kind::Zipfian),
        mix("d", &[(Read, 0.95), (Insert, 0.05)], Kind::Latest),
        mix("e", &[(Scan, 0.95), (Insert, 0.05)], Kind::Zipfian),
        mix("f", &[(Read, 0.5), (Change, 0.5)], Kind::Zipfian),
        mix("change", &[(Change, 1.0)], Kind::Uniform),
        mix("put", &[(Update, 1.0)], Kind::Uniform),
    ]
};

impl Mix {
    /// Returns the mix of this name.
    pub fn named(name: &str) -> Option<Mix> {
        MIXES.into_iter().find(|mix| mix.name == name)
    }

    /// The operation that a number from 0 up to 1 stands for.
    pub fn operation(&self, unit: f64) -> Operation {
        let mut left = unit;
        let (last, others) = self.shares.split_last().expect("no mix is empty");
        for &(operation, share) in others {
            if left < share {
                return operation;
            }
            left -= share;
        }
        last.0
    }

    /// Whether it has such operations.
    pub fn has(&self, operation: Operation) -> bool {
        self.shares.iter().any(|(known, _)| *known == operation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_and_numbers_stand_for_their_operations() {
        for mix in MIXES {
            assert!((mix.shares.iter().map(|(_, share)| share).sum::<f64>() - 1.0).abs() < 1e-12, "{mix:?}");
            assert_eq!(Mix::named(mix.name), Some(mix));
        }
        let d = Mix::named("d").unwrap();
        assert_eq!(
            [0.0, 0.949, 0.95, 0.999].map(|unit| d.operation(unit)),
            [Operation::Read, Operation::Read, Operation::Insert, Operation::Insert]
        );
        assert!(d.has(Operation::Insert) && !d.has(Operation::Scan));
        assert_eq!(Mix::named("z"), None);
    }
}
