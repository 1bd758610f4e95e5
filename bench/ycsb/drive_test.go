// The whole program against the server of server_test.go: shares, connections, latencies, errors.

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// program runs the whole program and returns its exit status, and what it wrote.
func program(t *testing.T, arguments ...string) (status int, out, log string) {
	t.Helper()
	files := make([]*os.File, 2)
	for i := range files {
		file, err := os.CreateTemp(t.TempDir(), "")
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		files[i] = file
	}
	stdout := os.Stdout
	os.Stdout = files[1]
	defer func() { os.Stdout = stdout }()
	status = ycsbMain(arguments, files[0], files[1])
	texts := make([]string, 2)
	for i, file := range files {
		text, err := os.ReadFile(file.Name())
		if err != nil {
			t.Fatal(err)
		}
		texts[i] = string(text)
	}
	return status, texts[0], texts[1]
}

// results runs the program, which must succeed.
func results(t *testing.T, arguments ...string) (result, string) {
	t.Helper()
	status, out, log := program(t, arguments...)
	if status != 0 {
		t.Fatalf("status %d: %s", status, log)
	}
	var found result
	decoder := json.NewDecoder(strings.NewReader(out))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&found); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return found, log
}

func sumOf(windows []window) (sum int64) {
	for _, one := range windows {
		sum += one.Operations
	}
	return sum
}

func TestEveryRecordIsLoadedOnce(t *testing.T) {
	s := serve(t)
	found, _ := results(t, "load", "--url", s.url(), "--records", "203", "--threads", "4", "--value-bytes", "50")
	if found.Operations != 203 || found.Errors != 0 || sumOf(found.Windows) != 203 || found.Command != "load" {
		t.Errorf("%+v", found)
	}
	if len(s.table) != 203 || s.count("insert") != 203 {
		t.Errorf("%d rows by %d inserts", len(s.table), s.count("insert"))
	}
	for key, row := range s.table {
		if len(row) != fieldCount || len(row["field7"]) != 5 || !strings.HasPrefix(key, "user") {
			t.Errorf("%s: %v", key, row)
		}
	}
	allowed := []string{"hello", "insert", "isMaster", "listDatabases", "ping"}
	for _, command := range s.commands() {
		if !slices.Contains(allowed, command) {
			t.Errorf("an unexpected command: %s", command)
		}
	}
}

func TestEachThreadHasItsShareOfTheOperations(t *testing.T) {
	s := serve(t)
	for _, distribution := range []string{"zipfian", "uniform"} {
		results(t, "load", "--url", s.url(), "--records", "30", "--threads", "3")
		before := s.count("update")
		found, log := results(t, "run", "--url", s.url(), "--records", "30", "--threads", "7",
			"--operations", "3000", "--distribution", distribution)
		if found.Operations != 3000 || found.Errors != 0 || sumOf(found.Windows) != 3000 {
			t.Errorf("%+v", found)
		}
		// 3000 is 7 times 428 and 4 more.
		if want := 428.0 * 7 / 3000; found.SlowestOfMean != want {
			t.Errorf("%g of the mean, not %g", found.SlowestOfMean, want)
		}
		if !strings.Contains(log, "{\"warm\": true}\n") {
			t.Errorf("%q", log)
		}
		if updates := s.count("update") - before; updates < 3007 {
			t.Errorf("%d updates: each thread warms up by one at least", updates)
		}
		// No key was drawn that was not loaded: the server would have made a row of it, and the
		// binding would have said that it found none.
		if len(s.table) != 30 {
			t.Errorf("%d rows", len(s.table))
		}
	}
}

func TestReadsAndUpdatesAreMixed(t *testing.T) {
	s := serve(t)
	results(t, "load", "--url", s.url(), "--records", "30", "--threads", "3")
	found, _ := results(t, "run", "--url", s.url(), "--records", "30", "--threads", "2", "--operations", "400",
		"--read-proportion", "1", "--update-proportion", "1")
	if found.Operations != 400 || found.Errors != 0 || s.count("find") == 0 || s.count("update") == 0 {
		t.Errorf("%+v, %d reads, %d updates", found, s.count("find"), s.count("update"))
	}
}

