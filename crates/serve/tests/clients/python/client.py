"""The usual calls of redis-py, unchanged: `client.py HOST PORT`."""

import logging
import sys
import threading
import time

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

host, port = sys.argv[1], int(sys.argv[2])
# It would print each message of a channel.
logging.getLogger("push_response").disabled = True


def strings(r):
    assert r.ping() is True
    assert r.set("s", "one") is True
    assert r.get("s") == "one"
    assert r.set("s", "two", nx=True) is None
    assert r.set("s", "two", xx=True, get=True) == "one"
    assert r.append("s", "!") == 4 and r.strlen("s") == 4
    assert r.getrange("s", 0, 2) == "two" and r.setrange("s", 3, "?") == 4
    assert r.mset({"m:1": "a", "m:2": "b"}) is True
    assert r.mget("m:1", "none", "m:2") == ["a", None, "b"]
    assert r.incr("n") == 1 and r.incrby("n", 9) == 10 and r.decr("n", 3) == 7
    assert r.getdel("n") == "7" and r.exists("n", "s") == 1
    assert r.type("s") == "string" and r.getex("s", ex=100) == "two?" and r.ttl("s") > 98
    assert r.copy("s", "copy") and r.rename("copy", "renamed") and r.get("renamed") == "two?"
    assert not r.renamenx("renamed", "s") and r.randomkey() in r.keys() and r.wait(0, 0) == 0
    assert r.delete("s", "none") == 1
    assert r.setbit("bits", 9, 1) == 0 and r.getbit("bits", 9) == 1
    assert r.bitcount("bits") == 1 and r.bitpos("bits", 1) == 9
    binary = redis.Redis(host, port)
    value = bytes(range(256)) * 1000
    assert binary.set(b"\x00\xff", value) and binary.get(b"\x00\xff") == value
    binary.close()


def collections(r):
    assert r.hset("h", mapping={"a": 1, "b": 2}) == 2
    assert r.hget("h", "a") == "1" and r.hgetall("h") == {"a": "1", "b": "2"}
    assert r.hincrby("h", "a", 5) == 6 and r.hmget("h", "a", "x") == ["6", None]
    assert r.hexists("h", "b") and r.hdel("h", "b") == 1 and r.hlen("h") == 1
    assert sorted(r.hkeys("h")) == ["a"] and r.hvals("h") == ["6"]
    r.hset("large", mapping={f"f{i}": i for i in range(2000)})
    assert dict(r.hscan_iter("large", count=100)) == {f"f{i}": str(i) for i in range(2000)}
    assert r.zadd("z", {"a": 1, "b": 2.5, "c": 3}) == 3
    assert r.zrange("z", 0, -1, withscores=True) == [("a", 1.0), ("b", 2.5), ("c", 3.0)]
    assert r.zrevrange("z", 0, 0) == ["c"] and r.zscore("z", "b") == 2.5
    assert r.zincrby("z", 10, "a") == 11.0 and r.zrank("z", "a") == 2
    assert r.zrangebyscore("z", 2, "+inf", start=0, num=1) == ["b"]
    assert r.zadd("z", {"a": 1}, gt=True, ch=True) == 0 and r.zrem("z", "a") == 1
    assert r.zcard("z") == 2 and r.zcount("z", "-inf", "(3") == 1
    assert dict(r.zscan_iter("z")) == {"b": 2.5, "c": 3.0}
    assert r.zadd("y", {"b": 1}) == 1 and r.zinterstore("both", {"z": 2, "y": 1}) == 1
    assert r.zscore("both", "b") == 6 and r.zdiff(["z", "y"]) == ["c"] and r.zunion(["z", "y"]) == ["c", "b"]
    assert r.zintercard(2, ["z", "y"]) == 1 and r.zrandmember("y") == "b"
    assert r.hrandfield("h") == "a" and len(r.hrandfield("h", -3)) == 3
    assert r.rpush("l", "a", "b", "c") == 3 and r.lmpop(2, "none", "l", direction="LEFT") == ["l", ["a"]]


def expiry(r):
    r.set("e", 1, px=50)
    assert 0 < r.pttl("e") <= 50
    while r.exists("e"):
        time.sleep(0.005)
    r.setex("e", 100, 1)
    assert 98 <= r.ttl("e") <= 100 and r.persist("e") and r.ttl("e") == -1
    assert r.expire("e", 100) and not r.expire("e", 50, gt=True) and r.ttl("none") == -2
    assert r.expireat("e", int(time.time()) - 1) and r.get("e") is None


