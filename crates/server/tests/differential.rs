//! The same commands for this server and for a real one of Redis, answer by answer.
//!
//! Where `redis-server` is not installed, nothing can be compared, and the test says so. Where all
//! is tested (`CI` is set), that is an error.

mod support;

use fastrand::Rng;
use server::resp::Reply::{self, Array, Bulk};
use support::redis::Redis;
use support::*;

/// Commands that answer with fields or members in no particular order.
const WITHOUT_ORDER: [&str; 8] =
    ["HKEYS", "HVALS", "SMEMBERS", "SINTER", "SUNION", "SDIFF", "SPOP", "SRANDMEMBER"];

/// What says the same in another order is the same: keys come in Redis's order of hashes, and here
/// in their own.
fn without_order(line: &str, reply: Reply) -> Reply {
    let key = |part: &Reply| part.as_bytes().map(<[u8]>::to_vec);
    match reply {
        Array(mut parts) if line.starts_with("KEYS") => {
            parts.sort_by_key(key);
            Array(parts)
        }
        // Fields and members too, and what is in pairs stays so.
        Array(mut parts) if WITHOUT_ORDER.iter().any(|name| line.starts_with(name)) => {
            parts.sort_by_key(key);
            Array(parts)
        }
        Array(mut parts) if line.starts_with("HRANDFIELD") || line.starts_with("ZRANDMEMBER") => {
            if line.contains("WITH") && !matches!(parts[..], [Array(_), ..]) {
                return Array(pairs_in_order(parts));
            }
            // With what else is answered, a member begins an array of its own.
            parts.sort_by_key(|part| match part {
                Array(pair) => pair.first().and_then(key),
                part => key(part),
            });
            Array(parts)
        }
        Array(parts) if line.starts_with("HGETALL") => Array(pairs_in_order(parts)),
        Reply::Map(mut pairs) if line.starts_with("HGETALL") => {
            pairs.sort_by_key(|pair| key(&pair.0));
            Reply::Map(pairs)
        }
        Array(mut parts) if line.starts_with("HSCAN") || line.starts_with("ZSCAN") => {
            if let [Bulk(_), Array(pairs)] = &mut parts[..] {
                *pairs = pairs_in_order(std::mem::take(pairs));
            }
            Array(parts)
        }
        // Which time is left on average is not told here.
        Bulk(_) | Reply::Verbatim(_) if line.starts_with("INFO") => {
            let text = String::from_utf8_lossy(reply.as_bytes().unwrap_or_default()).into_owned();
            bulk(text.split(",avg_ttl").next().unwrap_or_default().trim_end())
        }
        Array(mut parts) if line.starts_with("SCAN") || line.starts_with("SSCAN") => {
            if let [Bulk(_), Array(keys)] = &mut parts[..] {
                keys.sort_by_key(key);
            }
            Array(parts)
        }
        // Times that pass while the two are asked: what is left of 100 seconds is still nearer to
        // them than to 50.
        Reply::Integer(value) if line.starts_with("PTTL") && value > 0 => {
            Reply::Integer((value + 25_000) / 50_000)
        }
        Reply::Integer(value) if line.starts_with("TTL") && value > 0 => Reply::Integer((value + 25) / 50),
        other => other,
    }
}

/// Pairs, one behind the other, in the order of the first of each.
fn pairs_in_order(parts: Vec<Reply>) -> Vec<Reply> {
    let mut pairs: Vec<_> = parts.chunks(2).map(<[Reply]>::to_vec).collect();
    pairs.sort_by_key(|pair| pair.first().and_then(|part| part.as_bytes().map(<[u8]>::to_vec)));
    pairs.concat()
}

/// What was queued since MULTI, so that the parts of what EXEC answers are known for what they are.
#[derive(Default)]
struct Queued<'l>(Vec<&'l str>);

impl<'l> Queued<'l> {
    fn without_order(&self, line: &str, reply: Reply) -> Reply {
        match reply {
            Array(parts) if line == "EXEC" && parts.len() == self.0.len() => {
                Array(parts.into_iter().zip(&self.0).map(|(part, line)| without_order(line, part)).collect())
            }
            reply => without_order(line, reply),
        }
    }