func TestLatenciesAreThoseOfTheServer(t *testing.T) {
	s := serve(t)
	results(t, "load", "--url", s.url(), "--records", "30", "--threads", "3")
	s.delay = 20 * time.Millisecond
	found, _ := results(t, "run", "--url", s.url(), "--records", "30", "--threads", "4", "--seconds", "1.1")
	// The last operations begin within the time, and end after it.
	least := int64(s.delay)
	if found.P50Ns < least || found.MeanNs < float64(least) || found.MaxNs < found.P999Ns || found.Seconds < 1.1 {
		t.Errorf("%+v", found)
	}
	if len(found.Windows) < 2 || sumOf(found.Windows) != found.Operations {
		t.Errorf("%+v", found.Windows)
	}
	for second, one := range found.Windows {
		if one.Second != second || one.Operations > 0 && one.MeanNs < float64(least) {
			t.Errorf("%+v", one)
		}
	}
}

func TestThereAreAsManyConnectionsAsThreads(t *testing.T) {
	s := serve(t)
	results(t, "load", "--url", s.url(), "--records", "30", "--threads", "3")
	s.forget()
	// Twelve, and two on which the driver watches the server. Updates wait until they are there.
	s.awaited = 14
	results(t, "run", "--url", s.url(), "--records", "30", "--threads", "12", "--operations", "240")
	if s.connectionsMax != s.awaited {
		t.Errorf("%d connections", s.connectionsMax)
	}
}

// onWarm is a log that does something when the measured part begins.
type onWarm struct {
	bytes.Buffer
	do func()
}

func (w *onWarm) Write(text []byte) (int, error) {
	if strings.Contains(string(text), `{"warm": true}`) {
		w.do()
	}
	return w.Buffer.Write(text)
}

func TestErrorsAreCountedAndHaveNoLatency(t *testing.T) {
	s := serve(t)
	results(t, "load", "--url", s.url(), "--records", "30", "--threads", "3")
	o, err := parse(strings.Fields("run --url " + s.url() + " --records 30 --threads 2 --operations 500"))
	if err != nil {
		t.Fatal(err)
	}
	log := onWarm{do: func() { s.refusing.Store(true) }}
	found, err := drive(o, &log)
	if err != nil {
		t.Fatal(err)
	}
	if found.Errors == 0 || found.Operations+found.Errors != 500 || sumOf(found.Windows) != found.Operations {
		t.Errorf("%+v", found)
	}
	if !strings.Contains(log.String(), "operations failed") || !strings.Contains(log.String(), "not this one") {
		t.Errorf("%q", log.String())
	}
}

func TestWhatGoesWrongIsSaid(t *testing.T) {
	s := serve(t)
	// Records that were never loaded.
	status, out, log := program(t, "run", "--url", s.url(), "--records", "30", "--threads", "2", "--seconds", "1")
	if status != exitFailed || out != "" || !strings.Contains(log, "in the warm-up: Update error") {
		t.Errorf("%d: %s%s", status, out, log)
	}
	s.close()
	status, out, log = program(t, "load", "--url", s.url()+"/?serverSelectionTimeoutMS=2000", "--records", "30", "--threads", "2")
	if status != exitFailed || out != "" || !strings.Contains(log, s.url()) || !strings.Contains(log, "refused") {
		t.Errorf("%d: %s%s", status, out, log)
	}
	status, out, log = program(t, "run", "--records", "30")
	if status != exitUsage || out != "" || !strings.Contains(log, "usage:") {
		t.Errorf("%d: %s%s", status, out, log)
	}
	status, out, log = program(t, "--help")
	if status != 0 || !bytes.Equal([]byte(out), []byte(usage)) || log != "" {
		t.Errorf("%d: %s%s", status, out, log)
	}
}
