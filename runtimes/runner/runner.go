// Package runner answers requests with an assembled build.
//
// [Open] chooses the engine of the core; the first answer loads the model.
// [Runner.Answer] renders the request (runtimes/talk), takes a cached sequence with a
// common prefix, feeds the rest, generates, and splits the tokens into text, reasoning
// and tool calls. A [Conversation] keeps the turns; any number of conversations share a
// Runner.
//
// Images, sounds and videos are encoded into at most T_cap vectors between the modality's
// markers (runtimes/media), each part on the engine that the graph or the options choose
// (runtimes/part). They are encoded concurrently with each other and with the core, which
// is loaded and reads the text before them. If the request asks for an image or a sound,
// a decoder generates it from the core's states of the prompt ([Made]). [Answer].Trace
// records every step. [Runner.Compute] runs single functions of a build, the only use of
// a build without a core.
//
// # Tools
//
// A model writes a call between two tokens of its vocabulary. A [ToolTable] holds the
// callable tools of a build, a [ToolLoop] the calls of one answer. [CallConstraint] lets
// the model write freely until it opens a call; inside a call it allows only the names of
// callable tools and arguments that match their inputs. If only one token may follow, it
// is forced without running the model. An engine in another process cannot be
// constrained; every call is checked when it is complete.
//
// [ToolLoop.Call] performs a call or refuses it with a line of JSON for the model. A call
// repeated with the same arguments is refused; a third one, and calls beyond
// [ToolOptions].Rounds, end the answer. Skills that are builds run in an [AgentExecutor].
package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/core/chat"
	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/grammar"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/embed"
	"mm-abi.org/mm/runtimes/media"
	"mm-abi.org/mm/runtimes/part"
	"mm-abi.org/mm/runtimes/talk"
	"mm-abi.org/mm/skills"
)

// Options configures a [Runner].
type Options struct {
	Engines []runtimes.Engine // in order of preference
	// Engine is the engine of the core, or of every part of a build without one. If
	// empty, it is the graph's, or the first that can open the part.
	Engine string
	// Backends are engines by the name of a part; they override Engine and the graph.
	Backends map[string]string
	Limits   runtimes.Limits
	// Fallback allows parts to run on another engine than the requested one; see
	// [part.Options]. If nil, they may not.
	Fallback func(part.Fallback)
	Raw      bool // ignore the model's chat template
	Special  bool // with Raw, read the control tokens that a prompt spells
	// Now returns the time that chat templates read; if nil, they read none.
	Now     func() time.Time
	NoDraft bool // propose tokens neither by the build's draft core nor from the text

	// Sequences is the number of cached sequences; if 0, 4.
	Sequences int
	// Kept keeps on disk the sequences that memory has no place for, and at the end those
	// that it has; nil: none. If the engine cannot save sequences, it is not used, which
	// is reported.
	Kept *SequenceCache

	// Features caches vectors on disk; nil: no such cache. Revision returns an id of
	// this program, on first use: vectors of other programs are not used. If nil,
	// those of all programs are.
	Features *media.VectorCache
	Revision func() (string, error)

	// Skills configures the skills of the build. Without executors, calls are left to
	// the caller.
	Skills skills.Options
	// Called receives each call before the model reads its answer; may be nil.
	Called func(ctx context.Context, c CallRecord)

	template string // the build's (builds.Build.Template)
}

// Runner runs one build. It is safe for concurrent use.
type Runner struct {
	build  *builds.Build
	opt    Options
	engine runtimes.Engine // of the core; nil: no core

	parts  *part.Set
	senses *media.Senses

	loading   gate // held while the model is loaded
	model     runtimes.Language
	talk      *talk.Talk
	tokenized bool          // talk was read
	load      time.Duration // time of loading, until an answer reports it

	reading sync.Once // of the vocabulary, for grammars
	vocab   *grammar.Vocabulary

	equipping gate // held while the skills are opened
	skills    *skills.Set
	tools     *ToolTable // nil: none, or not opened yet

	readers map[string]*embed.Reader // of text, by the part; guarded by loading

	mu      sync.Mutex
	idle    []*session         // most recently used last
	domains map[string]*domain // by the projector
	closed  bool

	kept   *keeper        // nil: none; set by Load
	saving sync.WaitGroup // of sequences that are being saved
}