def transactions(r):
    with r.pipeline() as p:
        assert p.set("t", 1).incr("t").get("t").execute() == [True, 2, "2"]
    with r.pipeline() as p:
        p.watch("t")
        r.set("t", 5)
        p.multi()
        p.set("t", 6)
        try:
            p.execute()
            raise AssertionError("a watched key was written")
        except redis.WatchError:
            pass
    assert r.transaction(lambda p: (p.multi(), p.incrby("t", 10)), "t") == [15]

    def add():
        for _ in range(100):
            r.transaction(lambda p: (lambda n: (p.multi(), p.set("sum", n + 1)))(int(p.get("sum") or 0)), "sum")

    threads = [threading.Thread(target=add) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert r.get("sum") == "400"


def pipelines_and_scans(r):
    with r.pipeline(transaction=False) as p:
        for i in range(1000):
            p.set(f"scan:{i}", i)
        assert p.execute() == [True] * 1000
    assert set(r.scan_iter("scan:*", count=50)) == {f"scan:{i}" for i in range(1000)}
    assert len(r.keys("scan:99*")) == 11
    with r.pipeline(transaction=False) as p:
        p.hset("hash", "a", 1).get("scan:1").incr("hash").get("scan:2")
        answers = p.execute(raise_on_error=False)
    assert answers[1] == "1" and answers[3] == "2" and isinstance(answers[2], redis.ResponseError)


def connections(r):
    pool = redis.BlockingConnectionPool(max_connections=3, timeout=30, host=host, port=port)
    done = []

    def work(number):
        own = redis.Redis(connection_pool=pool)
        for i in range(100):
            own.set(f"pool:{number}", i)
            assert own.get(f"pool:{number}") == str(i).encode()
        done.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(10)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert len(done) == 10
    pool.disconnect()
    again = redis.Redis(host, port, single_connection_client=True, client_name="again",
                        retry=Retry(NoBackoff(), 3), retry_on_error=[redis.ConnectionError])
    number = again.client_id()
    assert again.client_getname() == "again"
    assert r.client_kill_filter(_id=number) == 1
    assert again.ping() and again.client_id() != number and again.client_getname() == "again"
    assert any(client["name"] == "again" for client in r.client_list())
    again.close()


def lists_and_sets(r):
    assert r.rpush("list:l", "a", "b", "c") == 3 and r.lpush("list:l", "z") == 4
    assert r.lrange("list:l", 0, -1) == ["z", "a", "b", "c"]
    assert r.lpop("list:l") == "z" and r.rpop("list:l", 2) == ["c", "b"]
    assert r.lmove("list:l", "list:other", "LEFT", "RIGHT") == "a" and r.exists("list:l") == 0
    assert r.sadd("set:t", "a", "b", "c") == 3 and r.sismember("set:t", "b") == 1
    assert r.smembers("set:t") == {"a", "b", "c"} and r.srem("set:t", "c") == 1
    assert r.sadd("set:u", "b", "d") == 2 and r.sinter("set:t", "set:u") == {"b"}
    assert r.sunionstore("set:v", "set:t", "set:u") == 3 and len(r.spop("set:v", 3)) == 3


def queues(r):
    taken = []

    def consume():
        own = redis.Redis(host, port, decode_responses=True)
        while (item := own.blpop(["queue:a", "queue:b", "queue:end"], timeout=30))[1] != "end":
            taken.append(item[1])
        own.close()

    consumers = [threading.Thread(target=consume) for _ in range(4)]
    [consumer.start() for consumer in consumers]
    for i in range(400):
        r.rpush(f"queue:{'ab'[i % 2]}", i)
    r.rpush("queue:end", *["end"] * 4)
    [consumer.join() for consumer in consumers]
    assert sorted(taken, key=int) == [str(i) for i in range(400)]
    assert r.blpop("queue:none", timeout=0.01) is None and r.brpop("queue:none", timeout=0.01) is None
    r.rpush("queue:a", "x")
    assert r.blmove("queue:a", "queue:b", 1) == "x" and r.brpoplpush("queue:b", "queue:a", 1) == "x"
    assert r.brpop(["queue:none", "queue:a"], 1) in (("queue:a", "x"), ["queue:a", "x"])
    r.zadd("queue:z", {"a": 1, "b": 2})
    assert list(r.bzpopmin("queue:z", 1)) == ["queue:z", "a", 1.0]
    assert list(r.bzpopmax("queue:z", 1)) == ["queue:z", "b", 2.0]


def channels(r):
    p = r.pubsub()
    p.subscribe("news")
    p.psubscribe("n*")
    assert [p.get_message(timeout=30)["type"] for _ in range(2)] == ["subscribe", "psubscribe"]
    assert r.publish("news", "hello") == 2 and r.publish("none", "hello") == 1 and r.publish("other", "x") == 0
    came = [p.get_message(timeout=30) for _ in range(3)]
    assert [(m["type"], m["channel"], m["data"]) for m in came] == [
        ("message", "news", "hello"), ("pmessage", "news", "hello"), ("pmessage", "none", "hello")]
    assert r.pubsub_channels() == ["news"] and r.pubsub_numpat() == 1
    assert dict(r.pubsub_numsub("news", "x")) == {"news": 1, "x": 0}
    p.unsubscribe()
    p.punsubscribe()
    assert [p.get_message(timeout=30)["type"] for _ in range(2)] == ["unsubscribe", "punsubscribe"]
    p.close()
    got, own = [], r.pubsub(ignore_subscribe_messages=True)
    own.subscribe(**{"handled": lambda message: got.append(message["data"])})
    while r.publish("handled", "first") == 0:
        time.sleep(0.001)
    thread = own.run_in_thread(sleep_time=0.01)
    [r.publish("handled", i) for i in range(100)]
    while len(got) < 101:
        time.sleep(0.001)
    thread.stop()
    thread.join()
    assert got == ["first"] + [str(i) for i in range(100)]


def the_server(r):
    assert r.info("server")["redis_version"] and r.info()["used_memory"] > 0
    assert r.dbsize() > 0 and r.time()[0] > 0 and r.echo("x") == "x"
    assert r.config_get("maxmemory") == {"maxmemory": "0"}
    assert r.ping() and r.flushdb() is True and r.dbsize() == 0


for protocol in (2, 3):
    client = redis.Redis(host, port, decode_responses=True, protocol=protocol)
    client.flushall()
    strings(client)
    if protocol == 2:
        collections(client)
    expiry(client)
    transactions(client)
    pipelines_and_scans(client)
    connections(client)
    lists_and_sets(client)
    queues(client)
    channels(client)
    the_server(client)
    client.close()
print("done")
