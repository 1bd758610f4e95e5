// The usual calls of ioredis, unchanged: `client.js HOST PORT`.

const assert = require("node:assert/strict");
const Redis = require("ioredis");

const [host, port] = [process.argv[2], Number(process.argv[3])];
const open = (options) => new Redis({ host, port, ...options });

async function strings(r) {
  assert.equal(await r.ping(), "PONG");
  assert.equal(await r.set("s", "one"), "OK");
  assert.equal(await r.set("s", "two", "NX"), null);
  assert.equal(await r.set("s", "two", "EX", 100, "XX"), "OK");
  assert.equal(await r.get("s"), "two");
  assert.equal(await r.append("s", "!"), 4);
  assert.equal(await r.mset({ "m:1": "a", "m:2": "b" }), "OK");
  assert.deepEqual(await r.mget("m:1", "none", "m:2"), ["a", null, "b"]);
  assert.equal(await r.incrby("n", 9), 9);
  assert.equal(await r.decr("n"), 8);
  assert.equal(await r.getdel("n"), "8");
  const value = Buffer.alloc(300_000, 0xff);
  await r.set("binary", value);
  assert.ok(value.equals(await r.getBuffer("binary")));
  assert.equal(await r.del("s", "none", "binary"), 2);
}

async function collections(r) {
  assert.equal(await r.hset("h", { a: 1, b: 2 }), 2);
  assert.deepEqual(await r.hgetall("h"), { a: "1", b: "2" });
  assert.equal(await r.hincrby("h", "a", 5), 6);
  assert.deepEqual(await r.hmget("h", "a", "x"), ["6", null]);
  assert.equal(await r.hdel("h", "b"), 1);
  assert.equal(await r.zadd("z", 1, "a", 2.5, "b", 3, "c"), 3);
  assert.deepEqual(await r.zrange("z", 0, -1, "WITHSCORES"), ["a", "1", "b", "2.5", "c", "3"]);
  assert.equal(await r.zincrby("z", 10, "a"), "11");
  assert.equal(await r.zrank("z", "a"), 2);
  assert.deepEqual(await r.zrangebyscore("z", 2, "+inf", "LIMIT", 0, 1), ["b"]);
  assert.equal(await r.zrem("z", "a", "x"), 1);
  await r.hset("large", Object.fromEntries([...Array(2000).keys()].map((i) => [`f${i}`, i])));
  let fields = 0;
  for await (const part of r.hscanStream("large", { count: 100 })) fields += part.length / 2;
  assert.equal(fields, 2000);
}

async function expiry(r) {
  await r.set("e", 1, "PX", 50);
  while (await r.exists("e")) await new Promise((done) => setTimeout(done, 5));
  await r.setex("e", 100, 1);
  assert.ok((await r.ttl("e")) >= 98);
  assert.equal(await r.persist("e"), 1);
  assert.equal(await r.ttl("e"), -1);
  assert.equal(await r.pexpireat("e", Date.now() - 1000), 1);
  assert.equal(await r.get("e"), null);
}

async function transactions(r) {
  assert.deepEqual(await r.multi().set("t", 1).incr("t").get("t").exec(), [[null, "OK"], [null, 2], [null, "2"]]);
  const other = open();
  await r.watch("t");
  await other.set("t", 5);
  assert.equal(await r.multi().set("t", 6).exec(), null);
  await r.watch("t");
  assert.deepEqual(await r.multi({ pipeline: true }).incrby("t", 10).exec(), [[null, 15]]);
  await other.quit();
}

async function pipelinesAndScans(r) {
  const pipeline = r.pipeline();
  for (let i = 0; i < 1000; i++) pipeline.set(`scan:${i}`, i);
  assert.ok((await pipeline.exec()).every(([error, answer]) => error === null && answer === "OK"));
  const found = new Set();
  for await (const keys of r.scanStream({ match: "scan:*", count: 50 })) keys.forEach((key) => found.add(key));
  assert.equal(found.size, 1000);
  const mixed = await r.pipeline().get("scan:1").incr("h").get("scan:2").exec();
  assert.equal(mixed[0][1], "1");
  assert.match(mixed[1][0].message, /WRONGTYPE/);
  assert.equal(mixed[2][1], "2");
  const automatic = open({ enableAutoPipelining: true });
  const all = await Promise.all([...Array(500).keys()].map((i) => automatic.get(`scan:${i}`)));
  assert.ok(all.every((value, i) => value === String(i)));
  await automatic.quit();
}

