//! Locks of strings: they do what every range lock does, and a holder of rows is alone with them
//! while the lock learns how its keys look, again and again.

#[allow(dead_code, reason = "all locks here are exact")]
mod common;

use fastrand::Rng;
use manx::range::{Access, Key, Options, RangeGuard, RangeLock, RawRangeLock, Span, SpanSet};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

/// A lock of strings behind the interface of integers: numbers of a fixed width, behind the same 24
/// bytes, or without anything.
struct Strings<const SHARDS: usize, const SLOTS: usize, const PREFIXED: bool>(
    RangeLock<Vec<u8>, SHARDS, SLOTS>,
);

struct Held(*const ());

// SAFETY: any thread may release a range.
unsafe impl Send for Held {}

impl<const SHARDS: usize, const SLOTS: usize, const PREFIXED: bool> Strings<SHARDS, SLOTS, PREFIXED> {
    /// Strings are in the order of numbers.
    fn span(span: &Span<u64>) -> Span<Vec<u8>> {
        let key = |number: &u64| match PREFIXED {
            true => format!("warehouses/2026/customer{number:020}").into_bytes(),
            false => number.to_be_bytes().to_vec(),
        };
        match (span.start().map(key), span.end().map(key)) {
            (Some(start), Some(end)) => Span::new(start, end).expect("it has a key"),
            (Some(start), None) => Span::from(start),
            (None, Some(end)) => Span::to(end),
            (None, None) => Span::all(),
        }
    }
}

// SAFETY: exclusion is that of the lock of strings, whose order is that of numbers.
unsafe impl<const SHARDS: usize, const SLOTS: usize, const PREFIXED: bool> RawRangeLock
    for Strings<SHARDS, SLOTS, PREFIXED>
{
    type Held = Held;
    const NAME: &'static str = "strings";
    const SHARES: bool = true;

    fn with_space(_space: u64) -> Self {
        Strings(RangeLock::new())
    }

    fn try_lock(&self, span: &Span<u64>, access: Access) -> Option<Held> {
        Some(Held(self.0.try_lock_as(Self::span(span), access).ok()?.into_raw()))
    }

    fn lock(&self, span: &Span<u64>, access: Access) -> Held {
        Held(self.0.lock_as(Self::span(span), access).expect("there is room").into_raw())
    }

    unsafe fn unlock(&self, held: Held) {
        // SAFETY: the guard of this lock that was made into a pointer above.
        drop(unsafe { RangeGuard::from_raw(&self.0, held.0) });
    }
}

common::range::every_range_lock! {
    of_the_usual_size: crate::Strings<64, 16, true>, Exact;
    of_two_shards: crate::Strings<2, 1, true>, Exact;
    of_one_slot: crate::Strings<1, 1, true>, Exact;
    of_eight_bytes: crate::Strings<4, 2, false>, Exact;
}

/// Rows of a table, and tables of a shape. Rows are in the order of their keys.
const ROWS: usize = 40;
const TABLES: [&str; 3] = ["app/customers/2026/", "app/orders/", "app/orders/items/"];
/// Ways to write the number of a row; each is in the order of numbers, as far as there are rows.
const SHAPES: usize = 4;

fn key(shape: usize, row: usize) -> Vec<u8> {
    let (table, number) = (TABLES[row / ROWS], row % ROWS);
    match shape {
        0 => format!("{table}{number:010}"),
        1 => format!("{table}{:08x}", number * 0x0300_0000),
        2 => format!("{shape}{}", char::from(b'0' + row as u8 % 120 + 1)).repeat(1 + number % 5),
        _ => format!("x{table}{:03}/{:03}", number / 8, number % 8),
    }
    .into_bytes()
}

/// All rows of a shape, in their order.
fn keys(shape: usize) -> Vec<Vec<u8>> {
    let mut keys: Vec<_> = (0..ROWS * TABLES.len()).map(|row| key(shape, row)).collect();
    keys.sort();
    keys.dedup();
    keys
}

