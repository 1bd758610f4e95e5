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
#[cfg_attr(not(target_arch = "x86_64"), ignore = "there, Redis has numbers of another precision")]
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

/// Of one bit to 64, or now and then of none or too many.
fn bit_field(dice: &mut Rng) -> String {
    let kind = any(dice, &["i", "u", "i", "u", "i", "u", "I", "x"]);
    let hash = any(dice, &["", "", "#"]);
    let at = [20, 70, 300][dice.usize(..3)];
    let bits = if dice.bool() { dice.u32(1..=64) } else { [1, 8, 63, 64, 65, 0][dice.usize(..6)] };
    format!("{kind}{bits} {hash}{}", dice.u32(..at))
}

fn integer(dice: &mut Rng) -> i64 {
    let bits = dice.u32(..64);
    let near = [i64::MAX, i64::MIN, 0, -1, 1][dice.usize(..5)];
    if dice.bool() { near >> bits } else { dice.i64(..) >> bits }
}

#[test]
fn numbers_among_bits_are_those_of_redis() {
    compare(6_000, |dice| {
        let key = any(dice, &["a", "b", "c", "d"]);
        match dice.u32(..20) {
            0 => format!("SET {key} {}", any(dice, &["hello", "x", "0123456789abcdefghij"])),
            1 => format!("GET {key}"),
            2 => {
                let [one, two] = [any(dice, &["a", "b", "c"]), any(dice, &["a", "b", "none"])];
                let how = any(dice, &["AND", "or", "XOR", "NOT", "what"]);
                let rest = any(dice, &["", " a", " b c"]);
                let two = if how == "NOT" { String::new() } else { format!(" {two}{rest}") };
                format!("BITOP {how} {key} {one}{two}")
            }
            3 => {
                let [one, two] = [bit_field(dice), bit_field(dice)];
                format!("BITFIELD_RO {key} GET {one} GET {two}")
            }
            _ => {
                let mut line = format!("BITFIELD {key}");
                for _ in 0..dice.u32(1..5) {
                    line += &match dice.u32(..8) {
                        0 => format!(" GET {}", bit_field(dice)),
                        // Redis saturates what is close to the least number at the other end.
                        1 | 2 => format!(" SET {} {}", bit_field(dice), integer(dice) / 2),
                        3 | 4 => format!(" OVERFLOW {}", any(dice, &["WRAP", "sat", "FAIL", "SAT", "FAIL"])),
                        _ => format!(" INCRBY {} {}", bit_field(dice), integer(dice)),
                    };
                }
                line
            }
        }
    });
}

#[test]
fn elements_in_another_order_are_those_of_redis() {
    compare(4_000, |dice| {
        let key = any(dice, &["l", "m", "s", "z"]);
        let element = |dice: &mut Rng| {
            let words =
                ["a", "b", "B", "x1", "10", "2", "-1", "1.5", "1e3", "inf", "-0", "", "longer", "0.1"];
            let word = if dice.u32(..8) == 0 { any(dice, &words) } else { any(dice, &words[4..9]) };
            if word.is_empty() { "\"\"".to_owned() } else { word.to_owned() }
        };
        match dice.u32(..24) {
            0 => format!("RPUSH {} {} {}", any(dice, &["l", "m"]), element(dice), element(dice)),
            1 => format!("SADD s {} {}", element(dice), element(dice)),
            2 => format!("ZADD z {} {}", dice.i32(-3..3), element(dice)),
            3 => format!("SET w{} {}", element(dice), element(dice)),
            4 => format!("SET o{} {}", element(dice), element(dice)),
            5 => format!("HSET h{} f {}", element(dice), element(dice)),
            6 => format!("DEL {key} {} w{}", any(dice, &["l", "s", "d"]), element(dice)),
            7 => "LRANGE d 0 -1".into(),
            // With LIMIT, Redis does not say which of two elements with the same text is first.
            8 => {
                let by = any(dice, &["w*", "h*->f", "o*"]);
                format!("SORT {} ALPHA BY {by} GET {by}", any(dice, &["l", "m", "z"]))
            }
            _ => {
                let stores = dice.u32(..6) == 0;
                let mut line =
                    format!("{} {key}", if stores { "SORT" } else { any(dice, &["SORT", "SORT_RO"]) });
                for _ in 0..dice.u32(..4) {
                    line += &match dice.u32(..8) {
                        0 => " ALPHA".into(),
                        1 | 2 => any(dice, &[" DESC", " ASC"]).to_owned(),
                        3 => format!(" LIMIT {} {}", dice.i32(-1..5), dice.i32(-1..5)),
                        4 if key != "s" && !line.contains("ALPHA") => " BY nosort".into(),
                        4 | 5 if !line.contains("ALPHA") => {
                            format!(" BY {}", any(dice, &["w*", "h*->f", "*x", "h*->", "#"]))
                        }
                        _ => format!(" GET {}", any(dice, &["#", "o*", "h*->f", "h*->g", "w*", "none"])),
                    };
                }
                // Redis does not say the order of a set, nor that of elements with the same text.
                if line.contains("BY") && line.contains("ALPHA") || key == "s" && line.contains("BY #") {
                    line = format!("SORT {key} ALPHA");
                }
                if stores { line + " STORE d" } else { line }
            }
        }
    });
}