// Open chooses the engine of a build's core and checks that the engines of
// Options.Backends are available. It loads nothing. A name in Options.Backends that is
// not a part is a usage error.
func Open(ctx context.Context, b *builds.Build, opt Options) (*Runner, error) {
	if opt.Sequences == 0 {
		opt.Sequences = 4
	}
	parts, err := part.Open(ctx, b, part.Options{Engines: opt.Engines, Engine: opt.Engine, Backends: opt.Backends, Limits: opt.Limits, Fallback: opt.Fallback})
	if err != nil {
		return nil, err
	}
	opt.template = b.Template
	r := &Runner{build: b, opt: opt, parts: parts, loading: make(gate, 1), equipping: make(gate, 1)}
	if opt.Fallback != nil {
		opt.Features = nil // entries are keyed by the requested engine, which may not be the one that runs
	}
	r.senses = &media.Senses{Build: b, Parts: parts, Features: opt.Features, Revision: opt.Revision}
	if b.Assembly.HasCore() {
		if r.engine, err = parts.Choose(ctx, b.Assembly.Core); err != nil {
			return nil, errors.Join(err, parts.Close())
		}
	}
	return r, nil
}

// gate is a mutex that a caller waits for only as long as a context lasts.
type gate chan struct{}

func (g gate) enter(ctx context.Context) error {
	select {
	case g <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (g gate) leave() { <-g }

// Build returns the build.
func (r *Runner) Build() *builds.Build { return r.build }

// Engine returns the engine of the core, or nil if the build has no core.
func (r *Runner) Engine() runtimes.Engine { return r.engine }

// Overrides lists the parts whose options override the graph.
func (r *Runner) Overrides() []part.Override { return r.parts.Overrides() }

// Computes reports whether the build has functions.
func (r *Runner) Computes() bool { return r.parts.Computes() }

// Compute runs functions of the build; see [part.Set.Compute].
func (r *Runner) Compute(ctx context.Context, args []part.Argument) ([]part.Computed, error) {
	return r.parts.Compute(ctx, args)
}

// Load loads the core once. Answer calls it.
func (r *Runner) Load(ctx context.Context) error {
	if err := r.loadTokenizer(ctx); err != nil {
		return err
	}
	if err := r.loading.enter(ctx); err != nil {
		return err
	}
	defer r.loading.leave()
	if r.ended() {
		return fmt.Errorf("the runner is %w", runtimes.ErrClosed)
	}
	if r.model != nil {
		return nil
	}
	start := time.Now()
	core := r.bundle()
	model, err := r.engine.Open(ctx, core, r.opt.Limits)
	if err != nil {
		return fmt.Errorf("opening %s with backend %s: %w", core.Part.ID(), r.engine.Name(), err)
	}
	language, ok := model.(runtimes.Language)
	if !ok {
		return errors.Join(fmt.Errorf("backend %s: %s is not a language model", r.engine.Name(), core.Part.ID()), model.Close())
	}
	if r.kept, err = r.keeper(ctx, language); err != nil {
		return errors.Join(err, model.Close())
	}
	r.model, r.load = language, r.load+time.Since(start)
	return nil
}

// loadTokenizer reads the tokenizer once.
func (r *Runner) loadTokenizer(ctx context.Context) error {
	if r.engine == nil {
		return r.noCore()
	}
	if err := r.loading.enter(ctx); err != nil {
		return err
	}
	defer r.loading.leave()
	if r.ended() {
		return fmt.Errorf("the runner is %w", runtimes.ErrClosed)
	}
	if r.tokenized {
		return nil
	}
	start := time.Now()
	core := r.bundle()
	t, err := conversant(core, r.opt, r.build.Assembly.Router, r.senses)
	if err != nil {
		return fmt.Errorf("reading the tokenizer of %s: %w", core.Part.ID(), err)
	}
	r.talk, r.tokenized, r.load = t, true, time.Since(start)
	return nil
}

// noCore reports a build without a core.
func (r *Runner) noCore() error {
	return &runtimes.Unavailable{What: "text", Why: r.build.Assembly.Name + " has functions but no core", Hint: "mm run --input, --image or --audio runs its functions"}
}

// bundle returns the core with its draft core and adapters.
func (r *Runner) bundle() runtimes.Bundle {
	a := r.build.Assembly
	part := func(p builds.Part) runtimes.Bundle {
		return runtimes.Bundle{Part: p, Manifest: r.build.Manifests[p.Name], Files: r.build.Files}
	}
	b := part(a.Core)
	b.Tokens, b.KV, b.NoDraft = a.Tokens, a.KV, r.opt.NoDraft
	if a.Draft != nil && !r.opt.NoDraft {
		d := part(*a.Draft)
		b.Draft, b.DraftTokens = &d, a.DraftTokens
	}
	for _, ad := range a.Adapters {
		b.Adapters = append(b.Adapters, runtimes.Adapter{Bundle: part(ad.Part), Scale: ad.Scale})
	}
	return b
}

// conversant reads tokenizer and chat template from the core's GGUF file. It returns nil for
// a model without them, which works on ids only.
func conversant(core runtimes.Bundle, run Options, router *builds.RouterPart, senses *media.Senses) (*talk.Talk, error) {
	path, err := core.Entry(abi.GGUF)
	if err != nil {
		return nil, err
	}
	f, err := gguf.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	tok, err := tokenizer.FromGGUF(f)
	if errors.Is(err, tokenizer.ErrNoVocabulary) {
		return nil, nil
	}
	if err != nil {
		return nil, unreadable(path, err, "")
	}
	v := tok.Rules()
	template := cmp.Or(run.template, v.Template)
	opt := talk.Options{Now: run.Now, Special: run.Special, Marker: media.Markers(senses.Build.Manifests), Layout: senses.Layout}
	if !run.Raw {
		opt.Template = template
	}
	var tokens []string
	if router != nil {
		tokens = router.ToolCallTokens
	}
	// Without a readable dialect the core calls nothing: mm validate refuses it.
	opt.Dialect, _ = chat.Detect(template, tokens, tok.Marks)
	t, err := talk.New(tok, opt)
	if err != nil {
		return nil, unreadable(path, err, "mm run --raw continues the prompt without the template")
	}
	return t, nil
}

// unreadable is a fault of the tokenizer or the chat template in a file.
func unreadable(path string, err error, hint string) error {
	var list diag.List
	list.Add(diag.NotRunnable, diag.Pos{File: path}, err.Error(), hint)
	return list.Err()
}

// Close frees the models. Running answers end with an error; none may start.
func (r *Runner) Close() error {
	r.loading <- struct{}{}
	defer r.loading.leave()
	r.mu.Lock()
	r.closed = true
	idle := r.idle
	r.idle = nil
	r.mu.Unlock()
	r.kept.end(&r.saving, idle)
	var errs []error
	for _, s := range idle {
		errs = append(errs, s.Close())
	}
	if r.model != nil {
		errs = append(errs, r.model.Close())
	}
	r.equipping <- struct{}{}
	defer r.equipping.leave()
	if r.skills != nil {
		errs = append(errs, r.skills.Close())
	}
	return errors.Join(append(errs, r.parts.Close())...)
}

func (r *Runner) ended() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.closed
}

// errBudget is the cause of a context that ended with the request's time budget.
var errBudget = errors.New("the request's time budget is spent")

// Answer answers a request and calls emit, if not nil, for each piece of text. If ctx ends,
// or emit returns an error, the partial answer is returned with the error. The end of the
// request's own budget is not an error: the answer has [StopBudget] and may be empty.
func (r *Runner) Answer(ctx context.Context, req Request, emit func(text string) error) (a *Answer, err error) {
	in, err := r.written(ctx, &req)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, in.close()) }()
	read := talk.ReadOptions{Stop: req.Preferences.Stop, Thinking: in.prompt.Thinking, Begins: in.prompt.Begins, Plain: req.Plain, Tools: toolNames(req.Tools)}
	return r.answer(ctx, in, req, read, emit)
}

