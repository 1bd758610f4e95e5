// Latencies by the second in which the operations end.
//
// A thread writes to a recorder of its own, without a lock, as long as the second lasts. When it records
// in another second, and at its end, it adds what it has to the histogram that all threads share for that
// second. So memory grows with threads and with seconds, not with their product.
//
// The histograms are HdrHistogram's with two digits: a percentile is at most 1 % above the latency.
// Counts, means and maxima are exact.

package main

import (
	"math"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// The longest latency that has a place of its own; a longer one is counted there.
const latencyMax = time.Hour

// tally is what is known of some latencies.
type tally struct {
	histogram *hdrhistogram.Histogram
	sum, max  time.Duration
}

func newTally() *tally {
	return &tally{histogram: hdrhistogram.New(1, int64(latencyMax), 2)}
}

func (t *tally) add(latency time.Duration) {
	// It cannot fail: the value is within the bounds.
	_ = t.histogram.RecordValue(int64(min(max(latency, 1), latencyMax)))
	t.sum += latency
	t.max = max(t.max, latency)
}

func (t *tally) merge(other *tally) {
	t.histogram.Merge(other.histogram)
	t.sum += other.sum
	t.max = max(t.max, other.max)
}

func (t *tally) reset() {
	t.histogram.Reset()
	t.sum, t.max = 0, 0
}

func (t *tally) count() int64 { return t.histogram.TotalCount() }

// mean is 0 if there is no latency.
func (t *tally) mean() float64 {
	if t.count() == 0 {
		return 0
	}
	return float64(t.sum) / float64(t.count())
}

// percentile is at most 1 % above the latency of which `percent` are not longer, and never above the
// maximum.
func (t *tally) percentile(percent float64) int64 {
	return min(t.histogram.ValueAtQuantile(percent), int64(t.max))
}

// windows are the seconds of a run.
type windows struct {
	mutex   sync.Mutex
	seconds []*tally
}

// add merges what a thread has of a second.
func (w *windows) add(second int, part *tally) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for len(w.seconds) <= second {
		w.seconds = append(w.seconds, newTally())
	}
	w.seconds[second].merge(part)
}

// recorder is one thread's.
type recorder struct {
	into       *windows
	second     int
	part       *tally
	operations int64
	errors     int64
	firstError error
	// The end of the last operation, from the beginning of the measured part.
	last time.Duration
}

func newRecorder(into *windows) *recorder {
	return &recorder{into: into, part: newTally()}
}

// record counts an operation that ended `at` after the beginning of the measured part.
func (r *recorder) record(at, latency time.Duration, err error) {
	r.last = max(r.last, at)
	if err != nil {
		r.errors++
		if r.firstError == nil {
			r.firstError = err
		}
		return
	}
	if second := int(at / time.Second); second != r.second {
		r.flush()
		r.second = second
	}
	r.part.add(latency)
	r.operations++
}

// flush hands over what the recorder still has.
func (r *recorder) flush() {
	if r.part.count() > 0 {
		r.into.add(r.second, r.part)
		r.part.reset()
	}
}

// window is one second. One in which no operation ended has no latencies: they are 0.
type window struct {
	Second     int     `json:"second"`
	Operations int64   `json:"operations"`
	MeanNs     float64 `json:"mean_ns"`
	P999Ns     int64   `json:"p999_ns"`
	MaxNs      int64   `json:"max_ns"`
}

// result is the JSON object.
type result struct {
	Command string `json:"command"`
	Threads int    `json:"threads"`
	Records int64  `json:"records"`
	// Operations that succeeded, and others.
	Operations int64 `json:"operations"`
	Errors     int64 `json:"errors"`
	// The measured part, to the end of its last operation.
	Seconds        float64 `json:"seconds"`
	ThroughputPerS float64 `json:"throughput_per_s"`
	MeanNs         float64 `json:"mean_ns"`
	P50Ns          int64   `json:"p50_ns"`
	P99Ns          int64   `json:"p99_ns"`
	P999Ns         int64   `json:"p999_ns"`
	MaxNs          int64   `json:"max_ns"`
	// Operations of the slowest thread over the mean of all. With --operations all have the same share.
	SlowestOfMean float64 `json:"slowest_of_mean"`
	// The last one is shorter than a second.
	Windows []window `json:"windows"`
}

// summarise needs recorders that have been flushed.
func (w *windows) summarise(recorders []*recorder) result {
	total := newTally()
	r := result{Threads: len(recorders), Windows: []window{}}
	for second, t := range w.seconds {
		total.merge(t)
		r.Windows = append(r.Windows, window{second, t.count(), t.mean(), t.percentile(99.9), int64(t.max)})
	}
	slowest, last := int64(math.MaxInt64), time.Duration(0)
	for _, one := range recorders {
		r.Operations += one.operations
		r.Errors += one.errors
		slowest = min(slowest, one.operations)
		last = max(last, one.last)
	}
	r.Seconds = last.Seconds()
	if r.Operations > 0 {
		r.ThroughputPerS = float64(r.Operations) / r.Seconds
		r.SlowestOfMean = float64(slowest) * float64(len(recorders)) / float64(r.Operations)
	}
	r.MeanNs, r.MaxNs = total.mean(), int64(total.max)
	r.P50Ns, r.P99Ns, r.P999Ns = total.percentile(50), total.percentile(99), total.percentile(99.9)
	return r
}
