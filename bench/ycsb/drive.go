// Threads that operate, and the database whose calls are timed.

package main

import (
	"context"
	"fmt"
	"io"
	"math/rand"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/magiconair/properties"
	_ "github.com/pingcap/go-ycsb/db/mongodb" // registers the binding
	"github.com/pingcap/go-ycsb/pkg/prop"
	_ "github.com/pingcap/go-ycsb/pkg/workload" // registers the core workload
	"github.com/pingcap/go-ycsb/pkg/ycsb"
)

// run is what the threads share.
type run struct {
	options
	db       ycsb.DB
	workload ycsb.Workload
	windows  windows
	// The clock of the run, from its creation on.
	created time.Time
	// When the measured part began, on this clock in ns; 0: it has not.
	begun atomic.Int64
	// The first error of the warm-up, or of loading.
	fatal chan error
}

// timed is a thread's database: the binding with a clock around what the workload calls.
type timed struct {
	ycsb.DB
	run      *run
	recorder *recorder
	// Operations that ended, for the warm-up.
	ended atomic.Int64
}

// around runs an operation. It is measured if the measured part had begun before it did.
func (t *timed) around(operation func() error) error {
	begun, start := t.run.begun.Load(), time.Since(t.run.created)
	err := operation()
	end := time.Since(t.run.created)
	if begun > 0 {
		t.recorder.record(end-time.Duration(begun), end-start, err)
	}
	if err != nil && (t.run.begun.Load() == 0 || t.run.load) {
		select {
		case t.run.fatal <- err:
		default:
		}
	}
	t.ended.Add(1)
	return err
}

func (t *timed) Read(ctx context.Context, table, key string, fields []string) (row map[string][]byte, err error) {
	err = t.around(func() error {
		row, err = t.DB.Read(ctx, table, key, fields)
		return err
	})
	return row, err
}

func (t *timed) Update(ctx context.Context, table, key string, values map[string][]byte) error {
	return t.around(func() error { return t.DB.Update(ctx, table, key, values) })
}

func (t *timed) Insert(ctx context.Context, table, key string, values map[string][]byte) error {
	return t.around(func() error { return t.DB.Insert(ctx, table, key, values) })
}

// settings are the options in go-ycsb's words.
func (o *options) settings() *properties.Properties {
	records := o.records
	if !o.load && o.distribution == "zipfian" {
		// go-ycsb's zipfian generator draws numbers from 0 to the number of records, both included.
		records--
	}
	// It was checked with the options.
	address, _ := o.address()
	p := properties.NewProperties()
	for name, value := range map[string]string{
		"mongodb.url":            address,
		prop.ThreadCount:         strconv.Itoa(o.threads),
		prop.RecordCount:         strconv.FormatInt(records, 10),
		prop.FieldCount:          strconv.Itoa(fieldCount),
		prop.FieldLength:         strconv.FormatInt(o.valueBytes/fieldCount, 10),
		prop.ReadProportion:      strconv.FormatFloat(o.readProportion, 'g', -1, 64),
		prop.UpdateProportion:    strconv.FormatFloat(o.updateProportion, 'g', -1, 64),
		prop.RequestDistribution: o.distribution,
	} {
		// It cannot fail: no value refers to another one.
		_, _, _ = p.Set(name, value)
	}
	return p
}

// drive loads or runs, and says on `log` when the measured part begins.
func drive(o options, log io.Writer) (result, error) {
	settings := o.settings()
	db, err := ycsb.GetDBCreator("mongodb").Create(settings)
	if err != nil {
		return result{}, fmt.Errorf("%s: no server that answers: %w", o.url, err)
	}
	defer db.Close()
	workload, err := ycsb.GetWorkloadCreator("core").Create(settings)
	if err != nil {
		return result{}, err
	}
	r := &run{options: o, db: db, workload: workload, created: time.Now(), fatal: make(chan error, 1)}
	return r.all(log)
}

