// The usual calls of go-redis, unchanged: `client HOST:PORT`.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

var ctx = context.Background()

// The call has to succeed, with this answer.
func is[T comparable](got T, err error) func(T) {
	return func(wanted T) {
		if err != nil || got != wanted {
			log.Panicf("%v (%v) and not %v", got, err, wanted)
		}
	}
}

func must(holds bool, what ...any) {
	if !holds {
		log.Panic(what...)
	}
}

func text[T any](got T, err error) (string, error) { return fmt.Sprint(got), err }

func stringCalls(r *redis.Client) {
	is(r.Ping(ctx).Result())("PONG")
	is(r.Set(ctx, "s", "one", 0).Result())("OK")
	is(r.SetNX(ctx, "s", "two", 0).Result())(false)
	is(r.SetXX(ctx, "s", "two", time.Minute).Result())(true)
	is(r.SetArgs(ctx, "s", "three", redis.SetArgs{Get: true, KeepTTL: true}).Result())("two")
	is(r.Append(ctx, "s", "!").Result())(6)
	is(r.MSet(ctx, "m:1", "a", "m:2", "b").Result())("OK")
	is(text(r.MGet(ctx, "m:1", "none", "m:2").Result()))("[a <nil> b]")
	is(r.IncrBy(ctx, "n", 9).Result())(9)
	is(r.Decr(ctx, "n").Result())(8)
	is(r.GetDel(ctx, "n").Result())("8")
	_, err := r.Get(ctx, "n").Result()
	must(errors.Is(err, redis.Nil), err)
	value := strings.Repeat("\x00\xff", 150_000)
	is(r.Set(ctx, "binary", value, 0).Result())("OK")
	is(r.Get(ctx, "binary").Result())(value)
	is(r.Del(ctx, "s", "none", "binary").Result())(2)
}

func collections(r *redis.Client) {
	is(r.HSet(ctx, "h", map[string]any{"a": 1, "b": 2}).Result())(2)
	is(text(r.HGetAll(ctx, "h").Result()))("map[a:1 b:2]")
	is(r.HIncrBy(ctx, "h", "a", 5).Result())(6)
	is(text(r.HMGet(ctx, "h", "a", "x").Result()))("[6 <nil>]")
	is(r.HDel(ctx, "h", "b").Result())(1)
	is(r.ZAdd(ctx, "z", redis.Z{Score: 1, Member: "a"}, redis.Z{Score: 2.5, Member: "b"}, redis.Z{Score: 3, Member: "c"}).Result())(3)
	is(text(r.ZRangeWithScores(ctx, "z", 0, -1).Result()))("[{1 a} {2.5 b} {3 c}]")
	is(r.ZIncrBy(ctx, "z", 10, "a").Result())(11)
	is(r.ZRank(ctx, "z", "a").Result())(2)
	is(text(r.ZRangeByScore(ctx, "z", &redis.ZRangeBy{Min: "2", Max: "+inf", Count: 1}).Result()))("[b]")
	is(text(r.ZRangeArgs(ctx, redis.ZRangeArgs{Key: "z", Start: 0, Stop: 0, Rev: true}).Result()))("[a]")
	is(r.ZRem(ctx, "z", "a", "x").Result())(1)
	fields := make(map[string]any)
	for i := 0; i < 2000; i++ {
		fields[fmt.Sprint("f", i)] = i
	}
	is(r.HSet(ctx, "large", fields).Result())(2000)
	count := 0
	for all := r.HScan(ctx, "large", 0, "", 100).Iterator(); all.Next(ctx); count++ {
	}
	must(count == 4000, count)
}

func expiry(r *redis.Client) {
	is(r.Set(ctx, "e", 1, 50*time.Millisecond).Result())("OK")
	for r.Exists(ctx, "e").Val() == 1 {
		time.Sleep(5 * time.Millisecond)
	}
	is(r.SetEx(ctx, "e", 1, 100*time.Second).Result())("OK")
	must(r.TTL(ctx, "e").Val() >= 98*time.Second, "ttl")
	is(r.Persist(ctx, "e").Result())(true)
	is(r.TTL(ctx, "e").Result())(-1)
	is(r.ExpireAt(ctx, "e", time.Now().Add(-time.Second)).Result())(true)
	is(r.Exists(ctx, "e").Result())(0)
}

