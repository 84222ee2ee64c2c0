// Package api answers HTTP requests with builds, whatever the wire format.
//
// [New] returns a [Server]. The packages of the wire formats (serve/openai,
// serve/anthropic, serve/ollama) add their routes with [Server.Handle]; each route
// translates a body to an [Ask], passes it to [Call.Answer], and writes the result in its
// own shape. This package holds what they share:
//
//   - who may ask: Host and Origin are checked against DNS rebinding and cross-site
//     requests, and bearer keys are compared by their hashes in constant time;
//   - how much: bodies, tokens, time, concurrent answers and waiting requests are bounded.
//     A request beyond the queue is refused at once with 429 and Retry-After;
//   - the end: a client that disconnects ends its work; [Server.Serve] drains;
//   - [Error], which each wire format writes in its own envelope;
//   - /health, /ready, /metrics and /openapi.json;
//   - mm's own endpoint ([MountInfer]) and the web page ([MountPage]), for cmd/mm to add.
//
// Clients are not trusted. A request never names a path of this machine.
package api

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/runtimes/runner"
)

// Answerer answers the requests of a model; [runner.Runner] implements it.
type Answerer interface {
	Answer(ctx context.Context, req runner.Request, emit func(text string) error) (*runner.Answer, error)
	Load(ctx context.Context) error
	Build() *builds.Build
}

// Lender is an [Answerer] that is loaded on use.
type Lender interface {
	// Lend returns the loaded model, which is not closed before leave is called.
	Lend(ctx context.Context) (a Answerer, leave func(), err error)
}

// Model is a build under the names that clients use.
type Model struct {
	Names    []string // the first is listed
	Answerer Answerer

	index int // in the list of the server
}

// Name returns the listed name.
func (m *Model) Name() string { return m.Names[0] }

// Load loads the model now, whatever else is loaded.
func (m *Model) Load(ctx context.Context) error {
	a, leave, err := m.lend(ctx)
	if err != nil {
		return err
	}
	defer leave()
	if _, ok := m.Answerer.(Lender); ok {
		return nil
	}
	return a.Load(ctx)
}

// lend returns the model, loaded if it is loaded on use.
func (m *Model) lend(ctx context.Context) (a Answerer, leave func(), err error) {
	if l, ok := m.Answerer.(Lender); ok {
		return l.Lend(ctx)
	}
	return m.Answerer, func() {}, nil
}

// Options configures a [Server].
type Options struct {
	Models  []Model
	Version string // of mm

	Keys    []Key    // one of which each request needs; none: no key
	Hosts   []string // host names of requests, in addition to localhost and addresses
	Origins []string // of web pages that may send requests

	Parallel int           // concurrent answers; 0: 16
	Queue    int           // requests that wait for them; 0: 64
	Body     int64         // bytes of a body; 0: 32 MiB
	Tokens   int           // of an answer; 0: 4,096
	Time     time.Duration // of an answer; 0: no limit

	HeaderTime time.Duration // for a client to send the headers of a request; 0: 10 s
	BodyTime   time.Duration // and its body; 0: 60 s

	// Now returns the time of answers; if nil, the clock's.
	Now func() time.Time
	// Random fills ids; if nil, from crypto/rand.
	Random func([]byte)
	// Log receives a line for each answered request; may be nil.
	Log func(line string)
	// Trace receives each request of a known path when it is answered; may be nil. It is
	// called concurrently and must not block.
	Trace func(Span)
	// Metrics are added to those of the server.
	Metrics []Metric
}

// Metric is a number that /metrics shows.
type Metric struct {
	Name, Help, Type string // the type is counter or gauge
	Value            func() int64
}

// The defaults of [Options].
const (
	defaultParallel = 16
	defaultQueue    = 64
	defaultBody     = 32 << 20
	defaultTokens   = 4096
	headerTime      = 10 * time.Second
	bodyTime        = 60 * time.Second
)

