// Package runner answers requests with an assembled build.
//
// [Open] chooses the engine for the core; the first answer loads the model,
// and no later one does. [Runner.Answer] renders the request (runtimes/talk),
// takes a sequence that begins as the request does, so that only what is new
// is read, feeds the rest, generates, and reads the tokens: text, reasoning
// and tool calls. A [Conversation] is the turns so far, on a Runner that any
// number of conversations may share.
package runner

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/talk"
)

// Options is how a build is run.
type Options struct {
	Engines []runtimes.Engine // the preferred one first
	Engine  string            // the one to take; "": the first that can
	Limits  runtimes.Limits
	Raw     bool // without the model's chat template
	NoDraft bool // without the build's draft core

	// Sequences is how many conversations are kept ready to go on; 0: 4.
	Sequences int
	// Project gives the vectors of an input that is no text, n × d_model; nil:
	// such inputs are refused.
	Project func(ctx context.Context, part talk.Part) ([]float32, error)
}

// Runner runs one build. It is safe for concurrent use.
type Runner struct {
	build  *builds.Build
	opt    Options
	engine runtimes.Engine

	loading sync.Mutex // held while the model is loaded
	model   runtimes.Language
	talk    *talk.Talk
	load    time.Duration // of an answer that has not told it yet

	mu     sync.Mutex
	idle   []*session // the one used last at the end
	closed bool
}

// Open chooses the engine of a build's core. Nothing is loaded yet.
func Open(ctx context.Context, b *builds.Build, opt Options) (*Runner, error) {
	if err := opt.Limits.Check(); err != nil {
		return nil, err
	}
	if opt.Sequences == 0 {
		opt.Sequences = 4
	}
	e, err := runtimes.Select(ctx, opt.Engines, opt.Engine, b.Assembly.Core)
	if err != nil {
		return nil, err
	}
	return &Runner{build: b, opt: opt, engine: e}, nil
}

// Build is what is run.
func (r *Runner) Build() *builds.Build { return r.build }

// Engine is what runs the core.
func (r *Runner) Engine() runtimes.Engine { return r.engine }

// Load loads the model, unless it is loaded. Answer calls it.
func (r *Runner) Load(ctx context.Context) error {
	r.loading.Lock()
	defer r.loading.Unlock()
	if r.ended() {
		return fmt.Errorf("the runner is %w", runtimes.ErrClosed)
	}
	if r.model != nil {
		return nil
	}
	start := time.Now()
	core := r.bundle()
	t, err := conversant(core, r.opt.Raw, r.build.Assembly.Router)
	if err != nil {
		return fmt.Errorf("reading the tokenizer of %s: %w", core.Part.ID(), err)
	}
	model, err := r.engine.Open(ctx, core, r.opt.Limits)
	if err != nil {
		return fmt.Errorf("opening %s with backend %s: %w", core.Part.ID(), r.engine.Name(), err)
	}
	language, ok := model.(runtimes.Language)
	if !ok {
		return errors.Join(fmt.Errorf("backend %s opens %s as no language model", r.engine.Name(), core.Part.ID()), model.Close())
	}
	r.model, r.talk, r.load = language, t, time.Since(start)
	return nil
}

// bundle is the core with all that works on it.
func (r *Runner) bundle() runtimes.Bundle {
	a := r.build.Assembly
	part := func(p builds.Part) runtimes.Bundle {
		return runtimes.Bundle{Part: p, Manifest: r.build.Manifests[p.Name], Files: r.build.Files}
	}
	b := part(a.Core)
	b.Tokens, b.KV = a.Tokens, a.KV
	if a.Draft != nil && !r.opt.NoDraft {
		d := part(*a.Draft)
		b.Draft, b.DraftTokens = &d, a.DraftTokens
	}
	for _, ad := range a.Adapters {
		b.Adapters = append(b.Adapters, runtimes.Adapter{Bundle: part(ad.Part), Scale: ad.Scale})
	}
	return b
}

// conversant reads tokenizer and chat template out of the core's GGUF file.
// It is nil for a model that has none and works on ids alone.
func conversant(core runtimes.Bundle, raw bool, router *builds.RouterPart) (*talk.Talk, error) {
	path, err := core.Entry(abi.GGUF)
	if err != nil {
		return nil, err
	}
	f, err := gguf.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	v, err := tokenizer.VocabularyFromGGUF(f)
	if errors.Is(err, tokenizer.ErrNoVocabulary) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	tok, err := tokenizer.New(v)
	if err != nil {
		return nil, err
	}
	opt := talk.Options{Dialect: talk.MMABI()}
	if !raw {
		opt.Template = v.Template
	}
	if router != nil && len(router.ToolCallTokens) == 2 {
		opt.Dialect.Open, opt.Dialect.Close = router.ToolCallTokens[0], router.ToolCallTokens[1]
	}
	return talk.New(tok, opt)
}

