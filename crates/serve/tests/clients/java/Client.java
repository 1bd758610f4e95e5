// The usual calls of Jedis, unchanged: `Client HOST PORT`.

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import redis.clients.jedis.AbstractTransaction;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.JedisPool;
import redis.clients.jedis.JedisPoolConfig;
import redis.clients.jedis.JedisPooled;
import redis.clients.jedis.JedisPubSub;
import redis.clients.jedis.Pipeline;
import redis.clients.jedis.Response;
import redis.clients.jedis.Transaction;
import redis.clients.jedis.exceptions.JedisConnectionException;
import redis.clients.jedis.args.ListDirection;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.params.ClientKillParams;
import redis.clients.jedis.params.ScanParams;
import redis.clients.jedis.params.SetParams;
import redis.clients.jedis.resps.ScanResult;

public class Client {
    static String host;
    static int port;

    static void is(Object got, Object wanted) {
        if (!(wanted == null ? got == null : wanted.equals(got))) {
            throw new AssertionError(got + " and not " + wanted);
        }
    }

    static void strings(Jedis r) {
        is(r.ping(), "PONG");
        is(r.set("s", "one"), "OK");
        is(r.set("s", "two", SetParams.setParams().nx()), null);
        is(r.setGet("s", "two", SetParams.setParams().ex(100)), "one");
        is(r.append("s", "!"), 4L);
        is(r.mset("m:1", "a", "m:2", "b"), "OK");
        is(r.mget("m:1", "none", "m:2"), Arrays.asList("a", null, "b"));
        is(r.incrBy("n", 9), 9L);
        is(r.decr("n"), 8L);
        is(r.getDel("n"), "8");
        byte[] value = new byte[300_000];
        Arrays.fill(value, (byte) 0xff);
        r.set("binary".getBytes(), value);
        is(Arrays.equals(r.get("binary".getBytes()), value), true);
        is(r.del("s", "none", "binary"), 2L);
    }

    static void collections(Jedis r) {
        is(r.hset("h", Map.of("a", "1", "b", "2")), 2L);
        is(r.hgetAll("h"), Map.of("a", "1", "b", "2"));
        is(r.hincrBy("h", "a", 5), 6L);
        is(r.hmget("h", "a", "x"), Arrays.asList("6", null));
        is(r.hdel("h", "b"), 1L);
        is(r.zadd("z", Map.of("a", 1.0, "b", 2.5, "c", 3.0)), 3L);
        is(r.zrange("z", 0, -1), List.of("a", "b", "c"));
        is(r.zrangeWithScores("z", 1, 1).get(0).getScore(), 2.5);
        is(r.zincrby("z", 10, "a"), 11.0);
        is(r.zrank("z", "a"), 2L);
        is(r.zrangeByScore("z", "2", "+inf", 0, 1), List.of("b"));
        is(r.zrem("z", "a", "x"), 1L);
        Map<String, String> fields = new HashMap<>();
        for (int i = 0; i < 2000; i++) fields.put("f" + i, "" + i);
        is(r.hset("large", fields), 2000L);
        Map<String, String> found = new HashMap<>();
        String cursor = ScanParams.SCAN_POINTER_START;
        do {
            ScanResult<Map.Entry<String, String>> part = r.hscan("large", cursor, new ScanParams().count(100));
            part.getResult().forEach(one -> found.put(one.getKey(), one.getValue()));
            cursor = part.getCursor();
        } while (!cursor.equals(ScanParams.SCAN_POINTER_START));
        is(found, fields);
    }

    static void expiry(Jedis r) throws InterruptedException {
        r.psetex("e", 50, "1");
        while (r.exists("e")) Thread.sleep(5);
        r.setex("e", 100, "1");
        is(r.ttl("e") >= 98, true);
        is(r.persist("e"), 1L);
        is(r.ttl("e"), -1L);
        is(r.expireAt("e", System.currentTimeMillis() / 1000 - 1), 1L);
        is(r.get("e"), null);
    }

