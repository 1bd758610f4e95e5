// The command line.

package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// The number of fields of a record, which is YCSB's default.
const fieldCount = 10

// The time within which a server must be found.
const findMilliseconds = 5000

const usage = `usage: ycsb load --url URL --records N --threads N [--value-bytes N]
       ycsb run  --url URL --records N --threads N (--operations N | --seconds S) [options]

  --url URL                the server: mongodb://HOST:PORT
  --records N              how many records there are
  --threads N              client threads, each with a connection's worth of the pool
  --value-bytes N          bytes of a record's ten fields together (1000)
of run:
  --operations N           end after N operations, each thread with its share
  --seconds S              end after S seconds
  --warm-up-s W            operate W seconds before anything is measured (0)
  --think-us T             mean of the exponential think time after each operation (0)
  --read-proportion P      weight of reads (0)
  --update-proportion P    weight of updates (1)
  --distribution NAME      of the keys: zipfian or uniform (zipfian)
`

// options is what the user asked for.
type options struct {
	load             bool
	url              string
	records          int64
	threads          int
	valueBytes       int64
	operations       int64
	seconds          float64
	warmUp           float64
	thinkUs          float64
	readProportion   float64
	updateProportion float64
	distribution     string
}

// parse reads the command line. flag.ErrHelp asks for the usage.
func parse(arguments []string) (options, error) {
	o := options{valueBytes: 1000, updateProportion: 1, distribution: "zipfian"}
	if len(arguments) == 0 {
		return o, errors.New("say load or run")
	}
	switch arguments[0] {
	case "load":
		o.load = true
	case "run":
	case "help", "-h", "-help", "--help":
		return o, flag.ErrHelp
	default:
		return o, fmt.Errorf("%q: say load or run", arguments[0])
	}
	set := flag.NewFlagSet("ycsb", flag.ContinueOnError)
	set.SetOutput(io.Discard)
	set.Usage = func() {}
	set.StringVar(&o.url, "url", "", "")
	set.Int64Var(&o.records, "records", 0, "")
	set.IntVar(&o.threads, "threads", 0, "")
	set.Int64Var(&o.valueBytes, "value-bytes", o.valueBytes, "")
	if !o.load {
		set.Int64Var(&o.operations, "operations", 0, "")
		set.Float64Var(&o.seconds, "seconds", 0, "")
		set.Float64Var(&o.warmUp, "warm-up-s", 0, "")
		set.Float64Var(&o.thinkUs, "think-us", 0, "")
		set.Float64Var(&o.readProportion, "read-proportion", 0, "")
		set.Float64Var(&o.updateProportion, "update-proportion", 1, "")
		set.StringVar(&o.distribution, "distribution", o.distribution, "")
	}
	if err := set.Parse(arguments[1:]); err != nil {
		return o, err
	}
	if set.NArg() > 0 {
		return o, fmt.Errorf("%q: not an option", set.Arg(0))
	}
	return o, o.check()
}

// check returns the first thing that is wrong.
func (o *options) check() error {
	for _, limit := range []struct {
		name     string
		is       float64
		min, max float64
	}{
		{"records", float64(o.records), 2, 1e9},
		{"threads", float64(o.threads), 1, 10000},
		{"value-bytes", float64(o.valueBytes), fieldCount, 1e7},
		{"operations", float64(o.operations), 0, 1e12},
		{"seconds", o.seconds, 0, 86400},
		{"warm-up-s", o.warmUp, 0, 3600},
		{"think-us", o.thinkUs, 0, 1e7},
		{"read-proportion", o.readProportion, 0, 1e9},
		{"update-proportion", o.updateProportion, 0, 1e9},
	} {
		// Written so that NaN is refused.
		if !(limit.is >= limit.min && limit.is <= limit.max) {
			return fmt.Errorf("--%s: must be from %g to %g", limit.name, limit.min, limit.max)
		}
	}
	if o.valueBytes%fieldCount != 0 {
		return fmt.Errorf("--value-bytes: must be a multiple of %d, the number of fields", fieldCount)
	}
	if _, err := o.address(); err != nil {
		return err
	}
	if o.load {
		if o.records < int64(o.threads) {
			return errors.New("--records: must be as many as --threads at least")
		}
		return nil
	}
	if (o.operations > 0) == (o.seconds > 0) {
		return errors.New("say either --operations or --seconds, and more than 0")
	}
	if o.operations > 0 && o.operations < int64(o.threads) {
		return errors.New("--operations: must be as many as --threads at least")
	}
	if o.readProportion+o.updateProportion == 0 {
		return errors.New("--read-proportion and --update-proportion: one must be more than 0")
	}
	if o.distribution != "zipfian" && o.distribution != "uniform" {
		return fmt.Errorf("--distribution: %q: must be zipfian or uniform", o.distribution)
	}
	return nil
}

// address is the URL for the driver: the user's, with a connection for each thread, and a limit on the
// time in which the server must be found. What the user's URL says itself stands.
func (o *options) address() (string, error) {
	address, err := url.Parse(o.url)
	if err != nil || address.Host == "" || !strings.HasPrefix(address.Scheme, "mongodb") {
		return "", fmt.Errorf("--url: %q: must be like mongodb://127.0.0.1:27017", o.url)
	}
	if address.Path == "" {
		address.Path = "/"
	}
	query := address.Query()
	for name, value := range map[string]int{"minPoolSize": o.threads, "serverSelectionTimeoutMS": findMilliseconds} {
		if !query.Has(name) {
			query.Set(name, strconv.Itoa(value))
		}
	}
	address.RawQuery = query.Encode()
	return address.String(), nil
}

// seconds as a duration.
func seconds(count float64) time.Duration {
	return time.Duration(count * float64(time.Second))
}
