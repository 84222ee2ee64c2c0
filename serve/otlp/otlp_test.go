package otlp

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/serve/api"
)

// collector keeps what it receives.
type collector struct {
	mu     sync.Mutex
	bodies []string
	heads  []http.Header
	status int
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	data, _ := io.ReadAll(r.Body)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bodies, c.heads = append(c.bodies, r.URL.Path+" "+string(data)), append(c.heads, r.Header)
	if c.status != 0 {
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(c.status)
	}
}

func begin(t *testing.T, c *collector, env map[string]string) *Exporter {
	t.Helper()
	srv := httptest.NewServer(c)
	t.Cleanup(srv.Close)
	e, err := New(Options{Version: "1.2.3", Env: func(k string) string {
		if k == "OTEL_EXPORTER_OTLP_ENDPOINT" {
			return srv.URL + "/"
		}
		return env[k]
	}})
	if err != nil {
		t.Fatal(err)
	}
	e.random = func(b []byte) { b[len(b)-1] = 7 }
	return e
}

func example() api.Span {
	at := time.Unix(1700000000, 5)
	return api.Span{
		Method: "POST", Route: "/v1/chat/completions", Status: 200, Model: "p-lite:0.1.0", RequestID: "req_1", Begin: at, End: at.Add(2 * time.Second),
		Queued: time.Second / 4, First: time.Second / 2, Prompt: 5, Cached: 2, Generated: 3,
	}
}

// A span has the names of OpenTelemetry's conventions, and what waits is sent at the end.
func TestExport(t *testing.T) {
	c := &collector{}
	e := begin(t, c, map[string]string{
		"OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20x", "OTEL_SERVICE_NAME": "desk", "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=test",
	})
	e.Record(example())
	s := example()
	s.Status, s.Parent = 503, api.Parent{Trace: [16]byte{1}, Span: [8]byte{2}, Sampled: true}
	e.Record(s)
	s.Parent.Sampled = false
	e.Record(s)
	e.Close()
	if len(c.bodies) != 1 || c.heads[0].Get("Authorization") != "Bearer x" || c.heads[0].Get("Content-Type") != "application/json" {
		t.Fatalf("got %q, %v", c.bodies, c.heads)
	}
	body, ok := strings.CutPrefix(c.bodies[0], "/v1/traces ")
	if !ok {
		t.Fatal(c.bodies[0])
	}
	var got struct {
		ResourceSpans []struct {
			Resource   struct{ Attributes []attribute }
			ScopeSpans []struct{ Spans []span }
		}
	}
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]attribute{text("deployment.environment.name", "test"), text("service.name", "desk"), text("service.version", "1.2.3")}, got.ResourceSpans[0].Resource.Attributes); d != "" {
		t.Error(d)
	}
	spans := got.ResourceSpans[0].ScopeSpans[0].Spans
	if len(spans) != 2 {
		t.Fatalf("got %d spans, want 2", len(spans))
	}
	want := span{
		TraceID: "00000000000000000000000000000007", SpanID: "0000000000000007", Name: "chat p-lite:0.1.0", Kind: 2, Start: "1700000000000000005", End: "1700000002000000005",
		Attributes: []attribute{
			text("http.request.method", "POST"), text("http.route", "/v1/chat/completions"), number("http.response.status_code", 200), text("mm.request.id", "req_1"),
			text("gen_ai.provider.name", "mm"), text("gen_ai.request.model", "p-lite:0.1.0"), seconds("mm.queue.seconds", time.Second/4), text("gen_ai.operation.name", "chat"),
			number("gen_ai.usage.input_tokens", 5), number("gen_ai.usage.output_tokens", 3), number("mm.usage.cached_tokens", 2), seconds("gen_ai.server.time_to_first_token", time.Second/2),
		},
		Events: []event{{"1700000000500000005", "first text"}},
	}
	if d := cmp.Diff(want, spans[0]); d != "" {
		t.Error(d)
	}
	if s := spans[1]; s.TraceID != "01"+strings.Repeat("0", 30) || s.ParentID != "02"+strings.Repeat("0", 14) || s.Status.Code != 2 {
		t.Errorf("got %+v", s)
	}
}