    static void transactions(Jedis r) {
        Transaction t = r.multi();
        t.set("t", "1");
        Response<Long> two = t.incr("t");
        is(t.exec(), List.of("OK", 2L));
        is(two.get(), 2L);
        try (Jedis other = new Jedis(host, port)) {
            r.watch("t");
            other.set("t", "5");
            t = r.multi();
            t.set("t", "6");
            is(t.exec(), null);
        }
        t = r.multi();
        t.set("t", "7");
        is(t.discard(), "OK");
        is(r.get("t"), "5");
        try (JedisPooled pooled = new JedisPooled(host, port); AbstractTransaction one = pooled.multi()) {
            one.incrBy("t", 10);
            is(one.exec(), List.of(15L));
        }
    }

    static void pipelinesAndScans(Jedis r) {
        Pipeline pipeline = r.pipelined();
        for (int i = 0; i < 1000; i++) pipeline.set("scan:" + i, "" + i);
        is(new HashSet<>(pipeline.syncAndReturnAll()), Set.of("OK"));
        Set<String> found = new HashSet<>();
        String cursor = ScanParams.SCAN_POINTER_START;
        do {
            ScanResult<String> part = r.scan(cursor, new ScanParams().match("scan:*").count(50));
            found.addAll(part.getResult());
            cursor = part.getCursor();
        } while (!cursor.equals(ScanParams.SCAN_POINTER_START));
        is(found.size(), 1000);
        pipeline = r.pipelined();
        Response<String> first = pipeline.get("scan:1");
        Response<Long> wrong = pipeline.incr("h");
        Response<String> last = pipeline.get("scan:2");
        pipeline.sync();
        is(first.get() + last.get(), "12");
        try {
            wrong.get();
            throw new AssertionError("a hash was counted");
        } catch (JedisDataException error) {
            is(error.getMessage().startsWith("WRONGTYPE"), true);
        }
    }

    static void connections(Jedis r) throws Exception {
        JedisPoolConfig few = new JedisPoolConfig();
        few.setMaxTotal(3);
        few.setTestOnBorrow(true);
        try (JedisPool pool = new JedisPool(few, host, port)) {
            Thread[] threads = new Thread[10];
            Throwable[] failed = new Throwable[1];
            for (int number = 0; number < threads.length; number++) {
                String key = "pool:" + number;
                threads[number] = new Thread(() -> {
                    for (int i = 0; i < 100; i++) {
                        try (Jedis one = pool.getResource()) {
                            one.set(key, "" + i);
                            is(one.get(key), "" + i);
                        }
                    }
                });
                threads[number].setUncaughtExceptionHandler((thread, error) -> failed[0] = error);
                threads[number].start();
            }
            for (Thread thread : threads) thread.join();
            is(failed[0], null);
            long number;
            try (Jedis one = pool.getResource()) {
                number = one.clientId();
            }
            is(r.clientKill(new ClientKillParams().id("" + number)), 1L);
            try (Jedis one = pool.getResource()) {
                is(one.ping(), "PONG");
            }
        }
        try (Jedis again = new Jedis(host, port)) {
            again.clientSetname("again");
            is(r.clientList().contains("name=again"), true);
            r.clientKill(new ClientKillParams().id("" + again.clientId()));
            try {
                again.ping();
                throw new AssertionError("it was killed");
            } catch (JedisConnectionException expected) {
                again.disconnect();
            }
            is(again.ping(), "PONG");
        }
    }