    fn answered(&mut self, line: &'l str, reply: &Reply) {
        if *reply == queued() {
            self.0.push(line);
        } else if ["EXEC", "DISCARD"].contains(&line) {
            self.0.clear();
        }
    }
}

/// Asks both; `version` is that of the protocol.
fn compare(lines: &[String], redis: &Redis, version: u8) {
    for model in MODELS {
        let server = start(options(model));
        let (ours, theirs) = (&mut Client::to(&server), &mut Client::connect(redis.address));
        theirs.ask("FLUSHALL");
        for it in [&mut *ours, &mut *theirs] {
            it.ask(&format!("HELLO {version}"));
        }
        let mut queued = Queued::default();
        for (number, line) in lines.iter().enumerate() {
            let (our, their) = (ours.ask(line), theirs.ask(line));
            let (our, their) = (queued.without_order(line, our), queued.without_order(line, their));
            queued.answered(line, &our);
            let short = |line: &String| line[..line.len().min(100)].to_owned();
            let before = lines[number.saturating_sub(20)..number].iter().map(short).collect::<Vec<_>>();
            let (before, line) = (before.join("\n  "), short(line));
            assert_eq!(
                our, their,
                "{model}, RESP {version}, ours and theirs, of\n  {line}\nafter\n  {before}"
            );
        }
    }
}

/// Commands by hand: each at its edges.
const LINES: &str = include_str!("differential.txt");

#[test]
fn answers_are_those_of_redis() {
    let Some(redis) = Redis::start() else { return };
    let lines: Vec<String> =
        LINES.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(str::to_owned).collect();
    for version in [2, 3] {
        compare(&lines, &redis, version);
    }
}

#[test]
fn answers_to_anything_are_those_of_redis() {
    let Some(redis) = Redis::start() else { return };
    let mut dice = Rng::with_seed(seed());
    let mut lines = vec!["FLUSHALL".to_owned()];
    for _ in 0..3_000 {
        lines.push(random_line(&mut dice, TEMPLATES));
    }
    // The last one may be left open.
    lines.push("DISCARD".into());
    compare(&lines, &redis, 2);
}

#[test]
fn answers_to_anything_about_collections_are_those_of_redis() {
    let Some(redis) = Redis::start() else { return };
    for version in [2, 3] {
        let mut dice = Rng::with_seed(seed());
        let mut lines = vec!["FLUSHALL".to_owned()];
        for _ in 0..3_000 {
            lines.push(random_line(&mut dice, COLLECTIONS));
        }
        lines.push("DISCARD".into());
        compare(&lines, &redis, version);
    }
}

/// What COMMAND says of each command, but for what is not told here.
#[test]
fn commands_are_described_as_those_of_redis() {
    let Some(redis) = Redis::start() else { return };
    let server = start(options(MODELS[0]));
    let (ours, theirs) = (&mut Client::to(&server), &mut Client::connect(redis.address));
    let Array(names) = ours.ask("COMMAND LIST") else { panic!() };
    for name in names.iter().filter_map(Reply::as_bytes) {
        let info = |it: &mut Client| {
            let Array(found) = it.ask_bytes(&[b"COMMAND", b"INFO", name]) else { panic!() };
            let Array(details) = &found[0] else { panic!("{found:?}") };
            let Array(flags) = &details[2] else { panic!() };
            // Keys are counted here, which takes its time.
            let compared =
                ["write", "readonly", "fast", "no_auth", "admin", "denyoom", "movablekeys", "pubsub"];
            let mut flags: Vec<_> = flags.iter().map(|flag| flag.as_bytes().unwrap().to_vec()).collect();
            flags.retain(|flag| name != b"dbsize" && compared.iter().any(|name| name.as_bytes() == flag));
            flags.sort();
            (details[..2].to_vec(), flags, details[3..6].to_vec())
        };
        assert_eq!(info(ours), info(theirs));
        let docs = |it: &mut Client| {
            let Array(found) = it.ask_bytes(&[b"COMMAND", b"DOCS", name]) else { panic!() };
            let Array(parts) = &found[1] else { panic!() };
            // Behind the summary: since when, and in which group.
            parts[2..6].to_vec()
        };
        assert_eq!(docs(ours), docs(theirs));
    }
}