async function connections(r) {
  const all = [...Array(50)].map(() => open());
  await Promise.all(all.map(async (one, i) => {
    await one.set(`many:${i}`, i);
    assert.equal(await one.get(`many:${i}`), String(i));
  }));
  await Promise.all(all.map((one) => one.quit()));
  const again = open({ connectionName: "again", retryStrategy: () => 10 });
  const number = await again.client("ID");
  const gone = new Promise((done) => again.once("reconnecting", done));
  assert.equal(await r.client("KILL", "ID", number), 1);
  await gone;
  assert.equal(await again.ping(), "PONG");
  assert.notEqual(await again.client("ID"), number);
  assert.equal(await again.client("GETNAME"), "again");
  assert.match(await r.client("LIST"), /name=again/);
  await again.quit();
}

async function listsAndSets(r) {
  assert.equal(await r.rpush("list:l", "a", "b", "c"), 3);
  assert.equal(await r.lpush("list:l", "z"), 4);
  assert.deepEqual(await r.lrange("list:l", 0, -1), ["z", "a", "b", "c"]);
  assert.equal(await r.lpop("list:l"), "z");
  assert.deepEqual(await r.rpop("list:l", 2), ["c", "b"]);
  assert.equal(await r.lmove("list:l", "list:other", "LEFT", "RIGHT"), "a");
  assert.equal(await r.exists("list:l"), 0);
  assert.equal(await r.sadd("set:t", "a", "b", "c"), 3);
  assert.equal(await r.sismember("set:t", "b"), 1);
  assert.deepEqual((await r.smembers("set:t")).sort(), ["a", "b", "c"]);
  assert.equal(await r.srem("set:t", "c"), 1);
  await r.sadd("set:u", "b", "d");
  assert.deepEqual(await r.sinter("set:t", "set:u"), ["b"]);
  assert.equal(await r.sunionstore("set:v", "set:t", "set:u"), 3);
  assert.equal((await r.spop("set:v", 3)).length, 3);
}

async function queues(r) {
  const taken = [];
  await Promise.all([
    ...[...Array(4)].map(async () => {
      const own = open();
      for (;;) {
        const [, item] = await own.blpop("queue:a", "queue:b", "queue:end", 30);
        if (item === "end") break;
        taken.push(Number(item));
      }
      await own.quit();
    }),
    (async () => {
      for (let i = 0; i < 400; i++) await r.rpush(`queue:${"ab"[i % 2]}`, i);
      await r.rpush("queue:end", "end", "end", "end", "end");
    })(),
  ]);
  assert.deepEqual(taken.sort((a, b) => a - b), [...Array(400).keys()]);
  assert.equal(await r.blpop("queue:none", 0.01), null);
  await r.rpush("queue:a", "x");
  assert.equal(await r.blmove("queue:a", "queue:b", "LEFT", "RIGHT", 1), "x");
  assert.deepEqual(await r.brpop("queue:b", 1), ["queue:b", "x"]);
  await r.zadd("queue:z", 1, "a");
  assert.deepEqual(await r.bzpopmin("queue:z", 1), ["queue:z", "a", "1"]);
}

async function channels(r) {
  const own = open();
  const came = [];
  own.on("message", (channel, message) => came.push([channel, message]));
  own.on("pmessage", (pattern, channel, message) => came.push([pattern, channel, message]));
  assert.equal(await own.subscribe("news", "more"), 2);
  assert.equal(await own.psubscribe("n*"), 3);
  assert.equal(await r.publish("news", "hello"), 2);
  assert.equal(await r.publish("more", "hello"), 1);
  assert.deepEqual((await r.pubsub("CHANNELS")).sort(), ["more", "news"]);
  while (came.length < 3) await new Promise((done) => setTimeout(done, 1));
  assert.deepEqual(came, [["news", "hello"], ["n*", "news", "hello"], ["more", "hello"]]);
  await assert.rejects(own.get("s"), /subscriber mode/);
  await own.unsubscribe("news", "more");
  await own.punsubscribe("n*");
  assert.equal(await own.ping(), "PONG");
  await own.quit();
}

async function theServer(r) {
  assert.match(await r.info(), /redis_version:/);
  assert.ok((await r.dbsize()) > 0);
  assert.equal(await r.flushdb(), "OK");
  assert.equal(await r.dbsize(), 0);
}

(async () => {
  const r = open();
  await r.flushall();
  for (const part of [strings, collections, expiry, transactions, pipelinesAndScans, connections, listsAndSets, queues, channels, theServer]) {
    await part(r);
  }
  await r.quit();
  console.log("done");
})().catch((error) => {
  console.error(error);
  process.exit(1);
});