func transactions(r *redis.Client) {
	var sum *redis.IntCmd
	_, err := r.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.Set(ctx, "t", 1, 0)
		sum = p.Incr(ctx, "t")
		return nil
	})
	must(err == nil && sum.Val() == 2, err)
	err = r.Watch(ctx, func(tx *redis.Tx) error {
		r.Set(ctx, "t", 5, 0)
		_, err := tx.TxPipelined(ctx, func(p redis.Pipeliner) error { return p.Set(ctx, "t", 6, 0).Err() })
		return err
	}, "t")
	must(errors.Is(err, redis.TxFailedErr), err)
	var all sync.WaitGroup
	for range [4]int{} {
		all.Add(1)
		go func() {
			defer all.Done()
			for done := 0; done < 100; {
				err := r.Watch(ctx, func(tx *redis.Tx) error {
					n, err := tx.Get(ctx, "sum").Int()
					if err != nil && !errors.Is(err, redis.Nil) {
						return err
					}
					_, err = tx.TxPipelined(ctx, func(p redis.Pipeliner) error { return p.Set(ctx, "sum", n+1, 0).Err() })
					return err
				}, "sum")
				must(err == nil || errors.Is(err, redis.TxFailedErr), err)
				if err == nil {
					done++
				}
			}
		}()
	}
	all.Wait()
	is(r.Get(ctx, "sum").Result())("400")
}

func pipelinesAndScans(r *redis.Client) {
	answers, err := r.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := 0; i < 1000; i++ {
			p.Set(ctx, fmt.Sprint("scan:", i), i, 0)
		}
		return nil
	})
	must(err == nil && len(answers) == 1000, err)
	found := make(map[string]bool)
	for all := r.Scan(ctx, 0, "scan:*", 50).Iterator(); all.Next(ctx); {
		found[all.Val()] = true
	}
	must(len(found) == 1000, len(found))
	answers, err = r.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.Get(ctx, "scan:1")
		p.Incr(ctx, "h")
		p.Get(ctx, "scan:2")
		return nil
	})
	must(err != nil && strings.HasPrefix(err.Error(), "WRONGTYPE"), err)
	must(answers[0].Err() == nil && answers[2].Err() == nil, answers)
}

func connections(r *redis.Client, options redis.Options) {
	options.PoolSize = 3
	few := redis.NewClient(&options)
	var all sync.WaitGroup
	for i := 0; i < 50; i++ {
		all.Add(1)
		go func(key string) {
			defer all.Done()
			is(few.Set(ctx, key, key, 0).Result())("OK")
			is(few.Get(ctx, key).Result())(key)
		}(fmt.Sprint("pool:", i))
	}
	all.Wait()
	must(few.PoolStats().TotalConns <= 3, few.PoolStats())
	must(few.Close() == nil, "close")
	options.PoolSize, options.ClientName = 1, "again"
	again := redis.NewClient(&options)
	number := again.ClientID(ctx).Val()
	is(r.ClientKillByFilter(ctx, "ID", fmt.Sprint(number)).Result())(1)
	is(again.Ping(ctx).Result())("PONG")
	must(again.ClientID(ctx).Val() != number, number)
	is(again.ClientGetName(ctx).Result())("again")
	must(again.Close() == nil, "close")
}

