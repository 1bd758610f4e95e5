// The work of `manx bench pool` in Go: a worker for each processor that the runtime believes in, all at one channel, and
// an open loop that hands them fib(30) at a rate.
//
// It says "ready", waits for the end of its standard input, and writes its histograms as one line of JSON.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"sort"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const number, value = 30, 832040

//go:noinline
func fib(n uint32) uint64 {
	if n < 2 {
		return uint64(n)
	}
	return fib(n-1) + fib(n-2)
}

// The stamps of a job, in nanoseconds from the start; 0 for one that it has not got.
type job struct {
	due, pushed, begun, ended int64
}

// As the Rust side reads it: values in order, each with how often it was recorded.
type histogram struct {
	Count  uint64     `json:"count"`
	Min    int64      `json:"min_ns"`
	Max    int64      `json:"max_ns"`
	Sum    int64      `json:"sum_ns"`
	Counts [][2]int64 `json:"counts"`
}

func summarise(values []int64) histogram {
	sort.Slice(values, func(a, b int) bool { return values[a] < values[b] })
	result := histogram{Count: uint64(len(values)), Counts: [][2]int64{}}
	for _, v := range values {
		result.Sum += v
		result.Counts = append(result.Counts, [2]int64{v, 1})
	}
	if len(values) > 0 {
		result.Min, result.Max = values[0], values[len(values)-1]
	}
	return result
}

func cpuTime() int64 {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		return 0
	}
	return usage.Utime.Nano() + usage.Stime.Nano()
}

func main() {
	rate := flag.Float64("rate", 1200, "jobs a second")
	phase := flag.Float64("phase", 0, "where the first one lies within its distance")
	seconds := flag.Float64("seconds", 5, "how long they come")
	drain := flag.Float64("drain", 0, "how long afterwards those that wait may begin")
	flag.Parse()

	gap := 1e9 / *rate
	length := int64(*seconds * 1e9)
	var jobs []job
	for at := gap * *phase; at < float64(length); at += gap {
		jobs = append(jobs, job{due: int64(at)})
	}
	queue := make(chan *job, len(jobs)+1)
	var over atomic.Bool
	var left sync.WaitGroup
	var pending atomic.Int64

	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin)
	cpuBefore := cpuTime()
	start := time.Now()
	now := func() int64 { return max(int64(time.Since(start)), 1) }
	workers := runtime.GOMAXPROCS(0)
	for range workers {
		go func() {
			for one := range queue {
				if !over.Load() {
					one.begun = now()
					if fib(number) != value {
						panic("the computation is wrong")
					}
					one.ended = now()
				}
				pending.Add(-1)
				left.Done()
			}
		}()
	}
	for index := range jobs {
		one := &jobs[index]
		time.Sleep(time.Duration(one.due - now()))
		if now() >= length {
			break
		}
		left.Add(1)
		pending.Add(1)
		one.pushed = now()
		queue <- one
	}
	time.Sleep(time.Duration(length - now()))
	cpu := cpuTime() - cpuBefore
	for until := length + int64(*drain*1e9); pending.Load() > 0 && now() < until; {
		time.Sleep(time.Millisecond)
	}
	over.Store(true)
	left.Wait()

	times := map[string][]int64{"queue": {}, "service": {}, "total": {}, "late": {}}
	add := func(name string, value int64) { times[name] = append(times[name], max(value, 0)) }
	var offered, done, unfinished float64
	for _, one := range jobs {
		if one.pushed == 0 {
			continue
		}
		offered++
		add("late", one.pushed-one.due)
		if one.ended == 0 {
			unfinished++
			continue
		}
		if one.ended <= length {
			done++
		}
		add("queue", one.begun-one.pushed)
		add("service", one.ended-one.begun)
		add("total", one.ended-one.pushed)
	}
	histograms := map[string]histogram{}
	for name, values := range times {
		histograms[name] = summarise(values)
	}
	outcome := map[string]any{
		"histograms": histograms,
		"values": map[string]float64{
			"offered": offered, "done": done, "unfinished": unfinished,
			"cpu_ns": float64(cpu), "workers": float64(workers),
		},
	}
	if err := json.NewEncoder(os.Stdout).Encode(outcome); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