/// Another one each time, or that of MANX_SEED.
fn seed() -> u64 {
    let seed = testing::setting("MANX_SEED", fastrand::u32(..).into());
    println!("MANX_SEED={seed}");
    seed
}

fn random_line(dice: &mut Rng, templates: &str) -> String {
    let templates: Vec<&str> = templates.lines().collect();
    let words = templates[dice.usize(..templates.len())].split(' ').map(|part| match words_for(part) {
        [] => many(part).unwrap_or_else(|| part.to_owned()),
        among => among[dice.usize(..among.len())].to_owned(),
    });
    words.collect::<Vec<_>>().join(" ")
}

/// What may stand for a capital; nothing if it stands for itself.
///
/// Two things would depend on the time, or differ as the documentation says: comparing times that
/// are relative, and watching a key that is not there, is made and is deleted.
fn words_for(part: &str) -> &'static [&'static str] {
    match part {
        "K" => &["a", "b", "c", "d"],
        "V" => &["\"\"", "x", "1", "-5", "9223372036854775807", "hello", "01"],
        "N" => &["0", "1", "-1", "3", "-3", "7", "100", "x", "9223372036854775807", "-9223372036854775808"],
        "T" => &["100", "5000", "0", "-1", "x", "9223372036854775807"],
        "E" => &["4000000000", "4000000100", "0"],
        "F" => &["f", "g", "h", "i", "j", "\"\""],
        "S" => &["0", "1", "-1", "2.5", "3.0", "1e300", "-0.1", "inf", "-inf", "nan", "x", "7"],
        // Neither 0 nor negative: of that −0 would come.
        "W" => &["1", "2.5", "1e300", "inf", "nan", "x"],
        "L" => &["0", "-inf", "+inf", "(1", "1", "(2.5", "3", "(-inf", "x", "(inf"],
        "B" => &["-", "+", "[f", "(f", "[h", "(h", "[i", "x", "["],
        "C" => &["0", "1", "2", "5", "-1"],
        "A" => &["NX", "XX", "GT", "LT", "CH", "INCR", "CH"],
        "O" => &["NX", "XX", "GET", "KEEPTTL", "nx", "EX", "what"],
        _ => &[],
    }
}

/// More members than a small collection has: with values or scores, or without.
fn many(part: &str) -> Option<String> {
    let all = |write: fn(u32) -> String| (0..600).map(write).collect::<Vec<_>>().join(" ");
    match part {
        "PAIRS" => Some(all(|number| format!("m{number} {number}"))),
        "SCORED" => Some(all(|number| format!("{} m{number}", number % 50))),
        "MEMBERS" => Some(all(|number| format!("m{number}"))),
        _ => None,
    }
}

const TEMPLATES: &str = "\
GET K
SET K V
SET K V O
SET K V O O
SET K V EX T
SET K V EX T O
SETNX K V
SETEX K T V
GETSET K V
GETDEL K
MGET K K K
MSET K V K V
MSETNX K V K V
DEL K K
EXISTS K K
APPEND K V
STRLEN K
GETRANGE K N N
SETRANGE K 2 V
GETBIT K N
SETBIT K N 0
SETBIT K 100 1
BITCOUNT K
BITCOUNT K N N
BITCOUNT K N N BIT
BITPOS K 0
BITPOS K 1 N
BITPOS K 0 N N
BITPOS K 1 N N BIT
INCR K
DECR K
INCRBY K N
DECRBY K N
EXPIRE K T
EXPIRE K T NX
EXPIREAT K E GT
EXPIREAT K E LT
TTL K
PERSIST K
TYPE K
RENAME K K
RENAMENX K K
COPY K K
COPY K K REPLACE
GETEX K
GETEX K EX T
GETEX K EXAT E
GETEX K PERSIST
SUBSTR K N N
KEYS K
KEYS [a-a]
DBSIZE
MULTI
MULTI
EXEC
EXEC
EXEC
DISCARD
WATCH e
SET e V
APPEND e V
UNWATCH
PING
ECHO V
PUBLISH K V
SPUBLISH K V
PUBSUB NUMSUB K K
PUBSUB CHANNELS K
GET
SET K";

