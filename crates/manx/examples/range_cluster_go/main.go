// The client of etcd for Go and its concurrency.Mutex, for the example range_cluster.rs.
//
// Each worker has a client and a session of its own. It locks and unlocks the mutex of its key once
// before the measurement. The first line of the output has the time of all workers together, and
// each further line that of one lock and unlock, in ns.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// newMutex returns the mutex of a key, of a client that asks these members in turn.
func newMutex(endpoints []string, key int) *concurrency.Mutex {
	client, err := clientv3.New(clientv3.Config{Endpoints: endpoints, DialTimeout: 10 * time.Second})
	check(err)
	session, err := concurrency.NewSession(client, concurrency.WithTTL(600))
	check(err)
	return concurrency.NewMutex(session, fmt.Sprintf("go/%d", key))
}

func lockAndUnlock(mutex *concurrency.Mutex) {
	check(mutex.Lock(context.Background()))
	check(mutex.Unlock(context.Background()))
}

func main() {
	endpoints := flag.String("endpoints", "", "the members' addresses, with commas between them")
	workers := flag.Int("workers", 1, "the number of workers")
	same := flag.Bool("same", false, "all workers lock the same key")
	samples := flag.Int("samples", 100, "the number of samples of each worker")
	flag.Parse()
	members := strings.Split(*endpoints, ",")
	var ready, done sync.WaitGroup
	begin := make(chan struct{})
	times := make([][]time.Duration, *workers)
	for worker := range times {
		ready.Add(1)
		done.Add(1)
		go func() {
			defer done.Done()
			key := worker
			if *same {
				key = 0
			}
			mutex := newMutex(members, key)
			lockAndUnlock(mutex)
			ready.Done()
			<-begin
			for range *samples {
				began := time.Now()
				lockAndUnlock(mutex)
				times[worker] = append(times[worker], time.Since(began))
			}
		}()
	}
	ready.Wait()
	began := time.Now()
	close(begin)
	done.Wait()
	fmt.Println(time.Since(began).Nanoseconds())
	for _, of := range times {
		for _, one := range of {
			fmt.Println(one.Nanoseconds())
		}
	}
}
