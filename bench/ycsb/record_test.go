// Percentiles, and the windows in which operations count.

package main

import (
	"errors"
	"math"
	"math/rand"
	"slices"
	"sync"
	"testing"
	"time"
)

func TestPercentilesAreOnePercentAboveAtMost(t *testing.T) {
	for _, scale := range []float64{1e3, 1e6, 1e9, 1e12} {
		random := rand.New(rand.NewSource(int64(scale)))
		of, values := newTally(), make([]int64, 10000)
		for i := range values {
			values[i] = 1 + int64(random.Float64()*scale)
			of.add(time.Duration(values[i]))
		}
		slices.Sort(values)
		for _, percent := range []float64{1, 50, 99, 99.9, 100} {
			exact := values[int(math.Round(percent/100*float64(len(values))))-1]
			found := of.percentile(percent)
			if found < exact || float64(found) > float64(exact)*1.01 {
				t.Errorf("p%g is %d, not %d", percent, found, exact)
			}
		}
		if of.percentile(100) != values[len(values)-1] || int64(of.max) != values[len(values)-1] {
			t.Error("the maximum is exact")
		}
	}
}

func TestLatenciesBeyondTheBoundsAreCounted(t *testing.T) {
	of := newTally()
	of.add(0)
	of.add(10 * latencyMax)
	if of.count() != 2 || of.max != 10*latencyMax || of.mean() != float64(5*latencyMax) {
		t.Errorf("%d, %v, %g", of.count(), of.max, of.mean())
	}
}

func TestAnOperationCountsInTheSecondInWhichItEnds(t *testing.T) {
	var w windows
	a, b := newRecorder(&w), newRecorder(&w)
	a.record(10*time.Millisecond, 10*time.Millisecond, nil)
	a.record(999*time.Millisecond, 30*time.Millisecond, nil)
	a.record(time.Second, 500*time.Millisecond, nil)
	// Nothing ends in the third second, and this one takes longer than it.
	b.record(3500*time.Millisecond, 2*time.Second, nil)
	b.record(3600*time.Millisecond, time.Second, errors.New("first"))
	b.record(4*time.Second, time.Second, errors.New("second"))
	a.flush()
	b.flush()
	b.flush()
	found := w.summarise([]*recorder{a, b})
	want := []window{
		{0, 2, 20e6, 30e6, 30e6},
		{1, 1, 500e6, 500e6, 500e6},
		{2, 0, 0, 0, 0},
		{3, 1, 2e9, 2e9, 2e9},
	}
	if !slices.Equal(found.Windows, want) {
		t.Errorf("%+v", found.Windows)
	}
	if found.Operations != 4 || found.Errors != 2 || found.Seconds != 4 || found.ThroughputPerS != 1 {
		t.Errorf("%+v", found)
	}
	if found.SlowestOfMean != 0.5 || found.MaxNs != 2e9 || found.MeanNs != 635e6 {
		t.Errorf("%+v", found)
	}
	if b.firstError.Error() != "first" {
		t.Error(b.firstError)
	}
}

func TestRecordersMayWriteAtTheSameTime(t *testing.T) {
	var w windows
	var threads sync.WaitGroup
	recorders := make([]*recorder, 8)
	for i := range recorders {
		recorders[i] = newRecorder(&w)
		threads.Add(1)
		go func() {
			defer threads.Done()
			for n := range 1000 {
				recorders[i].record(time.Duration(n)*10*time.Millisecond, time.Duration(i+1), nil)
			}
			recorders[i].flush()
		}()
	}
	threads.Wait()
	found := w.summarise(recorders)
	if len(found.Windows) != 10 || found.Operations != 8000 || found.SlowestOfMean != 1 {
		t.Errorf("%+v", found)
	}
	for _, one := range found.Windows {
		if one.Operations != 800 || one.MaxNs != 8 || one.MeanNs != 4.5 {
			t.Errorf("%+v", one)
		}
	}
}
