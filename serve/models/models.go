// Package models loads the models of a server when they are used and replaces them by newer
// versions while requests run.
//
// A [Pool] holds models as far as [Options] allows. A request for a model that is not loaded
// loads it; requests that arrive meanwhile wait for the same load. Room is made by the model
// that was not used for the longest time: idle ones first, then one with running answers,
// which finish before it is closed, while new requests for it wait. [Pool.Replace] loads a
// newer version next to the present one and passes it all further requests.
package models

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/runner"
	"mm-abi.org/mm/serve/api"
)

// Instance is an opened model.
type Instance interface {
	api.Answerer
	Close() error
}

// Source opens a model of a verified build.
type Source struct {
	Build *builds.Build
	Bytes int64 // of its files
	Open  func(ctx context.Context) (Instance, error)
}

// Options limits the models that are loaded at a time. A model that is being replaced is not
// counted.
type Options struct {
	Loaded int   // 0: no limit
	Memory int64 // bytes of their files; 0: no limit
	// Log receives a line for each load, end and replacement; may be nil.
	Log func(line string)
}

// Pool holds models. It is safe for concurrent use.
type Pool struct {
	opt  Options
	ctx  context.Context
	stop context.CancelFunc
	work sync.WaitGroup
	turn chan struct{} // held by the load that waits for room

	mu      sync.Mutex
	models  []*Model
	held    int           // loaded, loading and closing ones
	bytes   int64         // of them
	leaving []*instance   // that wait for their answers, or close
	freed   chan struct{} // closed and replaced when room was freed
	used    uint64        // a clock of uses
	loads   int64
	ended   bool
	faults  []error // of closed instances
}

// Model is a model of a pool. It implements [api.Answerer].
type Model struct {
	pool *Pool
	src  Source

	// Guarded by the pool:
	inst *instance // nil: not loaded
	load *load     // nil: not loading
	next *Model    // that replaced it; nil: none
}

// instance is a loaded model.
type instance struct {
	Instance
	users int
	used  uint64
	bytes int64
	left  bool // gets no further requests
	name  string
}

// load is a load in progress, which any number of requests wait for.
type load struct {
	done    chan struct{}
	waiters int
	inst    *instance // nil: err
	err     error
}

// New returns an empty pool, whose loads end with ctx.
func New(ctx context.Context, opt Options) *Pool {
	if opt.Log == nil {
		opt.Log = func(string) {}
	}
	p := &Pool{opt: opt, turn: make(chan struct{}, 1), freed: make(chan struct{})}
	p.ctx, p.stop = context.WithCancel(ctx)
	return p
}

// Add adds a model, which is not loaded.
func (p *Pool) Add(src Source) (*Model, error) {
	if err := p.check(src); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	m := &Model{pool: p, src: src}
	p.models = append(p.models, m)
	return m, nil
}

// check reports a model that exceeds the memory on its own.
func (p *Pool) check(src Source) error {
	if p.opt.Memory > 0 && src.Bytes > p.opt.Memory {
		return fmt.Errorf("%s has %s, more than the memory for models, %s", id(src.Build), fsx.FormatSize(src.Bytes), fsx.FormatSize(p.opt.Memory))
	}
	return nil
}

// id returns the name and version of a build.
func id(b *builds.Build) string {
	if b.Assembly.Version == "" {
		return b.Assembly.Name
	}
	return b.Assembly.Name + ":" + b.Assembly.Version
}

// Loaded returns the number of loaded models.
func (p *Pool) Loaded() (n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.models {
		if m.inst != nil {
			n++
		}
	}
	return n
}

// Loads returns the number of loads since the start.
func (p *Pool) Loads() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.loads
}

// Build returns the build.
func (m *Model) Build() *builds.Build { return m.src.Build }

// Load loads the model unless that would exceed the limits of the pool.
func (m *Model) Load(ctx context.Context) error {
	p := m.pool
	p.mu.Lock()
	fits := p.fits(m.src.Bytes)
	p.mu.Unlock()
	if !fits {
		return nil
	}
	_, leave, err := m.Lend(ctx)
	if err == nil {
		leave()
	}
	return err
}

// Answer loads the model if necessary and answers.
func (m *Model) Answer(ctx context.Context, req runner.Request, emit func(text string) error) (*runner.Answer, error) {
	a, leave, err := m.Lend(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	return a.Answer(ctx, req, emit)
}

// Lend returns the loaded model, which is not closed before leave is called. A replaced model
// lends the one that replaced it.
func (m *Model) Lend(ctx context.Context) (a api.Answerer, leave func(), err error) {
	p := m.pool
	p.mu.Lock()
	for m.next != nil {
		m = m.next
	}
	if p.ended {
		p.mu.Unlock()
		return nil, nil, runtimes.ErrClosed
	}
	if i := m.inst; i != nil {
		p.use(i, 1)
		p.mu.Unlock()
		return i.Instance, func() { p.leave(i) }, nil
	}
	l := p.loading(m)
	l.waiters++
	p.mu.Unlock()
	select {
	case <-l.done:
	case <-ctx.Done():
		p.abandon(l)
		return nil, nil, context.Cause(ctx)
	}
	if l.err != nil {
		return nil, nil, l.err
	}
	return l.inst.Instance, func() { p.leave(l.inst) }, nil
}

// use counts users of an instance.
func (p *Pool) use(i *instance, n int) {
	p.used++
	i.users, i.used = i.users+n, p.used
}

// abandon leaves a load that its request does not wait for any longer.
func (p *Pool) abandon(l *load) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-l.done:
		if l.inst != nil {
			p.drop(l.inst)
		}
	default:
		l.waiters--
	}
}

// leave ends a use of an instance.
func (p *Pool) leave(i *instance) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop(i)
}

// drop ends a use; the last one closes an instance that gets no further requests.
func (p *Pool) drop(i *instance) {
	if i.users--; i.users == 0 && i.left {
		p.shut(i)
	}
}

// failed returns the error of a load for clients, who may try again.
func failed(b *builds.Build, err error) error {
	var typed *api.Error
	var gone *runtimes.Unavailable
	if errors.As(err, &typed) || errors.As(err, &gone) || errors.Is(err, runtimes.ErrClosed) {
		return err
	}
	return &api.Error{
		Status: http.StatusServiceUnavailable, Kind: api.Internal, Code: "model_not_loaded", Retry: retryTime,
		Message: "loading " + id(b) + ": " + err.Error(),
	}
}

// retryTime is the time after which a failed load may be tried again.
const retryTime = 5 * time.Second