// Close frees the model. Answers under way end with an error; none may begin.
func (r *Runner) Close() error {
	r.loading.Lock()
	defer r.loading.Unlock()
	r.mu.Lock()
	r.closed = true
	idle := r.idle
	r.idle = nil
	r.mu.Unlock()
	var errs []error
	for _, s := range idle {
		errs = append(errs, s.Close())
	}
	if r.model != nil {
		errs = append(errs, r.model.Close())
	}
	return errors.Join(errs...)
}

func (r *Runner) ended() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.closed
}

// errBudget is why a context ends whose request's time is over.
var errBudget = errors.New("the request's budget is over")

// Answer answers a request and calls emit for each piece of text as it comes;
// nil emit is told nothing. When ctx ends, or emit gives an error, what was
// said so far comes with the error. The request's own budget is no error: the
// answer then says [StopBudget], and may be empty.
func (r *Runner) Answer(ctx context.Context, req Request, emit func(text string) error) (*Answer, error) {
	if err := r.able(req); err != nil {
		return nil, err
	}
	if err := req.Preferences.Check(); err != nil {
		return nil, err
	}
	if err := r.Load(ctx); err != nil {
		return nil, err
	}
	if r.talk == nil {
		return nil, &runtimes.Unavailable{What: "text", Why: r.build.Assembly.Core.ID() + " has no tokenizer", Hint: "import the model with its tokenizer"}
	}
	var prompt talk.Prompt
	var err error
	if req.Messages == nil && !r.talk.Chats() && onlyText(req.Inputs) {
		prompt = r.talk.Plain(joined(req.Inputs))
	} else if prompt, err = r.talk.Render(req.messages(), req.Tools); err != nil {
		return nil, err
	}
	return r.answer(ctx, prompt, req.Preferences, talk.ReadOptions{Stop: req.Preferences.Stop, Thinking: prompt.Thinking, Begins: prompt.Begins}, emit)
}

// answer feeds a prompt and reads what follows.
func (r *Runner) answer(ctx context.Context, prompt talk.Prompt, p Preferences, read talk.ReadOptions, emit func(string) error) (*Answer, error) {
	bounded, cancel := budget(ctx, p.BudgetMS)
	defer cancel()
	t := &telling{
		answer: &Answer{Timings: Timings{Load: r.told()}}, reader: r.talk.Reader(read), emit: emit, start: time.Now(),
	}
	in, err := r.positions(bounded, prompt)
	var s *session
	if err == nil {
		s, err = r.take(bounded, in)
	}
	if err == nil {
		defer r.put(s)
		t.answer.Timings.Reused, err = s.begin(bounded, in)
	}
	if err == nil {
		t.answer.Timings.Prompt = in.len()
		gen := runtimes.Generation{Options: p.Options, MaxTokens: p.MaxTokens, StopIDs: r.talk.StopIDs(), Allow: p.Allow}
		if read.Plain {
			gen.StopIDs = r.talk.Ends()
		}
		t.answer.Stop, err = s.generate(bounded, gen, t.token)
	}
	if errors.Is(err, errStopped) {
		t.answer.Stop, err = StopWord, nil
	}
	if ended := t.end(); err == nil {
		err = ended
	}
	if err != nil && errors.Is(context.Cause(bounded), errBudget) && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		t.answer.Stop, err = StopBudget, nil
	}
	if err != nil {
		return t.answer, fmt.Errorf("answering: %w", err)
	}
	if len(t.answer.Calls) > 0 && t.answer.Stop == runtimes.StopEnd {
		t.answer.Stop = StopCall
	}
	return t.answer, nil
}

// told is how long loading took, to the first answer that asks.
func (r *Runner) told() time.Duration {
	r.loading.Lock()
	defer r.loading.Unlock()
	d := r.load
	r.load = 0
	return d
}

// maxBudget is the longest time in ms that a duration holds.
const maxBudget = math.MaxInt64 / int64(time.Millisecond)

func budget(ctx context.Context, ms int64) (context.Context, context.CancelFunc) {
	if ms <= 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, time.Duration(min(ms, maxBudget))*time.Millisecond, errBudget)
}