// The sampler decides about traces that begin here.
func TestSampler(t *testing.T) {
	for name, c := range map[string]struct {
		sampler, arg string
		parent       api.Parent
		want         int
	}{
		"off":                      {"always_off", "", api.Parent{}, 0},
		"parent":                   {"parentbased_always_off", "", api.Parent{Trace: [16]byte{1}, Sampled: true}, 1},
		"parent, not sampled":      {"parentbased_always_on", "", api.Parent{Trace: [16]byte{1}}, 0},
		"without parents, sampled": {"always_on", "", api.Parent{Trace: [16]byte{1}}, 1},
		"ratio 0":                  {"traceidratio", "0", api.Parent{}, 0},
		"ratio 1":                  {"traceidratio", "1", api.Parent{}, 1},
	} {
		col := &collector{}
		e := begin(t, col, map[string]string{"OTEL_TRACES_SAMPLER": c.sampler, "OTEL_TRACES_SAMPLER_ARG": c.arg})
		s := example()
		s.Parent = c.parent
		e.Record(s)
		e.Close()
		if len(col.bodies) != c.want {
			t.Errorf("%s: got %d requests, want %d", name, len(col.bodies), c.want)
		}
	}
}

// Spans beyond the limit, and those of a collector that refuses or redirects, are
// counted as dropped.
func TestDropped(t *testing.T) {
	for _, status := range []int{http.StatusInternalServerError, http.StatusTemporaryRedirect} {
		c := &collector{status: status}
		e := begin(t, c, nil)
		e.Record(example())
		e.Close()
		if e.Dropped() != 1 || len(c.bodies) != 1 {
			t.Errorf("status %d: got %d dropped and %d requests, want 1 and 1", status, e.Dropped(), len(c.bodies))
		}
	}
	e := &Exporter{spans: make(chan api.Span, maxWaiting)}
	for range maxWaiting {
		e.Record(example())
	}
	if e.Dropped() != 0 {
		t.Errorf("got %d dropped of %d, want 0", e.Dropped(), maxWaiting)
	}
	if e.Record(example()); e.Dropped() != 1 {
		t.Errorf("got %d dropped, want 1", e.Dropped())
	}
}

// Variables that cannot be honored are refused by name.
func TestConfig(t *testing.T) {
	const at = "OTEL_EXPORTER_OTLP_ENDPOINT"
	for _, c := range []struct {
		env       map[string]string
		url, want string
	}{
		{nil, "", ""},
		{map[string]string{at: "http://c:4318"}, "http://c:4318/v1/traces", ""},
		{map[string]string{at: "http://c:4318", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "https://d/x"}, "https://d/x", ""},
		{map[string]string{at: "http://c", "OTEL_SDK_DISABLED": "true"}, "", ""},
		{map[string]string{at: "http://c", "OTEL_TRACES_EXPORTER": "none"}, "", ""},
		{map[string]string{at: "c:4317"}, "", "OTEL_EXPORTER_OTLP_ENDPOINT"},
		{map[string]string{at: "http://c", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "", "OTEL_EXPORTER_OTLP_PROTOCOL"},
		{map[string]string{at: "http://c", "OTEL_TRACES_EXPORTER": "zipkin"}, "", "OTEL_TRACES_EXPORTER"},
		{map[string]string{at: "http://c", "OTEL_EXPORTER_OTLP_HEADERS": "a"}, "", "OTEL_EXPORTER_OTLP_HEADERS"},
		{map[string]string{at: "http://c", "OTEL_EXPORTER_OTLP_HEADERS": "a=b%0d%0ac"}, "", "OTEL_EXPORTER_OTLP_HEADERS"},
		{map[string]string{at: "http://c", "OTEL_TRACES_SAMPLER": "xray"}, "", "OTEL_TRACES_SAMPLER"},
		{map[string]string{at: "http://c", "OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "2"}, "", "OTEL_TRACES_SAMPLER_ARG"},
	} {
		got, err := configOf(func(k string) string { return c.env[k] }, "1")
		switch {
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%v: got %v, want %s", c.env, err, c.want)
		case c.want == "" && (err != nil || got.url != c.url):
			t.Errorf("%v: got %q, %v, want %q", c.env, got.url, err, c.url)
		}
	}
}