// all starts the threads, waits for them, and adds up.
func (r *run) all(log io.Writer) (result, error) {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var threads sync.WaitGroup
	recorders, databases := make([]*recorder, r.threads), make([]*timed, r.threads)
	for i := range r.threads {
		recorders[i] = newRecorder(&r.windows)
		databases[i] = &timed{DB: r.db, run: r, recorder: recorders[i]}
	}
	if r.load {
		r.begun.Store(max(1, int64(time.Since(r.created))))
	}
	for i, db := range databases {
		threads.Add(1)
		go func() {
			defer threads.Done()
			r.thread(ctx, i, db)
		}()
	}
	done := make(chan struct{})
	go func() {
		threads.Wait()
		close(done)
	}()
	if !r.load {
		if err := r.warm(databases); err != nil {
			return result{}, err
		}
		fmt.Fprintln(log, `{"warm": true}`)
	}
	select {
	case <-done:
	case err := <-r.fatal:
		return result{}, err
	}
	// The last thread may have failed just before it ended.
	select {
	case err := <-r.fatal:
		return result{}, err
	default:
	}
	return r.conclude(recorders, log)
}

// warm returns when the warm-up is over and each thread has ended an operation, and begins the measured
// part.
func (r *run) warm(databases []*timed) error {
	over := time.After(seconds(r.warmUp))
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for missing := databases; ; {
		select {
		case err := <-r.fatal:
			return fmt.Errorf("in the warm-up: %w", err)
		case <-over:
			over = nil
		case <-poll.C:
			for len(missing) > 0 && missing[0].ended.Load() > 0 {
				missing = missing[1:]
			}
		}
		if over == nil && len(missing) == 0 {
			r.begun.Store(int64(time.Since(r.created)))
			return nil
		}
	}
}

// conclude adds up what the threads recorded.
func (r *run) conclude(recorders []*recorder, log io.Writer) (result, error) {
	for _, one := range recorders {
		one.flush()
	}
	found := r.windows.summarise(recorders)
	found.Records = r.records
	found.Command = "run"
	if r.load {
		found.Command = "load"
	}
	for _, one := range recorders {
		if one.firstError == nil {
			continue
		}
		if found.Operations == 0 {
			return found, fmt.Errorf("no operation succeeded: %w", one.firstError)
		}
		fmt.Fprintf(log, "ycsb: %d operations failed; one of them: %v\n", found.Errors, one.firstError)
		break
	}
	return found, nil
}

// share is how many of `all` belong to a thread, as YCSB divides them.
func (o *options) share(all int64, thread int) int64 {
	part := all / int64(o.threads)
	if int64(thread) < all%int64(o.threads) {
		part++
	}
	return part
}

// thread operates until it has its share, or its time is over.
func (r *run) thread(ctx context.Context, number int, db *timed) {
	ctx = r.workload.InitThread(ctx, number, r.threads)
	ctx = db.InitThread(ctx, number, r.threads)
	defer r.workload.CleanupThread(ctx)
	defer db.CleanupThread(ctx)
	// Errors are counted where the operation is timed.
	if r.load {
		for range r.share(r.records, number) {
			if r.workload.DoInsert(ctx, db) != nil {
				return
			}
		}
		return
	}
	thinks := rand.New(rand.NewSource(int64(number) + 1))
	for r.begun.Load() == 0 && ctx.Err() == nil {
		_ = r.workload.DoTransaction(ctx, db)
		r.think(thinks)
	}
	share, end := r.share(r.operations, number), time.Duration(r.begun.Load())+seconds(r.seconds)
	for done := int64(0); ctx.Err() == nil; done++ {
		// A thread that the last operation of its warm-up held up for all that time measures one.
		isOver := r.operations == 0 && done > 0 && time.Since(r.created) >= end
		if isOver || r.operations > 0 && done == share {
			return
		}
		_ = r.workload.DoTransaction(ctx, db)
		r.think(thinks)
	}
}

// think sleeps in the system: the runtime's own timers are as coarse as a millisecond where all threads
// sleep.
func (r *run) think(random *rand.Rand) {
	if r.thinkUs == 0 {
		return
	}
	left := syscall.NsecToTimespec(int64(random.ExpFloat64() * r.thinkUs * 1000))
	// A signal interrupts it, and it goes on with what is left.
	for syscall.Nanosleep(&left, &left) == syscall.EINTR {
	}
}
