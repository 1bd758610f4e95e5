// Go: pairs of goroutines that send each other messages, and a mutex for all of them.
package main

import (
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"
)

func main() {
	pairs, _ := strconv.Atoi(os.Args[1])
	seconds, _ := strconv.ParseFloat(os.Args[2], 64)
	begin := time.Now()
	end := begin.Add(time.Duration(seconds * 1e9))
	var lock sync.Mutex
	var all sync.WaitGroup
	count := 0
	for i := 0; i < pairs; i++ {
		there, back := make(chan int, 4), make(chan int, 4)
		all.Add(1)
		go func() {
			for message := range there {
				back <- message + 1
			}
		}()
		go func() {
			defer all.Done()
			for message := 0; time.Now().Before(end); {
				there <- message
				message = <-back
				lock.Lock()
				count++
				lock.Unlock()
			}
			close(there)
		}()
	}
	all.Wait()
	fmt.Printf("rate %f\n", float64(count)/time.Since(begin).Seconds())
}
