// YCSB against a server that speaks MongoDB's protocol: go-ycsb's core workload through its MongoDB
// binding, which is MongoDB's official Go driver.
//
//	ycsb load --url mongodb://127.0.0.1:27017 --records N --threads N
//	ycsb run  --url … --records N --threads N (--operations N | --seconds S)
//
// Keys, values and choices of operations are go-ycsb's (its core workload, hashed keys, ten fields a
// record, an update writes one of them), and each operation is one call of its binding. The threads, the
// clock and the histograms are ours, because go-ycsb's measurement knows no windows. The README says why
// it is go-ycsb and not YCSB's Java program.
//
// One client of the driver serves all threads, as in YCSB. It opens as many connections as there are
// threads, and two more, on which it watches the server. It hands a thread the connection that was used
// last, so a thread has no connection of its own.
//
// # The protocol of a run
//
//  1. Every thread operates without being measured until the warm-up is over and every thread has ended
//     an operation. An error in this part ends the program.
//  2. The measured part begins. Then the line {"warm": true} is written to stderr, so whatever an
//     experiment does after it has read the line happens in the measured part. The windows count from the
//     moment just before the line.
//  3. An operation is measured if it begins in the measured part. It counts in the window in which it
//     ends: a stall appears in the window in which it is over. One that begins before and ends in the
//     measured part counts nowhere, not even as an error.
//  4. With --seconds no operation begins after S seconds, but for the first one of a thread. Operations
//     that run then are waited for and measured, so the slowest ones are not lost. With --operations each thread has its share, as in YCSB.
//  5. The measured part ends with its last operation.
//
// A latency is the time around the binding's call, as in YCSB. An operation that fails counts as an
// error and has no latency. stdout has one JSON object (type result), and stderr has all the rest.
//
// Exit status: 0 done; 1 the server is not there or refuses, or no operation succeeded; 2 wrong usage.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
)

const (
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	// go-ycsb and its binding print to what os.Stdout is; the result alone belongs there.
	out := os.Stdout
	os.Stdout = os.Stderr
	os.Exit(ycsbMain(os.Args[1:], out, os.Stderr))
}

// ycsbMain is the program, with its arguments and streams.
func ycsbMain(arguments []string, out, log *os.File) int {
	options, err := parse(arguments)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(out, usage)
		return 0
	}
	if err != nil {
		fmt.Fprintf(log, "ycsb: %v\n%s", err, usage)
		return exitUsage
	}
	result, err := drive(options, log)
	if err == nil {
		err = json.NewEncoder(out).Encode(result)
	}
	if err != nil {
		fmt.Fprintf(log, "ycsb: %v\n", err)
		return exitFailed
	}
	return 0
}