// Server answers requests. It is safe for concurrent use.
type Server struct {
	opt     Options
	mux     *http.ServeMux
	routes  map[string][]string // methods by pattern
	shapes  map[string]Shape    // by the prefix of paths
	metrics *metrics
	created int64

	slots    chan struct{} // a semaphore of concurrent answers
	waiting  atomic.Int64
	draining chan struct{} // closed when the server drains
	ready    atomic.Bool   // all models are loaded

	mu      sync.Mutex
	models  []*Model // replaced, never changed
	running map[*Call]context.CancelCauseFunc
	tasks   map[*Task]struct{}
	active  sync.WaitGroup
	drained bool
}

// New returns a server without routes of a wire format.
func New(opt Options) (*Server, error) {
	opt.Parallel, opt.Queue = cmp.Or(opt.Parallel, defaultParallel), cmp.Or(opt.Queue, defaultQueue)
	opt.Body, opt.Tokens = cmp.Or(opt.Body, defaultBody), cmp.Or(opt.Tokens, defaultTokens)
	opt.HeaderTime, opt.BodyTime = cmp.Or(opt.HeaderTime, headerTime), cmp.Or(opt.BodyTime, bodyTime)
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.Random == nil {
		opt.Random = func(b []byte) { _, _ = rand.Read(b) } // never fails
	}
	if err := checkOrigins(opt.Origins); err != nil {
		return nil, err
	}
	s := &Server{
		opt: opt, mux: http.NewServeMux(), routes: map[string][]string{}, shapes: map[string]Shape{}, metrics: newMetrics(),
		slots: make(chan struct{}, opt.Parallel), draining: make(chan struct{}), running: map[*Call]context.CancelCauseFunc{},
		tasks:   map[*Task]struct{}{},
		created: opt.Now().Unix(),
	}
	for _, m := range opt.Models {
		m.index = len(s.models)
		s.models = append(s.models, &m)
	}
	s.own()
	return s, nil
}

// Models returns the served models.
func (s *Server) Models() []*Model {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.models)
}

// Replace replaces the model at an index of [Options].Models. Requests that have not begun go
// to the new one.
func (s *Server) Replace(index int, m Model) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m.index = index
	s.models[index] = &m
}

// present returns the model that a request goes to: m, or the one that replaced it.
func (s *Server) present(m *Model) *Model {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.models[m.index]
}

// Created returns the time at which the server was made, in seconds.
func (s *Server) Created() int64 { return s.created }

// Version returns the version of mm.
func (s *Server) Version() string { return s.opt.Version }

// Ready reports whether the models that are loaded at start are loaded.
func (s *Server) Ready() bool { return s.ready.Load() }

// Model finds a model by one of its names. An empty name finds the only one.
func (s *Server) Model(name string) (*Model, error) {
	models := s.Models()
	if name == "" && len(models) == 1 {
		return models[0], nil
	}
	for _, wanted := range []string{name, strings.TrimSuffix(name, ":latest")} { // as Ollama's clients complete names
		for _, m := range models {
			if slices.Contains(m.Names, wanted) {
				return m, nil
			}
		}
	}
	if name == "" {
		return nil, Invalid("model", "no model is named")
	}
	names := make([]string, len(models))
	for i, m := range models {
		names[i] = m.Name()
	}
	return nil, &Error{Status: http.StatusNotFound, Kind: InvalidRequest, Param: "model", Code: "model_not_found", Message: "unknown model " + short(name) + ": the server has " + strings.Join(names, ", ")}
}

// short returns a client's text for a message.
func short(text string) string {
	const most = 80
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return `"` + text + `"`
}

// ID returns a random id with a prefix.
func (s *Server) ID(prefix string) string {
	var b [12]byte
	s.opt.Random(b[:])
	return prefix + hex.EncodeToString(b[:])
}

// Now returns the time of answers.
func (s *Server) Now() time.Time { return s.opt.Now() }

// Load loads all models; /ready answers 200 afterwards.
func (s *Server) Load(ctx context.Context) error {
	for _, m := range s.Models() {
		if err := m.Answerer.Load(ctx); err != nil {
			return err
		}
	}
	s.ready.Store(true)
	return nil
}