/// A key that stands before this row, and behind the one before it: most often that of the row.
fn border(keys: &[Vec<u8>], row: usize, numbers: &mut Rng) -> Vec<u8> {
    let behind = |mut key: Vec<u8>, byte: u8| {
        key.push(byte);
        key
    };
    let candidate = match numbers.usize(..4) {
        0 if row > 0 => behind(keys[row - 1].clone(), numbers.usize(..256) as u8),
        1 => keys[row][..numbers.usize(..keys[row].len()) + 1].to_vec(),
        _ => return keys[row].clone(),
    };
    let is_behind = row == 0 || keys[row - 1] < candidate;
    if is_behind && candidate <= keys[row] { candidate } else { keys[row].clone() }
}

/// A range of keys, and the rows in it.
fn draw(keys: &[Vec<u8>], numbers: &mut Rng) -> (Span<Vec<u8>>, std::ops::Range<usize>) {
    let first = numbers.usize(..keys.len());
    let length = if numbers.usize(..20) == 0 { numbers.usize(..keys.len()) } else { numbers.usize(..3) };
    let end = (first + 1 + length).min(keys.len());
    let start_key = border(keys, first, numbers);
    match (numbers.usize(..50), end == keys.len()) {
        (0, _) => (Span::all(), 0..keys.len()),
        (_, true) => (Span::from(start_key), first..end),
        _ => {
            let end_key = border(keys, end, numbers);
            (Span::new(start_key, end_key).expect("a row is in it"), first..end)
        }
    }
}

/// Threads take rows in all ways, and rows of another shape every now and then.
fn holders_are_alone<const SHARDS: usize, const SLOTS: usize>(
    lock: &RangeLock<Vec<u8>, SHARDS, SLOTS>,
    threads: u32,
) {
    const ROUNDS: usize = 4;
    const TURNS: usize = 1500;
    let shapes: Vec<Vec<Vec<u8>>> = (0..SHAPES).map(keys).collect();
    let owners: Vec<Vec<AtomicU32>> =
        shapes.iter().map(|keys| keys.iter().map(|_| AtomicU32::new(0)).collect()).collect();
    thread::scope(|scope| {
        for me in 1..=threads {
            let (shapes, owners) = (&shapes, &owners);
            scope.spawn(move || {
                let mut numbers = Rng::with_seed(me.into());
                for turn in 0..ROUNDS * SHAPES * TURNS {
                    let shape = turn / TURNS % SHAPES;
                    let (keys, owners) = (&shapes[shape], &owners[shape]);
                    let use_rows = |rows: std::ops::Range<usize>, access: Access| {
                        let mine = if access == Access::Exclusive { me } else { 0 };
                        for owner in &owners[rows.clone()] {
                            assert_eq!(
                                owner.swap(mine, Ordering::Relaxed),
                                0,
                                "two have {rows:?} of {shape}"
                            );
                        }
                        if turn.is_multiple_of(7) {
                            thread::yield_now();
                        }
                        for owner in &owners[rows.clone()] {
                            assert_eq!(
                                owner.swap(0, Ordering::Relaxed),
                                mine,
                                "two have {rows:?} of {shape}"
                            );
                        }
                    };
                    let (span, rows) = draw(keys, &mut numbers);
                    match numbers.usize(..8) {
                        0 => {
                            if let Ok(held) = lock.try_lock_as(span, Access::Exclusive) {
                                use_rows(rows, Access::Exclusive);
                                drop(held);
                            }
                        }
                        1 => {
                            let held = lock.lock_as(span, Access::Shared).unwrap();
                            use_rows(rows, Access::Shared);
                            drop(held);
                        }
                        2 => {
                            let (other, more) = draw(keys, &mut numbers);
                            if let Ok(set) = SpanSet::disjoint([span, other]) {
                                let held = lock.lock_many(set).unwrap();
                                use_rows(rows, Access::Exclusive);
                                use_rows(more, Access::Exclusive);
                                drop(held);
                            }
                        }
                        3 => {
                            let mut owner = lock.owner();
                            owner.lock_as(span, Access::Exclusive).unwrap();
                            use_rows(rows, Access::Exclusive);
                            let (other, more) = draw(keys, &mut numbers);
                            if owner.try_lock_as(other, Access::Exclusive).is_ok() {
                                use_rows(more, Access::Exclusive);
                            }
                        }
                        _ => {
                            let held = lock.lock_as(span, Access::Exclusive).unwrap();
                            use_rows(rows, Access::Exclusive);
                            drop(held);
                        }
                    }
                }
            });
        }
    });
    let dump = lock.dump();
    assert!(dump.held.is_empty() && dump.waiting.is_empty());
    assert!(lock.try_lock_as(Span::all(), Access::Exclusive).is_ok());
}

