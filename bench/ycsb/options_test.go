// The command line: what is read, and what is refused by which words.

package main

import (
	"net/url"
	"strings"
	"testing"
)

const (
	someLoad = "load --url mongodb://h:1 --records 10 --threads 2"
	someRun  = "run --url mongodb://h:1 --records 10 --threads 2"
)

func TestOptionsAreRead(t *testing.T) {
	o, err := parse(strings.Fields(someRun + " --seconds 1.5 --think-us 300 --read-proportion 0.5 --warm-up-s=2"))
	want := options{
		url: "mongodb://h:1", records: 10, threads: 2, valueBytes: 1000, seconds: 1.5, warmUp: 2, thinkUs: 300,
		readProportion: 0.5, updateProportion: 1, distribution: "zipfian",
	}
	if err != nil || o != want {
		t.Errorf("%+v: %v", o, err)
	}
	o, err = parse(strings.Fields(someLoad + " --value-bytes 40"))
	if err != nil || !o.load || o.valueBytes != 40 {
		t.Errorf("%+v: %v", o, err)
	}
}

func TestWrongOptionsAreNamed(t *testing.T) {
	for line, words := range map[string]string{
		"":                                      "say load or run",
		"drop":                                  `"drop"`,
		someRun:                                 "--operations or --seconds",
		"load":                                  "--records",
		someLoad + " --seconds 1":               "-seconds",
		someLoad + " --records 1e3":             "records",
		someLoad + " --threads 11":              "--records: must be as many",
		someLoad + " --value-bytes 1001":        "multiple of 10",
		someLoad + " extra":                     `"extra"`,
		someLoad + " --url localhost:1":         "--url",
		someLoad + " --url mongodb://":          "--url",
		someRun + " --seconds 1 --operations 5": "--operations or --seconds",
		someRun + " --operations 1":             "as many as --threads",
		someRun + " --seconds NaN":              "--seconds",
		someRun + " --seconds -1":               "--seconds",
		someRun + " --seconds 1 --update-proportion 0":     "one must be more than 0",
		someRun + " --seconds 1 --distribution hotspot":    `"hotspot"`,
		someRun + " --seconds 1 --think-us many":           "think-us",
		someRun + " --seconds 1 --threads 0":               "--threads",
		someRun + " --seconds 1 --no-such-option whatever": "no-such-option",
	} {
		if _, err := parse(strings.Fields(line)); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%q: %v", line, err)
		}
	}
}

func TestTheUsersUrlStands(t *testing.T) {
	for given, want := range map[string]map[string]string{
		"mongodb://h:1":                      {"minPoolSize": "3", "serverSelectionTimeoutMS": "5000"},
		"mongodb://h:1/?w=1&minPoolSize=1":   {"minPoolSize": "1", "serverSelectionTimeoutMS": "5000", "w": "1"},
		"mongodb://a:1,b:2/ycsb?compressors": {"minPoolSize": "3"},
	} {
		o := options{url: given, threads: 3}
		made, err := o.address()
		if err != nil {
			t.Errorf("%s: %v", given, err)
			continue
		}
		address, err := url.Parse(made)
		if err != nil || address.Path == "" {
			t.Errorf("%s: %s: %v", given, made, err)
			continue
		}
		for name, value := range want {
			if address.Query().Get(name) != value {
				t.Errorf("%s: %s: %s is not %s", given, made, name, value)
			}
		}
	}
}

func TestSharesAddUp(t *testing.T) {
	o := options{threads: 7}
	sum := int64(0)
	for thread := range o.threads {
		share := o.share(3000, thread)
		if share != 428 && share != 429 {
			t.Errorf("thread %d: %d", thread, share)
		}
		sum += share
	}
	if sum != 3000 {
		t.Errorf("%d in all", sum)
	}
}
