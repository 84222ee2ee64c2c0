package api

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"
)

// bounds are those of the histograms, in seconds.
var bounds = [...]float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60}

// histogram counts times.
type histogram struct {
	counts [len(bounds)]uint64 // at most the bound
	count  uint64
	sum    float64
}

func (h *histogram) add(d time.Duration) {
	x := d.Seconds()
	h.count, h.sum = h.count+1, h.sum+x
	for i, b := range bounds {
		if x <= b {
			h.counts[i]++
		}
	}
}

// metrics are the counters of a server.
type metrics struct {
	mu       sync.Mutex
	requests map[[2]string]uint64 // by path and status
	counts   map[string]uint64    // by name
	times    map[string]*histogram
}

func newMetrics() *metrics {
	return &metrics{requests: map[[2]string]uint64{}, counts: map[string]uint64{}, times: map[string]*histogram{
		"mm_first_token_seconds": {}, "mm_queue_seconds": {},
	}}
}

func (m *metrics) count(name string, n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counts[name] += uint64(n)
}

func (m *metrics) time(name string, d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.times[name].add(d)
}

func (m *metrics) first(d time.Duration)  { m.time("mm_first_token_seconds", d) }
func (m *metrics) queued(d time.Duration) { m.time("mm_queue_seconds", d) }
func (m *metrics) cancelled()             { m.count("mm_cancelled_total", 1) }
func (m *metrics) failed()                { m.count("mm_stream_errors_total", 1) }

func (m *metrics) answered(path string, status int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.requests[[2]string{path, strconv.Itoa(status)}]++
}

func (m *metrics) tokens(prompt, cached, generated int) {
	m.count("mm_prompt_tokens_total", prompt)
	m.count("mm_cached_tokens_total", cached)
	m.count("mm_generated_tokens_total", generated)
}

// counters are the counters without labels, and what they count.
var counters = [...][2]string{
	{"mm_prompt_tokens_total", "Tokens of prompts, cached ones included."},
	{"mm_cached_tokens_total", "Tokens of prompts that were cached."},
	{"mm_generated_tokens_total", "Generated tokens."},
	{"mm_cancelled_total", "Answers that ended because the client disconnected."},
	{"mm_stream_errors_total", "Streams that ended with an error event."},
}

// write writes the metrics in the text format of Prometheus.
func (m *metrics) write(w io.Writer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	fmt.Fprint(w, "# HELP mm_requests_total Requests by path and status.\n# TYPE mm_requests_total counter\n")
	keys := slices.SortedFunc(maps.Keys(m.requests), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) })
	for _, k := range keys {
		fmt.Fprintf(w, "mm_requests_total{path=%q,status=%q} %d\n", k[0], k[1], m.requests[k])
	}
	for _, c := range counters {
		fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s counter\n%s %d\n", c[0], c[1], c[0], c[0], m.counts[c[0]])
	}
	m.writeTimes(w, "mm_first_token_seconds", "Time from the request to the first text, waiting included.")
	m.writeTimes(w, "mm_queue_seconds", "Time that a request waited for a place.")
}

func (m *metrics) writeTimes(w io.Writer, name, help string) {
	h := m.times[name]
	fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s histogram\n", name, help, name)
	for i, b := range bounds {
		fmt.Fprintf(w, "%s_bucket{le=%q} %d\n", name, strconv.FormatFloat(b, 'g', -1, 64), h.counts[i])
	}
	fmt.Fprintf(w, "%s_bucket{le=\"+Inf\"} %d\n%s_sum %g\n%s_count %d\n", name, h.count, name, h.sum, name, h.count)
}