#[test]
fn what_strings_have_in_common_is_that_of_redis() {
    compare(2_000, |dice| {
        let key = any(dice, &["a", "b", "c", "d"]);
        if dice.u32(..4) == 0 {
            let letters = dice.usize(1..6);
            let text: String =
                (0..dice.usize(1..40)).map(|_| b"abcdef"[dice.usize(..letters)] as char).collect();
            return format!("SET {key} {text}");
        }
        let least = format!(" IDX MINMATCHLEN {}", dice.u32(..5));
        let words = any(dice, &["", " LEN", " IDX", " IDX WITHMATCHLEN", &least]);
        format!("LCS {key} {}{words}", any(dice, &["a", "b", "c", "d"]))
    });
}

/// Around the globe, or close to one of some places; or that of a place at an edge. Redis does not
/// say which of two members that are as far away is the next one, so each has a place of its own.
fn place(dice: &mut Rng, edges: bool) -> String {
    let (longitude, latitude) = match dice.u32(..4) {
        0 => (dice.f64() * 360.0 - 180.0, dice.f64() * 170.0 - 85.0),
        1 => (179.99 + dice.f64() / 100.0, dice.f64() * 2.0 - 1.0),
        2 => (13.0 + dice.f64() / 10.0, -52.0 - dice.f64() / 10.0),
        _ => (-0.5 + dice.f64(), 84.0 + dice.f64()),
    };
    match dice.u32(..30) {
        0 if edges => {
            any(dice, &["180 85.05112878", "-180 -85.05112878", "0 0", "180 0", "1 86", "x 1", "181 0"])
                .into()
        }
        _ => format!("{longitude:.*} {latitude:.*}", dice.usize(5..9), dice.usize(5..9)),
    }
}

#[test]
fn places_that_are_found_are_those_of_redis() {
    compare(8_000, |dice| {
        let member = |dice: &mut Rng| format!("m{}", dice.u32(..150));
        let unit = any(dice, &["m", "km", "KM", "ft", "mi"]);
        let size = |dice: &mut Rng| {
            let most = [1.0, 100.0, 3e3, 1e5, 1e7, 3e7][dice.usize(..6)];
            format!("{:.*}", dice.usize(..3), dice.f64() * most)
        };
        match dice.u32(..20) {
            0..5 => format!("GEOADD g {} {}", place(dice, false), member(dice)),
            5 => format!("GEODIST g {} {} {unit}", member(dice), member(dice)),
            6 => format!("GEOPOS g {} {}", member(dice), member(dice)),
            7 => format!("GEOHASH g {} {}", member(dice), member(dice)),
            8 => "ZRANGE d 0 -1 WITHSCORES".into(),
            9 => format!("ZREM g {} {}", member(dice), member(dice)),
            way => {
                let stores = way == 10;
                let stored = any(dice, &["", "", " STORE d", " STOREDIST d"]);
                if way == 11 {
                    return format!("GEORADIUS g {} {} {unit}{stored}", place(dice, true), size(dice));
                }
                if way == 12 {
                    return format!("GEORADIUSBYMEMBER g {} {} {unit}{stored}", member(dice), size(dice));
                }
                let mut line = if stores { "GEOSEARCHSTORE d g" } else { "GEOSEARCH g" }.to_owned();
                line += &match dice.bool() {
                    true => format!(" FROMLONLAT {}", place(dice, true)),
                    false => format!(" FROMMEMBER {}", member(dice)),
                };
                line += &match dice.bool() {
                    true => format!(" BYRADIUS {} {unit}", size(dice)),
                    false => format!(" BYBOX {} {} {unit}", size(dice), size(dice)),
                };
                line += any(dice, &["", "", " ASC", " DESC"]);
                line += &match dice.u32(..4) {
                    0 => format!(" COUNT {}", dice.u32(1..5)),
                    1 => format!(" COUNT {} ANY", dice.u32(1..5)),
                    _ => String::new(),
                };
                if stores {
                    line + any(dice, &["", " STOREDIST"])
                } else {
                    line + any(dice, &["", "", " WITHDIST WITHCOORD", " WITHHASH"])
                }
            }
        }
    });
}