func listsAndSets(r *redis.Client) {
	is(r.RPush(ctx, "list:l", "a", "b", "c").Result())(3)
	is(r.LPush(ctx, "list:l", "z").Result())(4)
	is(text(r.LRange(ctx, "list:l", 0, -1).Result()))("[z a b c]")
	is(r.LPop(ctx, "list:l").Result())("z")
	is(text(r.RPopCount(ctx, "list:l", 2).Result()))("[c b]")
	is(r.LMove(ctx, "list:l", "list:other", "LEFT", "RIGHT").Result())("a")
	is(r.Exists(ctx, "list:l").Result())(0)
	is(r.SAdd(ctx, "set:t", "a", "b", "c").Result())(3)
	is(r.SIsMember(ctx, "set:t", "b").Result())(true)
	is(r.SCard(ctx, "set:t").Result())(3)
	is(r.SRem(ctx, "set:t", "c").Result())(1)
	is(r.SAdd(ctx, "set:u", "b", "d").Result())(2)
	is(text(r.SInter(ctx, "set:t", "set:u").Result()))("[b]")
	is(r.SUnionStore(ctx, "set:v", "set:t", "set:u").Result())(3)
	must(len(r.SPopN(ctx, "set:v", 3).Val()) == 3, "spop")
}

func queues(r *redis.Client) {
	var all sync.WaitGroup
	var lock sync.Mutex
	taken := map[string]bool{}
	for i := 0; i < 4; i++ {
		all.Add(1)
		go func() {
			defer all.Done()
			for {
				item, err := r.BLPop(ctx, 30*time.Second, "queue:a", "queue:b", "queue:end").Result()
				must(err == nil && len(item) == 2, item, err)
				if item[1] == "end" {
					return
				}
				lock.Lock()
				taken[item[1]] = true
				lock.Unlock()
			}
		}()
	}
	for i := 0; i < 400; i++ {
		must(r.RPush(ctx, "queue:"+"ab"[i%2:i%2+1], i).Err() == nil, "push")
	}
	must(r.RPush(ctx, "queue:end", "end", "end", "end", "end").Err() == nil, "push")
	all.Wait()
	must(len(taken) == 400, taken)
	must(r.BLPop(ctx, time.Second, "queue:none").Err() == redis.Nil, "there is nothing")
	r.RPush(ctx, "queue:a", "x")
	is(r.BLMove(ctx, "queue:a", "queue:b", "LEFT", "RIGHT", time.Second).Result())("x")
	is(text(r.BRPop(ctx, time.Second, "queue:b").Result()))("[queue:b x]")
	r.ZAdd(ctx, "queue:z", redis.Z{Score: 1, Member: "a"})
	is(r.BZPopMin(ctx, time.Second, "queue:z").Val().Key, nil)("queue:z")
}

func channels(r *redis.Client) {
	own := r.Subscribe(ctx, "news")
	must(own.PSubscribe(ctx, "n*") == nil, "psubscribe")
	for i := 0; i < 2; i++ {
		_, err := own.Receive(ctx)
		must(err == nil, err)
	}
	is(r.Publish(ctx, "news", "hello").Result())(2)
	is(r.Publish(ctx, "none", "hello").Result())(1)
	is(text(r.PubSubChannels(ctx, "*").Result()))("[news]")
	messages := own.Channel()
	for _, wanted := range []string{"news", "news", "none"} {
		message := <-messages
		must(message.Channel == wanted && message.Payload == "hello", message)
	}
	must(own.Ping(ctx) == nil, "ping")
	must(own.Unsubscribe(ctx) == nil && own.Close() == nil, "close")
}

func theServer(r *redis.Client) {
	must(strings.Contains(r.Info(ctx).Val(), "redis_version:"), "info")
	must(r.DBSize(ctx).Val() > 0, "dbsize")
	is(r.FlushDB(ctx).Result())("OK")
	is(r.DBSize(ctx).Result())(0)
}

func main() {
	for _, protocol := range []int{2, 3} {
		options := redis.Options{Addr: os.Args[1], Protocol: protocol}
		r := redis.NewClient(&options)
		is(r.FlushAll(ctx).Result())("OK")
		stringCalls(r)
		collections(r)
		expiry(r)
		transactions(r)
		pipelinesAndScans(r)
		connections(r, options)
		listsAndSets(r)
		queues(r)
		channels(r)
		theServer(r)
		must(r.Close() == nil, "close")
	}
	fmt.Println("done")
}
