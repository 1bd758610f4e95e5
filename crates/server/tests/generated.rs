//! Commands with generated arguments, for this server and for a real one of Redis, answer by
//! answer.
//!
//! Where `redis-server` is not installed, nothing can be compared, and the test says so. Where all
//! is tested (`CI` is set), that is an error.

mod support;

use fastrand::Rng;
use support::redis::Redis;
use support::*;

/// Compares the answers to commands that `make` makes of random numbers: others each time, or those
/// of MANX_SEED.
fn compare(count: usize, make: impl Fn(&mut Rng) -> String) {
    let Some(redis) = Redis::start() else { return };
    let seed = testing::setting("MANX_SEED", fastrand::u32(..).into());
    println!("MANX_SEED={seed}");
    let dice = &mut Rng::with_seed(seed);
    let server = start(options(MODELS[1]));
    let (ours, theirs) = (&mut Client::to(&server), &mut Client::connect(redis.address));
    for _ in 0..count {
        let line = make(dice);
        assert_eq!(ours.ask(&line), theirs.ask(&line), "ours and theirs: {line}");
    }
}

fn any<'a>(dice: &mut Rng, of: &[&'a str]) -> &'a str {
    of[dice.usize(..of.len())]
}

fn digits(dice: &mut Rng, count_max: usize) -> String {
    let count = dice.usize(..=count_max);
    (0..count).map(|_| dice.digit(10)).collect()
}

/// A number of one of many magnitudes and forms; now and then none.
fn float(dice: &mut Rng) -> String {
    let sign = any(dice, &["", "", "", "-", "-", "+"]);
    let exponent = |dice: &mut Rng, letter: &str| {
        let sign = any(dice, &["", "+", "-"]);
        let most = [3, 20, 400, 5_100][dice.usize(..4)];
        format!("{letter}{sign}{}", dice.u32(..most))
    };
    match dice.u32(..20) {
        0 => {
            any(dice, &["inf", "-inf", "+Infinity", "nan", "1e", ".", "0x", "1_0", "x", "--1", "1e5x"]).into()
        }
        1 | 2 => format!("{sign}0x{:x}.{:x}{}", dice.u64(..), dice.u32(..), exponent(dice, "p")),
        3 => format!("{sign}{:.17}", dice.f64()),
        4 => format!("{sign}{}", 1_u64 << dice.u32(..64)),
        5 => format!("{sign}{}.{}", digits(dice, 1_500), digits(dice, 3_500)),
        6..8 => format!("{sign}{}.{}{}", digits(dice, 40), digits(dice, 40), exponent(dice, "e")),
        8 => format!("{sign}{}{}", digits(dice, 20), exponent(dice, "E")),
        9..13 => format!("{sign}{}.{}", digits(dice, 20), digits(dice, 25)),
        _ => format!("{sign}{}.{}", dice.u32(..1_000), digits(dice, 3)),
    }
}

#[test]
fn sums_of_numbers_with_a_fraction_are_those_of_redis() {
    compare(8_000, |dice| {
        let number = float(dice);
        let number = if number.is_empty() { "\"\"" } else { &number };
        let key = any(dice, &["a", "b", "c"]);
        match dice.u32(..10) {
            0 => format!("SET {key} {number}"),
            1 => format!("HSET {key}h f {number}"),
            2 => format!("DEL {key} {key}h"),
            3..5 => format!("HINCRBYFLOAT {key}h f {number}"),
            _ => format!("INCRBYFLOAT {key} {number}"),
        }
    });
}