const COLLECTIONS: &str = "\
HSET K F V
HSET K F V F V F V
HMSET K F V F V
HSETNX K F V
HGET K F
HMGET K F F F
HGETALL K
HDEL K F
HDEL K F F F F F
HEXISTS K F
HLEN K
HKEYS K
HVALS K
HSTRLEN K F
HINCRBY K F N
HSCAN K 0 COUNT 100000
HSCAN K 0 MATCH [f-h] COUNT 100000
HSET K PAIRS
HDEL K MEMBERS
SADD K F
SADD K F F F
SADD K MEMBERS
SREM K F F
SREM K MEMBERS
SISMEMBER K F
SMISMEMBER K F F
SCARD K
SMEMBERS K
SMOVE K K F
SPOP K 100000
SRANDMEMBER K 100000
HRANDFIELD K 100000
HRANDFIELD K 100000 WITHVALUES
ZRANDMEMBER K 100000 WITHSCORES
SINTERCARD 2 K K LIMIT C
LMPOP 2 K K LEFT COUNT C
LMPOP 2 K K RIGHT
ZMPOP 2 K K MIN COUNT C
ZMPOP 1 K MAX
SINTER K K
SUNION K K
SDIFF K K K
SINTERSTORE K K K
SUNIONSTORE K K K
SDIFFSTORE K K K
SSCAN K 0 COUNT 100000
RPUSH K F
LPUSH K F F
RPUSH K MEMBERS
LPUSHX K F
RPUSHX K F
LPOP K
RPOP K
LPOP K 3
RPOP K 700
LLEN K
LINDEX K N
LSET K N V
LRANGE K N N
LTRIM K N N
LREM K C F
LREM K -2 F
LINSERT K BEFORE F V
LINSERT K AFTER F V
LPOS K F COUNT 0
LPOS K F RANK -1
LMOVE K K LEFT RIGHT
LMOVE K K RIGHT RIGHT
RPOPLPUSH K K
ZUNION 2 K K WITHSCORES
ZINTER 2 K K WEIGHTS 2 W WITHSCORES
ZDIFF 2 K K
ZINTERCARD 2 K K LIMIT C
ZUNIONSTORE K 2 K K
ZUNIONSTORE K 2 K K WEIGHTS W 2 AGGREGATE MAX
ZINTERSTORE K 2 K K AGGREGATE MIN
ZDIFFSTORE K 2 K K
ZRANGESTORE K K N N
ZRANGESTORE K K L L BYSCORE LIMIT C C
ZPOPMIN K
ZPOPMAX K 3
ZREMRANGEBYRANK K N N
ZREMRANGEBYSCORE K L L
ZADD K SCORED
ZREM K MEMBERS
ZADD K S F
ZADD K S F S F S F
ZADD K S F S F S F S F S F
ZADD K A S F
ZADD K A A S F
ZADD K A S F S F
ZREM K F
ZREM K F F F F F
ZSCORE K F
ZMSCORE K F F
ZCARD K
ZCOUNT K L L
ZINCRBY K S F
ZRANGE K N N
ZRANGE K N N WITHSCORES
ZRANGE K N N REV WITHSCORES
ZREVRANGE K N N
ZRANGE K L L BYSCORE LIMIT C C
ZRANGE K L L BYSCORE REV WITHSCORES
ZRANGEBYSCORE K L L
ZRANGEBYSCORE K L L LIMIT C C
ZRANGEBYSCORE K -inf +inf WITHSCORES LIMIT C C
ZREVRANGEBYSCORE K L L WITHSCORES
ZLEXCOUNT K B x
ZRANK K F
ZREVRANK K F
ZSCAN K 0 COUNT 100000
SET K V
SET K V O
SETNX K V
GET K
GETSET K V
APPEND K V
INCR K
MGET K K
MSET K V K V
DEL K
DEL K K
UNLINK K K
EXISTS K K
TYPE K
TYPE K
RENAME K K
RENAMENX K K
COPY K K
COPY K K REPLACE
EXPIRE K T
TTL K
PERSIST K
KEYS *
SCAN 0 COUNT 1000 TYPE hash
SCAN 0 COUNT 1000 TYPE zset
DBSIZE
MULTI
EXEC
EXEC
EXEC
DISCARD
WATCH e
HSET e F V
HSET e g V
HINCRBY e g N
SET e V
UNWATCH";