// prepare reads the inputs of a prompt, starts to encode them, and loads the core. The caller
// ends the encoding.
func (r *Runner) prepare(ctx context.Context, prompt talk.Prompt) (*media.Encoding, error) {
	in, err := r.inputs(ctx, prompt)
	if err != nil {
		return &media.Encoding{}, err
	}
	return r.senses.Encode(ctx, in), r.Load(ctx)
}

// answer feeds a prompt, generates, and runs the requested decoders.
func (r *Runner) answer(ctx context.Context, in *written, req Request, read talk.ReadOptions, emit func(string) error) (*Answer, error) {
	p := req.Preferences
	bounded, cancel := budget(ctx, p.BudgetMS)
	defer cancel()
	over := func(err error) bool {
		return errors.Is(context.Cause(bounded), errBudget) && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded)
	}
	c, err := r.prepare(bounded, in.prompt)
	defer c.End()
	t := &telling{
		talk: in.talk, answer: &Answer{Backends: []Backend{backendOf(r.build.Assembly.Core.Name, r.engine)}}, reader: r.talk.Reader(read), emit: emit, reason: req.Reasoned, scores: r.scores(req), begun: time.Now(), start: c.Start,
		context: req.Context, endLoops: p.EndLoops, thinking: read.Thinking, thoughts: req.Thought.Most, guided: r.talk.Dialect().Guided,
	}
	if over(err) {
		t.answer.Stop = StopBudget
		t.cut(c)
		return t.answer, nil
	}
	if err != nil {
		return nil, err
	}
	if t.weigher, err = r.weigher(req, c); err != nil {
		return nil, err
	}
	t.answer.Timings.Load = r.loadTime()
	s, err := t.read(bounded, r, in.prompt, c, req)
	if s != nil {
		s.owner = req.Owner
		defer r.put(s)
	}
	var states []float32
	prev := len(t.answer.Trace) - 1 // the step of the prompt
	if err == nil {
		states, err = t.states(r, s, c, req)
	}
	t.answer.Stop = runtimes.StopEnd
	if err == nil && req.wantsText() {
		gen := runtimes.Generation{Options: p.Options, MaxTokens: p.MaxTokens, StopIDs: r.talk.StopIDs(), Allow: p.Allow}
		if read.Plain {
			gen.StopIDs = r.talk.Ends()
		}
		if p.Grammar != nil {
			if !p.OrCalls {
				gen.StopIDs = r.talk.Ends()
			}
			gen.Follow, err = r.follow(p, r.talk.Ends(), read)
		}
		if err == nil {
			err = t.write(bounded, r, s, gen, in.loop, req, prev)
		}
	}
	if err == nil {
		err = t.make(bounded, r, req, states, prev)
	}
	if ended := t.end(); err == nil {
		err = ended
	}
	if weighed := t.weigh(); err == nil {
		err = weighed
	}
	if over(err) {
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

// follow returns the constraint of a request's grammar for the model's vocabulary.
func (r *Runner) follow(p Preferences, ends []int32, read talk.ReadOptions) (runtimes.Constraint, error) {
	_, thought := r.talk.Reasoning()
	if read.Thinking && thought == tokenizer.None {
		return nil, &runtimes.Unavailable{What: "schema-constrained answer", Why: "the model's template starts with reasoning, whose end is not a token", Hint: "turn reasoning off"}
	}
	m, err := p.Grammar.Over(r.vocabulary(), ends...)
	if err != nil {
		return nil, fmt.Errorf("compiling the schema: %w", err)
	}
	var inner runtimes.Constraint = m.Follow()
	if p.OrCalls {
		if inner, err = newOrCalls(m, r.talk); err != nil {
			return nil, err
		}
	}
	if read.Thinking {
		inner = &afterThought{inner: inner, end: thought, ends: ends}
	}
	return inner, nil
}

// vocabulary returns the tokenizer's vocabulary for grammars.
func (r *Runner) vocabulary() *grammar.Vocabulary {
	r.reading.Do(func() { r.vocab = grammar.Read(r.talk.Tokenizer()) })
	return r.vocab
}

// loadTime returns the time of loading, once.
func (r *Runner) loadTime() time.Duration {
	r.loading <- struct{}{}
	defer r.loading.leave()
	d := r.load
	r.load = 0
	return d
}

// maxBudget is the longest time in ms that a duration can hold.
const maxBudget = math.MaxInt64 / int64(time.Millisecond)

func budget(ctx context.Context, ms int64) (context.Context, context.CancelFunc) {
	if ms <= 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, time.Duration(min(ms, maxBudget))*time.Millisecond, errBudget)
}