#[test]
fn holders_are_alone_while_scales_change() {
    holders_are_alone(&RangeLock::<Vec<u8>>::new(), 3);
    holders_are_alone(&RangeLock::<Vec<u8>, 4, 1>::new(), 3);
    holders_are_alone(&RangeLock::<Vec<u8>, 1, 2>::new(), 2);
    // Waiters may not be overtaken: shards are closed, and ranges handed over.
    holders_are_alone(&RangeLock::<Vec<u8>, 8, 2>::with(Options::new().window(Duration::ZERO)), 3);
    // The first eight bytes, for ever.
    holders_are_alone(&RangeLock::<Vec<u8>, 4, 2>::with(Options::new().block_log2(3)), 2);
}

#[test]
fn holders_are_alone_with_a_sample() {
    let sample: Vec<Span<Vec<u8>>> =
        keys(0).windows(2).map(|pair| Span::new(pair[0].clone(), pair[1].clone()).unwrap()).collect();
    holders_are_alone(&RangeLock::<Vec<u8>>::with_sample(Options::new(), &sample), 3);
}

/// Takes single rows one after the other.
fn use_rows<K: Key>(lock: &RangeLock<K>, times: usize, row: impl Fn(usize) -> Span<K>) {
    for turn in 0..times {
        drop(lock.lock_as(row(turn), Access::Exclusive).unwrap());
    }
}

fn row_of(table: &str, number: usize) -> Span<Vec<u8>> {
    let key = |number: usize| format!("{table}{number:08}").into_bytes();
    Span::new(key(number), key(number + 1)).unwrap()
}

#[test]
fn a_lock_learns_when_its_keys_are_of_one_place_and_again_when_they_change() {
    let lock: RangeLock<Vec<u8>> = RangeLock::new();
    assert_eq!(lock.statistics().rescaled, 0);
    use_rows(&lock, 2000, |turn| row_of("app/customers/2026/", turn * 7));
    assert_eq!(lock.statistics().rescaled, 1);
    // These are known well enough.
    use_rows(&lock, 20_000, |turn| row_of("app/customers/2026/", turn));
    assert_eq!(lock.statistics().rescaled, 1);
    use_rows(&lock, 200_000, |turn| row_of("app/orders/2026/08/", turn % 50_000));
    assert_eq!(lock.statistics().rescaled, 2);
}

#[test]
fn a_lock_learns_nothing_while_something_is_held() {
    let lock: RangeLock<Vec<u8>> = RangeLock::new();
    let held = lock.lock_as(row_of("zz", 1), Access::Exclusive).unwrap();
    use_rows(&lock, 20_000, |turn| row_of("app/customers/2026/", turn));
    assert_eq!(lock.statistics().rescaled, 0);
    drop(held);
    use_rows(&lock, 200_000, |turn| row_of("app/customers/2026/", turn));
    assert_eq!(lock.statistics().rescaled, 1);
}

#[test]
fn a_set_block_size_and_a_right_sample_are_kept() {
    let lock: RangeLock<Vec<u8>> = RangeLock::with(Options::new().block_log2(8));
    use_rows(&lock, 20_000, |turn| row_of("app/customers/2026/", turn));
    assert_eq!(lock.statistics().rescaled, 0);
    let sample: Vec<_> = (0..50).map(|at| row_of("app/customers/2026/", at * 321)).collect();
    let lock = RangeLock::with_sample(Options::new(), &sample);
    use_rows(&lock, 20_000, |turn| row_of("app/customers/2026/", turn));
    assert_eq!(lock.statistics().rescaled, 0, "the sample was right");
}