    static void listsAndSets(Jedis r) {
        is(r.rpush("list:l", "a", "b", "c"), 3L);
        is(r.lpush("list:l", "z"), 4L);
        is(r.lrange("list:l", 0, -1), List.of("z", "a", "b", "c"));
        is(r.lpop("list:l"), "z");
        is(r.rpop("list:l", 2), List.of("c", "b"));
        is(r.rpoplpush("list:l", "list:other"), "a");
        is(r.exists("list:l"), false);
        is(r.sadd("set:t", "a", "b", "c"), 3L);
        is(r.sismember("set:t", "b"), true);
        is(r.smembers("set:t"), Set.of("a", "b", "c"));
        is(r.srem("set:t", "c"), 1L);
        is(r.sadd("set:u", "b", "d"), 2L);
        is(r.sinter("set:t", "set:u"), Set.of("b"));
        is(r.sunionstore("set:v", "set:t", "set:u"), 3L);
        is(r.spop("set:v", 3).size(), 3);
    }

    static void queues(Jedis r) throws Exception {
        Set<String> taken = ConcurrentHashMap.newKeySet();
        Throwable[] failed = new Throwable[1];
        Thread[] threads = new Thread[4];
        for (int number = 0; number < threads.length; number++) {
            threads[number] = new Thread(() -> {
                try (Jedis own = new Jedis(host, port)) {
                    while (true) {
                        String item = own.blpop(0, "queue:a", "queue:b", "queue:end").get(1);
                        if (item.equals("end")) return;
                        taken.add(item);
                    }
                }
            });
            threads[number].setUncaughtExceptionHandler((thread, error) -> failed[0] = error);
            threads[number].start();
        }
        for (int i = 0; i < 400; i++) r.rpush("queue:" + "ab".charAt(i % 2), "" + i);
        r.rpush("queue:end", "end", "end", "end", "end");
        for (Thread thread : threads) thread.join();
        is(failed[0], null);
        is(taken.size(), 400);
        is(r.blpop(0.01, "queue:none"), null);
        r.rpush("queue:a", "x");
        is(r.blmove("queue:a", "queue:b", ListDirection.LEFT, ListDirection.RIGHT, 1), "x");
        is(r.brpop(1, "queue:b"), List.of("queue:b", "x"));
        r.zadd("queue:z", 1, "a");
        is(r.bzpopmin(1, "queue:z").getValue().getElement(), "a");
    }

    static void channels(Jedis r) throws Exception {
        List<String> came = new ArrayList<>();
        Throwable[] failed = new Throwable[1];
        JedisPubSub own = new JedisPubSub() {
            @Override
            public void onMessage(String channel, String message) {
                came.add(channel + " " + message);
            }

            @Override
            public void onPMessage(String pattern, String channel, String message) {
                came.add(pattern + " " + channel + " " + message);
                if (message.equals("end")) {
                    unsubscribe();
                    punsubscribe();
                }
            }

            @Override
            public void onSubscribe(String channel, int count) {
                try {
                    psubscribe("n*");
                } catch (RuntimeException error) {
                    failed[0] = error;
                }
            }
        };
        Thread thread = new Thread(() -> {
            try (Jedis listening = new Jedis(host, port)) {
                listening.subscribe(own, "news");
            }
        });
        thread.setUncaughtExceptionHandler((it, error) -> failed[0] = error);
        thread.start();
        while (r.pubsubNumPat() == 0 && failed[0] == null) Thread.sleep(1);
        is(r.publish("news", "hello"), 2L);
        is(r.publish("none", "end"), 1L);
        thread.join();
        is(failed[0], null);
        is(came, List.of("news hello", "n* news hello", "n* none end"));
        is(r.pubsubChannels().size(), 0);
    }

    static void theServer(Jedis r) {
        is(r.info().contains("redis_version:"), true);
        is(r.dbSize() > 0, true);
        is(r.flushDB(), "OK");
        is(r.dbSize(), 0L);
    }

    public static void main(String[] args) throws Exception {
        host = args[0];
        port = Integer.parseInt(args[1]);
        try (Jedis r = new Jedis(host, port)) {
            is(r.flushAll(), "OK");
            strings(r);
            collections(r);
            expiry(r);
            transactions(r);
            pipelinesAndScans(r);
            connections(r);
            listsAndSets(r);
            queues(r);
            channels(r);
            theServer(r);
        }
        System.out.println("done");
    }
}
