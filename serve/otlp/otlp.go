// Package otlp exports the requests of mm serve as traces of OpenTelemetry, by the
// protocol OTLP over HTTP in JSON.
//
// The standard environment variables configure it: OTEL_EXPORTER_OTLP_ENDPOINT and
// OTEL_EXPORTER_OTLP_TRACES_ENDPOINT name the collector; without either, nothing is
// exported. Spans are sent in batches in the background; a collector that is slow or
// absent costs spans, which are counted, and never an answer.
package otlp

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"mm-abi.org/mm/serve/api"
)

// The limits of what waits to be sent.
const (
	maxWaiting = 2048 // spans; more are dropped
	batch      = 256
	every      = 5 * time.Second
	sendTime   = 10 * time.Second
	maxReply   = 64 << 10
)

// Exporter sends spans. It is safe for concurrent use.
type Exporter struct {
	cfg     config
	client  *http.Client
	spans   chan api.Span
	stop    chan struct{}
	done    sync.WaitGroup
	random  func([]byte)
	dropped atomic.Int64
	failed  func(error)
}

// Options configures an Exporter.
type Options struct {
	Version string
	// Env returns an environment variable, such as os.Getenv.
	Env func(string) string
	// Failed receives the error of a batch that was not sent; may be nil.
	Failed func(error)
}

// New returns an exporter, or nil if the environment names no collector.
func New(opt Options) (*Exporter, error) {
	cfg, err := configOf(opt.Env, opt.Version)
	if err != nil || cfg.url == "" {
		return nil, err
	}
	e := &Exporter{
		cfg: cfg, spans: make(chan api.Span, maxWaiting), stop: make(chan struct{}), failed: opt.Failed,
		client: &http.Client{Timeout: sendTime, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
		random: func(b []byte) { _, _ = rand.Read(b) }, // never fails
	}
	if e.failed == nil {
		e.failed = func(error) {}
	}
	e.done.Go(e.run)
	return e, nil
}

// Record adds a span, unless the sampler leaves it out or too many wait.
func (e *Exporter) Record(s api.Span) {
	if s.Parent.Known() && !s.Parent.Sampled && e.cfg.parent {
		return
	}
	select {
	case e.spans <- s:
	default:
		e.dropped.Add(1)
	}
}

// Dropped returns the number of spans that were not sent.
func (e *Exporter) Dropped() int64 { return e.dropped.Load() }

// Close sends what waits and ends the exporter.
func (e *Exporter) Close() {
	close(e.stop)
	e.done.Wait()
}

// run sends batches until the exporter is closed.
func (e *Exporter) run() {
	tick := time.NewTicker(every)
	defer tick.Stop()
	var list []api.Span
	flush := func() {
		if len(list) > 0 {
			e.send(list)
			list = list[:0]
		}
	}
	for {
		select {
		case s := <-e.spans:
			if list = append(list, s); len(list) == batch {
				flush()
			}
		case <-tick.C:
			flush()
		case <-e.stop:
			for {
				select {
				case s := <-e.spans:
					list = append(list, s)
					continue
				default:
				}
				break
			}
			flush()
			return
		}
	}
}

// send posts a batch once.
func (e *Exporter) send(list []api.Span) {
	data := e.encode(list)
	if data == nil {
		return
	}
	ctx, stop := context.WithTimeout(context.Background(), sendTime)
	defer stop()
	if err := e.post(ctx, data); err != nil {
		e.dropped.Add(int64(len(list)))
		e.failed(fmt.Errorf("sending %d spans: %w", len(list), err))
	}
}

func (e *Exporter) post(ctx context.Context, data []byte) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, e.cfg.url, bytes.NewReader(data))
	if err != nil {
		return err
	}
	for k, v := range e.cfg.headers {
		r.Header.Set(k, v)
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := e.client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, io.LimitReader(resp.Body, maxReply)); err != nil {
		return err
	}
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("%s: got status %d, want 2xx", e.cfg.url, resp.StatusCode)
	}
	return nil
}

// encode returns a request of the protocol; nil if the sampler leaves out all spans.
func (e *Exporter) encode(list []api.Span) []byte {
	var spans []span
	for _, s := range list {
		if one, ok := e.span(s); ok {
			spans = append(spans, one)
		}
	}
	if len(spans) == 0 {
		return nil
	}
	body := map[string]any{"resourceSpans": []any{map[string]any{
		"resource":   map[string]any{"attributes": e.cfg.resource},
		"scopeSpans": []any{map[string]any{"scope": map[string]any{"name": "mm serve", "version": e.cfg.version}, "spans": spans}},
	}}}
	data, err := json.Marshal(body)
	if err != nil {
		panic(err) // strings and numbers always encode
	}
	return data
}

// sampled reports whether a trace is sampled by its id, as TraceIDRatioBased does.
func (c *config) sampled(trace [16]byte) bool {
	return float64(binary.BigEndian.Uint64(trace[8:])>>1) < c.ratio*(1<<63)
}
